"""Clusters for initial_parts: k-means that may give parts of different sizes, and neighbours joined."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mpae.initial_parts.k_means import k_means, subsample

RESTARTS = 8  # of the k-means of parts
SQUARES = 10.0  # what the sum of squares counts in the choice between them, against the entropy of their sizes


def clusters(points: Tensor, number: int, seed: int, restarts: int = 1, most: int = 30_000) -> Tensor:
    """Centres (number, q) of points (m, q)."""
    chosen = subsample(points.numpy(), most, seed).astype(np.float32)
    return torch.from_numpy(k_means(chosen, number, seed, restarts, most).centres)


def uneven_clusters(points: Tensor, number: int, seed: int) -> Tensor:
    """Of several results of k-means one whose clusters differ much in size.

    k-means would have all alike; beak and eye are small and wing is large. By the sum of squares alone, the results
    are hardly told apart (docs/laptop.md).
    """
    found = [clusters(points, number, seed * RESTARTS + restart) for restart in range(RESTARTS)]
    distances = [torch.cdist(points, centres) for centres in found]  # each (m, number)
    squares = torch.stack([each.amin(dim=1).square().mean() for each in distances])
    costs = SQUARES * squares / squares.min() + torch.stack([entropy_of_sizes(each) for each in distances])
    return found[int(costs.argmin())]


def entropy_of_sizes(distances: Tensor) -> Tensor:
    """Of the clusters, from the distances of points to their centres (m, n)."""
    sizes = torch.bincount(distances.argmin(dim=1), minlength=distances.shape[1]) / len(distances)
    return torch.special.entr(sizes).sum()


def side_by_side(labels: Tensor, number: int) -> Tensor:
    """How much of its contacts with others each cluster has with each other one, the geometric mean of both views:
    (number, number), 0 with itself.

    Args:
        labels: (n, h, w), the cluster of each patch, -1 on the background.
    """
    contacts = torch.zeros(number, number)
    for first, second in ((labels[:, 1:], labels[:, :-1]), (labels[:, :, 1:], labels[:, :, :-1])):
        both = (first >= 0) & (second >= 0) & (first != second)
        counts = torch.bincount(first[both] * number + second[both], minlength=number**2).float()
        contacts += counts.unflatten(0, (number, number))
    contacts = contacts + contacts.T
    total = contacts.sum(dim=1).clamp_min(1)
    return contacts / (total[:, None] * total).sqrt()


def joined(nearby: Tensor, most: int) -> Tensor:
    """The nearest pairs become one, `most` of them at most: how near (n, n) -> (n,), the new number of each.

    Each is in one pair at most, so that none swallows all the others.
    """
    import networkx

    graph = networkx.Graph()
    graph.add_weighted_edges_from((i, j, float(nearby[i, j])) for i in range(len(nearby)) for j in range(i))
    matching = networkx.max_weight_matching(graph, maxcardinality=True)
    becomes = torch.arange(len(nearby))
    for i, j in sorted(map(sorted, matching), key=lambda pair: -float(nearby[pair[0], pair[1]]))[:most]:
        becomes[j] = i
    return becomes.unique(return_inverse=True)[1]
