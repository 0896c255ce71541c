"""Foreground IoU: do the parts together cover the object, and nothing else?

NMI and ARI on keypoints never look off the object, so a model that spends parts on branches and water
can score well there; this figure tells.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric

UNIT = 2.0 ** -32  # IoUs are added as integers of this unit: the sum is the same in any order


def foreground_iou(predicted: Tensor, target: Tensor) -> float:
    """Intersection over union of two (H, W) bool masks; 1 if both are empty."""
    if predicted.shape != target.shape:
        raise ValueError(f"masks {tuple(predicted.shape)} and {tuple(target.shape)} differ in shape.")
    union = int((predicted | target).sum())
    return int((predicted & target).sum()) / union if union else 1.0


def touches_border(mask: Tensor) -> bool:
    """Whether any pixel of a (H, W) bool mask lies in the outermost row or column of the image."""
    return bool(mask[[0, -1]].any() or mask[:, [0, -1]].any())


class ForegroundIoU(Metric):
    """Mean over images of the foreground IoU, in percent; every image counts the same, whatever its size."""

    full_state_update = False
    higher_is_better = True
    total: Tensor
    images: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, iou: float) -> None:
        """Count one image by its `foreground_iou`."""
        self.total += round(iou / UNIT)
        self.images += 1

    def compute(self) -> float:
        """The mean in percent, NaN without images."""
        images = int(self.images)
        return 100 * UNIT * int(self.total) / images if images else float("nan")
