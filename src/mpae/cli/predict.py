"""`mpae predict`: files for people and programs, from the parts of every image."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from mpae.cli.progress import image_progress
from mpae.data.sources.folder import images_at
from mpae.distributed import process_group
from mpae.errors import MPAEError
from mpae.hub import run_folder
from mpae.model.load import load_model
from mpae.prediction.predictor import predict_folder
from mpae.run import Run


def predict_verb(folder: Path, images: Path, out_folder: Path, write: str, image_size: int | None, flip: bool,
                 int8: bool, batch_size: int, workers: int, overwrite: bool, console: Console, out: Console) -> None:
    source = images_at(images)  # a mistake in the folder is told before the model is loaded
    if images.is_dir() and out_folder.resolve().is_relative_to(images.resolve()):
        raise MPAEError(f"--out '{out_folder}' lies inside '{images}', where its masks would be taken for photos; "
                        "choose a folder outside it.")
    folder = run_folder(folder)
    model = load_model(folder, image_size)
    if int8:
        from mpae.export.int8 import quantised

        model = quantised(model)
    digest = Run(folder).weights_digest() + ("-int8" if int8 else "")
    kinds = [kind.strip() for kind in write.split(",") if kind.strip()]
    with process_group() as first, image_progress(console if first else Console(quiet=True)) as progress:
        done = predict_folder(model, source, out_folder, run=digest, origin=str(images.resolve()), write=kinds,
                              flip=flip, batch_size=batch_size, workers=workers, overwrite=overwrite,
                              progress=progress)
    if not done.images:
        reason = done.skipped[0][1] if done.skipped else "none found"
        raise MPAEError(f"None of the {len(source)} images in '{images}' can be read (the first: {reason}).")
    if not first:
        return
    earlier = done.images - done.new
    out.print(f"{done.images} images in '{out_folder}'" + (f", {earlier} of them from before" if earlier else "")
              + f"; {done.new / max(done.seconds, 1e-9):.1f} images/s."
              + (f" {len(done.skipped)} could not be read: see skipped.txt." if done.skipped else ""),
              highlight=False, soft_wrap=True)
