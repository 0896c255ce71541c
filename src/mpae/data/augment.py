"""The views of a picture that training sees: the whole picture, and the paper's augmentations of it.

A view is a number. View 0 is the whole picture squashed to the input size, as evaluation and prediction
see it. Every other view is drawn from the picture's content and that number alone, so frozen features
of a view can be kept and used by any later run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mpae.data.source import Picture

MAX_ROTATION = 15.0  # degrees
MAX_SHIFT = 0.05  # of the side
MAX_SCALE = 0.05
MAX_ASPECT = 4  # a picture that is longer is cut to it first: 1 x 5000 pixels would become 224 x 1,120,000


@dataclass(frozen=True)
class ViewGeometry:
    """One drawn augmentation: flip, rotation, translation, scale, then a crop."""

    flip: bool
    angle: float  # radians
    shift: tuple[float, float]  # in shares of the side, x and y
    scale: float
    crop: tuple[float, float]  # where the crop lies in what is left over, 0..1, x and y


def draw_geometry(digest: str, view: int) -> ViewGeometry:
    """The augmentation of a view: a pure function of the picture's content and the view's number."""
    key = np.array([int(digest[:16], 16), view], dtype=np.uint64)  # a list would become float64
    random = np.random.Generator(np.random.Philox(key=key))
    return ViewGeometry(
        flip=bool(random.random() < 0.5),
        angle=math.radians(random.uniform(-MAX_ROTATION, MAX_ROTATION)),
        shift=(random.uniform(-MAX_SHIFT, MAX_SHIFT), random.uniform(-MAX_SHIFT, MAX_SHIFT)),
        scale=random.uniform(1 - MAX_SCALE, 1 + MAX_SCALE),
        crop=(random.random(), random.random()),
    )


def make_view(picture: Picture, view: int, size: int) -> np.ndarray:
    """View number `view` of a picture: (size, size, 3) uint8."""
    if view == 0:
        return np.asarray(picture.image.resize((size, size), Image.Resampling.BILINEAR))
    return np.asarray(augment(picture.image, draw_geometry(picture.digest, view), size))


def augment(image: Image.Image, geometry: ViewGeometry, size: int) -> Image.Image:
    """Shorter side to `size`, then flip, rotate, shift, scale and crop in one resampling; black outside."""
    image = cut_to_aspect(image, geometry.crop)
    width, height = image.size
    factor = size / min(width, height)
    width, height = max(size, round(width * factor)), max(size, round(height * factor))
    image = image.resize((width, height), Image.Resampling.BILINEAR)  # this smooths; the warp below cannot
    left, top = (width - size) * geometry.crop[0], (height - size) * geometry.crop[1]
    centre_x = width / 2 + geometry.shift[0] * width
    centre_y = height / 2 + geometry.shift[1] * height
    cos, sin = math.cos(geometry.angle) / geometry.scale, math.sin(geometry.angle) / geometry.scale
    # Pillow wants the way back: (x, y) of the crop -> (x, y) of the resized image.
    a, b = cos, sin
    d, e = -sin, cos
    c = width / 2 + a * (left - centre_x) + b * (top - centre_y)
    f = height / 2 + d * (left - centre_x) + e * (top - centre_y)
    if geometry.flip:
        a, d, c, f = -a, -d, c + a * size, f + d * size
    back = (a, b, c, d, e, f)
    return image.transform((size, size), Image.Transform.AFFINE, back, Image.Resampling.BILINEAR)


def cut_to_aspect(image: Image.Image, place: tuple[float, float]) -> Image.Image:
    """At most MAX_ASPECT times as long as wide; `place` says which piece stays, 0..1 along x and y."""
    longest = MAX_ASPECT * min(image.size)
    width, height = min(image.width, longest), min(image.height, longest)
    if (width, height) == image.size:
        return image
    left, top = round((image.width - width) * place[0]), round((image.height - height) * place[1])
    return image.crop((left, top, left + width, top + height))
