"""Parts as clusters: a vote of many results of k-means in two rounds, which needs little luck.

Which result of k-means has the least sum of squares is decided by rounding: many are nearly as good, and each cuts some
part in two at another place. So small groups of results vote for the cluster of each patch, the clusters of a group are
joined in pairs to parts, and the groups vote for the part of each patch. What they agree on hardly depends on seed,
machine or choice of images.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import Tensor

from mpae.initial_parts.coordinates import nearest
from mpae.initial_parts.k_means import centres_of, restarted
from mpae.model.hierarchy import closeness, contacts_of

RESTARTS = 40  # of k-means
GROUPS = 20  # that vote for parts
GROUP = 8  # restarts, drawn at random, that vote for the clusters of a group
FINEST = 16  # clusters that parts are joined from, at most
BESIDE = 0.01  # share of their contacts with others that two clusters have with each other; with less they lie apart


def parts_of(points: Tensor, inside: Tensor, num_parts: int, grid: tuple[int, int], seed: int) -> tuple[Tensor, Tensor]:
    """Centres of clusters (n, q), and the part that each belongs to (n,).

    Args:
        points: (images, N, q).
        inside: (images, N) bool, the foreground.
    """
    points, number = points[inside], clusters_for(num_parts)  # (m, q)
    found = [torch.from_numpy(each.centres) for each in restarted(points, number, seed, RESTARTS)]
    labels = [nearest(points, centres) for centres in found]  # (m,) each
    random = np.random.default_rng(seed)
    groups = []  # of centres (n, q), their parts (n,), and the part of each patch (m,)
    for _ in range(GROUPS):
        agreed, _ = majority([labels[place] for place in random.permutation(RESTARTS)[:GROUP]], number)
        sizes = agreed.bincount(minlength=number)
        centres = torch.zeros(number, points.shape[1]).index_add(0, agreed, points) / sizes[:, None].clamp_min(1)
        own, costs = nearest(points, centres), added_squares(centres, sizes)  # (m,), (n, n)
        beside = side_by_side(own, inside, grid, number) >= BESIDE
        part_of = joined(torch.where(beside, costs, costs + costs.sum()), number - num_parts)
        groups.append((centres, part_of, part_of[own]))
    agreed, first = majority([parts for _, _, parts in groups], num_parts)  # (m,)
    centres, part_of, _ = groups[first]
    sizes = part_of.bincount(minlength=num_parts)  # clusters of each part
    if (agreed.bincount(minlength=num_parts) < sizes).any():  # a part that was outvoted
        return centres, part_of
    refined = [centres_of(points[agreed == part], int(size), seed, RESTARTS) for part, size in enumerate(sizes)]
    return torch.cat(refined), torch.arange(num_parts).repeat_interleave(sizes)


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


def added_squares(centres: Tensor, sizes: Tensor) -> Tensor:
    """What the mean squared distance of points to their centres grows by where two clusters become one (Ward, 1963):
    (n, n).

    Args:
        centres: (n, q).
        sizes: (n,), the number of points of each.
    """
    share = sizes / sizes.sum()
    both = (share[:, None] * share) / (share[:, None] + share).clamp_min(1e-12)
    return both * torch.cdist(centres, centres, compute_mode="donot_use_mm_for_euclid_dist").square()


def side_by_side(labels: Tensor, inside: Tensor, grid: tuple[int, int], number: int) -> Tensor:
    """How much of its contacts with others each cluster has with each other one, the geometric mean of both views:
    (number, number), 0 with itself.

    Args:
        labels: (m,), the cluster of each patch of the foreground `inside` (images, N) bool.
    """
    everywhere = torch.full(inside.shape, -1).masked_scatter(inside, labels)  # (images, N)
    return closeness(contacts_of(everywhere.unflatten(1, grid), number))


def joined(costs: Tensor, most: int) -> Tensor:
    """The pairs that cost least become one, `most` of them at most: costs (n, n) -> (n,), the new number of each.

    Each is in one pair at most, so that none swallows all the others.
    """
    import networkx

    graph = networkx.Graph()
    graph.add_weighted_edges_from((i, j, -float(costs[i, j])) for i in range(len(costs)) for j in range(i))
    matching = networkx.max_weight_matching(graph, maxcardinality=True)
    becomes = torch.arange(len(costs))
    for i, j in sorted(map(sorted, matching), key=lambda pair: float(costs[pair[0], pair[1]]))[:most]:
        becomes[j] = i
    return becomes.unique(return_inverse=True)[1]
