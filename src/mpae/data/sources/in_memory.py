"""Pictures that a program has at hand: paths, Pillow images, arrays and tensors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image
from torch import Tensor

from mpae.data.images import check_size, digest_of, read_picture, to_rgb
from mpae.data.source import Picture, UnreadableImage
from mpae.data.sources.folder import find_images
from mpae.errors import MPAEError

ImageLike: TypeAlias = "str | os.PathLike[str] | Image.Image | np.ndarray | Tensor"

EXPECTED = "a path, a Pillow image, an array (H, W, 3) or (H, W), or a tensor (3, H, W)"


class InMemoryImages:
    """Images of any of these kinds as a source for training, kept as they were given."""

    def __init__(self, images: Iterable[ImageLike]):
        self.images = list(images)
        names = [name_of(image, index) for index, image in enumerate(self.images)]
        if len(set(names)) < len(names):  # a bootstrap sample has some images twice
            names = [f"{index:06d}-{name}" for index, name in enumerate(names)]
        self.names: Sequence[str] = names
        for image in self.images:
            if isinstance(image, Image.Image):
                with contextlib.suppress(Exception):  # told when the picture is asked for
                    image.load()  # processes that decode would share the position in an open file

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Picture:
        return to_picture(self.images[index], self.names[index])


def is_one_image(images: Any) -> bool:
    """Whether this is one image; otherwise it is several."""
    if isinstance(images, (str, os.PathLike)):
        return not os.path.isdir(images)
    if isinstance(images, (np.ndarray, Tensor)):
        return images.ndim in (2, 3)
    return isinstance(images, Image.Image)


def iterate_pictures(images: Any) -> Iterator[Picture]:
    """One image, a folder, or an iterable of images, as pictures, each read when it is its turn."""
    if is_one_image(images):
        images = [images]
    elif isinstance(images, (str, os.PathLike)):
        images = [Path(images) / name for name in find_images(Path(images))]
    elif not isinstance(images, Iterable):
        raise TypeError(f"Images came as {type(images).__name__}; expected {EXPECTED}, or an iterable of them.")
    for index, image in enumerate(images):
        name = name_of(image, index)
        try:
            yield to_picture(image, name)
        except UnreadableImage as error:
            raise MPAEError(f"Cannot read the image '{name}': {error}.") from None


def name_of(image: ImageLike, index: int) -> str:
    """The path of a file; 'image-000003' for the fourth of those that have none."""
    return Path(image).as_posix() if isinstance(image, (str, os.PathLike)) else f"image-{index:06d}"


def to_picture(image: ImageLike, name: str) -> Picture:
    """The picture; its parts are found at exactly the size that the image has here.

    A file is turned upright as its EXIF says; a Pillow image is taken as its pixels stand.
    """
    if isinstance(image, (str, os.PathLike)):
        return read_picture(Path(image), name)
    if isinstance(image, Image.Image):
        pillow = image
    elif isinstance(image, Tensor):
        pillow = Image.fromarray(_pixels(_channels_last(image, name), name))
    elif isinstance(image, np.ndarray):
        pillow = Image.fromarray(_pixels(image, name))
    else:
        raise TypeError(f"'{name}' is of type {type(image).__name__}; expected {EXPECTED}.")
    check_size(pillow)
    try:
        rgb = to_rgb(pillow)
    except OSError as error:  # a file that was opened but not yet decoded
        raise UnreadableImage(" ".join(str(error).split())) from None
    return Picture(name, rgb, digest_of(repr(rgb.size).encode() + rgb.tobytes()))


def _channels_last(tensor: Tensor, name: str) -> np.ndarray:
    if tensor.ndim != 3 or tensor.shape[0] not in (1, 3):
        raise ValueError(f"'{name}' is a tensor of shape {tuple(tensor.shape)}; expected (3, H, W), "
                         "colours first.")
    tensor = tensor.detach().cpu().permute(1, 2, 0)
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def _pixels(array: np.ndarray, name: str) -> np.ndarray:
    """(H, W), (H, W, 1) or (H, W, 3), uint8 or floats in [0, 1] -> (H, W, 3) or (H, W) uint8."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)) or 0 in array.shape:
        raise ValueError(f"'{name}' is an array of shape {array.shape}; expected (H, W, 3), colours last, or "
                         "(H, W) for grey; pass several images as a list.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype.kind != "f":
        raise ValueError(f"'{name}' is of type {array.dtype}; expected uint8, or floats in [0, 1].")
    low, high = float(array.min()), float(array.max())
    if not (low >= -1e-3 and high <= 1 + 1e-3):  # interpolation overshoots a little; NaN is neither
        raise ValueError(f"'{name}' has values from {low:g} to {high:g}; expected floats in [0, 1], or uint8.")
    return (array.clip(0, 1) * 255).round().astype(np.uint8)
