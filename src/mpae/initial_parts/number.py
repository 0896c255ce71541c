"""How many parts? As many as are found again in other images (`mpae fit --parts auto`).

The images are drawn into two halves, parts are found in each, and both label the foreground of all images. Parts that
are there are the same in both; parts that a clustering made up are not. Agreement is the adjusted Rand index, which is
0 by chance whatever the number of parts. It is high for very few parts and falls as parts are cut at will, so the
largest number that agrees nearly as well as the best is taken.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from mpae.devices import one_thread
from mpae.initial_parts.coordinates import nearest
from mpae.initial_parts.find import Foreground, Progress, find_foreground
from mpae.initial_parts.k_means import centres_of

NUMBERS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)  # of parts that are tried
DRAWS = 3  # of halves
IMAGES = 200  # training images that are looked at, at even distances
RESTARTS = 5  # of the k-means of a half
POINTS = 6_000  # patches of a half that are clustered
NEARLY = 0.9  # of the best agreement


@one_thread()
def agreement_curve(maps: Tensor, seed: int, progress: Progress = lambda *_: None) -> dict[int, float] | None:
    """Agreement for each number of parts, from frozen features (n, E, h, w); None where there is no common object."""
    found = find_foreground(maps, seed, max(NUMBERS))
    if found is None:
        return None
    curve: dict[int, float] = {}
    for done, number in enumerate(NUMBERS):
        progress("how many parts", done, len(NUMBERS))
        curve[number] = round(float(np.mean([agreement(found, number, seed + draw) for draw in range(DRAWS)])), 4)
    progress("how many parts", len(NUMBERS), len(NUMBERS))
    return curve


def agreement(found: Foreground, number: int, seed: int) -> float:
    """Adjusted Rand index between the parts of one half of the images and those of the other."""
    from sklearn.metrics import adjusted_rand_score

    order = np.random.default_rng(seed).permutation(len(found.points))
    asked, labels = found.points[found.inside], []
    for half in np.array_split(order, 2):
        centres = centres_of(found.points[half][found.inside[half]], number, seed, RESTARTS, POINTS)
        labels.append(nearest(asked, centres).numpy())
    return float(adjusted_rand_score(*labels))


def number_of_parts(curve: dict[int, float]) -> int:
    """The largest number that agrees nearly as well as the best.

    >>> number_of_parts({2: 0.9, 4: 0.95, 8: 0.87, 16: 0.6})
    8
    """
    best = max(curve.values())
    return max(number for number, value in curve.items() if value >= NEARLY * best)
