"""What looks wrong: images whose part is unlike that part elsewhere, or is missing where it nearly always is there.

Both are measured in standard deviations, so that they can stand in one list. For a part that is there: how far its
features lie from the part's mean direction, as a robust z-score. For a missing one: how far a normal variable lies
out that is exceeded as rarely as this part is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from mpae.prediction.search import PartIndex

NEARLY_ALWAYS = 0.9  # share of the images that show a part, from which its absence is worth a look
FAR = 3.0  # standard deviations from which a part looks wrong
FEWEST = 8  # images with a part, below which nothing can be said of what is usual


@dataclass(frozen=True)
class Outlier:
    image: int  # its row in parts.jsonl
    part: int  # 1..K; of a joined part the first
    score: float  # standard deviations
    why: Literal["unlike", "missing"]


def unusualness(index: PartIndex) -> np.ndarray:
    """(n, K) float32: how unlike itself elsewhere each part is, in standard deviations; 0 where it is absent."""
    scores = np.zeros_like(index.present, dtype=np.float32)
    for part in range(1, index.present.shape[1] + 1):
        rows, units = index.units(part)
        if len(rows) >= FEWEST:
            scores[rows, part - 1] = robust_z(1 - units @ _direction(units))
    return scores


def find_outliers(scores: np.ndarray, present: np.ndarray, parts: Sequence[Sequence[int]]) -> list[Outlier]:
    """All outliers, the strangest first.

    Args:
        scores: (n, K) of `unusualness`.
        present: (n, K) bool.
        parts: the members of each part as people see it; a joined one is missing where all its members are.
    """
    found = []
    for members in parts:
        columns = [member - 1 for member in members]
        there: np.ndarray = np.asarray(present[:, columns].any(axis=1))  # (n,)
        strangest = scores[:, columns].max(axis=1)
        found += [Outlier(image, members[int(scores[image, columns].argmax())], round(float(strangest[image]), 2),
                          "unlike")
                  for image in np.flatnonzero(there & (strangest >= FAR)).tolist()]
        often = float(there.mean()) if len(present) else 0.0
        if NEARLY_ALWAYS <= often < 1 and len(present) >= FEWEST:
            score = round(NormalDist().inv_cdf(often) + FAR - NormalDist().inv_cdf(NEARLY_ALWAYS), 2)
            found += [Outlier(image, members[0], score, "missing") for image in np.flatnonzero(~there).tolist()]
    return sorted(found, key=lambda outlier: (-outlier.score, outlier.image, outlier.part))


def robust_z(values: np.ndarray) -> np.ndarray:
    """Distance from the median in standard deviations, as estimated from the median of distances; at least 0.

    >>> robust_z(np.array([1.0, 2.0, 3.0, 4.0, 50.0])).round(1).tolist()
    [0.0, 0.0, 0.0, 0.7, 31.7]
    """
    middle = np.median(values)
    spread = 1.4826 * np.median(np.abs(values - middle))
    return ((values - middle) / max(float(spread), 1e-6)).clip(min=0).astype(np.float32)


def _direction(units: np.ndarray) -> np.ndarray:
    """The mean direction of vectors (m, E) of length 1."""
    mean = units.mean(axis=0)
    return mean / max(float(np.linalg.norm(mean)), 1e-12)
