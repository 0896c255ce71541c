"""A checkpoint of the released program as a run folder: `mpae import`.

K, image size, width and depths are read off the shapes. Numbers of attention heads leave no trace there: they are the
released ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mpae.backbones import backbone_from, build_backbone
from mpae.backbones.weights import read_tensors
from mpae.config import BackboneSettings, Config, resolve
from mpae.errors import MPAEError
from mpae.export.released import BACKBONE, POSITIONS, UNUSED, from_released
from mpae.files import write_atomically
from mpae.model import build_model
from mpae.run import Run

PARALLEL = "module."  # before every name, where DataParallel trained
PAPER_BACKBONE, PAPER_DIM = "dinov2-vitb14-reg", 768
NEEDED = (POSITIONS, "Transformer.class_embedding", "Transformer.conv1.weight", "compress_layer.weight",
          "Decoder.decoder_pred.weight")  # what the shapes are read off


@dataclass(frozen=True)
class Checkpoint:
    """A file of the released program, read and checked."""

    file: Path
    weights: dict[str, Tensor]  # ours
    backbone: dict[str, Tensor]  # DINOv2's own names; empty where the file has none
    settings: dict[str, Any]  # what the shapes say, by the names of our settings
    frozen_dim: int  # E, channels of the frozen features
    epoch: int | None  # of the program's own checkpoints

    @property
    def num_parts(self) -> int:
        return int(self.settings["model.num_parts"])


def read_checkpoint(file: Path) -> Checkpoint:
    """The weights in a file of the released program, under our names; or, in one sentence, why there are none."""
    theirs, epoch = _state_dict(read_tensors(file))
    missing = [name for name in NEEDED if name not in theirs]
    if missing:
        raise MPAEError(f"'{file}' is no checkpoint of the released MPAE: it has no tensor '{missing[0]}'; "
                        "expected a state dict as its authors publish it.")
    try:
        settings, frozen_dim = _sizes(theirs)
        weights = from_released(theirs)
        config = resolve("paper", None, settings)
        expected = _expected(config, theirs, frozen_dim)
    except MPAEError as error:
        raise MPAEError(f"'{file}' is no checkpoint of the released MPAE: {str(error).rstrip('.')}.") from None
    except (IndexError, ValueError, RuntimeError, ZeroDivisionError):
        raise MPAEError(f"'{file}' is no checkpoint of the released MPAE: its tensors have other shapes.") from None
    _check(file, weights, expected)
    backbone = {name.removeprefix(BACKBONE): tensor for name, tensor in theirs.items() if name.startswith(BACKBONE)}
    return Checkpoint(file, weights, backbone, settings, frozen_dim, epoch)


def import_released(checkpoint: Checkpoint, out: str | Path, dataset: str | None = None, backbone: str | None = None,
                    overwrite: bool = False) -> Run:
    """Write the run folder. The frozen backbone goes with it where the file has one and none is named.

    Args:
        dataset: on which the model was trained; its released settings are recorded.
        backbone: a name or a weights file to use instead of the backbone in the file.
    """
    run = Run(out)
    _check_out(run, overwrite)
    settings = checkpoint.settings | ({"data.dataset": dataset} if dataset else {})
    if dataset:
        _check_size(checkpoint, dataset)
    inside = bool(checkpoint.backbone) and backbone is None
    facts: dict[str, Any] = {"imported": checkpoint.file.name, "imported_epoch": checkpoint.epoch}
    if inside:
        found = backbone_from(checkpoint.backbone, f"the backbone in {checkpoint.file}", settings["data.image_size"])
        facts["backbone_fingerprint"] = found.fingerprint
        settings["backbone.name"] = run.backbone_file.name
    else:
        facts |= _named_backbone(checkpoint, backbone)
        settings["backbone.name"] = backbone or PAPER_BACKBONE
    config = resolve("paper", None, settings)
    run.clear()
    run.save_weights(checkpoint.weights, {"imported": checkpoint.file.name})
    if inside:
        _save(run.backbone_file, checkpoint.backbone)
    return Run.create(out, config, facts)


def _named_backbone(checkpoint: Checkpoint, name: str | None) -> dict[str, str]:
    """The fingerprint of a backbone that the file does not carry; the paper's own is fetched when it is first used."""
    if name is None and checkpoint.frozen_dim != PAPER_DIM:
        raise MPAEError(f"'{checkpoint.file}' was trained on features of {checkpoint.frozen_dim} channels and carries "
                        f"no backbone, and {PAPER_BACKBONE} has {PAPER_DIM}; name the right one with --backbone.")
    if name is None:
        return {}
    found = build_backbone(BackboneSettings(name=name), checkpoint.settings["data.image_size"])
    if found.dim != checkpoint.frozen_dim:
        raise MPAEError(f"The backbone '{name}' gives {found.dim} channels, and '{checkpoint.file}' was trained on "
                        f"{checkpoint.frozen_dim}; choose another --backbone.")
    return {"backbone_fingerprint": found.fingerprint}


def _state_dict(content: Mapping[Any, Any]) -> tuple[dict[str, Tensor], int | None]:
    """The tensors of a file, and the epoch it was written after; of two states, that with the best figures."""
    epoch = content.get("epoch")
    for key in ("best_state_dict", "state_dict"):
        if isinstance(content.get(key), Mapping) and content[key]:
            content = content[key]
            break
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    if tensors and all(name.startswith(PARALLEL) for name in tensors):
        tensors = {name.removeprefix(PARALLEL): value for name, value in tensors.items()}
    return tensors, epoch if isinstance(epoch, int) else None


def _sizes(theirs: Mapping[str, Tensor]) -> tuple[dict[str, Any], int]:
    """Settings that the shapes determine, and E."""
    parts = theirs["Transformer.class_embedding"].shape[1] - 1
    patches = theirs[POSITIONS].shape[1] - parts - 1
    dim, _, patch, _ = theirs["Transformer.conv1.weight"].shape
    side, pixels = math.isqrt(max(patches, 0)), math.isqrt(theirs["Decoder.decoder_pred.weight"].shape[0] // 3)
    if side**2 != patches:
        raise MPAEError(f"its {patches} positions are no square of patches")
    classes = theirs.get(UNUSED[0])
    if classes is not None and len(classes) % parts:
        raise MPAEError(f"it has {parts} part tokens and {len(classes)} classes of parts, which do not go together")
    return {
        "model.num_parts": parts, "model.dim": dim, "data.image_size": side * patch, "model.pixels_per_patch": pixels,
        "model.partformer_layers": _layers(theirs, "Transformer.transformer.resblocks."),
        "model.encoder_layers": _layers(theirs, "Decoder.blocks."),
        "model.decoder_layers": _layers(theirs, "Decoder.decoder_blocks."),
    }, theirs["compress_layer.weight"].shape[1]


def _layers(theirs: Mapping[str, Tensor], prefix: str) -> int:
    return len({name.removeprefix(prefix).partition(".")[0] for name in theirs if name.startswith(prefix)})


class _Shape(nn.Module):
    """As much of a backbone as the sizes of the trainable blocks depend on."""

    def __init__(self, patch_size: int, dim: int):
        super().__init__()
        self.patch_size, self.dim = patch_size, dim


def _expected(config: Config, theirs: Mapping[str, Tensor], frozen_dim: int) -> dict[str, Tensor]:
    with torch.device("meta"):
        model = build_model(config, _Shape(theirs["Transformer.conv1.weight"].shape[-1], frozen_dim))
        return model.trainable_state()


def _check(file: Path, weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    missing = sorted(expected.keys() - weights.keys())
    extra = sorted(weights.keys() - expected.keys())
    wrong = [name for name, tensor in expected.items() if name in weights and weights[name].shape != tensor.shape]
    if not (missing or extra or wrong):
        return
    found = f"it lacks {missing[0]}" if missing else f"it has also {extra[0]}" if extra else (
        f"{wrong[0]} is {tuple(weights[wrong[0]].shape)} and not {tuple(expected[wrong[0]].shape)}")
    number = len(missing) + len(extra) + len(wrong) - 1
    more = f" (and {number} more such differences)" if number else ""
    raise MPAEError(f"'{file}' is no whole checkpoint of the released MPAE: by our names, {found}{more}; fetch it "
                    "again.")


def _check_size(checkpoint: Checkpoint, dataset: str) -> None:
    """The published models of a dataset have its own image size."""
    wanted = resolve("paper", None, {"data.dataset": dataset}).data.image_size
    size = checkpoint.settings["data.image_size"]
    if size != wanted:
        raise MPAEError(f"'{checkpoint.file}' was trained on images of {size} px, and {dataset} has {wanted} px as "
                        "released; name the dataset that it is from, or leave out --dataset.")


def _check_out(run: Run, overwrite: bool) -> None:
    if run.exists() and not overwrite:
        raise MPAEError(f"'{run}' holds a run already; replace it with --overwrite, or choose another --out.")
    if not run.exists() and not run.is_free():
        raise MPAEError(f"'{run}' exists and is not a run folder; choose another --out.")


def _save(file: Path, weights: Mapping[str, Tensor]) -> None:
    from safetensors.torch import save

    content = save({name: tensor.contiguous() for name, tensor in weights.items()})
    write_atomically(file, lambda temporary: temporary.write_bytes(content))
