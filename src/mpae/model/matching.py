"""Block (c): match descriptors with features, and fill what is hidden with the descriptors that match."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mpae.model.masking import visible_positions


class PartMaps(NamedTuple):
    """What inference needs of an image."""

    logits: Tensor  # (B, K+1, h, w), background last; softmax over dim 1 gives the similarity of Eq. 1
    descriptors: Tensor  # (B, K+1, C), background last


def part_logits(descriptors: Tensor, features: Tensor) -> Tensor:
    """D_k · F_ij of Eq. 1: descriptors (B, K+1, C), features (B, C, h, w) -> (B, K+1, h, w)."""
    return torch.einsum("bkc,bchw->bkhw", descriptors, features)


def similarity_maps(descriptors: Tensor, features: Tensor) -> Tensor:
    """Eq. 1: how strongly each position belongs to each part.

    Args:
        descriptors: (B, K+1, C), background last.
        features: (B, C, h, w).
    Returns:
        (B, K+1, h, w), non-negative, summing to 1 over dim 1.
    """
    return part_logits(descriptors, features).softmax(dim=1)


def fill_masked(visible_features: Tensor, descriptors: Tensor, similarity: Tensor, mask: Tensor) -> Tensor:
    """Eq. 2: visible positions keep their features, hidden ones get the mixture of matching descriptors.

    Args:
        visible_features: (B, V, C), in image order.
        descriptors: (B, K+1, C).
        similarity: (B, K+1, h, w).
        mask: (B, N) bool, True = hidden.
    Returns:
        filled (B, N, C), in image order.
    """
    filled = torch.einsum("bkn,bkc->bnc", similarity.flatten(2), descriptors)  # (B, N, C)
    positions = visible_positions(mask)[:, :, None].expand_as(visible_features)  # (B, V, C)
    return filled.scatter(1, positions, visible_features.to(filled.dtype))
