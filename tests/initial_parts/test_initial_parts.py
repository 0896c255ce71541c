"""Initial parts from features made on the spot: a disc of four quarters, on several backgrounds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mpae.errors import MPAEError
from mpae.initial_parts.clusters import (
    agreed_centres,
    clusters_for,
    in_pairs,
    joined,
    majority,
    parts_of,
    renamed,
    shown_in,
)
from mpae.initial_parts.coordinates import RARE, between_images, centred, evened, find_kinds, unit_tokens
from mpae.initial_parts.find import InitialParts, fit_initial_parts, gathered

GRID, WIDTH, BACKGROUNDS = 12, 24, 3
BACKGROUND = 4


def scenes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Features (n, E, h, w), and what lies where (n, h, w): quarters 0..3, background 4.

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
        label[radius > 3.3] = BACKGROUND
        own = torch.randn(8, generator=generator) @ basis[12:20]
        what = torch.stack([*(basis[0] * 2 + basis[1 + part] + own / own.norm() for part in range(4)),
                            basis[7 + number % BACKGROUNDS] * 2])
        maps.append(what[label] + 0.1 * torch.randn(GRID, GRID, WIDTH, generator=generator))
        labels.append(label)
    return torch.stack(maps).permute(0, 3, 1, 2), torch.stack(labels)


@pytest.fixture(scope="module")
def found() -> dict[str, Tensor]:
    tensors = fit_initial_parts(scenes(60, seed=1)[0].half(), num_parts=4, seed=0)
    assert tensors is not None
    return tensors


def test_the_same_seed_gives_the_same_initial_parts(found: dict[str, Tensor]) -> None:
    again = fit_initial_parts(scenes(60, seed=1)[0].half(), num_parts=4, seed=0)
    assert again is not None
    assert all(torch.equal(found[name], again[name]) for name in found)


def test_initial_parts_come_back_from_a_checkpoint(found: dict[str, Tensor]) -> None:
    maps = scenes(2, seed=3)[0]
    loaded = InitialParts.load(InitialParts(found).state_dict())
    assert loaded is not None
    assert torch.equal(loaded(maps), InitialParts(found)(maps))
    assert InitialParts.load({}) is None
    assert InitialParts.load(None) is None


def test_a_checkpoint_before_kinds_has_one_kind(found: dict[str, Tensor]) -> None:
    assert len(found["kinds"]) == 1
    loaded = InitialParts.load({name: tensor for name, tensor in found.items() if name != "kinds"})
    assert loaded is not None
    assert loaded.state_dict()["kinds"].equal(found["kinds"])


def test_another_grid_than_that_of_the_fit(found: dict[str, Tensor]) -> None:
    maps = scenes(2, seed=3)[0].repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    assert InitialParts(found)(maps).shape == (2, 5, 2 * GRID, 2 * GRID)


def test_centred_takes_the_foreground_mean_away() -> None:
    tokens = unit_tokens(torch.randn(2, 5, 3, 3))
    share = torch.zeros(2, 9)
    share[:, 2:5] = 1
    assert centred(tokens, share, torch.zeros(1, 5))[:, 2:5].mean(1).abs().max() < 1e-5


def test_centred_leaves_the_mean_of_the_nearest_kind() -> None:
    tokens, share, kinds = torch.randn(3, 6, 4), torch.rand(3, 6), torch.randn(2, 4)
    found = centred(tokens, share, kinds)
    for image in range(3):
        mean = sum(share[image, n] * tokens[image, n] for n in range(6)) / share[image].sum()
        kind = min(kinds, key=lambda each: float((each - mean).square().sum()))
        assert found[image].allclose(tokens[image] - mean + kind, atol=1e-5)


def objects(*counts: int) -> tuple[Tensor, Tensor]:
    """Features (n, N, E) and foreground (n, N) of images that show kinds of objects, so many of each."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.eye(6)[torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))]  # (n, E)
    own = 0.2 * torch.randn(len(kinds), 1, 6, generator=generator)
    return kinds[:, None] + own + 0.2 * torch.randn(len(kinds), 9, 6, generator=generator), torch.ones(len(kinds), 9)


@pytest.mark.parametrize("counts", [(20, 30), (20, 15, 25), (12, 12, 12, 12)])
def test_clear_kinds_are_found(counts: tuple[int, ...]) -> None:
    kinds = find_kinds(*objects(*counts), seed=0)
    assert len(kinds) == len(counts)
    assert kinds.argmax(dim=1).sort().values.tolist() == list(range(len(counts)))


def test_what_is_more_or_less_alike_or_rare_is_no_kind() -> None:
    assert find_kinds(*objects(40), seed=0).equal(torch.zeros(1, 6))
    rare = round(100 * RARE) - 2
    assert find_kinds(*objects(100 - rare, rare), seed=0).equal(torch.zeros(1, 6))
    assert find_kinds(*objects(1), seed=0).equal(torch.zeros(1, 6))


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


def test_joined_pairs_cost_least() -> None:
    costs = torch.full((4, 4), 9.0)
    for i, j, value in ((0, 2, 1.0), (1, 3, 5.0), (0, 1, 4.0)):
        costs[i, j] = costs[j, i] = value
    assert in_pairs(costs, 2).tolist() == [0, 1, 0, 1]
    assert in_pairs(costs, 3).tolist() == [0, 1, 0, 2]
    assert in_pairs(costs, 4).tolist() == [0, 1, 2, 3]


def test_few_parts_are_joined_in_pairs_at_last_and_others_step_by_step() -> None:
    """Clusters on a line, half of them near each other: step by step these would be one part."""
    places = torch.cat([torch.arange(8) * 1.0, 100 + torch.arange(8) * 50.0])[:, None]
    contacts = torch.ones(16, 16).fill_diagonal_(0)
    assert joined(places, torch.ones(3, 16).bool(), contacts, 9).tolist() == [0] * 8 + [1, 2, 3, 4, 5, 6, 7, 8]
    places, contacts = torch.cat([places[:6], places[8:14]]), contacts[:12, :12]
    assert joined(places, torch.ones(3, 12).bool(), contacts, 6).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_which_images_show_a_cluster() -> None:
    labels = torch.tensor([[0, 0, 1, -1], [0, 2, 2, 2], [0, -1, -1, -1], [1, 1, 0, -1]])
    assert shown_in(labels, 4).float().mean(dim=0).tolist() == [1.0, 0.5, 0.25, 0.0]


def test_parts_are_clusters_that_are_alike_and_lie_side_by_side() -> None:
    """Twenty heaps of points, in pairs that are alike and lie side by side: ten parts."""
    generator = torch.Generator().manual_seed(0)
    heaps = torch.cat([10 * torch.eye(10), 10 * torch.eye(10) + 1])  # (20, 10), i and i + 10 are alike
    labels = torch.arange(20).view(2, 10).T.reshape(1, 20).expand(50, -1)  # (50, 20), side by side too: 0 10 1 11 ...
    points = heaps[labels] + 0.1 * torch.randn(50, 20, 10, generator=generator)
    inside = torch.ones(50, 20, dtype=torch.bool)
    centres, part_of = parts_of(points, inside, num_parts=10, grid=(1, 20), seed=0)
    own = part_of[torch.cdist(points, centres).argmin(dim=2)]  # (50, 20)
    assert (own[:, 0::2] == own[:, 1::2]).all()
    assert own[0].unique().numel() == 10


def test_groups_of_restarts_agree_on_heaps() -> None:
    heaps = 10 * torch.eye(4).repeat_interleave(30, dim=0)
    points = heaps + 0.1 * torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    for centres in agreed_centres(points, 4, seed=0):
        assert centres.sort(dim=0).values.allclose((10 * torch.eye(4)).sort(dim=0).values, atol=0.1)


@pytest.mark.parametrize(("parts", "clusters"), [(1, (20, 24, 28)), (12, (20, 24, 28)), (16, (24, 28, 32)),
                                                 (50, (58, 62, 66))])
def test_numbers_of_clusters(parts: int, clusters: tuple[int, ...]) -> None:
    assert clusters_for(parts) == clusters


def test_quarters_are_parts(found: dict[str, Tensor]) -> None:
    maps, truth = scenes(20, seed=2)
    initial_parts = InitialParts(found)(maps)
    assert initial_parts.shape == (20, 5, GRID, GRID)
    assert initial_parts.sum(1).allclose(torch.ones(20, GRID, GRID), atol=1e-5)
    assert quarters_found(initial_parts.argmax(1), truth) > 0.9
    assert (initial_parts.argmax(1)[truth == BACKGROUND] == 4).float().mean() > 0.95


def quarters_found(guess: Tensor, truth: Tensor) -> float:
    """Share of the patches of quarters that carry their quarter's own label; 0 if two quarters share one."""
    own = [int(guess[truth == quarter].mode().values) for quarter in range(4)]
    if len(set(own) - {4}) < 4:
        return 0.0
    return float(torch.cat([guess[truth == quarter] == label for quarter, label in enumerate(own)]).float().mean())


def test_objects_that_leave_the_frame_keep_their_parts(found: dict[str, Tensor]) -> None:
    """The left half is cut off: the object lies on the ring, where no image of the fit has it."""
    maps, truth = scenes(20, seed=2)
    guess = InitialParts(found)(maps[..., 6:]).argmax(1)
    seen = truth[..., 6:]
    assert (guess[seen < BACKGROUND] != 4).float().mean() > 0.95


def test_majority_whatever_the_numbers_of_labels() -> None:
    first = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    second = torch.tensor([2, 2, 2, 0, 0, 1, 1, 1, 1])  # 0 is called 2, 1 is called 0, 2 is called 1
    third = torch.tensor([1, 1, 2, 2, 2, 0, 0, 0, 0])
    assert renamed(second, first, 3).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    labels, place = majority([first], 3)
    assert (labels.tolist(), place) == (first.tolist(), 0)
    labels, place = majority([first, second, third], 3)
    assert place == 1  # the other two differ from it in one point each, and in two from each other
    assert labels.tolist() == second.tolist()


@pytest.mark.parametrize("seed", range(1, 6))
def test_any_seed_gives_the_same_parts(found: dict[str, Tensor], seed: int) -> None:
    maps = scenes(20, seed=2)[0]
    other = fit_initial_parts(scenes(60, seed=1)[0].half(), num_parts=4, seed=seed)
    assert other is not None
    first, second = (InitialParts(each)(maps).argmax(1) for each in (found, other))
    pairs = torch.bincount((first * 5 + second).flatten(), minlength=25).view(5, 5)
    assert pairs.amax(dim=1).sum() / pairs.sum() > 0.995


def test_no_initial_parts_without_a_common_object() -> None:
    """Every image has blobs of its own: cuts are found in each, and none is found again in another."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(40, WIDTH, 3, 3, generator=generator)
    maps = torch.nn.functional.interpolate(coarse, size=(GRID, GRID), mode="bilinear")
    assert fit_initial_parts(maps.half(), num_parts=4, seed=0) is None


def test_too_few_images_have_no_initial_parts() -> None:
    assert fit_initial_parts(scenes(1, seed=1)[0].half(), num_parts=8, seed=0) is None


def test_initial_parts_of_an_earlier_version_are_refused() -> None:
    with pytest.raises(MPAEError, match="earlier version"):
        InitialParts.load({"contexts": torch.zeros(2, 3), "is_object": torch.zeros(2, dtype=torch.bool)})


def test_gathered_probabilities_are_those_of_a_union() -> None:
    near = torch.randn(2, 3, 4).softmax(dim=2)
    assert gathered(near, torch.tensor([0, 1, 0, 1]))[..., 0].allclose(near[..., [0, 2]].sum(dim=2))


def test_evened_shortens_what_changes_with_the_image() -> None:
    """Parts differ along the first axis, images along the second."""
    generator = torch.Generator().manual_seed(0)
    points = 0.1 * torch.randn(40, 50, 3, generator=generator)
    points[..., 0] += torch.arange(50) % 2 * 2.0
    points[..., 1] += torch.randn(40, 1, generator=generator)
    inside = torch.ones(40, 50, dtype=torch.bool)
    even = points @ evened(points, inside, seed=0)
    assert even[..., 1].std() / even[..., 0].std() < 0.5 * points[..., 1].std() / points[..., 0].std()
    assert even.square().sum(dim=2).mean().item() == pytest.approx(1, rel=1e-4)
