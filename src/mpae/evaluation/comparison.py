"""Systems side by side on images that the program draws itself, in figures and in pictures: `mpae demo`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from PIL import Image
from torch import Tensor

from mpae.data.source import ImageSource
from mpae.data.sources.synthetic import SyntheticImages
from mpae.drawing.overlay import paint_parts, preview_grid
from mpae.evaluation.evaluate import evaluate
from mpae.model.protocol import PartMaps, PartModel
from mpae.prediction.part_names import PartNames
from mpae.prediction.predictor import PartPredictor

TITLES = ("pixels: NMI", "ARI", "keypoints: NMI", "ARI", "foreground IoU")  # of `measure`
SHOWN = 8  # images in the picture


class Chance:
    """Every patch gets a random part: what the figures are worth without any learning."""

    def __init__(self, num_parts: int, image_size: int):
        self.num_parts, self.image_size = num_parts, image_size
        self.generator = torch.Generator().manual_seed(0)

    def part_logits(self, images: Tensor) -> Tensor:
        return torch.rand(len(images), self.num_parts + 1, 16, 16, generator=self.generator)

    def describe(self, images: Tensor) -> PartMaps:
        return PartMaps(self.part_logits(images), torch.zeros(len(images), self.num_parts + 1, 1))


class KeypointsOnly(SyntheticImages):
    """The same images without part masks, which makes their joints what is compared, as on CUB."""

    part_names: Sequence[str] = ()


def measure(system: PartModel, images: int, progress: Callable[[str, int, int], None]) -> list[float]:
    """`TITLES` of a system on so many test images, in percent."""
    pixels = evaluate(system, SyntheticImages(images, split="test"), progress=progress).figures
    keypoints = evaluate(system, KeypointsOnly(images, split="test"), progress=progress).figures
    return [value or 0 for value in (pixels["nmi"], pixels["ari"], keypoints["nmi"], keypoints["ari"],
                                     pixels["foreground_iou"])]


def draw_side_by_side(source: ImageSource, systems: Mapping[str, PartModel],
                      names: PartNames | None = None) -> Image.Image:
    """Image | parts of each system, for the first images of a source; two images a row.

    Args:
        names: of the parts of all systems, which may be joined or hidden.
    """
    pictures = [source[index] for index in range(SHOWN)]
    columns = [[picture.image for picture in pictures]]
    for model in systems.values():
        found = PartPredictor(model, exact=len(systems) > 1).predict(pictures)  # systems are compared by one look
        known = names or PartNames(model.num_parts)
        columns.append([paint_parts(picture.image, known.seen(parts.mask), known.colours())
                        for picture, parts in zip(pictures, found, strict=True)])
    rows = [list(row) for row in zip(*columns, strict=True)]  # image, system, system, ...
    return preview_grid([left + right for left, right in zip(rows[::2], rows[1::2], strict=True)],
                        titles=("image", *systems) * 2)
