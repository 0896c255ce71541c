"""Which two become one, by loops and by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mpae.model.joining import BESIDE, added_squares, apart, contacts_of, costs_of, least_pair


def test_contacts_by_hand() -> None:
    labels = torch.tensor([[[0, 1, 3], [0, 1, 2]]])  # 3 is the background
    assert contacts_of(labels, 3).tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]


def test_the_pair_that_costs_least() -> None:
    costs = torch.tensor([[0, 4.0, 1.0], [4.0, 0, 2.0], [1.0, 2.0, 0]])
    assert least_pair(costs).tolist() == [0, 1, 0]


def test_added_squares_by_a_loop() -> None:
    """What the squared distances to the centre of both grow by, over all points."""
    clusters = [torch.randn(size, 3) for size in (4, 7, 2)]

    def squares(points: Tensor) -> float:
        return float((points - points.mean(dim=0)).square().sum())

    found = added_squares(torch.stack([each.mean(dim=0) for each in clusters]), torch.tensor([4, 7, 2]))
    for i, first in enumerate(clusters):
        for j, second in enumerate(clusters):
            grown = squares(torch.cat([first, second])) - squares(first) - squares(second) if i != j else 0.0
            assert float(found[i, j]) == pytest.approx(grown / 13, abs=1e-5)


def test_costs_of_joining_groups_of_clusters_by_a_loop() -> None:
    """What the squared distances to the centre of a group grow by, each cluster as heavy as the images that show it;
    more than anything else where groups lie apart."""
    torch.manual_seed(0)
    centres, shown, part_of = torch.randn(5, 3), torch.rand(20, 5) < 0.8, torch.tensor([0, 1, 0, 2, 2])
    weights, contacts = shown.float().mean(dim=0), torch.ones(5, 5).fill_diagonal_(0)

    def squares(groups: set[int]) -> float:
        chosen = torch.tensor([int(part) in groups for part in part_of])
        weight = weights[chosen, None]
        mean = (weight * centres[chosen]).sum(0) / weight.sum()
        return float((weight * (centres[chosen] - mean).square()).sum() / weights.sum())

    costs = costs_of(part_of, centres, shown, contacts)
    for i in range(3):
        for j in range(i):
            assert float(costs[i, j]) == pytest.approx(squares({i, j}) - squares({i}) - squares({j}), abs=1e-5)
    contacts[1, 3:] = contacts[3:, 1] = BESIDE / 10  # groups 1 and 2
    dearer = costs_of(part_of, centres, shown, contacts)
    assert dearer[0, 1] == costs[0, 1]
    assert dearer[1, 2] > costs.max()


def test_apart_is_what_is_seen_together_and_does_not_touch() -> None:
    shown = torch.zeros(10, 4, dtype=torch.bool)
    shown[:, 0] = shown[:6, 1] = shown[6:, 2] = shown[:3, 3] = True  # 1 and 2 never, 3 with 0 and 1
    contacts = torch.tensor([[0, 50, 40, 0], [50, 0, 0, 9], [40, 0, 0, 0], [0, 9, 0, 0]]).float()
    expected = torch.zeros(4, 4, dtype=torch.bool)
    expected[0, 3] = expected[3, 0] = True
    assert apart(shown, contacts).fill_diagonal_(False).equal(expected)
    shown[2:, 3] = True  # now 3 is seen with 2 too, in four of the four images that show 2
    assert apart(shown, contacts)[2, 3]
