"""The seed term, ours and not the paper's: stay near the parts that frozen features suggest by themselves."""

from __future__ import annotations

import torch
from torch import Tensor


def seed_loss(similarity: Tensor, seeds: Tensor) -> Tensor:
    """Cross-entropy of the similarity maps against the seeds (`training/seeds.py`), mean over positions.

    Args:
        similarity: (B, K+1, h, w), background last.
        seeds: (B, K+1, h, w), probabilities, background last.
    """
    log = similarity.clamp_min(torch.finfo(similarity.dtype).eps).log()
    return -(seeds * log).sum(dim=1).mean()
