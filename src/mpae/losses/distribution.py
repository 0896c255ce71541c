"""L_d = L_v + L_e: parts are connected and have clear boundaries (Eq. 10, 11)."""

from __future__ import annotations

import torch
from torch import Tensor

from mpae.config import Reading


def variation_loss(similarity: Tensor) -> Tensor:
    """Eq. 10: total variation, |difference down| + |difference across|, for each position and image.

    The paper leaves the norm of the gradient open; both readings take the sum of absolute values. Background
    included.

    Args:
        similarity: (B, K+1, h, w).
    """
    batch, _, height, width = similarity.shape
    down = similarity.diff(dim=2).abs().sum()
    across = similarity.diff(dim=3).abs().sum()
    return (down + across) / (batch * height * width)


def entropy_loss(similarity: Tensor, reading: Reading = "released") -> Tensor:
    """Eq. 11: entropy of the K+1 similarities at each position.

    Paper: summed over positions and divided by K+1. Released: the mean over positions, which is
    h w / (K+1) times smaller.

    Args:
        similarity: (B, K+1, h, w).
    """
    # The slope of p log p is infinite at p = 0, which a softmax in float32 does reach.
    log = similarity.clamp_min(torch.finfo(similarity.dtype).tiny).log()
    entropy = -(similarity * log).sum(dim=1)  # (B, h, w)
    if reading == "paper":
        return entropy.sum(dim=(1, 2)).mean() / similarity.shape[1]
    return entropy.mean()
