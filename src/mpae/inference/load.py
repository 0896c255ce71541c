"""A trained model from its run folder."""

from __future__ import annotations

import logging
from pathlib import Path

from mpae.backbones import build_backbone
from mpae.model import MPAE, build_model, load_trainable
from mpae.run import Run

log = logging.getLogger("mpae")


def load_model(folder: str | Path) -> MPAE:
    """The model of a finished run, ready for prediction on the CPU."""
    run = Run.open(folder)
    weights = run.load_weights()
    config = run.config()
    backbone = build_backbone(config.backbone, config.data.image_size)
    trained_with = run.content().get("backbone_fingerprint")
    if backbone.fingerprint != trained_with:
        log.warning("The backbone '%s' here differs from the one that '%s' was trained with; its parts may be off.",
                    config.backbone.name, run)
    model = build_model(config, backbone)
    load_trainable(model, weights, str(run.weights_file))
    return model.eval()
