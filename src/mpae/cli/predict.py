"""`mpae predict`: files for people and programs, from the parts of every image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mpae.cli.console import messages, results
from mpae.cli.flags import Arithmetic, BatchSize, Device, ImageSize, Outline, Overwrite, Quiet, RunFolder, Workers
from mpae.cli.progress import busy, image_progress
from mpae.errors import MPAEError
from mpae.prediction.outputs import DEFAULT_OUTPUTS, OUTPUTS


def predict(
    run: RunFolder,
    images: Annotated[Path, typer.Argument(metavar="IMAGES", help="a folder, an image, or a .txt list of paths")],
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="the folder to write")],
    write: Annotated[str, typer.Option(help=f"what to write: {', '.join(OUTPUTS)}")] = ",".join(DEFAULT_OUTPUTS),
    image_size: ImageSize = None,
    flip: Annotated[bool, typer.Option("--flip", help="average with the mirror image; twice the time")] = False,
    outline: Outline = "pixel",
    parts: Annotated[int | None, typer.Option(min=1, max=1000, help="join the run's parts to so many")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="one look at the whole photo, all of it alike, and no closer "
                                        "one at the object")] = False,
    int8: Annotated[bool, typer.Option("--int8", help="8-bit arithmetic in the backbone, on a CPU")] = False,
    precision: Arithmetic = None,
    device: Device = "auto",
    batch_size: BatchSize = 16,
    workers: Workers = 2,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Masks, overlays, tables and COCO annotations of the parts in images; a second call goes on."""
    from mpae.data.sources.folder import images_at
    from mpae.devices import choose_device
    from mpae.distributed import process_group
    from mpae.hub import run_folder
    from mpae.model.hierarchy import joined_parts
    from mpae.model.load import load_model
    from mpae.prediction.part_names import PartNames
    from mpae.prediction.predictor import predict_folder
    from mpae.run import Run

    console, where = messages(quiet), choose_device("cpu" if int8 and device == "auto" else device)
    if int8 and where.type != "cpu":
        raise MPAEError(f"--int8 is arithmetic for CPUs; leave it out, or --device {device}.")
    if int8 and precision:
        raise MPAEError(f"--int8 and --precision {precision} both say how the backbone computes; leave one out.")
    source = images_at(images)  # a mistake in the folder is told before the model is loaded
    if images.is_dir() and out_folder.resolve().is_relative_to(images.resolve()):
        raise MPAEError(f"--out '{out_folder}' lies inside '{images}', where its masks would be taken for photos; "
                        "choose a folder outside it.")
    with busy(console, "load the model"):
        folder = run_folder(run)
        model = load_model(folder, image_size, precision)
    if int8:
        from mpae.export.int8 import quantised

        model = quantised(model)
    arithmetic = "int8" if int8 else getattr(model.backbone, "precision", "float32")
    digest = Run(folder).weights_digest() + (f"-{arithmetic}" if arithmetic != "float32" else "")
    with process_group() as first, image_progress(console if first else Console(quiet=True)) as progress:
        part_of = joined_parts(Run(folder), model.to(where), parts, lambda: source, where, progress)
        done = predict_folder(model, source, out_folder, run=digest, origin=str(images.resolve()),
                              run_folder=str(folder.resolve()), names=PartNames.load(folder, model.num_parts),
                              write=[kind.strip() for kind in write.split(",") if kind.strip()], flip=flip,
                              outline=outline, exact=exact, part_of=part_of, device=where, batch_size=batch_size,
                              workers=workers, overwrite=overwrite, progress=progress)
    if not done.images:
        reason = done.skipped[0][1] if done.skipped else "none found"
        raise MPAEError(f"None of the {len(source)} images in '{images}' can be read (the first: {reason}).")
    if first:
        earlier = done.images - done.new
        results(quiet).print(
            f"{done.images} images in '{out_folder}'" + (f", {earlier} of them from before" if earlier else "")
            + f"; {done.new / max(done.seconds, 1e-9):.1f} images/s."
            + (f" {len(done.skipped)} could not be read: see skipped.txt." if done.skipped else ""),
            highlight=False, soft_wrap=True)
