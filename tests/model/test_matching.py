from __future__ import annotations

import math

import pytest
import torch

from mpae.model.masking import random_mask
from mpae.model.matching import fill_masked, similarity_maps


@pytest.mark.parametrize("shape", [(2, 4, 3, 5, 6), (1, 2, 1, 1, 3)])
def test_similarity_is_eq_1(shape: tuple[int, ...]) -> None:
    B, parts, h, w, C = shape
    descriptors = torch.randn(B, parts, C, dtype=torch.float64)
    features = torch.randn(B, C, h, w, dtype=torch.float64)
    similarity = similarity_maps(descriptors, features)
    for b in range(B):
        for i in range(h):
            for j in range(w):
                exps = [math.exp(sum(descriptors[b, k, c] * features[b, c, i, j] for c in range(C)))
                        for k in range(parts)]
                for k in range(parts):
                    assert similarity[b, k, i, j].item() == pytest.approx(exps[k] / sum(exps))
    assert torch.allclose(similarity.sum(1), torch.ones(B, h, w, dtype=torch.float64))


def test_permuting_parts_permutes_similarity() -> None:
    descriptors, features = torch.randn(2, 5, 8), torch.randn(2, 8, 3, 3)
    order = torch.tensor([2, 0, 3, 1, 4])
    permuted = similarity_maps(descriptors[:, order], features)
    assert torch.allclose(permuted, similarity_maps(descriptors, features)[:, order], atol=1e-6)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 0.9, 1.0])
def test_filled_is_eq_2(ratio: float) -> None:
    B, parts, h, w, C = 3, 4, 2, 5, 6
    descriptors = torch.randn(B, parts, C, dtype=torch.float64)
    similarity = torch.rand(B, parts, h, w, dtype=torch.float64).softmax(1)
    mask = random_mask(B, h * w, ratio)
    visible_features = torch.randn(B, int((~mask[0]).sum()), C, dtype=torch.float64)
    filled = fill_masked(visible_features, descriptors, similarity, mask)
    for b in range(B):
        next_visible = iter(visible_features[b])
        for n in range(h * w):
            if mask[b, n]:
                expected = sum(similarity[b, k, n // w, n % w] * descriptors[b, k] for k in range(parts))
                assert torch.allclose(filled[b, n], expected)
            else:
                assert torch.equal(filled[b, n], next(next_visible))  # exactly, not nearly


def test_gradients_of_filling() -> None:
    mask = torch.tensor([[True, False, True, True]])
    arguments = (torch.randn(1, 1, 3, dtype=torch.float64, requires_grad=True),
                 torch.randn(1, 2, 3, dtype=torch.float64, requires_grad=True),
                 torch.rand(1, 2, 2, 2, dtype=torch.float64, requires_grad=True))
    assert torch.autograd.gradcheck(lambda v, d, s: fill_masked(v, d, s, mask), arguments)
