"""k-means, the same on every machine for the same seed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mpae.cores import available_cores

RESTARTS = 10
DESCRIPTORS = 20_000  # as many are clustered; more change the centres little
FIRST = 4_000  # among as many the first centres are chosen


class Clusters(NamedTuple):
    centres: np.ndarray  # (n, E) float32
    spread: float  # mean squared distance of a descriptor to its centre


def k_means(descriptors: np.ndarray, number: int, seed: int, restarts: int = RESTARTS,
            most: int = DESCRIPTORS) -> Clusters:
    """k-means of (m, E) descriptors; the same on every machine for the same seed."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # sums in one order; and many small steps are slower in several threads
        found = KMeans(number, n_init=restarts, random_state=seed).fit(subsample(descriptors, most, seed))
    return Clusters(found.cluster_centers_.astype(np.float32), found.inertia_ / len(found.labels_))


def centres_of(points: Tensor, number: int, seed: int, restarts: int = 1, most: int = DESCRIPTORS,
               rounds: int = 300) -> Tensor:
    """Centres (number, q) of points (m, q): the best of some restarts."""
    return torch.from_numpy(restarted(points, number, seed, restarts, most, rounds)[0].centres)


def restarted(points: Tensor, number: int, seed: int, restarts: int, most: int = DESCRIPTORS,
              rounds: int = 300) -> list[Clusters]:
    """The results of some restarts, which share the cores between them; the least sum of squares first.

    First centres are chosen among a few points: among all it takes longer than the rest.
    """
    from sklearn.cluster import kmeans_plusplus
    from threadpoolctl import threadpool_limits

    chosen = subsample(points.numpy(), most, seed).astype(np.float32)
    few, random = subsample(chosen, FIRST, seed), np.random.RandomState(seed)
    with threadpool_limits(1), ThreadPoolExecutor(min(restarts, available_cores())) as pool:
        starts = [kmeans_plusplus(few, number, random_state=random)[0] for _ in range(restarts)]
        found = pool.map(lambda start: k_means_from(start, chosen, rounds), starts)
        return sorted(found, key=lambda each: each.spread)


def k_means_from(start: np.ndarray, descriptors: np.ndarray, rounds: int) -> Clusters:
    """From given first centres (n, E)."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="openmp"):  # OpenMP counts threads for each thread that calls it
        found = KMeans(len(start), init=start, n_init=1, max_iter=rounds).fit(descriptors)
    return Clusters(found.cluster_centers_, found.inertia_ / len(descriptors))


def subsample(descriptors: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most so many rows, drawn at random without repetition."""
    if len(descriptors) <= most:
        return descriptors
    return descriptors[np.random.default_rng(seed).permutation(len(descriptors))[:most]]


def squared_distances(descriptors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(m, E) and (n, E) -> (m, n)."""
    squares = (descriptors ** 2).sum(1)[:, None] + (centres ** 2).sum(1)
    return np.maximum(squares - 2 * descriptors @ centres.T, 0)
