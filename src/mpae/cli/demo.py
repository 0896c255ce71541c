"""`mpae demo`: everything once, on images that the program draws itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor

from mpae.backbones import build_backbone
from mpae.baselines.dino_kmeans import DinoKMeans
from mpae.cli.progress import image_progress
from mpae.config import BackboneSettings, resolve
from mpae.data.augment import make_view
from mpae.data.source import ImageSource
from mpae.data.sources.synthetic import SyntheticImages
from mpae.drawing.overlay import paint_parts, preview_grid
from mpae.evaluation.evaluate import evaluate
from mpae.files import write_atomically
from mpae.model.protocol import PartMaps, PartModel
from mpae.prediction.masks import segment
from mpae.report.write import write_report
from mpae.training.fit import fit

PARTS = 8
TRAINING_IMAGES, TEST_IMAGES = 160, 64
SHOWN = 8

SETTINGS = {
    "data.dataset": "synthetic",
    "data.synthetic_images": TRAINING_IMAGES,
    "model.num_parts": PARTS,
    "loss.initial_parts": 0,  # scenery lies in the middle here: what is rare on the border is not the object alone
    "cache.views": 1,
    "training.initial_parts": False,
    "training.max_steps": 44,
    "training.warmup_steps": 10,
}


class Chance:
    """Every patch gets a random part: what the figures are worth without any learning."""

    def __init__(self, num_parts: int, image_size: int):
        self.num_parts, self.image_size = num_parts, image_size
        self.generator = torch.Generator().manual_seed(0)

    def part_logits(self, images: Tensor) -> Tensor:
        return torch.rand(len(images), self.num_parts + 1, 16, 16, generator=self.generator)

    def describe(self, images: Tensor) -> PartMaps:
        return PartMaps(self.part_logits(images), torch.zeros(len(images), self.num_parts + 1, 1))


def demo_verb(folder: Path, overwrite: bool, console: Console, out: Console) -> None:
    start = time.monotonic()
    run_folder = folder / "run"
    console.print(f"{TRAINING_IMAGES} images are drawn, none of them labelled; {PARTS} parts are learned from them. "
                  "This takes a few minutes.", highlight=False)
    result = fit(resolve("laptop", overrides=SETTINGS), SyntheticImages(TRAINING_IMAGES), run_folder,
                 overwrite=overwrite, console=console)
    model = result.model
    test = SyntheticImages(TEST_IMAGES, split="test")
    with image_progress(console) as progress:
        clusters = DinoKMeans.fit(build_backbone(BackboneSettings(), model.image_size),
                                  SyntheticImages(TRAINING_IMAGES), PARTS, model.image_size, max_images=100)
        clusters.backbone = model.backbone  # type: ignore[assignment]  # it has kept its features
        systems: dict[str, Any] = {"chance": Chance(PARTS, model.image_size), "k-means": clusters, "MPAE": model}
        figures = {name: measure(system, test, progress) for name, system in systems.items()}
    picture = comparison(test, clusters, model)
    write_atomically(folder / "parts.png", lambda path: picture.save(path, format="PNG"))
    with image_progress(console) as progress:
        page = write_report(result.run, test, model=model, limit=TEST_IMAGES, progress=progress)
    out.print(figures_table(figures))
    out.print(f"{(time.monotonic() - start) / 60:.1f} minutes in all.\n"
              f"Look at:       {folder / 'parts.png'}\n"
              f"and at:        {page}\n"
              f"Your photos:   mpae fit PHOTOS --out runs/mine --parts {PARTS}", highlight=False, soft_wrap=True)


def measure(system: PartModel, test: SyntheticImages, progress: Any) -> list[float]:
    """NMI and ARI of pixels and of keypoints, and the foreground IoU, in percent."""
    pixels = evaluate(system, test, progress=progress).figures
    keypoints = evaluate(system, KeypointsOnly(TEST_IMAGES, split="test"), progress=progress).figures
    return [pixels["nmi"] or 0, pixels["ari"] or 0, keypoints["nmi"] or 0, keypoints["ari"] or 0,
            pixels["foreground_iou"] or 0]


class KeypointsOnly(SyntheticImages):
    """The same images without part masks, which makes their joints what is compared, as on CUB."""

    part_names: Sequence[str] = ()


def figures_table(figures: dict[str, list[float]]) -> Table:
    table = Table(title=f"{TEST_IMAGES} images that were not seen before, in percent", title_justify="left")
    table.add_column("system")
    for title in ("pixels: NMI", "ARI", "keypoints: NMI", "ARI", "foreground IoU"):
        table.add_column(title, justify="right")
    for name, values in figures.items():
        table.add_row(name, *(f"{value:.1f}" for value in values))
    return table


def comparison(source: ImageSource, clusters: PartModel, model: PartModel) -> Image.Image:
    """Image | k-means | MPAE, for some test images."""
    pictures = [source[index] for index in range(SHOWN)]
    trios = [[picture.image, overlay(clusters, picture), overlay(model, picture)] for picture in pictures]
    rows = [trios[i] + trios[i + 1] for i in range(0, SHOWN, 2)]
    return preview_grid(rows, titles=("image", "k-means", "MPAE") * 2)


@torch.inference_mode()
def overlay(model: PartModel, picture: Any) -> Image.Image:
    pixels = torch.from_numpy(make_view(picture, 0, model.image_size).copy()).permute(2, 0, 1)[None].float() / 255
    mask, _ = segment(model.part_logits(pixels)[0].numpy(), picture.image.size)
    return paint_parts(picture.image, mask)
