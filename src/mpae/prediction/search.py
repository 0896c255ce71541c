"""Search by part: the images whose part looks most like this one. Exact cosine similarity, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpae.errors import MPAEError

ROWS = 65_536  # images whose features are scaled to length 1 at a time


@dataclass(frozen=True)
class Match:
    image: int  # its row in parts.jsonl
    part: int  # 1..K
    similarity: float  # cosine, at most 1


class PartIndex:
    """The features of every part of every image, ready to be compared.

    A part's features are read when it is first searched for, and kept: about n x E numbers.

    >>> features = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 1.0]]])
    >>> index = PartIndex(features, np.array([[True], [True], [True]]))
    >>> [match.image for match in index.search(np.array([1.0, 0.1]), [1], top=2)]
    [0, 2]
    """

    def __init__(self, features: np.ndarray, present: np.ndarray):
        """
        Args:
            features: (n, K, E), possibly mapped into memory.
            present: (n, K) bool.
        """
        self.features, self.present = features, present
        self._units: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def units(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the images that show a part (m,), and its features there scaled to length 1, (m, E) float32."""
        if part not in self._units:
            rows = np.flatnonzero(self.present[:, part - 1])
            units = np.empty((len(rows), self.features.shape[2]), dtype=np.float32)
            for start in range(0, len(rows), ROWS):
                some = rows[start:start + ROWS]
                units[start:start + ROWS] = unit_length(self.features[some, part - 1])
            self._units[part] = rows, units
        return self._units[part]

    def vector(self, image: int, part: int) -> np.ndarray:
        """(E,) of a part in an image of the index."""
        if not self.present[image, part - 1]:
            raise MPAEError("This image does not show that part; choose another one.")
        return np.asarray(self.features[image, part - 1], dtype=np.float32)

    def search(self, vector: np.ndarray, parts: Sequence[int], top: int = 20,
               leave_out: int | None = None) -> list[Match]:
        """The images with the most similar part, best first; each image once.

        Args:
            vector: (E,) the part that is looked for.
            parts: members of the part, 1..K, among which to look.
            leave_out: an image that is not to be found: the one that the vector is from.
        """
        width = self.features.shape[2]
        if vector.shape != (width,) or not np.isfinite(vector).all():
            raise MPAEError(f"A part to look for has {width} finite numbers; found an array of shape {vector.shape}.")
        best = np.full(len(self.present), -np.inf, dtype=np.float32)  # (n,)
        of_part = np.zeros(len(self.present), dtype=np.int64)
        query = unit_length(vector[None])[0]
        for part in parts:
            rows, units = self.units(part)
            similarity = units @ query  # (m,)
            better = similarity > best[rows]
            best[rows[better]], of_part[rows[better]] = similarity[better], part
        if leave_out is not None:
            best[leave_out] = -np.inf
        top = min(top, int((best > -np.inf).sum()))
        if top <= 0:
            return []
        found = np.argpartition(-best, top - 1)[:top]
        found = found[np.lexsort((found, -best[found]))]
        return [Match(image, int(of_part[image]), round(float(best[image]), 6)) for image in found.tolist()]


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """(m, E) scaled to length 1, float32."""
    vectors = np.asarray(vectors, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-12)
