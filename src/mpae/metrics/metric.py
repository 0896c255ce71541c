"""What a metric of the evaluation is: it sees every batch once, and ends in figures and in columns of images.csv."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import Metric

from mpae.data.geometry import scale_points
from mpae.data.loading import Sample

LABEL_SIZE = 128  # the side at which labels are compared (MPAE's protocol)


@dataclass(frozen=True)
class Task:
    """What is evaluated: how many parts, and what the benchmark annotates."""

    num_parts: int
    keypoint_names: Sequence[str] = ()
    part_names: Sequence[str] = ()
    has_foreground: bool = False


@dataclass(frozen=True)
class FoundParts:
    """What a model found in a batch of images, beside what people marked there."""

    samples: Sequence[Sample]  # B of them: number, size and annotation of each image
    logits: Sequence[Tensor]  # (K+1, h, w) of each, background last; a tensor (B, K+1, h, w) will do
    foreground: Callable[[int], Tensor]  # the place of an image in the batch -> (H, W) bool, where it has any part
    part_of: Sequence[int] | None = None  # (K,), the part of fewer that each is counted as; None counts all K
    are_masks: bool = False  # whether a position has one part, as in a mask, or a probability of each

    @cached_property
    def large_logits(self) -> Tensor:
        """(B, K+1, 128, 128)."""
        return torch.cat([F.interpolate(each[None], size=(LABEL_SIZE, LABEL_SIZE), mode="bilinear",
                                        align_corners=False) for each in self.logits])

    @cached_property
    def _best(self) -> tuple[Tensor, Tensor]:
        best, part = self.large_logits[:, :-1].max(1)
        return best, part if self.part_of is None else torch.tensor(self.part_of)[part]

    @property
    def part_labels(self) -> Tensor:
        """(B, 128, 128) in 0..K-1: the most similar part, the background left out."""
        return self._best[1]

    @cached_property
    def labels(self) -> Tensor:
        """(B, 128, 128) in 0..K: the most similar part, or the background K."""
        best, part = self._best
        return torch.where(self.large_logits[:, -1] > best, self.num_parts, part)

    @property
    def num_parts(self) -> int:
        return self.large_logits.shape[1] - 1 if self.part_of is None else max(self.part_of) + 1

    def similarity(self, logits: Tensor) -> Tensor:
        """(K+1, h, w) logits of an image -> (parts + 1, h, w) probabilities, or masks, which joined parts add up."""
        every = F.one_hot(logits.argmax(0), len(logits)).movedim(2, 0).float() if self.are_masks else logits.softmax(0)
        if self.part_of is None:
            return every
        places = torch.tensor([*self.part_of, self.num_parts])
        return every.new_zeros(self.num_parts + 1, *every.shape[1:]).index_add_(0, places, every)


class EvaluationMetric(Metric):
    """Counts batches in states that processes add up (torchmetrics' `add_state`), and gives figures in the end."""

    full_state_update = False
    columns: ClassVar[tuple[str, ...]] = ()  # what it says of every image, in images.csv
    is_fitted: ClassVar[bool] = False  # it also wants the split that it is fitted on

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task
        self.rows: dict[int, tuple[Any, ...]] = {}  # number of an image in its split -> the values of its columns

    @staticmethod
    def applies(task: Task) -> bool:
        """Whether the benchmark annotates what this metric compares with."""
        return True

    def update(self, found: FoundParts) -> None:
        raise NotImplementedError

    def fit(self, found: FoundParts) -> None:
        """Use a batch of the split on which a metric is fitted."""

    def compute(self) -> dict[str, float | None]:
        """Figures by their names in `registry.FIGURES`; None where there was nothing to compare."""
        raise NotImplementedError


def visible_keypoints(sample: Sample, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Keypoints (L, 2) of the picture resized to `size`, and which are visible (L,); L = 0 without any."""
    points, visible = sample.annotation.keypoints, sample.annotation.visible
    if points is None:
        return np.zeros((0, 2)), np.zeros(0, dtype=bool)
    if visible is None:
        visible = np.ones(len(points), dtype=bool)
    return scale_points(points, sample.size, size), visible


def known(value: float) -> float | None:
    """None for what is not a number: JSON has no NaN."""
    return float(value) if math.isfinite(value) else None
