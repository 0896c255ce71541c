"""Parts as clusters: neighbours joined, and a vote of many results of k-means, which needs little luck.

Which result of k-means has the least sum of squares is decided by rounding: many are nearly as good, and each cuts some
part in two at another place. What most of them agree on hardly depends on seed, machine or choice of images.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as nnf
from torch import Tensor

from mpae.initial_parts.coordinates import in_chunks, nearest
from mpae.initial_parts.k_means import centres_of, restarted
from mpae.model.hierarchy import closeness, contacts_of

RESTARTS = 20  # of k-means, which vote for the part of each patch
FINEST = 16  # clusters that parts are joined from, at most


def parts_of(points: Tensor, inside: Tensor, num_parts: int, grid: tuple[int, int], seed: int) -> tuple[Tensor, Tensor]:
    """Centres of clusters (n, q), and the part that each belongs to (n,).

    Args:
        points: (images, N, q).
        inside: (images, N) bool, the foreground.
    """
    chosen = points[inside]  # (patches, q)
    found = [torch.from_numpy(each.centres) for each in restarted(chosen, clusters_for(num_parts), seed, RESTARTS)]
    part_of = [joined_neighbours(points, inside, centres, num_parts, grid) for centres in found]
    agreed, first = majority([its[nearest(chosen, centres)] for centres, its in zip(found, part_of, strict=True)],
                             num_parts)  # (patches,)
    sizes = part_of[first].bincount(minlength=num_parts)  # clusters of each part
    if (agreed.bincount(minlength=num_parts) < sizes).any():  # a part that was outvoted
        return found[first], part_of[first]
    centres = torch.cat([centres_of(chosen[agreed == part], int(size), seed, RESTARTS)
                         for part, size in enumerate(sizes)])
    return centres, torch.arange(num_parts).repeat_interleave(sizes)


def joined_neighbours(points: Tensor, inside: Tensor, centres: Tensor, num_parts: int,
                      grid: tuple[int, int]) -> Tensor:
    """The part, 0..num_parts-1, of each of the clusters with these centres (n, q): (n,)."""
    labels = torch.where(inside, in_chunks(lambda part: nearest(part, centres), points), -1)
    return joined(side_by_side(labels.unflatten(1, grid), len(centres)), len(centres) - num_parts)


def majority(labellings: Sequence[Tensor], number: int) -> tuple[Tensor, int]:
    """The label that most of several labellings (n,) in 0..number-1 give each point, and the place of the labelling
    that agrees most with the others.

    Labels mean something only within a labelling: each is renamed so that it agrees with that one as far as it can.
    """
    alike = torch.tensor([[float((renamed(other, labels, number) == labels).sum()) for other in labellings]
                          for labels in labellings])
    first = int(alike.sum(dim=1).argmax())
    votes = sum(nnf.one_hot(renamed(labels, labellings[first], number), number) for labels in labellings)
    return torch.as_tensor(votes).argmax(dim=1), first


def renamed(labels: Tensor, like: Tensor, number: int) -> Tensor:
    """The same labelling under the numbers with which it agrees most with another: (n,), (n,) -> (n,)."""
    from scipy.optimize import linear_sum_assignment

    both = (labels * number + like).bincount(minlength=number**2).unflatten(0, (number, number))
    return torch.from_numpy(linear_sum_assignment(both.numpy(), maximize=True)[1])[labels]


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
