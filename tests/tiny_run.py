"""A run folder of a few thousand random weights, made in a moment: for what needs a model, not a good one."""

from __future__ import annotations

from pathlib import Path

import timm
import torch
from safetensors.torch import save_file

from mpae.backbones import build_backbone
from mpae.config import Config, resolve
from mpae.model import build_model
from mpae.run import Run

SETTINGS = {"data.image_size": 64, "model.dim": 32, "model.partformer_layers": 2, "model.partformer_heads": 2,
            "model.restoration_heads": 2, "model.pixels_per_patch": 4, "training.batch_size": 4,
            "training.group_size": 2, "data.workers": 0, "loss.perceptual": [0.5, 0, 0, 0, 0],
            "training.accelerator": "cpu"}


def tiny_settings(folder: Path) -> dict[str, object]:
    """Settings of a tiny model on a backbone of random weights, which are put into ``folder``."""
    weights = folder / "tiny.safetensors"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(timm.create_model("test_vit", num_classes=0).state_dict(), weights)
    return SETTINGS | {"backbone.name": str(weights), "backbone.architecture": "test_vit"}


def make_run(folder: Path, config: Config) -> Run:
    """The run folder of an untrained model."""
    backbone = build_backbone(config.backbone, config.data.image_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model(config, backbone)
    run = Run.create(folder, config, {"backbone_fingerprint": backbone.fingerprint, "images": 12})
    run.save_weights(model.trainable_state(), {})
    return run


def make_tiny_run(folder: Path, parts: int = 3) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    return make_run(folder, resolve("laptop", None, tiny_settings(folder) | {"model.num_parts": parts}))
