"""Search by part: the images whose part looks most like this one. Exact cosine similarity, in NumPy.

Compared is how a part differs from what it usually is: frozen features of a head have much in common that says "head",
and a little that says whose. So each feature is centred and scaled by its mean and deviation over all images that
show the part; docs/studies/search.md has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpae.errors import MPAEError

ROWS = 65_536  # images whose features are scaled at a time
FEWEST = 8  # images with a part, below which nothing is known of what is usual


@dataclass(frozen=True)
class Match:
    image: int  # its row in parts.jsonl
    part: int  # 1..K
    similarity: float  # cosine, at most 1


@dataclass(frozen=True)
class PartVectors:
    """One part in all images that show it."""

    rows: np.ndarray  # (m,) which images
    mean: np.ndarray  # (E,) of features of length 1
    deviation: np.ndarray  # (E,)
    units: np.ndarray  # (m, E) float32: what differs from the mean, in deviations, scaled to length 1


class PartIndex:
    """The features of every part of every image, ready to be compared.

    A part's features are read when it is first searched for, and kept: about n x E numbers.

    >>> features = np.random.default_rng(0).normal(size=(20, 1, 4))
    >>> index = PartIndex(features, np.ones((20, 1), dtype=bool))
    >>> index.search(index.vector(7, 1), part=1, top=1)
    [Match(image=7, part=1, similarity=1.0)]
    """

    def __init__(self, features: np.ndarray, present: np.ndarray):
        """
        Args:
            features: (n, K, E), possibly mapped into memory.
            present: (n, K) bool.
        """
        self.features, self.present = features, present
        self._vectors: dict[int, PartVectors] = {}

    def vectors(self, part: int) -> PartVectors:
        if part not in self._vectors:
            rows = np.flatnonzero(self.present[:, part - 1])
            units = np.empty((len(rows), self.features.shape[2]), dtype=np.float32)
            for start in range(0, len(rows), ROWS):
                some = rows[start:start + ROWS]
                units[start:start + ROWS] = unit_length(self.features[some, part - 1])
            mean, deviation = np.zeros(units.shape[1], np.float32), np.ones(units.shape[1], np.float32)
            if len(rows) >= FEWEST:
                mean, deviation = units.mean(axis=0), units.std(axis=0).clip(min=1e-6)
            for start in range(0, len(rows), ROWS):
                units[start:start + ROWS] = unit_length((units[start:start + ROWS] - mean) / deviation)
            self._vectors[part] = PartVectors(rows, mean, deviation, units)
        return self._vectors[part]

    def vector(self, image: int, part: int) -> np.ndarray:
        """(E,) of a part in an image of the index."""
        if not self.present[image, part - 1]:
            raise MPAEError("This image does not show that part; choose another one.")
        return np.asarray(self.features[image, part - 1], dtype=np.float32)

    def search(self, vector: np.ndarray, part: int, among: Sequence[int] = (), top: int = 20,
               leave_out: int | None = None) -> list[Match]:
        """The images with the most similar part, best first; each image once.

        Args:
            vector: (E,) features of the part that is looked for.
            part: which of the model's parts that is, 1..K.
            among: the parts among which to look: the members of a joined part; that part alone if not given.
            leave_out: an image that is not to be found: the one that the vector is from.
        """
        width = self.features.shape[2]
        if vector.shape != (width,) or not np.isfinite(vector).all():
            raise MPAEError(f"A part to look for has {width} finite numbers; found an array of shape {vector.shape}.")
        usual = self.vectors(part)
        query = unit_length((unit_length(vector[None]) - usual.mean) / usual.deviation)[0]
        best = np.full(len(self.present), -np.inf, dtype=np.float32)  # (n,)
        of_part = np.zeros(len(self.present), dtype=np.int64)
        for member in among or [part]:
            found = self.vectors(member)
            similarity = found.units @ query  # (m,)
            better = similarity > best[found.rows]
            best[found.rows[better]], of_part[found.rows[better]] = similarity[better], member
        if leave_out is not None:
            best[leave_out] = -np.inf
        top = min(top, int((best > -np.inf).sum()))
        if top <= 0:
            return []
        chosen = np.argpartition(-best, top - 1)[:top]
        chosen = chosen[np.lexsort((chosen, -best[chosen]))]
        return [Match(image, int(of_part[image]), round(float(best[image]), 6)) for image in chosen.tolist()]


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """(m, E) scaled to length 1, float32."""
    vectors = np.asarray(vectors, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-12)
