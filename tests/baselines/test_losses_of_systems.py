"""Losses of SCOPS, dual alignment, contrastive reconstruction, region grouping and the CRF, each by loops."""

from __future__ import annotations

import naive_systems as naive
import pytest
import torch
from scipy.stats import beta

from mpae.baselines import crf
from mpae.baselines.contrastive_reconstruction import (
    consistency_loss,
    contrast_loss,
    masked_equivariance_loss,
    part_means,
    to_lab,
)
from mpae.baselines.dual_alignment import identity_loss
from mpae.baselines.ganseg import keypoint_concentration_loss, least_area_loss, segmenter_loss
from mpae.baselines.region_grouping import (
    assignment_logits,
    beta_quantiles,
    border_shares,
    occurrence_loss,
    region_vectors,
)
from mpae.baselines.scops import (
    basis_loss,
    floored_concentration_loss,
    kl_equivariance_loss,
    landmark_loss,
    orthonormality_loss,
)

IDENTITY = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=torch.float64)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


def maps(*shape: int) -> torch.Tensor:
    return randn(*shape).softmax(dim=1)


# -- SCOPS


def test_concentration_is_divided_by_the_batch_twice() -> None:
    similarity = maps(3, 4, 4, 6)
    expected = naive.floored_concentration_loss(similarity)
    assert floored_concentration_loss(similarity).item() == pytest.approx(expected)


def test_kl_of_two_views_of_the_same_place() -> None:
    similarity, logits = maps(2, 3, 2, 4), randn(2, 3, 2, 4)
    prediction = logits.softmax(dim=1)
    expected = sum(naive.divergence(similarity[b, :, i, j].tolist(), prediction[b, :, i, j].tolist())
                   for b in range(2) for i in range(2) for j in range(4)) / (2 * 3 * 2 * 4)
    found = kl_equivariance_loss(similarity, logits, IDENTITY.expand(2, 2, 3))
    assert found.item() == pytest.approx(expected, rel=1e-5)
    same = kl_equivariance_loss(similarity, similarity.log(), IDENTITY.expand(2, 2, 3))
    assert same.item() == pytest.approx(0, abs=1e-6)


def test_the_target_of_the_kl_has_no_gradient() -> None:
    source, logits = randn(2, 3, 2, 4).requires_grad_(), randn(2, 3, 2, 4).requires_grad_()
    kl_equivariance_loss(source.softmax(dim=1), logits, IDENTITY.expand(2, 2, 3)).backward()
    assert source.grad is None
    assert logits.grad is not None


def test_landmarks_of_two_views() -> None:
    similarity, other = maps(2, 3, 4, 5), maps(2, 3, 4, 5)
    expected = 0.0
    for b in range(2):
        for k in range(2):
            ours, theirs = (naive.centroid(each[b, k].tolist()) for each in (similarity, other))
            expected += sum((a - c) ** 2 for a, c in zip(ours, theirs, strict=True)) / 8
    assert landmark_loss(similarity, other, IDENTITY.expand(2, 2, 3)).item() == pytest.approx(expected, rel=1e-5)


def test_the_basis_mixes_the_features() -> None:
    similarity, basis, features = maps(2, 4, 2, 3), randn(3, 5), randn(2, 5, 2, 3)
    assert basis_loss(similarity, basis, features).item() == pytest.approx(
        naive.basis_loss(similarity, basis, features))
    assert orthonormality_loss(basis.float()).item() == pytest.approx(naive.orthonormality_loss(basis), rel=1e-4)


# -- dual alignment


def test_descriptors_keep_their_identity() -> None:
    descriptors, identities = randn(3, 4, 6), randn(4, 6)
    assert identity_loss(descriptors, identities).item() == pytest.approx(
        naive.identity_loss(descriptors, identities), rel=1e-4)
    turned = -identities.expand(3, 4, 6)  # past pi - m
    assert identity_loss(turned, identities).item() == pytest.approx(naive.identity_loss(turned, identities), rel=1e-3)


# -- contrastive reconstruction


def test_parts_are_alike_inside() -> None:
    parts, features = maps(2, 3, 3, 4), randn(2, 5, 3, 4)
    mask = torch.rand(2, 1, 3, 4, dtype=torch.float64)
    expected = torch.tensor(naive.masked_means(parts, mask, features), dtype=torch.float64)
    assert torch.allclose(part_means(parts, mask, features), expected)
    assert consistency_loss(parts, mask, features).item() == pytest.approx(
        naive.consistency_loss(parts, mask, features))
    assert consistency_loss(parts, mask, torch.ones_like(features)).item() == pytest.approx(0, abs=1e-3)


def test_parts_differ_from_each_other() -> None:
    means = randn(4, 3, 6)
    partner = (torch.arange(4) + torch.randint(1, 4, (4,), generator=torch.Generator().manual_seed(5))) % 4
    assert all(int(other) != index for index, other in enumerate(partner))
    found = contrast_loss(means, torch.Generator().manual_seed(5))
    assert found.item() == pytest.approx(naive.contrast_loss(means, partner.tolist()))


def test_equivariance_counts_the_foreground_only() -> None:
    parts, logits = maps(1, 3, 2, 2), randn(1, 3, 2, 2)
    mask = torch.tensor([[[[1.0, 0], [1, 1]]]], dtype=torch.float64)
    other_mask = torch.tensor([[[[1.0, 1], [0, 1]]]], dtype=torch.float64)
    prediction = logits.softmax(dim=1)
    expected = sum(naive.divergence(parts[0, :, i, i].tolist(), prediction[0, :, i, i].tolist()) for i in range(2)) / 2
    found = masked_equivariance_loss(parts, logits, mask, other_mask, IDENTITY[None])
    assert found.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("rgb", "lab"), [  # as printed in tables of sRGB under D65
    ((1, 1, 1), (100, 0, 0)), ((0, 0, 0), (0, 0, 0)), ((1, 0, 0), (53.24, 80.09, 67.20)),
    ((0, 1, 0), (87.73, -86.18, 83.18)), ((0, 0, 1), (32.30, 79.19, -107.86))])
def test_lab_of_known_colours(rgb: tuple[int, ...], lab: tuple[float, ...]) -> None:
    found = to_lab(torch.tensor(rgb, dtype=torch.float64).view(1, 3, 1, 1)).flatten()
    assert found.tolist() == pytest.approx(lab, abs=0.05)


# -- region grouping


def test_assignment_and_region_vectors() -> None:
    features, centres, smoothing = randn(2, 5, 3, 2), randn(4, 5), torch.rand(4, dtype=torch.float64)
    distances = torch.tensor(naive.prototype_logits(features, centres), dtype=torch.float64)
    assert torch.allclose(assignment_logits(features, centres, smoothing), distances / smoothing.view(1, 4, 1, 1))
    regions = maps(2, 4, 3, 2)
    expected = torch.tensor(naive.region_vectors(regions, features, centres, smoothing), dtype=torch.float64)
    assert torch.allclose(region_vectors(regions, features, centres, smoothing), expected)


def test_occurrence_follows_the_beta_prior() -> None:
    expected = beta(1, 0.001).ppf([(2 * b - 1) / 8 for b in range(1, 5)])
    assert beta_quantiles(4).tolist() == pytest.approx(expected.tolist())
    regions = maps(4, 3, 7, 6)
    assert occurrence_loss(regions).item() == pytest.approx(naive.occurrence_loss(regions, beta_quantiles(4).tolist()))
    certain = torch.zeros(2, 1, 7, 7)
    certain[:, :, 3, 3] = 1
    assert occurrence_loss(certain).item() < occurrence_loss(certain * 0.1).item()


def test_the_border_has_the_outermost_ring() -> None:
    regions = torch.zeros(1, 2, 4, 5)
    regions[:, 0, 1:-1, 1:-1], regions[:, 1] = 1, 0.5
    assert border_shares(regions).tolist() == pytest.approx([0, 0.5])


# -- GANSeg


def test_generated_masks_are_near_their_keypoints_and_large_enough() -> None:
    masks, keypoints, sizes = maps(2, 4, 5, 5), randn(2, 3, 2), torch.rand(2, 3, dtype=torch.float64)
    assert keypoint_concentration_loss(masks, keypoints).item() == pytest.approx(
        naive.keypoint_concentration_loss(masks, keypoints))
    assert least_area_loss(masks, sizes).item() == pytest.approx(naive.least_area_loss(masks, sizes))
    assert least_area_loss(masks, sizes * 0).item() == 0


def test_the_segmenter_learns_the_drawn_masks() -> None:
    logits, masks = randn(2, 3, 3, 4), maps(2, 3, 3, 4)
    assert segmenter_loss(logits, masks).item() == pytest.approx(naive.segmenter_loss(logits, masks))


# -- CRF


def test_the_crf_by_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crf, "ITERATIONS", 2)
    costs, image = 4 * torch.rand(3, 5, 6, dtype=torch.float64), 60 * torch.rand(3, 5, 6, dtype=torch.float64)
    expected = torch.tensor(naive.dense_crf(costs, image, 0.3, 2), dtype=torch.float64)
    assert torch.allclose(crf.dense_crf(costs, image, scale=0.3), expected, atol=1e-6)


def test_the_crf_ends_at_the_edge_of_the_picture() -> None:
    """Two halves of different colour, costs with a speck of the other label in each: the specks go, the edge stays."""
    image = torch.zeros(3, 24, 24)
    image[:, :, 12:] = 200
    labels = (torch.arange(24) >= 12).long().expand(24, 24).clone()
    wanted = labels.clone()
    labels[5, 4], labels[18, 20] = 1, 0
    costs = 2 * (1 - torch.nn.functional.one_hot(labels, 2).permute(2, 0, 1).float())
    assert torch.equal(crf.dense_crf(costs, image).argmax(dim=0), wanted)
