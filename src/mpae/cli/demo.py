"""`mpae demo`: everything once, on images that the program draws itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from mpae.cli.console import messages, results
from mpae.cli.flags import Overwrite, Quiet
from mpae.cli.progress import image_progress
from mpae.config import BackboneSettings, resolve

PARTS = 8
TRAINING_IMAGES, TEST_IMAGES = 160, 64
OWN_PHOTOS = f"mpae fit PHOTOS --out runs/mine --parts {PARTS}"

SETTINGS = {
    "data.dataset": "synthetic",
    "data.synthetic_images": TRAINING_IMAGES,
    "model.num_parts": PARTS,
    "cache.views": 1,
    "training.max_steps": 150,
    "training.warmup_steps": 10,
}


def demo(
    folder: Annotated[Path, typer.Option("--out", "-o", help="where to put run, pictures and report")] = Path("demo"),
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Everything once, on images that it draws itself: learn parts, measure them, show them."""
    from mpae.backbones import build_backbone
    from mpae.baselines.dino_kmeans import DinoKMeans
    from mpae.data.sources.synthetic import SyntheticImages
    from mpae.evaluation.comparison import TITLES, Chance, draw_side_by_side, measure
    from mpae.files import write_atomically
    from mpae.report.write import write_report
    from mpae.run import Run
    from mpae.training.fit import fit
    from mpae.training.request import check_out

    console, start = messages(quiet), time.monotonic()
    check_out(Run(folder / "run"), False, overwrite)
    console.print(f"Your own photos:  {OWN_PHOTOS}", highlight=False, soft_wrap=True)
    for name, sheet in first_look(folder):
        console.print(f"The run '{name}' comes with mpae; its parts of drawn images: {sheet}; of your own photo:  "
                      f"mpae show {name} PHOTO", highlight=False, soft_wrap=True)
    console.print(f"{TRAINING_IMAGES} images are drawn, none of them labelled; {PARTS} parts are learned from them. "
                  "This takes a few minutes.", highlight=False, soft_wrap=True)
    training, test = SyntheticImages(TRAINING_IMAGES), SyntheticImages(TEST_IMAGES, split="test")
    result = fit(resolve("laptop", overrides=SETTINGS), training, folder / "run", overwrite=overwrite,
                 console=console)
    model = result.model
    with image_progress(console) as progress:
        clusters = DinoKMeans.fit(build_backbone(BackboneSettings(), model.image_size), training, PARTS,
                                  model.image_size, max_images=100, progress=progress)
        clusters.backbone = model.backbone  # it has kept its features
        learned: dict[str, Any] = {"k-means": clusters, "MPAE": model}
        systems = {"chance": Chance(PARTS, model.image_size)} | learned
        figures = {name: measure(system, TEST_IMAGES, progress) for name, system in systems.items()}
        picture = draw_side_by_side(test, learned)
        write_atomically(folder / "parts.png", lambda path: picture.save(path, format="PNG"))
        page = write_report(result.run, test, model=model, limit=TEST_IMAGES, progress=progress)
    out = results()
    out.print(systems_table(TITLES, figures))
    out.print(f"{(time.monotonic() - start) / 60:.1f} minutes in all.\n"
              f"Look at:       {folder / 'parts.png'}\n"
              f"and at:        {page}\n"
              f"Your photos:   {OWN_PHOTOS}", highlight=False, soft_wrap=True)


def first_look(folder: Path) -> Iterator[tuple[str, Path]]:
    """Each run that comes with the package, and a sheet of drawn images with the parts that it finds in them."""
    from mpae.assets.trained import trained_runs
    from mpae.data.sources.synthetic import drawn_images
    from mpae.evaluation.comparison import SHOWN, draw_side_by_side
    from mpae.files import write_atomically
    from mpae.model.load import load_model
    from mpae.run import Run

    for name, run in trained_runs().items():
        sheet = folder / f"{name}.png"
        picture = draw_side_by_side(drawn_images(Run(run).content().get("kind"), SHOWN), {name: load_model(run)})
        write_atomically(sheet, partial(picture.save, format="PNG"))
        yield name, sheet


def systems_table(titles: Sequence[str], figures: Mapping[str, Sequence[float]]) -> Table:
    table = Table(title=f"{TEST_IMAGES} images that were not seen before, in percent", title_justify="left")
    table.add_column("system")
    for title in titles:
        table.add_column(title, justify="right")
    for name, values in figures.items():
        table.add_row(name, *(f"{value:.1f}" for value in values))
    return table
