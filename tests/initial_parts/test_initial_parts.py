"""Initial parts from features made on the spot: a disc of four quarters with an outline, on several backgrounds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mpae.initial_parts.clusters import joined, side_by_side, uneven_clusters
from mpae.initial_parts.coordinates import between_images, centred, unit_tokens
from mpae.initial_parts.find import (
    InitialParts,
    clusters_for,
    fit_initial_parts,
    gathered_logits,
    rare_on_ring,
    relative_spread,
    without_outline,
)

GRID, WIDTH, BACKGROUNDS = 12, 24, 3
OUTLINE, BACKGROUND = 4, 5


def scenes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Features (n, E, h, w), and what lies where (n, h, w): quarters 0..3, outline 4, background 5.

    Every image adds a vector of its own to the whole object, as a kind of bird does; it is as long as what
    tells the quarters apart.
    """
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(0)))[0]
    maps, labels = [], []
    for number in range(count):
        x0, y0 = torch.randint(4, 8, (2,), generator=generator).tolist()
        y, x = torch.meshgrid(torch.arange(GRID), torch.arange(GRID), indexing="ij")
        radius = ((x - x0) ** 2 + (y - y0) ** 2).sqrt()
        label = (2 * (y > y0) + (x > x0)).long()
        label[radius > 2.3] = OUTLINE
        label[radius > 3.3] = BACKGROUND
        own = torch.randn(8, generator=generator) @ basis[12:20]
        what = torch.stack([*(basis[0] * 2 + basis[1 + part] + own / own.norm() for part in range(4)),
                            basis[0] + basis[6] * 1.5, basis[7 + number % BACKGROUNDS] * 2])
        maps.append(what[label] + 0.1 * torch.randn(GRID, GRID, WIDTH, generator=generator))
        labels.append(label)
    return torch.stack(maps).permute(0, 3, 1, 2), torch.stack(labels)


@pytest.fixture(scope="module")
def found() -> dict[str, Tensor]:
    tensors = fit_initial_parts(scenes(60, seed=1)[0].half(), num_parts=4, seed=0)
    assert tensors is not None
    return tensors


def test_quarters_are_parts_and_outline_is_background(found: dict[str, Tensor]) -> None:
    maps, truth = scenes(20, seed=2)
    initial_parts = InitialParts(found)(maps)
    assert initial_parts.shape == (20, 5, GRID, GRID)
    assert initial_parts.sum(1).allclose(torch.ones(20, GRID, GRID), atol=1e-5)
    guess = initial_parts.argmax(1)
    for quarter in range(4):
        inside = guess[truth == quarter]
        assert (inside == inside.mode().values).float().mean() > 0.95
    assert len({int(guess[truth == quarter].mode().values) for quarter in range(4)} - {4}) == 4
    assert (guess[truth >= OUTLINE] == 4).float().mean() > 0.95


def test_the_same_seed_gives_the_same_seeds(found: dict[str, Tensor]) -> None:
    again = fit_initial_parts(scenes(60, seed=1)[0].half(), num_parts=4, seed=0)
    assert again is not None
    assert all(torch.equal(found[name], again[name]) for name in found)


def test_no_seeds_where_nothing_tells_foreground(caplog: pytest.LogCaptureFixture) -> None:
    assert fit_initial_parts(torch.randn(8, 6, 4, 4).half(), num_parts=4, seed=0) is None


def test_seeds_come_back_from_a_checkpoint(found: dict[str, Tensor]) -> None:
    maps = scenes(2, seed=3)[0]
    loaded = InitialParts.load(InitialParts(found).state_dict())
    assert loaded is not None
    assert torch.equal(loaded(maps), InitialParts(found)(maps))
    assert InitialParts.load({}) is None
    assert InitialParts.load(None) is None


def test_another_grid_than_that_of_the_fit(found: dict[str, Tensor]) -> None:
    maps = scenes(2, seed=3)[0].repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    assert InitialParts(found)(maps).shape == (2, 5, 2 * GRID, 2 * GRID)


def test_relative_spread() -> None:
    """By hand: a compact cluster, one around it, and one that is seen twice and does not count."""
    labels = torch.tensor([[0, 0, 0, 0, 0], [0, 1, 1, 2, 0], [0, 1, 1, 2, 0], [0, 0, 0, 0, 0]]).flatten()[None]
    foreground = torch.ones(1, 20, dtype=torch.bool)
    spread = relative_spread(labels, foreground, 3, (4, 5))
    place = [(i, j) for i in range(4) for j in range(5)]

    def variance(chosen: list[tuple[int, int]]) -> float:
        means = [sum(axis) / len(chosen) for axis in zip(*chosen, strict=True)]
        return sum((i - means[0]) ** 2 + (j - means[1]) ** 2 for i, j in chosen) / len(chosen)

    expected = [variance([p for p, label in zip(place, labels[0].tolist(), strict=True) if label == cluster])
                / variance(place) for cluster in (0, 1)]
    assert spread.tolist() == pytest.approx([*expected, 0.0], abs=1e-5)


def test_rare_on_ring() -> None:
    """One kind of patch fills the ring, the other the middle."""
    tokens = torch.zeros(3, 16, 2)
    tokens[:, :, 0] = 1
    middle = [5, 6, 9, 10]
    tokens[:, middle] = torch.tensor([0.0, 1.0])
    assert rare_on_ring(tokens, torch.eye(2), (4, 4)).tolist() == [False, True]


def test_centred_takes_the_foreground_mean_away() -> None:
    tokens = unit_tokens(torch.randn(2, 5, 3, 3))
    logit = torch.full((2, 9), -40.0)
    logit[:, 2:5] = 40
    assert centred(tokens, logit)[:, 2:5].mean(1).abs().max() < 1e-5


def test_without_any_outline_the_foreground_stays() -> None:
    logit = torch.randn(2, 9)
    assert without_outline(logit, torch.randn(2, 9, 3), torch.zeros(3, dtype=torch.bool)) is logit


def test_without_outline_is_the_product_of_both_probabilities() -> None:
    logit, near = torch.randn(2, 9), torch.randn(2, 9, 3)
    is_outline = torch.tensor([False, True, False])
    expected = logit.sigmoid() * (1 - near.softmax(dim=2)[..., 1])
    assert without_outline(logit, near, is_outline).sigmoid().allclose(expected, atol=1e-5)


def test_between_images_by_a_loop() -> None:
    points, labels = torch.randn(4, 10, 3), torch.randint(0, 2, (4, 10))
    inside = torch.rand(4, 10) < 0.8
    total, weight = torch.zeros(3, 3), 0
    for cluster in range(2):
        chosen = [points[i][(labels[i] == cluster) & inside[i]] for i in range(4)]
        chosen = [each for each in chosen if len(each) >= 2]
        centre = torch.cat(chosen).mean(0)
        for each in chosen:
            away = each.mean(0) - centre
            total += len(each) * torch.outer(away, away)
            weight += len(each)
    assert between_images(points, labels, inside, 2).allclose(total / weight, atol=1e-5)


def test_side_by_side_by_hand() -> None:
    """Clusters 0 and 1 touch twice, 1 and 2 once, 0 and 2 not; the background, -1, does not count."""
    labels = torch.tensor([[[0, 1, -1], [0, 1, 2]]])
    expected = torch.tensor([[0, 2 / (2 * 3) ** 0.5, 0], [2 / (2 * 3) ** 0.5, 0, 1 / 3**0.5], [0, 1 / 3**0.5, 0]])
    assert side_by_side(labels, 3).allclose(expected, atol=1e-6)


def test_joined_pairs_are_the_nearest() -> None:
    nearby = torch.zeros(4, 4)
    for i, j, value in ((0, 2, 0.9), (1, 3, 0.5), (0, 1, 0.6)):
        nearby[i, j] = nearby[j, i] = value
    assert joined(nearby, 2).tolist() == [0, 1, 0, 1]
    assert joined(nearby, 1).tolist() == [0, 1, 0, 2]
    assert joined(nearby, 0).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("parts", "clusters"), [(1, 2), (4, 8), (8, 16), (12, 16), (16, 16), (50, 50)])
def test_number_of_clusters(parts: int, clusters: int) -> None:
    assert clusters_for(parts) == clusters


def test_gathered_logits_are_those_of_a_union() -> None:
    near = torch.randn(2, 3, 4)
    parts = gathered_logits(near, torch.tensor([0, 1, 0, 1])).softmax(dim=2)
    assert parts[..., 0].allclose(near.softmax(dim=2)[..., [0, 2]].sum(dim=2), atol=1e-6)


def test_uneven_clusters_find_the_small_one() -> None:
    """A large and a small heap; k-means could as well halve the large one."""
    generator = torch.Generator().manual_seed(0)
    heaps = torch.cat([torch.randn(2000, 2, generator=generator), torch.randn(40, 2, generator=generator) * 0.1 + 9])
    centres = uneven_clusters(heaps, 2, seed=0)
    assert sorted(torch.cdist(heaps, centres).argmin(1).bincount().tolist()) == [40, 2000]
