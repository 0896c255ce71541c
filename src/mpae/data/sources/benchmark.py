"""Images of a benchmark in the pixel order of their files, for that is what was annotated."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from mpae.data.geometry import squash_unsmoothed
from mpae.data.images import read_picture
from mpae.data.source import Picture, UnreadableImage
from mpae.errors import MPAEError


class BenchmarkImages:
    """Listed image files below a folder. Unlike ``FolderImages`` it does not turn photos upright.

    With `square` given every picture is squashed to that side, bilinear and not smoothed, as the released program
    reads CelebA.
    """

    def __init__(self, folder: Path, names: Sequence[str], square: int | None = None):
        self.folder = folder
        self.names = names
        self.square = square

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Picture:
        name = self.names[index]
        picture = read_picture(self.folder / name, name, upright=False)
        return picture if self.square is None else replace(picture, image=squash_unsmoothed(picture.image, self.square))

    def size(self, index: int) -> tuple[int, int]:
        """Width and height as stored, from the header of the file."""
        return image_size(self.folder / self.names[index])


def image_size(path: Path) -> tuple[int, int]:
    """Width and height as stored, without decoding; raises UnreadableImage."""
    with _header(path) as image:
        return image.size


@contextmanager
def _header(path: Path) -> Iterator[Image.Image]:
    """An image file opened but not decoded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's warning of large images
            with Image.open(path) as image:
                yield image
    except Exception as error:  # Pillow's plugins raise more than OSError on bad bytes
        raise UnreadableImage(" ".join(str(error).split()) or type(error).__name__) from None


def read_labels(path: Path, size: tuple[int, int], name: str, grey: bool = False) -> np.ndarray:
    """A mask file as (H, W) uint8, of the same size as its image ``name``; palette indices are the labels."""
    try:
        with Image.open(path) as image:
            labels = np.asarray(image.convert("L") if grey else image)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MPAEError(f"Cannot read the mask '{path}': {reason}.") from None
    if labels.ndim != 2 or labels.dtype != np.uint8:
        raise MPAEError(f"'{path}' is no label map; expected one 8-bit channel.")
    if labels.shape != (size[1], size[0]):
        raise MPAEError(f"'{path}' has {labels.shape[1]} x {labels.shape[0]} pixels but its image '{name}' "
                        f"has {size[0]} x {size[1]}; masks and images belong to different copies.")
    return labels
