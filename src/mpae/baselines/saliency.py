"""What is object and what is not, where nobody marked it: the votes of `initial_parts/vote.py`.

SCOPS and others are given a saliency map by another unsupervised system; here it is this one, for all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mpae.data.source import ImageSource
from mpae.initial_parts.coordinates import unit_tokens
from mpae.initial_parts.find import foreground, look_at
from mpae.initial_parts.vote import CONTEXTS, Votes, find_votes

IMAGES = 300  # training images that vote
FAR = 1e3  # coordinates of contexts that are not in use: no token is near them


class Saliency(nn.Module):
    """Probability of foreground from frozen features; part of a method's state."""

    contexts: Tensor  # (M, E)
    shares: Tensor  # (M,)
    sharpness: Tensor  # ()

    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("contexts", torch.full((CONTEXTS, width), FAR))
        self.register_buffer("shares", torch.zeros(CONTEXTS))
        self.register_buffer("sharpness", torch.ones(()))

    def fit(self, source: ImageSource, features: Callable[[Tensor], Tensor], size: int, seed: int,
            progress: Callable[[str, int, int], None]) -> Tensor:
        """Let some of the images vote; returns their frozen features (n, E, h, w)."""
        maps = torch.cat([frozen for _, frozen in look_at(source, features, size, IMAGES, progress)])  # (n, E, h, w)
        votes, _ = find_votes(maps, seed)
        used = len(votes.contexts)
        self.contexts.fill_(FAR)[:used] = votes.contexts
        self.shares.zero_()[:used] = votes.shares
        self.sharpness.copy_(votes.sharpness)
        return maps

    @torch.no_grad()
    def forward(self, frozen: Tensor) -> Tensor:
        """(B, E, h, w) -> (B, 1, h, w) in 0..1."""
        shares = foreground(unit_tokens(frozen), Votes(self.contexts, self.shares, self.sharpness))  # (B, N)
        return shares.unflatten(1, tuple(frozen.shape[2:]))[:, None]
