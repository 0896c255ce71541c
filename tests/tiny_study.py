"""A study whose runs take a second each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiny_run import tiny_settings

FAST = {"data.synthetic_images": 4, "model.partformer_layers": 1, "model.encoder_layers": 1, "model.decoder_layers": 1,
        "training.batch_size": 2, "training.max_steps": 3, "training.checkpoint_minutes": 1e-9,
        "training.initial_parts": False, "loss.initial_parts": 0, "loss.perceptual": [0, 0, 0, 0, 0]}


def tiny_study(folder: Path) -> dict[str, Any]:
    """Its content; the weights of its backbone are put into ``folder``."""
    return {"title": "Tiny", "datasets": {"synthetic": [2]}, "figures": ["nmi", "ari", "parts_per_image"],
            "settings": tiny_settings(folder) | FAST,
            "rows": [{"name": "plain", "reference": True}, {"name": "half", "settings": {"model.mask_ratio": 0.5}}]}
