"""Foreground IoU: do the parts together cover the object, and nothing else?

NMI and ARI on keypoints never look off the object, so a model that spends parts on branches and water
can score well there; this figure tells.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mpae.metrics.metric import EvaluationMetric, FoundParts, Task, known

UNIT = 2.0 ** -32  # IoUs are added as integers of this unit: the sum is the same in any order


def foreground_iou(predicted: Tensor, target: Tensor, uncertain: Tensor | None = None) -> float:
    """Intersection over union of two (H, W) bool masks, `uncertain` pixels (H, W) left out; 1 if both are empty."""
    if predicted.shape != target.shape:
        raise ValueError(f"masks {tuple(predicted.shape)} and {tuple(target.shape)} differ in shape.")
    if uncertain is not None:
        predicted, target = predicted & ~uncertain, target & ~uncertain
    union = int((predicted | target).sum())
    return int((predicted & target).sum()) / union if union else 1.0


def touches_border(mask: Tensor) -> bool:
    """Whether any pixel of a (H, W) bool mask lies in the outermost row or column of the image."""
    return bool(mask[[0, -1]].any() or mask[:, [0, -1]].any())


class ForegroundIoU(EvaluationMetric):
    """Mean over images of the foreground IoU, in percent; every image counts the same, whatever its size.

    At the image's own size, of the masks that prediction writes.
    """

    columns = ("foreground_iou", "object_share", "touches_border")
    total: Tensor
    images: Tensor

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.add_state("total", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    @staticmethod
    def applies(task: Task) -> bool:
        return task.has_foreground

    def update(self, found: FoundParts) -> None:
        for place, sample in enumerate(found.samples):
            if sample.annotation.foreground is not None:
                target, uncertain = torch.tensor(sample.annotation.foreground), sample.annotation.uncertain
                iou = foreground_iou(found.foreground(place), target,
                                     None if uncertain is None else torch.tensor(uncertain))
                self.add(iou)
                self.rows[sample.index] = (100 * iou, 100 * float(target.double().mean()), touches_border(target))

    def add(self, iou: float) -> None:
        """Count one image by its `foreground_iou`."""
        self.total += round(iou / UNIT)
        self.images += 1

    def compute(self) -> dict[str, float | None]:
        images = int(self.images)
        return {"foreground_iou": known(100 * UNIT * int(self.total) / images) if images else None}
