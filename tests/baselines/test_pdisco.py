"""PDiscoFormer and PDiscoNet: each formula by loops, and what is drawn at random."""

from __future__ import annotations

import naive_systems as naive
import pytest
import torch

from mpae.baselines.method import drop_parts, gumbel_noise
from mpae.baselines.pdisco import (
    cropped_presence_loss,
    orthogonality_loss,
    part_vectors,
    prototype_logits,
    weighted_concentration_loss,
)
from mpae.baselines.warp import centroids, equivariance_loss, warp


def maps(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).softmax(dim=1)


def test_logits_are_negative_squared_distances() -> None:
    features, prototypes = torch.randn(2, 5, 3, 4, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    expected = torch.tensor(naive.prototype_logits(features, prototypes), dtype=torch.float64)
    assert torch.allclose(prototype_logits(features, prototypes), expected)


def test_part_vectors_are_means_over_all_positions() -> None:
    similarity, features = maps(2, 4, 3, 5), torch.randn(2, 6, 3, 5, dtype=torch.float64)
    expected = torch.tensor(naive.part_vectors(similarity, features), dtype=torch.float64)
    assert torch.allclose(part_vectors(similarity, features), expected)


def test_orthogonality() -> None:
    vectors = torch.randn(3, 4, 6, dtype=torch.float64)
    assert orthogonality_loss(vectors).item() == pytest.approx(naive.orthogonality_loss(vectors))
    assert orthogonality_loss(torch.eye(4)[None] * 7).item() == pytest.approx(0)


def test_presence_does_not_look_at_the_border() -> None:
    similarity = maps(3, 4, 9, 8)
    assert cropped_presence_loss(similarity).item() == pytest.approx(naive.cropped_presence_loss(similarity))


def test_concentration() -> None:
    similarity = maps(2, 4, 5, 7)
    expected = naive.weighted_concentration_loss(similarity)
    assert weighted_concentration_loss(similarity).item() == pytest.approx(expected)


@pytest.mark.parametrize("shift", [0, 1, -2])
def test_equivariance_of_views_that_are_shifted(shift: int) -> None:
    similarity, other = maps(2, 3, 4, 8), maps(2, 3, 4, 8)
    matrix = torch.tensor([[1.0, 0, 2 * shift / 8], [0, 1, 0]], dtype=torch.float64).expand(2, 2, 3)
    expected = naive.equivariance_loss(similarity, other, shift)
    assert equivariance_loss(similarity, other, matrix).item() == pytest.approx(expected, abs=1e-6)
    assert equivariance_loss(similarity, warp(similarity, matrix)[0], matrix).item() == pytest.approx(0, abs=1e-6)


def test_centroids() -> None:
    similarity = maps(2, 3, 4, 6)
    found = centroids(similarity)
    for b in range(2):
        for k in range(3):
            assert found[b, k].tolist() == pytest.approx(naive.centroid(similarity[b, k].tolist()))


def test_parts_are_dropped_whole_and_the_same_for_the_same_seed() -> None:
    vectors = torch.ones(200, 5, 3)
    first, again = (drop_parts(vectors, 0.3, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, again)
    assert sorted(set(first.flatten().tolist())) == pytest.approx([0, 1 / 0.7])
    assert ((first == 0).all(dim=2) | (first > 0).all(dim=2)).all()
    assert first.mean().item() == pytest.approx(1, abs=0.1)


def test_gumbel_noise_has_its_mean_and_variance() -> None:
    noise = gumbel_noise(torch.Size([40_000]), torch.Generator().manual_seed(0))
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.02)
    assert noise.var().item() == pytest.approx(torch.pi**2 / 6, abs=0.05)
