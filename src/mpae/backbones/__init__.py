"""Frozen backbones by name: bundled, from the hub, or from a weights file."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mpae.backbones.download import fetch
from mpae.backbones.vit import FrozenViT, fingerprint_of, is_vit, patch_size_of
from mpae.backbones.weights import (
    ARCHITECTURES,
    infer_architecture,
    is_weights_file,
    load_weights,
    read_weights,
)
from mpae.config import BackboneSettings, Precision, nearest_multiples
from mpae.errors import MPAEError

__all__ = ["BUNDLED", "NAMED", "FrozenViT", "backbone_from", "build_backbone", "create_vit"]

BUNDLED = "bundled"
BUNDLED_ARCHITECTURE = "vit_small_patch14_dinov2.lvd142m"

NAMED = {
    "dinov2-vits14": "vit_small_patch14_dinov2.lvd142m",
    "dinov2-vits14-reg": "vit_small_patch14_reg4_dinov2.lvd142m",
    "dinov2-vitb14-reg": "vit_base_patch14_reg4_dinov2.lvd142m",  # the paper's
    "dino-vits16": "vit_small_patch16_224.dino",  # Table 11
    "clip-vitb16": "vit_base_patch16_clip_quickgelu_224.openai",  # Table 12; the activation that OpenAI used
    "sam-vitb16": "samvit_base_patch16.sa1b",  # Table 12; the 256 channels of SAM's image embedding
    "dinov3-vits16": "vit_small_patch16_dinov3.lvd1689m",
    "dinov3-vitb16": "vit_base_patch16_dinov3.lvd1689m",
}

# Commits of the hub's repositories to which weights are pinned. Others are taken as they are on the day; the
# fingerprint that a run records tells whether they have changed since.
REVISIONS = {
    "vit_small_patch14_dinov2.lvd142m": "4610ca143709d58a633b6397a74412c2c3842454",
    "vit_base_patch16_clip_quickgelu_224.openai": "977e3dd0ec55ab8da155f2fbeb6b5f54948b6e3d",
    "vit_small_patch16_dinov3.lvd1689m": "3bf4720a82ec2066db88137180ff1f83a675cef0",
    "vit_base_patch16_dinov3.lvd1689m": "c6a5fb7d12bbd3cf3b0079253141c3332aaed7da",
}


def build_backbone(settings: BackboneSettings, image_size: int) -> FrozenViT:
    """The frozen backbone of the settings, its positional table fitted to square images of ``image_size``."""
    architecture, read = _source(settings)
    model = create_vit(architecture, image_size)  # before reading: a wrong size is told before a download
    return _filled(model, read(), settings.name, architecture, settings.precision)


def backbone_from(weights: dict[str, Tensor], name: str, image_size: int) -> FrozenViT:
    """The frozen backbone of weights that are here already, such as those in a checkpoint; ``name`` is for messages."""
    architecture = _architecture_of_file(BackboneSettings(name=name), weights)
    return _filled(create_vit(architecture, image_size), weights, name, architecture)


def _filled(model: Any, weights: dict[str, Tensor], name: str, architecture: str,
            precision: Precision = "float32") -> FrozenViT:
    load_weights(model, weights, name)
    return FrozenViT(model, name, fingerprint_of(weights, architecture), precision)


def create_vit(architecture: str, image_size: int) -> Any:
    """A timm ViT for square images, without weights: those of `load_weights` take their place."""
    with torch.device("meta"):
        model = _create(architecture, image_size)
    if not is_vit(model):
        raise MPAEError(f"timm's '{architecture}' is not a vision transformer with one map of features; "
                        f"choose {_choices()}.")
    patch, embed = patch_size_of(model), model.patch_embed
    if image_size % patch:
        raise MPAEError(f"image_size {image_size} is not a multiple of patch_size {patch}; "
                        f"use {nearest_multiples(image_size, patch)}.")
    if getattr(embed, "strict_img_size", False) and embed.img_size != (image_size, image_size):
        only = embed.img_size[0]
        raise MPAEError(f"timm's '{architecture}' takes images of {only} px alone; use image_size {only}.")
    if set(dict(model.named_buffers())) <= set(model.state_dict()):
        return model
    # It has tables that are computed and not stored (rotary positions), so it must be made in earnest.
    with torch.random.fork_rng(devices=[]):
        return _create(architecture, image_size)


def _create(architecture: str, image_size: int) -> Any:
    import timm

    try:
        return timm.create_model(architecture, num_classes=0, img_size=image_size, dynamic_img_size=True)
    except TypeError:  # SAM's class has no such settings: made at its own size, it interpolates at each use
        return timm.create_model(architecture, num_classes=0)


def _source(settings: BackboneSettings) -> tuple[str, Callable[[], dict[str, Tensor]]]:
    """The timm name of a backbone, and the function that reads its weights."""
    name = settings.name
    if name == BUNDLED:
        from mpae.assets import load_vit_small

        return BUNDLED_ARCHITECTURE, load_vit_small
    if name not in NAMED and is_weights_file(name):
        weights = read_weights(Path(name).expanduser())
        return _architecture_of_file(settings, weights), lambda: weights
    architecture = _timm_name(NAMED.get(name, name))
    return architecture, lambda: _from_hub(architecture, name)


def _architecture_of_file(settings: BackboneSettings, weights: dict[str, Tensor]) -> str:
    if settings.architecture is not None:
        return _timm_name(NAMED.get(settings.architecture, settings.architecture))
    architecture = infer_architecture(weights)
    if architecture is None:
        raise MPAEError(f"The architecture of '{settings.name}' is not recognised; name the timm model that it "
                        "was saved from with --set backbone.architecture=NAME.")
    return architecture


def _timm_name(name: str) -> str:
    """A timm model with the tag of its weights, which decides how colours are normalised."""
    tag = _pretrained(name).tag
    return name if "." in name or not tag else f"{name}.{tag}"


def _from_hub(architecture: str, name: str) -> dict[str, Tensor]:
    origin = _pretrained(architecture)
    if not origin.hf_hub_id:
        raise MPAEError(f"There are no weights of '{name}' on the hub; choose {_choices()}.")
    filename = origin.hf_hub_filename or "model.safetensors"
    flags = "--backbone FILE"
    if architecture not in ARCHITECTURES.values():
        flags += f" --set backbone.architecture={architecture}"
    return read_weights(fetch(origin.hf_hub_id, filename, REVISIONS.get(architecture), name, flags))


def _pretrained(name: str) -> Any:
    """What timm knows of the weights of a model."""
    import timm

    try:
        return timm.get_pretrained_cfg(name, allow_unregistered=False)
    except RuntimeError:
        known = [BUNDLED, *NAMED, *timm.list_models("*vit*"), *timm.list_models("*vit*", pretrained=True)]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (nearest: {near[0]})" if near else ""
        raise MPAEError(f"Unknown backbone '{name}'{hint}; choose {_choices()}.") from None


def _choices() -> str:
    return f"{BUNDLED}, {', '.join(NAMED)}, any timm ViT by its name, or a weights file"
