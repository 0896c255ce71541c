"""`mpae report`: the page that one shows a colleague."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpae.cli.console import messages, results
from mpae.cli.flags import Quiet, RunFolder
from mpae.cli.progress import image_progress


def report(
    run: RunFolder,
    images: Annotated[Path | None, typer.Option(help="a folder of images; else those of its training")] = None,
    against: Annotated[Path | None, typer.Option(metavar="RUN2", help="another run to compare with")] = None,
    limit: Annotated[int, typer.Option(min=1, help="how many images to look at")] = 200,
    quiet: Quiet = False,
) -> None:
    """Write RUN/report/index.html: figures, every part, presence, restorations, attention, training."""
    from mpae.data.catalogue import open_images
    from mpae.data.sources.folder import FolderImages
    from mpae.report.write import write_report
    from mpae.run import Run

    console = messages(quiet)
    shown = Run.open(run)
    other = Run.open(against) if against else None
    source = FolderImages(images) if images else open_images(shown.config().data, "train")
    with image_progress(console) as progress:
        page = write_report(shown, source, against=other, limit=limit, progress=progress)
    results().print(f"The report is at {page}", highlight=False, soft_wrap=True)
