"""How many of the parts an image shows (paper Table 14), and how often each part appears."""

from __future__ import annotations

import torch
from torch import Tensor

from mpae.metrics.metric import EvaluationMetric, FoundParts, Task, known


def part_areas(labels: Tensor, num_parts: int) -> Tensor:
    """Pixels of each label in each image: (B, H, W) with values 0..K -> (B, K+1) int64, background last."""
    size = num_parts + 1
    image = torch.arange(len(labels), dtype=torch.int64, device=labels.device).view(-1, 1, 1)
    return torch.bincount((labels + image * size).flatten(), minlength=len(labels) * size).view(-1, size)


class PartPresence(EvaluationMetric):
    """Mean number of parts per image, and the share of images that show each part.

    A part is present where it is the most similar one in a pixel at least. The background is not a part.
    """

    columns = ("num_parts", "parts", "foreground_share")
    shown: Tensor
    images: Tensor

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.add_state("shown", torch.zeros(task.num_parts, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.frequency: list[float] = []  # (K,) share of the images that show each part, in percent; after `compute`

    def update(self, found: FoundParts) -> None:
        areas = part_areas(found.labels, self.task.num_parts)  # (B, K+1)
        self.add(areas)
        for sample, area in zip(found.samples, areas, strict=True):
            present = (area[:-1].nonzero()[:, 0] + 1).tolist()  # as in masks, 1..K
            share = 100 * (1 - float(area[-1] / area.sum()))
            self.rows[sample.index] = (len(present), " ".join(map(str, present)), share)

    def add(self, areas: Tensor) -> None:
        """Count a batch: areas (B, K+1) as from `part_areas`."""
        self.shown += (areas[:, :-1] > 0).sum(0)
        self.images += len(areas)

    def compute(self) -> dict[str, float | None]:
        self.frequency = (100 * (self.shown.double() / self.images)).tolist()
        return {"parts_per_image": known(float(self.shown.sum().double() / self.images))}
