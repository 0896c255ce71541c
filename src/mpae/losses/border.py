"""The border prior, ours and not the paper's: objects seldom touch the edge of a picture."""

from __future__ import annotations

import torch
from torch import Tensor


def border_prior(similarity: Tensor) -> Tensor:
    """Mean foreground probability on the outermost ring of patches.

    L_b asks for some background near the border; this asks for background along all of it, so that branches,
    ground and water, which run out of the picture, do not become parts.

    Args:
        similarity: (B, K+1, h, w), background last.
    """
    foreground = 1 - similarity[:, -1]  # (B, h, w)
    ring = torch.ones_like(foreground[0])  # (h, w)
    ring[1:-1, 1:-1] = 0
    return (foreground * ring).sum(dim=(1, 2)).mean() / ring.sum()
