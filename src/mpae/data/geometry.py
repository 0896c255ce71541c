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

from mpae.data.source import Annotation

Size = tuple[int, int]
Box = tuple[float, float, float, float]  # x, y, width, height


def squash_unsmoothed(image: Image.Image, size: int) -> Image.Image:
    """The whole image as a square: bilinear between the four nearest pixels (Pillow would smooth first)."""
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()  # (1, 3, H, W)
    small = functional.interpolate(pixels, (size, size), mode="bilinear", align_corners=False)[0]
    return Image.fromarray(small.round().byte().permute(1, 2, 0).numpy())


def scale_points(points: np.ndarray, old: Size, new: Size) -> np.ndarray:
    """Points (..., 2) of an image that is resized from ``old`` to ``new``."""
    return np.asarray(points, dtype=np.float64) * (np.array(new) / np.array(old))


def scale_box(box: Box, old: Size, new: Size) -> Box:
    x, y, width, height = scale_points(np.array(box).reshape(2, 2), old, new).ravel().tolist()
    return x, y, width, height


def resize_labels(labels: np.ndarray, new: Size) -> np.ndarray:
    """A label map (H, W) at another size, by the paper's evaluation: OpenCV's INTER_NEAREST.

    Pixel i takes the label of pixel floor(i * old / new): that at its corner, not under its centre. By hand, for
    neither Pillow nor torch has it, and OpenCV is not needed for anything else.
    """
    height, width = labels.shape
    return labels[_nearest(height, new[1])[:, None], _nearest(width, new[0])]


def resize_annotation(annotation: Annotation, old: Size, new: Size) -> Annotation:
    """All that was annotated in an image that is resized from ``old`` to ``new``."""
    keypoints, box = annotation.keypoints, annotation.box
    maps = {name: getattr(annotation, name) for name in ("part_mask", "foreground", "uncertain")}
    return replace(
        annotation,
        keypoints=None if keypoints is None else scale_points(keypoints, old, new),
        box=None if box is None else scale_box(box, old, new),
        **{name: None if labels is None else resize_labels(labels, new) for name, labels in maps.items()},
    )


def _nearest(old: int, new: int) -> np.ndarray:
    scale = 1 / (new / old)  # rounded as OpenCV rounds it
    return np.minimum(np.floor(np.arange(new) * scale).astype(np.int64), old - 1)
