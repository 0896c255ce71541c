"""The method: masking | partformer | matching | restoration, and `mpae.py`, which wires the four blocks."""

from __future__ import annotations

from typing import Any

import torch

from mpae.config import Config, nearest_multiples
from mpae.errors import MPAEError
from mpae.model.mpae import MPAE, Backbone, MPAEOutput
from mpae.model.partformer import PartFormer
from mpae.model.restoration import Decoder, VisibleEncoder

__all__ = ["MPAE", "MPAEOutput", "build_model", "load_trainable"]


def build_model(config: Config, backbone: Backbone, restoration: bool = True) -> MPAE:
    """The blocks that the settings describe, around a finished backbone.

    Args:
        restoration: with block (d), the encoder and the decoder; prediction does without.
    """
    settings, patch_size, size = config.model, backbone.patch_size, config.data.image_size
    seen = min(settings.partformer_size or size, size)
    for name, side in (("image_size", size), ("model.partformer_size", seen)):
        if side % patch_size:
            raise MPAEError(f"{name} {side} is not a multiple of patch_size {patch_size}; "
                            f"use {nearest_multiples(side, patch_size)}.")
    for heads in (settings.partformer_heads, settings.restoration_heads, 4):
        if settings.dim % heads:
            raise MPAEError(f"model.dim {settings.dim} is not a multiple of {heads} "
                            f"(attention heads, or 4 for positions); use {nearest_multiples(settings.dim, heads)}.")
    grid, dim = (size // patch_size,) * 2, settings.dim
    return MPAE(
        backbone=backbone,
        partformer=PartFormer(settings.num_parts, patch_size, (seen // patch_size,) * 2, dim,
                              settings.partformer_layers, settings.partformer_heads),
        encoder=VisibleEncoder(patch_size, grid, dim, settings.encoder_layers, settings.restoration_heads)
        if restoration else None,
        decoder=Decoder(grid, dim, settings.decoder_layers, settings.restoration_heads, settings.pixels_per_patch,
                        settings.window, settings.nearby) if restoration else None,
        dim=dim,
        antialias=config.data.reading == "ours" or config.loss.reading == "paper",
    )


def load_trainable(model: Any, weights: dict[str, Any], source: str) -> None:
    """Put weights into a model, or say what does not fit."""
    if isinstance(model, MPAE) and model.decoder is not None:
        weights = _positions_of_version_0_1(model) | weights
    try:
        missing, unexpected = model.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise MPAEError(f"'{source}' does not fit its config.yaml: {' '.join(str(error).split())[:200]}") from None
    missing = [name for name in missing if not name.startswith("backbone.")]
    if missing or unexpected:
        names = ", ".join((missing + unexpected)[:3])
        raise MPAEError(f"'{source}' does not fit its config.yaml: {names} missing or unexpected.")


def _positions_of_version_0_1(model: MPAE) -> dict[str, Any]:
    """Version 0.1 did not write the fixed positions of encoder and decoder, and had row before column."""
    column, row = model.decoder.positions.chunk(2, dim=1)
    before = torch.cat([row, column], dim=1)
    return {"encoder.positions": before, "decoder.positions": before}
