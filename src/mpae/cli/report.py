"""`mpae report`: the page that one shows a colleague."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpae.cli.console import messages, results
from mpae.cli.flags import Device, Quiet, RunFolder
from mpae.cli.progress import busy, image_progress


def report(
    run: RunFolder,
    images: Annotated[Path | None, typer.Option(help="a folder of images; else those of its training")] = None,
    against: Annotated[Path | None, typer.Option(metavar="RUN2", help="another run to compare with")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", "-o", help="the folder of the page; RUN/report, or "
                          "NAME-report here for a run on the Hub or with mpae")] = None,
    limit: Annotated[int, typer.Option(min=1, help="how many images to look at")] = 200,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Write RUN/report/index.html: figures, every part, presence, restorations, attention, training."""
    console = messages(quiet)
    with busy(console, "load torch"):
        from mpae.data.catalogue import open_images
        from mpae.data.sources.folder import FolderImages
        from mpae.devices import choose_device
        from mpae.errors import MPAEError
        from mpae.hub import is_read_only, run_folder
        from mpae.model.load import load_model
        from mpae.report.write import check_is_report, write_report
        from mpae.run import Run

    where, shown = choose_device(device), Run.open(run_folder(run))
    other = Run.open(run_folder(against)) if against else None
    if is_read_only(run):
        if images is None:
            raise MPAEError(f"The training images of '{run}' are not here; add --images DIR.")
        out_folder = out_folder or Path(f"{run.name.partition('@')[0]}-report")
    if images is None and "imported" in shown.content():
        raise MPAEError(f"'{run}' was imported without its training images; add --images DIR.")
    source = FolderImages(images) if images else open_images(shown.config().data, "train")
    check_is_report(out_folder or shown.report.parent)
    with busy(console, "load the model"):
        model = load_model(shown.folder).to(where)
    with image_progress(console) as progress:
        page = write_report(shown, source, model=model, against=other, out=out_folder, limit=limit, device=where,
                            progress=progress)
    results().print(f"The report is at {page}", highlight=False, soft_wrap=True)
