"""The initial-parts term, ours and not the paper's: stay near the parts that frozen features suggest by themselves.

Masks come from interpolated logits, so how sure neighbouring patches are decides where an outline lies between them.
Maps that agree in every patch were seen to differ by a seventh of the object's area. So both are compared where masks
are made: between the patches too.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

FINER = 2  # places along the side of a patch at which maps are compared


def initial_parts_loss(similarity: Tensor, initial_parts: Tensor) -> Tensor:
    """Cross-entropy of the similarity maps against the initial parts (`initial_parts/find.py`), mean over places of the
    interpolated maps.

    Args:
        similarity: (B, K+1, h, w), background last.
        initial_parts: (B, K+1, h, w), probabilities, background last.
    """
    return -(interpolated(initial_parts).exp() * interpolated(similarity)).sum(dim=1).mean()


def interpolated(maps: Tensor) -> Tensor:
    """Probabilities (B, K+1, h, w) -> log probabilities of their interpolated logits, (B, K+1, FINER h, FINER w).

    Logits and log probabilities differ by a constant at each position, which the softmax takes away again.
    """
    logits = maps.clamp_min(torch.finfo(maps.dtype).eps).log()
    return functional.interpolate(logits, scale_factor=FINER, mode="bilinear").log_softmax(dim=1)
