"""A trained model from its run folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from mpae.backbones import build_backbone
from mpae.backbones.vit import same_weights
from mpae.baselines import find_method
from mpae.config import Precision
from mpae.model import build_model, load_trainable
from mpae.run import Run

log = logging.getLogger("mpae")


def load_model(folder: str | Path, image_size: int | None = None, precision: Precision | None = None) -> Any:
    """The model of a finished run, ready for prediction on the CPU: MPAE, or that of its `--method`.

    Args:
        image_size: side at which the backbone sees the images, if not that of training; larger gives finer masks.
        precision: of the backbone, if not that of training.
    """
    run = Run.open(folder)
    weights = run.load_weights()
    config = run.config()
    size = image_size or config.data.image_size
    settings = config.backbone.model_copy(update={"precision": precision or config.backbone.precision})
    if settings.name == run.backbone_file.name:  # an imported model carries its backbone, wherever the folder lies
        settings = settings.model_copy(update={"name": str(run.backbone_file)})
    method, classes = find_method(config.model.method), run.content().get("classes") or []
    if method.from_pixels:
        from mpae.baselines.method import Pixels

        backbone: Any = Pixels()
    else:
        backbone = build_backbone(settings, size)  # tells a size that is no multiple of the patch
    restoration = any(name.startswith("decoder.") for name in weights)  # a packed run only predicts
    model: Any = build_model(config, backbone, restoration) if method.name == "mpae" else \
        method.load()(config, backbone, len(classes))
    trained_with = run.content().get("backbone_fingerprint")
    if trained_with and not same_weights(trained_with, model.backbone.fingerprint):
        log.warning("The backbone '%s' here differs from the one that '%s' was trained with; its parts may be off.",
                    config.backbone.name, run)
    load_trainable(model, weights, str(run.weights_file))
    model.image_size = size
    return model.eval()
