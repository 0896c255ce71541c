"""What looks wrong: images whose part is unlike that part elsewhere, or is missing where it nearly always is there.

Both are one measure. The frozen features of a part are known in every image, even where no pixel went to the part: then
they are those of the places that are most like it. How far they lie from what is usual, in standard deviations:

    d^2 = (f - m)^T (C + s I)^-1 (f - m),    z = how far d^(2/3) lies above its median

with m and C the median and covariance of the part's features where it is there, and s thrice the mean variance. A sum
of squares to the power 1/3 is nearly normal (Wilson and Hilferty), so a bound on z gives the share of ordinary images
above it. docs/studies/search.md has what that share really is, and how high tampered photos rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from mpae.prediction.search import FEWEST, ROWS, PartIndex, unit_length

NEARLY_ALWAYS = 0.9  # share of the images that show a part, from which its absence is worth a look
FALSE_ALARMS = 0.01  # share of ordinary images in which any of their parts is listed, if z is normal
SHRINKAGE = 3.0  # of the mean variance, that is added to each


@dataclass(frozen=True)
class Outlier:
    image: int  # its row in parts.jsonl
    part: int  # 1..K; of a joined part the member that is strangest
    score: float  # standard deviations
    why: Literal["unlike", "missing"]


def unusualness(index: PartIndex) -> np.ndarray:
    """(n, K) float32: how unlike itself elsewhere each part is, in standard deviations; at least 0."""
    scores = np.zeros(index.present.shape, dtype=np.float32)
    for part in range(index.present.shape[1]):
        there = index.present[:, part]
        if there.sum() >= FEWEST:
            scores[:, part] = robust_z(distances(index.features[:, part], there) ** (2 / 3), there)
    return scores


def distances(features: np.ndarray, there: np.ndarray) -> np.ndarray:
    """d (n,) of a part's features (n, E) from what they are in the images where it is ``there`` (n,)."""
    rows = np.flatnonzero(there)
    usual = unit_length(features[rows[::len(rows) // ROWS + 1]])  # (m, E)
    middle = np.median(usual, axis=0)
    variances, axes = np.linalg.eigh(np.cov(usual, rowvar=False, bias=True))  # (E,), (E, E)
    whiten = axes / np.sqrt(variances.clip(min=0) + max(SHRINKAGE * float(variances.mean()), 1e-12))
    found = np.empty(len(features), dtype=np.float64)
    for start in range(0, len(features), ROWS):
        away = unit_length(features[start:start + ROWS]) - middle
        found[start:start + ROWS] = np.linalg.norm(away @ whiten, axis=1)
    return found


def find_outliers(scores: np.ndarray, present: np.ndarray, parts: Sequence[Sequence[int]]) -> list[Outlier]:
    """All outliers, the strangest first.

    Args:
        scores: (n, K) of `unusualness`.
        present: (n, K) bool.
        parts: the members of each part as people see it; a joined one is missing where all its members are.
    """
    far = far_for(present.shape[1])
    found = []
    for members in parts:
        columns = [member - 1 for member in members]
        there: np.ndarray = np.asarray(present[:, columns].any(axis=1))  # (n,)
        expected = len(present) and float(there.mean()) >= NEARLY_ALWAYS
        # of a joined part that is there, the members that are; of a missing one, the member most like itself
        unlike = np.where(present[:, columns], scores[:, columns], 0)
        missing = scores[:, columns]
        for image in np.flatnonzero(there & (unlike.max(axis=1) >= far)).tolist():
            worst = int(unlike[image].argmax())
            found.append(Outlier(image, members[worst], round(float(unlike[image, worst]), 2), "unlike"))
        for image in np.flatnonzero(~there & (missing.min(axis=1) >= far)).tolist() if expected else ():
            least = int(missing[image].argmin())
            found.append(Outlier(image, members[least], round(float(missing[image, least]), 2), "missing"))
    return sorted(found, key=lambda outlier: (-outlier.score, outlier.image, outlier.part))


def far_for(num_parts: int) -> float:
    """Standard deviations from which one of K parts looks wrong.

    >>> round(far_for(8), 2)
    3.02
    """
    return NormalDist().inv_cdf(1 - FALSE_ALARMS / num_parts)


def robust_z(values: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Distance above the median of the ``usual`` (n,) values in standard deviations, as estimated from the median of
    their distances; at least 0.

    >>> robust_z(np.array([1.0, 2.0, 3.0, 4.0, 50.0]), np.ones(5, dtype=bool)).round(1).tolist()
    [0.0, 0.0, 0.0, 0.7, 31.7]
    """
    middle = np.median(values[usual])
    spread = 1.4826 * np.median(np.abs(values[usual] - middle))
    return ((values - middle) / max(float(spread), 1e-6)).clip(min=0).astype(np.float32)
