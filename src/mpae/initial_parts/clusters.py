"""Parts as clusters: a vote of many results of k-means in two rounds, which needs little luck.

Which result of k-means has the least sum of squares is decided by rounding: many are nearly as good, and each cuts some
part in two at another place. So small groups of results vote for the cluster of each patch, the clusters of a group are
joined to parts, and the groups vote for the part of each patch. What they agree on hardly depends on seed, machine or
choice of images.

Parts are joined from finer clusters (`model/joining.py`), for a few large ones at once are another thing: the whole
head is one then. How fine is luck too, so there are groups of several numbers of clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import Tensor

from mpae.initial_parts.coordinates import nearest
from mpae.initial_parts.k_means import centres_of, restarted
from mpae.model.joining import contacts_of, costs_of, least_pair

MORE = (8, 12, 16)  # clusters than parts
LEAST_PARTS = 12  # for fewer parts as many clusters as for these
RESTARTS = 20  # of k-means, for each number of clusters
GROUPS = 10  # that vote for parts, of each number of clusters
GROUP = 8  # restarts, drawn at random, that vote for the clusters of a group
FEW = 8  # parts; fewer are made in pairs at last, for one would swallow the others


def parts_of(points: Tensor, inside: Tensor, num_parts: int, grid: tuple[int, int], seed: int) -> tuple[Tensor, Tensor]:
    """Centres of clusters (n, q), and the part that each belongs to (n,).

    Args:
        points: (images, N, q).
        inside: (images, N) bool, the foreground.
    """
    points = points[inside]  # (m, q)
    groups = []  # of centres (n, q), their parts (n,), and the part of each patch (m,)
    for number in clusters_for(num_parts):
        for centres in agreed_centres(points, number, seed):
            own = nearest(points, centres)  # (m,)
            everywhere = torch.full(inside.shape, -1).masked_scatter(inside, own)  # (images, N)
            contacts = contacts_of(everywhere.unflatten(1, grid), number)
            part_of = joined(centres, shown_in(everywhere, number), contacts, num_parts)
            groups.append((centres, part_of, part_of[own]))
    agreed, first = majority([parts for _, _, parts in groups], num_parts)  # (m,)
    centres, part_of, _ = groups[first]
    sizes = part_of.bincount(minlength=num_parts)  # clusters of each part
    if (agreed.bincount(minlength=num_parts) < sizes).any():  # a part that was outvoted
        return centres, part_of
    refined = [centres_of(points[agreed == part], int(size), seed, RESTARTS) for part, size in enumerate(sizes)]
    return torch.cat(refined), torch.arange(num_parts).repeat_interleave(sizes)


def agreed_centres(points: Tensor, number: int, seed: int) -> Iterator[Tensor]:
    """Centres (number, q) of clusters of points (m, q) for which groups of restarts vote, one for each group."""
    found = [torch.from_numpy(each.centres) for each in restarted(points, number, seed, RESTARTS)]
    labels = [nearest(points, centres) for centres in found]  # (m,) each
    random = np.random.default_rng(seed)
    for _ in range(GROUPS):
        agreed, _ = majority([labels[place] for place in random.permutation(RESTARTS)[:GROUP]], number)
        sizes = agreed.bincount(minlength=number)
        yield torch.zeros(number, points.shape[1]).index_add(0, agreed, points) / sizes[:, None].clamp_min(1)


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


def clusters_for(num_parts: int) -> tuple[int, ...]:
    """How many clusters K parts are made from, rising.

    >>> clusters_for(8), clusters_for(32)
    ((20, 24, 28), (40, 44, 48))
    """
    return tuple(max(num_parts, LEAST_PARTS) + more for more in MORE)


def shown_in(labels: Tensor, number: int) -> Tensor:
    """Which images show each cluster: labels (images, N), -1 for the background -> (images, number) bool."""
    return torch.stack([(labels == cluster).any(dim=1) for cluster in range(number)], dim=1)


def joined(centres: Tensor, shown: Tensor, contacts: Tensor, num_parts: int) -> Tensor:
    """The part that each cluster becomes, (n,).

    Step by step, whichever two cost least; the last step of a FEW parts is in pairs, all at once.

    Args:
        centres: (n, q).
        shown: (images, n) bool, which images show each.
        contacts: (n, n), how often two of them lie side by side.
    """
    part_of = torch.arange(len(centres))
    for _ in range(len(centres) - (2 * num_parts if num_parts < FEW else num_parts)):
        part_of = least_pair(costs_of(part_of, centres, shown, contacts))[part_of]
    return in_pairs(costs_of(part_of, centres, shown, contacts), num_parts)[part_of]


def in_pairs(costs: Tensor, number: int) -> Tensor:
    """The pairs that cost least become one until `number` are left: costs (n, n), n <= 2 number -> (n,), the new number
    of each.

    Each is in one pair at most, so that none swallows all the others.
    """
    import networkx

    if len(costs) == number:
        return torch.arange(number)
    graph = networkx.Graph()
    graph.add_weighted_edges_from((i, j, -float(costs[i, j])) for i in range(len(costs)) for j in range(i))
    matching = networkx.max_weight_matching(graph, maxcardinality=True)
    becomes = torch.arange(len(costs))
    chosen = sorted(map(sorted, matching), key=lambda pair: float(costs[pair[0], pair[1]]))
    for i, j in chosen[: len(costs) - number]:
        becomes[j] = i
    return becomes.unique(return_inverse=True)[1]
