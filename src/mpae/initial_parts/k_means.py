"""k-means, the same on every machine for the same seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

RESTARTS = 10
DESCRIPTORS = 20_000  # as many are clustered; more change the centres little


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


def centres_of(points: Tensor, number: int, seed: int, restarts: int = 1, most: int = DESCRIPTORS) -> Tensor:
    """Centres (number, q) of points (m, q)."""
    chosen = subsample(points.numpy(), most, seed).astype(np.float32)
    return torch.from_numpy(k_means(chosen, number, seed, restarts, most).centres)


def subsample(descriptors: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most so many rows, drawn at random without repetition."""
    if len(descriptors) <= most:
        return descriptors
    return descriptors[np.random.default_rng(seed).permutation(len(descriptors))[:most]]


def squared_distances(descriptors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(m, E) and (n, E) -> (m, n)."""
    squares = (descriptors ** 2).sum(1)[:, None] + (centres ** 2).sum(1)
    return np.maximum(squares - 2 * descriptors @ centres.T, 0)
