"""Parts as clusters: k-means that needs no luck, and neighbours joined."""

from __future__ import annotations

import torch
from torch import Tensor

from mpae.initial_parts.coordinates import in_chunks, nearest
from mpae.initial_parts.k_means import centres_of
from mpae.model.hierarchy import closeness, contacts_of

RESTARTS = 20  # of the k-means of parts, of which the one with the least sum of squares is taken
FINEST = 16  # clusters that parts are joined from, at most


def parts_of(points: Tensor, inside: Tensor, num_parts: int, grid: tuple[int, int], seed: int) -> tuple[Tensor, Tensor]:
    """Centres of clusters (n, q), and the part that each belongs to (n,).

    Args:
        points: (images, N, q).
        inside: (images, N) bool, the foreground.
    """
    number = clusters_for(num_parts)
    centres = centres_of(points[inside], number, seed, RESTARTS)
    labels = torch.where(inside, in_chunks(lambda part: nearest(part, centres), points), -1)
    return centres, joined(side_by_side(labels.unflatten(1, grid), number), number - num_parts)


def clusters_for(num_parts: int) -> int:
    """How many clusters K parts are made from."""
    return max(num_parts, min(2 * num_parts, FINEST))


def side_by_side(labels: Tensor, number: int) -> Tensor:
    """How much of its contacts with others each cluster has with each other one, the geometric mean of both views:
    (number, number), 0 with itself.

    Args:
        labels: (n, h, w), the cluster of each patch, -1 on the background.
    """
    return closeness(contacts_of(labels, number))


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
