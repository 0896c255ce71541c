"""The views of a picture that training sees: the whole picture, and the paper's augmentations of it.

A view is a number. View 0 is the whole picture squashed to the input size, as evaluation and prediction
see it. Every other view is drawn, and made in one of two readings:

- ours: drawn from the picture's content and the number alone, so frozen features of a view can be kept and used by
  any later run; one smooth resampling.
- released: drawn from the run's seed too; resize, flip, warp and crop one after the other, the warp to the nearest
  pixel, as the released program does.
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


def draw_geometry(digest: str, view: int, seed: int | None = None) -> ViewGeometry:
    """The augmentation of a view: a pure function of the picture's content, the view's number, and the seed if any."""
    content = int(digest[:16], 16)
    if seed is None:
        key = np.array([content, view], dtype=np.uint64)  # a list would become float64
        random = np.random.Generator(np.random.Philox(key=key))
    else:
        random = np.random.default_rng([seed, content, view])
    return ViewGeometry(
        flip=bool(random.random() < 0.5),
        angle=math.radians(random.uniform(-MAX_ROTATION, MAX_ROTATION)),
        shift=(random.uniform(-MAX_SHIFT, MAX_SHIFT), random.uniform(-MAX_SHIFT, MAX_SHIFT)),
        scale=random.uniform(1 - MAX_SCALE, 1 + MAX_SCALE),
        crop=(random.random(), random.random()),
    )


def make_view(picture: Picture, view: int, size: int, reading: str = "ours", seed: int = 0) -> np.ndarray:
    """View number `view` of a picture: (size, size, 3) uint8."""
    if view == 0:
        return np.asarray(picture.image.resize((size, size), Image.Resampling.BILINEAR))
    if reading == "released":
        return np.asarray(augment_as_released(picture.image, draw_geometry(picture.digest, view, seed), size))
    return np.asarray(augment(picture.image, draw_geometry(picture.digest, view), size))


def augment(image: Image.Image, geometry: ViewGeometry, size: int) -> Image.Image:
    """Shorter side to `size`, then flip, rotate, shift, scale and crop in one resampling; black outside.

    By hand: torchvision warps the whole picture and crops it afterwards, which costs more and gives other pixels.
    """
    image = cut_to_aspect(image, geometry.crop)
    width, height = image.size
    factor = size / min(width, height)
    width, height = max(size, round(width * factor)), max(size, round(height * factor))
    image = image.resize((width, height), Image.Resampling.BILINEAR)  # this smooths; the warp below cannot
    left, top = (width - size) * geometry.crop[0], (height - size) * geometry.crop[1]
    shift = geometry.shift[0] * width, geometry.shift[1] * height
    a, b, c, d, e, f = unwarped(width, height, geometry, (left, top), shift)
    if geometry.flip:
        a, d, c, f = -a, -d, c + a * size, f + d * size
    back = (a, b, c, d, e, f)  # Pillow wants the way back: (x, y) of the crop -> (x, y) of the resized image
    return image.transform((size, size), Image.Transform.AFFINE, back, Image.Resampling.BILINEAR)


def unwarped(width: int, height: int, geometry: ViewGeometry, corner: tuple[float, float],
             shift: tuple[float, float]) -> tuple[float, float, float, float, float, float]:
    """(a, b, c, d, e, f) of x' = a x + b y + c, y' = d x + e y + f: from a crop at `corner` of the rotated, scaled and
    shifted image to the image before, of `width` x `height` pixels."""
    cos, sin = math.cos(geometry.angle) / geometry.scale, math.sin(geometry.angle) / geometry.scale
    x, y = corner[0] - width / 2 - shift[0], corner[1] - height / 2 - shift[1]
    return cos, sin, width / 2 + cos * x + sin * y, -sin, cos, height / 2 - sin * x + cos * y


def view_to_picture(picture: Picture, view: int, size: int, reading: str = "ours", seed: int = 0) -> np.ndarray:
    """Where a view of `make_view` lies in its picture: (3, 3), from (x, y, 1) of the view to that of the picture,
    both in shares of their sides."""
    if view == 0:
        return np.eye(3)
    released = reading == "released"
    geometry = draw_geometry(picture.digest, view, seed if released else None)
    cut_box = aspect_box(picture.image.size, geometry.crop)
    cut = cut_box[2] - cut_box[0], cut_box[3] - cut_box[1]
    factor = size / min(cut)
    width, height = ((max(size, int(side * factor)) if released else max(size, round(side * factor))) for side in cut)
    left, top = (width - size) * geometry.crop[0], (height - size) * geometry.crop[1]
    shift = geometry.shift[0] * width, geometry.shift[1] * height
    if released:
        left, top = int(geometry.crop[0] * (width - size + 1)), int(geometry.crop[1] * (height - size + 1))
        shift = round(shift[0]), round(shift[1])
    back = np.eye(3)
    back[:2] = np.reshape(unwarped(width, height, geometry, (left, top), shift), (2, 3))
    if geometry.flip and released:  # before the warp
        back = np.array([[-1, 0, width], [0, 1, 0], [0, 0, 1]]) @ back
    elif geometry.flip:
        back = back @ np.array([[-1, 0, size], [0, 1, 0], [0, 0, 1]])
    whole = np.diag([cut[0] / width, cut[1] / height, 1.0])
    whole[:2, 2] = cut_box[:2]
    return np.diag([1 / picture.image.width, 1 / picture.image.height, 1]) @ whole @ back @ np.diag([size, size, 1])


def augment_as_released(image: Image.Image, geometry: ViewGeometry, size: int) -> Image.Image:
    """Shorter side to `size`; flip; rotate, scale and shift by whole pixels, nearest pixel, black outside; crop."""
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional

    image = functional.resize(cut_to_aspect(image, geometry.crop), [size])
    if geometry.flip:
        image = functional.horizontal_flip(image)
    width, height = image.size
    shift = [round(geometry.shift[0] * width), round(geometry.shift[1] * height)]
    image = functional.affine(image, math.degrees(geometry.angle), shift, geometry.scale, [0.0, 0.0],
                              interpolation=InterpolationMode.NEAREST, fill=0)
    left, top = int(geometry.crop[0] * (width - size + 1)), int(geometry.crop[1] * (height - size + 1))
    return functional.crop(image, top, left, size, size)


def cut_to_aspect(image: Image.Image, place: tuple[float, float]) -> Image.Image:
    """At most MAX_ASPECT times as long as wide; `place` says which piece stays, 0..1 along x and y."""
    box = aspect_box(image.size, place)
    return image if box == (0, 0, *image.size) else image.crop(box)


def aspect_box(size: tuple[int, int], place: tuple[float, float]) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what `cut_to_aspect` leaves."""
    longest = MAX_ASPECT * min(size)
    width, height = min(size[0], longest), min(size[1], longest)
    left, top = round((size[0] - width) * place[0]), round((size[1] - height) * place[1])
    return left, top, left + width, top + height
