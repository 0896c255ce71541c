"""From logits and annotation to what the metrics count: labels, foreground, samples, part centres."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mpae.data.geometry import scale_box, scale_points
from mpae.data.loading import Sample
from mpae.metrics.regression import KeypointSample, Normaliser, part_centres
from mpae.prediction.masks import interpolation_axis

LABEL_SIZE = 128  # the side at which labels are compared (MPAE's protocol)
Where = EllipsisType | tuple[Tensor, Tensor]  # an index into a label map: all of it, or rows and columns


def part_labels(logits: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The label of every pixel of the squashed image, and the one it has if the background is left out.

    Args:
        logits: (B, K+1, h, w), background last.
    Returns:
        (B, size, size) in 0..K, and (B, size, size) in 0..K-1.
    """
    large = F.interpolate(logits, size=(size, size), mode="bilinear", align_corners=False)
    best, part = large[:, :-1].max(1)
    return torch.where(large[:, -1] > best, large.shape[1] - 1, part), part


def foreground_mask(logits: Tensor, size: tuple[int, int]) -> Tensor:
    """Where any part beats the background: logits (K+1, h, w) -> (H, W) bool; `size` is width, height."""
    # Two small matrix products, a third of the time of F.interpolate.
    columns, rows = (torch.from_numpy(interpolation_axis(pixels, grid).weights)
                     for pixels, grid in zip(size, (logits.shape[2], logits.shape[1]), strict=True))
    large = rows @ (logits @ columns.T)  # (K+1, H, W)
    return large[:-1].amax(0) >= large[-1]


def annotated_samples(sample: Sample, masks: bool) -> tuple[Where, Tensor]:
    """Where in the 128 x 128 label map to look, and what people marked there.

    Args:
        masks: the samples are the pixels of the part mask, not the keypoints.
    Returns:
        An index into a label map that gives n labels, and the n annotated parts.
    """
    annotation = sample.annotation
    if masks and annotation.part_mask is not None:
        return ..., torch.from_numpy(annotation.part_mask)
    points, visible = visible_keypoints(sample, (LABEL_SIZE, LABEL_SIZE))
    if masks:
        visible = np.zeros_like(visible)
    # Nearest sampling with pixel centres at half pixels; a point on the edge or beyond it reads the edge.
    pixels = np.rint(points[visible] - 0.5).clip(0, LABEL_SIZE - 1).astype(np.int64)
    column, row = torch.from_numpy(pixels).T
    return (row, column), torch.from_numpy(np.flatnonzero(visible))


def visible_keypoints(sample: Sample, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Keypoints (L, 2) of the picture resized to `size`, and which are visible (L,); L = 0 without any."""
    points, visible = sample.annotation.keypoints, sample.annotation.visible
    if points is None:
        return np.zeros((0, 2)), np.zeros(0, dtype=bool)
    if visible is None:
        visible = np.ones(len(points), dtype=bool)
    return scale_points(points, sample.size, size), visible


def keypoint_samples(samples: Sequence[Sample], logits: Tensor,
                     normaliser: Normaliser) -> list[KeypointSample]:
    """Part centres and keypoints of a batch in the units of the regression.

    "box": shares of the object's box. "eyes": shares of the squashed image. Images without keypoints, or
    without the box, are left out.
    """
    centres, active = (values.numpy() for values in part_centres(logits.softmax(1)))
    found = []
    for sample, centre, there in zip(samples, centres, active, strict=True):
        points, visible = visible_keypoints(sample, (1, 1))
        corner, unit = np.zeros(2), np.ones(2)
        if normaliser == "box":
            if sample.annotation.box is None:
                continue
            box = scale_box(sample.annotation.box, sample.size, (1, 1))
            corner, unit = np.array(box[:2]), np.array(box[2:])
        if len(points):
            found.append(KeypointSample(
                sample.index, (centre - corner) / unit, there, (points - corner) / unit, visible))
    return found
