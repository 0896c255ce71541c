"""Resizing an image together with what was annotated in it.

Sizes are (width, height), points are (x, y) in pixels. The evaluation squashes the whole image to a square,
so a point moves as the protocol says: x' = x * size / W, y' = y * size / H.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as functional
from PIL import Image
from torch import Tensor

from mpae.data.source import Annotation

Size = tuple[int, int]
Box = tuple[float, float, float, float]  # x, y, width, height


def squash(image: Image.Image | Tensor, size: int) -> Tensor:
    """The whole image as a square: bilinear, antialiased, not cropped.

    Args:
        image: PIL image, or a tensor (3, H, W) with values in [0, 1].
    Returns:
        (3, size, size) float32 in [0, 1].
    """
    if isinstance(image, Tensor):
        return functional.interpolate(image[None].float(), (size, size), mode="bilinear", antialias=True)[0]
    small = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    pixels = torch.from_numpy(np.array(small))  # (size, size, 3)
    return pixels.permute(2, 0, 1).float().div(255)


def resize_matrix(old: Size, new: Size) -> np.ndarray:
    """The affine map (2, 3) of points under a resize."""
    return np.array([[new[0] / old[0], 0.0, 0.0], [0.0, new[1] / old[1], 0.0]])


def move_points(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Points (..., 2) under an affine map (2, 3)."""
    return np.asarray(points, dtype=np.float64) @ matrix[:, :2].T + matrix[:, 2]


def scale_points(points: np.ndarray, old: Size, new: Size) -> np.ndarray:
    """Points (..., 2) of an image that is resized from ``old`` to ``new``."""
    return move_points(points, resize_matrix(old, new))


def scale_box(box: Box, old: Size, new: Size) -> Box:
    x, y, width, height = box
    corners = np.array([[x, y], [x + width, y + height]])
    (left, top), (right, bottom) = scale_points(corners, old, new).tolist()
    return left, top, right - left, bottom - top


def resize_labels(labels: np.ndarray, new: Size) -> np.ndarray:
    """A label map or mask (H, W) at another size: each new pixel takes the label under its centre."""
    height, width = labels.shape
    rows = (2 * np.arange(new[1]) + 1) * height // (2 * new[1])  # floor((i + 0.5) * H / new), in integers
    columns = (2 * np.arange(new[0]) + 1) * width // (2 * new[0])
    return labels[rows[:, None], columns]


def resize_annotation(annotation: Annotation, old: Size, new: Size) -> Annotation:
    """All that was annotated in an image that is resized from ``old`` to ``new``."""
    keypoints, box = annotation.keypoints, annotation.box
    part_mask, foreground = annotation.part_mask, annotation.foreground
    return replace(
        annotation,
        keypoints=None if keypoints is None else scale_points(keypoints, old, new),
        box=None if box is None else scale_box(box, old, new),
        part_mask=None if part_mask is None else resize_labels(part_mask, new),
        foreground=None if foreground is None else resize_labels(foreground, new),
    )
