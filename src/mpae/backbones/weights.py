"""Weights files: reading them as data, telling which architecture they belong to, and loading them."""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mpae.errors import MPAEError

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")
WRAPPERS = ("teacher", "model", "state_dict", "model_state_dict")  # of DINO's two networks, the better one
FIRST_LAYER = "patch_embed.proj.weight"
CLIP_FIRST_LAYER = "visual.conv1.weight"  # OpenAI's own names
UNUSED = ("head", "fc_norm", "attn_pool", "mask_token", "decoder", "pre_logits")  # a map needs none of them

# (family, width E, patch size) -> the timm model. A file does not tell the number of heads or the activation:
# these are the published models; `backbone.architecture` names any other.
ARCHITECTURES = {
    ("dinov2", 384, 14): "vit_small_patch14_dinov2.lvd142m",
    ("dinov2", 768, 14): "vit_base_patch14_dinov2.lvd142m",
    ("dinov2", 1024, 14): "vit_large_patch14_dinov2.lvd142m",
    ("dinov2", 1536, 14): "vit_giant_patch14_dinov2.lvd142m",
    ("dinov2-reg", 384, 14): "vit_small_patch14_reg4_dinov2.lvd142m",
    ("dinov2-reg", 768, 14): "vit_base_patch14_reg4_dinov2.lvd142m",
    ("dinov2-reg", 1024, 14): "vit_large_patch14_reg4_dinov2.lvd142m",
    ("dinov2-reg", 1536, 14): "vit_giant_patch14_reg4_dinov2.lvd142m",
    ("dinov3", 384, 16): "vit_small_patch16_dinov3.lvd1689m",
    ("dinov3", 768, 16): "vit_base_patch16_dinov3.lvd1689m",
    ("dinov3", 1024, 16): "vit_large_patch16_dinov3.lvd1689m",
    ("dinov3-swiglu", 384, 16): "vit_small_plus_patch16_dinov3.lvd1689m",
    ("dinov3-swiglu", 1280, 16): "vit_huge_plus_patch16_dinov3.lvd1689m",
    ("dino", 384, 8): "vit_small_patch8_224.dino",
    ("dino", 384, 16): "vit_small_patch16_224.dino",
    ("dino", 768, 8): "vit_base_patch8_224.dino",
    ("dino", 768, 16): "vit_base_patch16_224.dino",
    ("clip", 768, 16): "vit_base_patch16_clip_quickgelu_224.openai",
    ("clip", 768, 32): "vit_base_patch32_clip_quickgelu_224.openai",
    ("clip", 1024, 14): "vit_large_patch14_clip_quickgelu_224.openai",
    ("sam", 768, 16): "samvit_base_patch16.sa1b",
    ("sam", 1024, 16): "samvit_large_patch16.sa1b",
    ("sam", 1280, 16): "samvit_huge_patch16.sa1b",
}


def is_weights_file(name: str) -> bool:
    """Whether the name of a backbone means a file."""
    return name.endswith(SUFFIXES) or "/" in name or "\\" in name or os.path.exists(name)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors in a weights file under the ViT's own names; no code in the file is ever run."""
    content: Mapping[Any, Any] = read_tensors(path)
    while inner := next((content[key] for key in WRAPPERS if isinstance(content.get(key), Mapping)), None):
        content = inner
    weights = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
    if CLIP_FIRST_LAYER in weights or "image_encoder." + FIRST_LAYER in weights:
        return weights  # as OpenAI and SAM released them; timm converts these by their full names
    prefix = next((key.removesuffix(FIRST_LAYER) for key in weights if key.endswith(FIRST_LAYER)), None)
    if prefix is None:
        raise MPAEError(f"'{path}' holds no vision transformer under timm's or the original names "
                        f"(no '{FIRST_LAYER}'); pass the weights file of a ViT.")
    return {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}


def read_tensors(path: Path) -> Mapping[Any, Any]:
    """Whatever mapping the file holds. Strangers' bytes raise anything, so anything is caught."""
    if not os.path.isfile(path):
        found = "is a folder" if os.path.isdir(path) else "does not exist"
        raise MPAEError(f"The weights file '{path}' {found}; pass a .safetensors, .pt or .pth file.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        import torch

        with warnings.catch_warnings(), torch.serialization.safe_globals(_numbers_of_numpy()):
            warnings.simplefilter("ignore")  # of torch, on pickles that it is about to refuse
            content = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise MPAEError(f"The weights file '{path}' may not be read; change its permissions.") from None
    except pickle.UnpicklingError:
        raise MPAEError(f"'{path}' holds other things than plain weights, which could run code, and was not "
                        "opened; pass a state dict of tensors, best as .safetensors.") from None
    except Exception as error:
        raise MPAEError(f"'{path}' is damaged or no weights file ({type(error).__name__}); fetch it again or pass "
                        "another .safetensors, .pt or .pth file.") from None
    if not isinstance(content, Mapping):
        raise MPAEError(f"'{path}' holds a {type(content).__name__}; expected a state dict of tensors.")
    return content


def _numbers_of_numpy() -> list[Any]:
    """What a score that NumPy computed is pickled with: data, no code. Training programs put it beside the weights."""
    import numpy

    scalar = numpy.float64(0).__reduce__()[0]
    types = [type(numpy.dtype(name)) for name in ("float64", "float32", "int64", "int32", "bool")]
    return [numpy.dtype, *types, *((scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core"))]


def infer_architecture(weights: Mapping[str, Tensor]) -> str | None:
    """The timm name of the model that weights were saved from, or None where they fit none that is known."""
    first = next((value for key, value in weights.items() if key.endswith((FIRST_LAYER, CLIP_FIRST_LAYER))), None)
    if first is None:
        return None
    return ARCHITECTURES.get((_family(weights), first.shape[0], first.shape[-1]))  # of (E, 3, p, p)


def _family(weights: Mapping[str, Tensor]) -> str:
    """Which kind of ViT, by the weights that only that kind has."""
    def has(*endings: str) -> bool:
        return any(key.endswith(endings) for key in weights)

    if has("blocks.0.attn.rel_pos_h"):
        return "sam"
    if has("norm_pre.weight", "visual.ln_pre.weight"):
        return "clip"
    registers = has("reg_token", "register_tokens", "storage_tokens")
    if registers and not has("pos_embed"):  # rotary positions
        return "dinov3-swiglu" if has("blocks.0.mlp.fc1_g.weight", "blocks.0.mlp.w1.weight") else "dinov3"
    if has("blocks.0.ls1.gamma"):
        return "dinov2-reg" if registers else "dinov2"
    # A plain ViT is DINO's, or a classifier's, whose colours may be normalised in another way: then ask.
    return "classifier" if has("head.weight") else "dino"


def load_weights(model: Any, weights: Mapping[str, Tensor], source: str) -> None:
    """Fill a timm ViT; a positional table of another size is interpolated. ``source`` is named in errors."""
    architecture = model.pretrained_cfg["architecture"]
    convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    first = model.patch_embed.proj.weight.shape
    if FIRST_LAYER in weights and weights[FIRST_LAYER].shape != first:  # timm would resize the patches too
        found = tuple(weights[FIRST_LAYER].shape)
        raise _unfit(source, architecture, f"its first layer is {found} and not {tuple(first)}")
    try:
        converted = convert(dict(weights), model) if convert else weights
        result = model.load_state_dict({key: _as_float(value) for key, value in converted.items()},
                                       strict=False, assign=True)
    except Exception:  # timm's conversions raise anything on weights of another kind
        raise _unfit(source, architecture, "its tensors have other shapes") from None
    extra = [key for key in result.unexpected_keys if not key.startswith(UNUSED)]
    if wrong := result.missing_keys + extra:
        verb = "lacks" if result.missing_keys else "has also"
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise _unfit(source, architecture, f"it {verb} {wrong[0]}{more}")


def _as_float(value: Tensor) -> Tensor:
    return value.float() if value.is_floating_point() else value


def _unfit(source: str, architecture: str, detail: str) -> MPAEError:
    return MPAEError(f"'{source}' does not fit timm's {architecture} ({detail}); name the model that it was "
                     "saved from with --set backbone.architecture=NAME.")
