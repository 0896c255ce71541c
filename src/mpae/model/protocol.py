"""What evaluation and prediction need of a model; a trained run and every baseline offer it."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from mpae.model.matching import PartMaps

__all__ = ["PartMaps", "PartModel"]


class PartModel(Protocol):
    num_parts: int  # K
    image_size: int  # S, side of the square input

    def part_logits(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) in [0, 1] -> (B, K+1, h, w)."""
        ...

    def describe(self, images: Tensor) -> PartMaps:
        """(B, 3, S, S) in [0, 1] -> logits and descriptors."""
        ...
