"""The initial-parts term, ours and not the paper's: stay near the parts that frozen features suggest by themselves."""

from __future__ import annotations

import torch
from torch import Tensor


def initial_parts_loss(similarity: Tensor, initial_parts: Tensor) -> Tensor:
    """Cross-entropy of the similarity maps against the initial parts (`initial_parts/find.py`), mean over
    positions.

    Args:
        similarity: (B, K+1, h, w), background last.
        initial_parts: (B, K+1, h, w), probabilities, background last.
    """
    log = similarity.clamp_min(torch.finfo(similarity.dtype).eps).log()
    return -(initial_parts * log).sum(dim=1).mean()
