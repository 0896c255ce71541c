"""`mpae report`: the page that one shows a colleague."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from mpae.cli.progress import image_progress
from mpae.data.catalogue import open_images
from mpae.data.sources.folder import FolderImages
from mpae.report.write import write_report
from mpae.run import Run


def report_verb(folder: Path, images: Path | None, against: Path | None, limit: int, console: Console,
                out: Console) -> None:
    run = Run.open(folder)
    other = Run.open(against) if against else None
    source = FolderImages(images) if images else open_images(run.config().data, "train")
    with image_progress(console) as progress:
        page = write_report(run, source, against=other, limit=limit, progress=progress)
    out.print(f"The report is at {page}", highlight=False, soft_wrap=True)
