"""The drawn pictures as a source of annotated images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpae.config import DataSettings
from mpae.data.benchmarks.tables import check_split
from mpae.data.dataset import Dataset
from mpae.data.images import digest_of
from mpae.data.source import Annotation, Picture
from mpae.data.sources.subsets import Pictures
from mpae.data.sources.synthetic.anatomy import BACKGROUND, KEYPOINT_PARTS, PART_NAMES
from mpae.data.sources.synthetic.drawing import KINDS, SPLITS, VERSION, Drawing, draw, kind_of
from mpae.errors import MPAEError, short

TEST_IMAGES = 200


class SyntheticImages:
    """Quadrupeds, birds, fish and vehicles, `size` pixels square; fixed by seed, split and index.

    Parts that kinds share (heads, torsos, legs, tails) carry the same label in all of them. An annotation
    is of what can be seen: what an occluder hides is background, and its keypoints are not visible.
    """

    kinds: Sequence[str] = tuple(KINDS)
    part_names: Sequence[str] = PART_NAMES
    keypoint_names: Sequence[str] = tuple(KEYPOINT_PARTS)
    has_foreground = True

    def __init__(self, count: int, seed: int = 0, size: int = 256, split: str = "train"):
        if split not in SPLITS:
            raise MPAEError(f"Unknown split '{split}' of the synthetic images; use {' or '.join(SPLITS)}.")
        if count < 1:
            raise MPAEError(f"{count} synthetic images cannot be drawn; ask for at least 1.")
        if size < 32:
            raise MPAEError(f"Synthetic images of {size} pixels are too small to show parts; use 32 or more.")
        self.seed, self.size, self.split = seed, size, split
        kinds = [self.kinds[kind_of(seed, split, index)] for index in range(count)]
        self.names: Sequence[str] = [f"{split}/{index:06d}-{kind}" for index, kind in enumerate(kinds)]

    def __len__(self) -> int:
        return len(self.names)

    def kind(self, index: int) -> int:
        """Which of `kinds` the picture shows."""
        return kind_of(self.seed, self.split, self._checked(index))

    def __getitem__(self, index: int) -> Picture:
        index = self._checked(index)
        origin = f"mpae synthetic {VERSION}: seed {self.seed}, {self.split} {index}, {self.size} px"
        image = self._drawing(index).picture.copy()
        return Picture(name=self.names[index], image=image, digest=digest_of(origin.encode()))

    def annotation(self, index: int) -> Annotation:
        drawing = self._drawing(self._checked(index))
        foreground = drawing.labels != BACKGROUND
        rows, columns = np.flatnonzero(foreground.any(1)), np.flatnonzero(foreground.any(0))
        left, top = float(columns[0]), float(rows[0])
        return Annotation(
            keypoints=drawing.keypoints.copy(),
            visible=drawing.visible.copy(),
            box=(left, top, float(columns[-1]) + 1 - left, float(rows[-1]) + 1 - top),
            part_mask=drawing.labels.copy(),
            foreground=foreground,
        )

    def _drawing(self, index: int) -> Drawing:
        return draw(self.seed, self.split, index, self.size)

    def _checked(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} of {len(self)} synthetic images")
        return index % len(self)


def drawn_images(kind: str | None, count: int) -> Pictures:
    """So many test images of a kind, or of all kinds."""
    if kind not in (None, *KINDS):
        raise MPAEError(f"No images of '{short(kind)}' are drawn; choose one of: {', '.join(KINDS)}.")
    source = SyntheticImages(len(KINDS) * count, split="test")  # each kind once in so many
    return Pictures(source, [index for index, name in enumerate(source.names) if name.endswith(kind or "")][:count])


def _open(settings: DataSettings, split: str) -> SyntheticImages:
    check_split(split, SPLITS, "synthetic")
    return SyntheticImages(settings.synthetic_images if split == "train" else TEST_IMAGES, split=split)


DATASET = Dataset(
    name="synthetic",
    description="animals and vehicles that mpae draws itself, nothing to download",
    annotation="part masks, keypoints, boxes, foreground masks",
    tree={},
    origin="drawn by mpae",
    licence="as mpae",
    sizes={"train": "data.synthetic_images", "test": str(TEST_IMAGES)},
    open=_open,
    fit_split="train",
)
