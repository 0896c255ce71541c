"""A part of a source: for training without its annotation, for validation with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpae.data.source import AnnotatedSource, Annotation, ImageSource, Picture
from mpae.data.sources.benchmark import BenchmarkImages


class Pictures:
    """Names and pictures of a source and nothing else: what training is given."""

    def __init__(self, source: ImageSource, indices: Sequence[int]):
        self.names = [source.names[index] for index in indices]
        self._indices = indices
        self._source = source
        if isinstance(source, BenchmarkImages):  # a benchmark: its annotation tables are not carried along
            self._source = BenchmarkImages(source.folder, source.names, source.square)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Picture:
        return self._source[self._indices[index]]


class AnnotatedSubset:
    """Some images of an annotated source."""

    def __init__(self, source: AnnotatedSource, indices: Sequence[int]):
        self.names = [source.names[index] for index in indices]
        self.keypoint_names = source.keypoint_names
        self.part_names = source.part_names
        self.has_foreground = source.has_foreground
        self._source, self._indices = source, indices

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Picture:
        return self._source[self._indices[index]]

    def annotation(self, index: int) -> Annotation:
        return self._source.annotation(self._indices[index])


def spread(total: int, limit: int | None) -> range | list[int]:
    """All indices, or `limit` of them at even distances: benchmarks are sorted by class."""
    if limit is None or limit >= total:
        return range(total)
    return [position * total // limit for position in range(limit)]


def divide(count: int, share: float) -> tuple[list[int], list[int]]:
    """Indices for training and for validation: every so-manyth image, the same each time.

    The lists of the benchmarks are sorted by class, so an even spread takes some of each. A share above 0
    gets one image at least, and leaves one.
    """
    held = min(max(round(share * count), 1), count - 1) if share > 0 and count > 1 else 0
    validation = [(2 * i + 1) * count // (2 * held) for i in range(held)]
    kept = np.setdiff1d(np.arange(count), validation)
    return kept.tolist(), validation
