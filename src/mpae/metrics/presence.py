"""How many of the parts an image shows (paper Table 14), and how often each part appears."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric


def part_areas(labels: Tensor, num_parts: int) -> Tensor:
    """Pixels of each label in each image: (B, H, W) with values 0..K -> (B, K+1) int64, background last."""
    size = num_parts + 1
    image = torch.arange(len(labels), dtype=torch.int64, device=labels.device).view(-1, 1, 1)
    return torch.bincount((labels + image * size).flatten(), minlength=len(labels) * size).view(-1, size)


class PartPresence(Metric):
    """Mean number of parts an image, and the share of images that show each part.

    A part is present where it is the most similar one in a pixel at least. The background is not a part.
    """

    full_state_update = False
    shown: Tensor
    images: Tensor

    def __init__(self, num_parts: int) -> None:
        super().__init__()
        self.add_state("shown", torch.zeros(num_parts, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, areas: Tensor) -> None:
        """Count a batch: areas (B, K+1) as from `part_areas`."""
        self.shown += (areas[:, :-1] > 0).sum(0)
        self.images += len(areas)

    def compute(self) -> dict[str, Tensor]:
        """`parts_per_image`, a number, and `frequency`, (K,) in 0..1; NaN without images."""
        return {"parts_per_image": self.shown.sum().double() / self.images,
                "frequency": self.shown.double() / self.images}
