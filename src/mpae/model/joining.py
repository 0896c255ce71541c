"""Which two become one: clusters that are joined to parts, parts that are joined to fewer (ours).

The two that add least to the sum of squared distances to their common centre (Ward, 1963), among those that do not lie
apart in images. How many patches something has says nothing of whether it is a part of its own: a beak is as good a
part as a wing. How many images show it does. So each counts as one point in every image that shows it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as nnf
from torch import Tensor

BESIDE = 0.01  # share of their contacts with others that two have with each other; with less they lie apart,
TOGETHER = 0.5  # where as large a share of the images that show one of them show both


def costs_of(part_of: Tensor, centres: Tensor, shown: Tensor, contacts: Tensor) -> Tensor:
    """What it costs to join two groups: (k, k).

    That is what the sum of squares grows by; for groups that lie apart it is more than for any others.

    Args:
        part_of: (n,) in 0..k-1, the group of each.
        centres: (n, q).
        shown: (images, n) bool, which images show each.
        contacts: (n, n), how often two of them lie side by side.
    """
    member, weights = nnf.one_hot(part_of).float(), shown.float().mean(dim=0)  # (n, k), (n,)
    total = member.T @ weights  # (k,)
    means = member.T @ (weights[:, None] * centres) / total[:, None].clamp_min(1e-12)  # (k, q)
    costs = added_squares(means, total)
    return torch.where(apart(shown.float() @ member > 0, member.T @ contacts @ member), costs + costs.sum(), costs)


def apart(shown: Tensor, contacts: Tensor) -> Tensor:
    """Which groups lie apart: images that show both are no exception, and they hardly touch there. (k, k) bool.

    Groups that are not seen together may be the same part of two kinds of things. One that no image shows is with all.

    Args:
        shown: (images, k) bool, which images show each.
        contacts: (k, k), how often two of them lie side by side.
    """
    both, each = shown.T.float() @ shown.float(), shown.sum(dim=0).float()  # images: (k, k), (k,)
    together = both >= (TOGETHER * torch.minimum(each[:, None], each)).clamp_min(1)
    return together & (closeness(contacts.clone().fill_diagonal_(0)) < BESIDE)


def added_squares(centres: Tensor, sizes: Tensor) -> Tensor:
    """What the mean squared distance of points to their centres grows by where two become one: (n, n).

    Args:
        centres: (n, q).
        sizes: (n,), the number of points of each.
    """
    share = sizes / sizes.sum().clamp_min(1e-12)
    both = (share[:, None] * share) / (share[:, None] + share).clamp_min(1e-12)
    return both * torch.cdist(centres, centres, compute_mode="donot_use_mm_for_euclid_dist").square()


def least_pair(costs: Tensor) -> Tensor:
    """The pair that costs least becomes one: costs (n, n) -> (n,), the new number of each."""
    above = torch.ones_like(costs).triu(1).bool()
    first, second = divmod(int(torch.where(above, costs, torch.inf).argmin()), len(costs))
    becomes = torch.arange(len(costs))
    becomes[second] = first
    return becomes.unique(return_inverse=True)[1]


def closeness(contacts: Tensor) -> Tensor:
    """How much of its contacts each has with each other one, the geometric mean of both views: (n, n) -> (n, n)."""
    total = contacts.sum(dim=1).clamp_min(1)
    return contacts / (total[:, None] * total).sqrt()


def contacts_of(labels: Tensor, number: int) -> Tensor:
    """How often two parts lie side by side, (number, number), 0 with itself.

    Args:
        labels: (n, h, w) in 0..number-1; anything else is background and does not count.
    """
    contacts = torch.zeros(number, number)
    for first, second in ((labels[:, 1:], labels[:, :-1]), (labels[:, :, 1:], labels[:, :, :-1])):
        both = (first >= 0) & (second >= 0) & (first < number) & (second < number) & (first != second)
        counts = torch.bincount(first[both] * number + second[both], minlength=number**2).float()
        contacts += counts.unflatten(0, (number, number))
    return contacts + contacts.T
