"""Losses of other systems that the paper's Table 6 puts in the place of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from mpae.losses.presence import smoothed


def area_loss(similarity: Tensor, epsilon: float = 1.5, background: bool = False) -> Tensor:
    """Xia et al., in place of L_f: sum_k 1 / (1 + S_k / epsilon), S_k the area of part k; mean over images.

    Every part is asked to appear in every image. Epsilon is 0.5 on CUB, 2.0 on CelebA, 1.5 on PartImageNet, where
    the sum has the background too.

    Args:
        similarity: (B, K+1, h, w), background last.
        background: whether the background is one of the k.
    """
    areas = (similarity if background else similarity[:, :-1]).sum(dim=(2, 3))  # (B, K), or (B, K+1)
    return (1 / (1 + areas / epsilon)).sum(dim=1).mean()


def batch_presence_loss(similarity: Tensor) -> Tensor:
    """PDiscoFormer, in place of L_f: every part appears once in the batch; an image may be without any.

    Args:
        similarity: (B, K+1, h, w), background last.
    """
    return 1 - smoothed(similarity[:, :-1]).amax(dim=(0, 2, 3)).mean()


def concentration_loss(similarity: Tensor) -> Tensor:
    """SCOPS, in place of L_v and L_e: spatial variance of each part, summed over parts, mean over images.

    Positions run from -1 to 1 (not included) along each axis, as in Xia et al.

    Args:
        similarity: (B, K+1, h, w), background last.
    """
    foreground = similarity[:, :-1]
    weights = foreground / (foreground.sum(dim=(2, 3), keepdim=True) + 1e-8)  # (B, K, h, w)
    return (_variance(weights.sum(dim=3)) + _variance(weights.sum(dim=2))).sum(dim=1).mean()


def _variance(weights: Tensor) -> Tensor:
    """Variance of the position along one axis, (B, K, n) -> (B, K)."""
    n = weights.shape[2]
    position = torch.arange(n, dtype=weights.dtype, device=weights.device) * 2 / n - 1  # (n,)
    centre = (weights * position).sum(dim=2, keepdim=True)  # (B, K, 1)
    return (weights * (position - centre).square()).sum(dim=2)
