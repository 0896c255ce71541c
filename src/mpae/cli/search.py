"""`mpae search`: the photos of a prediction folder whose part looks most like that of a photo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpae.cli.console import messages, results
from mpae.cli.flags import Quiet


def search(
    predictions: Annotated[Path, typer.Argument(metavar="PREDICTIONS", help="a folder that `mpae predict` wrote")],
    photo: Annotated[Path, typer.Argument(metavar="PHOTO", help="an image file, or the name of an image in "
                                          "PREDICTIONS")],
    part: Annotated[str, typer.Option(help="name or number of the part to compare")] = ...,  # type: ignore[assignment]
    top: Annotated[int, typer.Option(min=1, max=100_000, help="how many photos to list")] = 20,
    run: Annotated[Path | None, typer.Option(metavar="RUN", help="the run of the predictions, if it was moved")] = None,
    quiet: Quiet = False,
) -> None:
    """The photos whose part is most like that of PHOTO: similarity and name, best first."""
    from mpae.library import search_predictions

    messages(quiet)
    for found in search_predictions(predictions, photo, part, top, run):
        results(quiet).print(f"{found.similarity:.4f}  {found.name}", highlight=False, soft_wrap=True, markup=False)
