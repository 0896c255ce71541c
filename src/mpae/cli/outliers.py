"""`mpae outliers`: photos whose part is unlike itself elsewhere, or is missing where it nearly always is there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpae.cli.console import messages, results
from mpae.cli.flags import Quiet


def outliers(
    predictions: Annotated[Path, typer.Argument(metavar="PREDICTIONS", help="a folder that `mpae predict` wrote")],
    top: Annotated[int, typer.Option(min=1, max=100_000, help="how many to list")] = 20,
    quiet: Quiet = False,
) -> None:
    """What looks wrong: score in standard deviations, part, reason and photo, the strangest first."""
    from mpae.prediction.outliers import find_outliers, unusualness
    from mpae.prediction.search import PartIndex
    from mpae.prediction.table import Predictions

    messages(quiet)
    found = Predictions(predictions)
    names = found.part_names(Path(found.run_folder))
    index = PartIndex(found.features(), found.table.present)
    listed = find_outliers(unusualness(index), found.table.present, [part.members for part in names.shown()])
    width = max((len(part.name) for part in names.parts()), default=0)
    for outlier in listed[:top]:
        results(quiet).print(f"{outlier.score:6.2f}  {names.name(outlier.part):{width}}  {outlier.why:8} "
                             f"{found.table.names[outlier.image]}", highlight=False, soft_wrap=True, markup=False)
    if not listed:
        results(quiet).print("Nothing looks wrong.")
