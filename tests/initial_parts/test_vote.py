"""Votes of normalised cuts, on graphs and features made on the spot."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mpae.initial_parts.coordinates import unit_tokens
from mpae.initial_parts.vote import SIDE, agreement, cut, find_votes, halves, object_side, sums_of_images, vote

GRID = 8


def squares(count: int, seed: int, leave: bool = False) -> tuple[Tensor, Tensor]:
    """Features (n, E, h, w) of a square on a ground, and where it is (n, h, w); with `leave` it touches the edge."""
    generator = torch.Generator().manual_seed(seed)
    inside = torch.zeros(count, GRID, GRID, dtype=torch.bool)
    for image in range(count):
        top = int(torch.randint(1, 4, (1,), generator=generator))
        left = 0 if leave else int(torch.randint(1, 4, (1,), generator=generator))
        inside[image, top:top + 4, left:left + 4] = True
    kinds = torch.eye(6)[torch.where(inside, 0, 1 + torch.arange(count)[:, None, None] % 3)]  # (n, h, w, 6)
    maps = kinds + 0.05 * torch.randn(kinds.shape, generator=generator)
    return maps.permute(0, 3, 1, 2), inside


def test_halves_of_two_blocks() -> None:
    edges = torch.zeros(1, 6, 6, dtype=torch.bool)
    edges[:, :2, :2] = edges[:, 2:, 2:] = True
    side = halves(edges)[0]
    assert side[:2].unique().numel() == side[2:].unique().numel() == 1
    assert side[0] != side[5]


def test_object_is_the_side_with_less_of_the_ring() -> None:
    middle = torch.zeros(4, 4, dtype=torch.bool)
    middle[1:3, 1:3] = True
    for side in (middle, ~middle):
        assert torch.equal(object_side(side.flatten()[None], (4, 4))[0], middle.flatten())


def test_cuts_find_the_square() -> None:
    maps, inside = squares(8, seed=0)
    assert ((cut(maps) > 0.5) == inside.flatten(1)).float().mean() > 0.98


def test_a_large_map_is_cut_in_small() -> None:
    maps, inside = squares(2, seed=0)
    large = maps.repeat_interleave(5, dim=2).repeat_interleave(5, dim=3)
    assert large.shape[2] > SIDE
    wanted = inside.repeat_interleave(5, dim=1).repeat_interleave(5, dim=2).flatten(1)
    assert ((cut(large) > 0.5) == wanted).float().mean() > 0.9


def test_votes_hold_where_an_object_leaves_the_frame() -> None:
    votes, agreed = find_votes(squares(40, seed=1)[0], seed=0)
    maps, inside = squares(10, seed=2, leave=True)
    assert agreed > 0.9
    assert ((vote(unit_tokens(maps), votes) > 0.5) == inside.flatten(1)).float().mean() > 0.99


def test_votes_have_no_scale() -> None:
    maps = squares(20, seed=1)[0]
    small, large = (vote(unit_tokens(each), find_votes(each, seed=0)[0]) for each in (maps, 100 * maps))
    assert small.allclose(large, atol=1e-4)


def test_agreement_by_hand() -> None:
    """Context 0 is object in both images and 1 in neither: each foretells the other."""
    labels = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])
    assert agreement(labels, (labels == 0).float(), 2) == pytest.approx(1.0)
    assert agreement(labels, torch.tensor([[1.0, 1, 0, 0], [0, 1, 1, 1]]), 2) < 0


def test_a_context_of_one_image_foretells_nothing() -> None:
    labels, cuts = torch.tensor([[0, 0], [1, 1]]), torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert agreement(labels, cuts, 2) == pytest.approx(0.0)


def test_sums_of_images_by_hand() -> None:
    sums, counts = sums_of_images(torch.tensor([[0, 2, 2]]), torch.tensor([[1.0, 0.5, 0.25]]), 3)
    assert sums.tolist() == [[1.0, 0.0, 0.75]]
    assert counts.tolist() == [[1.0, 0.0, 2.0]]
