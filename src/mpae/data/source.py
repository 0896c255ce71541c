"""What the rest of the package knows of data: sources of pictures, and annotations for evaluation alone.

Training and prediction receive an ``ImageSource``: names and pictures, nothing else. Evaluation receives
an ``AnnotatedSource``, which adds ``annotation(index)``. No label can reach training by accident.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from PIL import Image


class UnreadableImage(Exception):
    """This one picture cannot be read; the message says why. Callers skip it and list it."""


@dataclass(frozen=True)
class Picture:
    name: str  # unique in its source, a relative POSIX path
    image: Image.Image  # RGB, upright, at its own size
    digest: str  # of the content: the same picture under another name has the same digest


@dataclass(frozen=True)
class Annotation:
    """What people marked in one picture, in pixels of the picture at its own size.

    A point (x, y) is continuous: the centre of the top left pixel is (0.5, 0.5), unless the dataset says
    otherwise. What a dataset does not annotate is None.
    """

    keypoints: np.ndarray | None = None  # (n, 2) float64, x and y
    visible: np.ndarray | None = None  # (n,) bool
    box: tuple[float, float, float, float] | None = None  # x, y, width, height
    part_mask: np.ndarray | None = None  # (H, W) uint8: 0..len(part_names)-1, then the background
    foreground: np.ndarray | None = None  # (H, W) bool
    uncertain: np.ndarray | None = None  # (H, W) bool: where the foreground is undecided and does not count


class ImageSource(Protocol):
    @property
    def names(self) -> Sequence[str]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Picture:
        """The picture; raises UnreadableImage."""
        ...


class AnnotatedSource(ImageSource, Protocol):
    keypoint_names: Sequence[str]  # empty where the dataset has none
    part_names: Sequence[str]  # empty where the dataset has none; the background is not named
    has_foreground: bool

    def annotation(self, index: int) -> Annotation: ...
