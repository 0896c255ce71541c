"""A run that begins with the parts of another: its weights, its numbers of parts, its names (`mpae fit --from`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mpae.config import Config, all_settings
from mpae.data.source import ImageSource
from mpae.errors import MPAEError
from mpae.initial_parts.find import InitialParts, look_at
from mpae.model import MPAE
from mpae.run import Run
from mpae.training.progress import Progress

# Settings that the weights were made for; those of PartFormer are too.
KEPT = ("data.image_size", "backbone.name", "backbone.architecture", "model.method", "model.num_parts", "model.dim")
WEIGHTS = "weights"  # the one tensor of `RunParts`
IMAGES = 100  # training images from which `RunParts` are made


class RunParts(nn.Module):
    """The parts of another run, to stay near: its descriptors, averaged over images, match frozen features (Eq. 1)."""

    weights: Tensor  # (K+1, E)

    def __init__(self, weights: Tensor):
        super().__init__()
        self.register_buffer(WEIGHTS, weights)

    @torch.no_grad()
    def forward(self, frozen: Tensor) -> Tensor:
        """(B, E, h, w) -> probabilities (B, K+1, h, w)."""
        return torch.einsum("ke,behw->bkhw", self.weights, frozen.float()).softmax(dim=1)


def load_initial_parts(state: Mapping[str, Tensor] | None) -> RunParts | InitialParts | None:
    """What a run stays near, from its checkpoint: parts of another run, or those that frozen features suggested."""
    return RunParts(state[WEIGHTS]) if state and set(state) == {WEIGHTS} else InitialParts.load(state)


def kept_settings(begin: Run) -> dict[str, Any]:
    """The settings that a run keeps of the one that it begins with."""
    config = begin.config()
    if config.model.method != "mpae":
        raise MPAEError(f"'{begin}' was trained with --method {config.model.method}, and only runs of mpae can be "
                        "begun with; choose another run for --from.")
    names = [name for name, _ in all_settings() if name in KEPT or name.startswith("model.partformer")]
    kept = {name: value_of(config, name) for name in names}
    if kept["backbone.name"] == begin.backbone_file.name:
        kept["backbone.name"] = str(begin.backbone_file.resolve())
    return kept


def check_kept(kept: Mapping[str, Any], chosen: Mapping[str, Any], begin: Run) -> None:
    """What was asked for in so many words must be what the other run has."""
    for name in kept.keys() & chosen.keys():
        if str(chosen[name]) != str(kept[name]):
            raise MPAEError(f"'{begin}' has {name} {kept[name]}, and {chosen[name]} is asked for; leave that out, or "
                            "begin without --from.")


def value_of(config: Config, name: str) -> Any:
    section, _, key = name.partition(".")
    return getattr(getattr(config, section), key)


def begin_with(model: MPAE, begin: Run) -> None:
    """Weights of another run. What restores images is new where that run has none, or one of another shape."""
    weights, own = begin.load_weights(), model.state_dict()
    needed = {name for name in own if name.startswith(("partformer.", "compress."))}
    fitting = {name: weight for name, weight in weights.items() if name in own and own[name].shape == weight.shape}
    if missing := sorted(needed - fitting.keys()):
        raise MPAEError(f"The weights of '{begin}' do not fit its config.yaml: {', '.join(missing[:3])}.")
    random = model.compress.weight.square().mean().sqrt().item()
    model.load_state_dict(fitting, strict=False)
    model.compress_rate = min(1.0, model.compress.weight.square().mean().sqrt().item() / random)


@torch.no_grad()
def parts_of_run(model: MPAE, source: ImageSource, progress: Progress) -> dict[str, Tensor]:
    """The tensors of `RunParts`, of a model that has the weights of a run."""
    found = [model.descriptors(images)  # (B, K+1, C); frozen features are not needed for them
             for images, _ in look_at(source, lambda images: images, model.image_size, IMAGES, progress)]
    descriptors = torch.cat(found).mean(dim=0)  # (K+1, C)
    return {WEIGHTS: descriptors @ model.compress.weight.flatten(1)}  # (K+1, E)
