"""The training target: L = L_r + lambda_p L_p + lambda_s L_s + lambda_d L_d, and what we add: border prior,
initial parts. `LOSSES` lists every term once."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from mpae.config import LossSettings
from mpae.losses.alternatives import area_loss, batch_presence_loss, concentration_loss
from mpae.losses.border import border_prior
from mpae.losses.distribution import entropy_loss, variation_loss
from mpae.losses.initial_parts import initial_parts_loss
from mpae.losses.perceptual import PerceptualNetwork
from mpae.losses.precision import at_least_float32
from mpae.losses.presence import background_loss, foreground_loss
from mpae.losses.restoration import restoration_loss, restoration_weights
from mpae.losses.semantic import semantic_loss


class ObjectiveInput(Protocol):
    """What the objective needs of the model's output."""

    @property
    def similarity(self) -> Tensor: ...  # (B, K+1, h, w), background last

    @property
    def descriptors(self) -> Tensor: ...  # (B, K+1, C), background last

    @property
    def features(self) -> Tensor: ...  # (B, C, h, w)

    @property
    def restored(self) -> Tensor: ...  # (B, 3, H', W'), in ImageNet-normalised space


@dataclass(frozen=True)
class Step:
    """What a loss may look at: the tensors of one step, in float32 at least, and the settings."""

    similarity: Tensor  # (B, K+1, h, w), background last
    descriptors: Tensor  # (B, K+1, C), background last
    features: Tensor  # (B, C, h, w)
    restored: Tensor  # (B, 3, H', W'), in ImageNet-normalised space; in the caller's precision
    target: Tensor  # (B, 3, H', W'), the input at that size and in that space
    initial_parts: Tensor | None  # (B, K+1, h, w), probabilities
    settings: LossSettings
    group_size: int  # G of Eq. 4
    perceptual: PerceptualNetwork | None  # Phi of Eq. 3
    pixel_weight: float
    layer_weights: tuple[float, ...]


class Loss(NamedTuple):
    """A term of the objective: everything that shows or weighs losses reads it from here."""

    name: str  # in metrics.jsonl
    title: str  # in the report
    short: str  # in the line of progress
    weight: tuple[str, ...]  # the settings `loss.*` whose product weighs it in the total
    # A number; or several by name, its own among them; or None where the step has nothing to compare with.
    compute: Callable[[Step], Tensor | dict[str, Tensor] | None]
    form: tuple[str, str] | None = None  # the setting and its value that choose this loss among alternatives
    autocast: bool = False  # in the caller's precision; float32 otherwise


# To add a loss: its file in this folder, a line here, and a setting of the name of its weight in `config.LossSettings`.
LOSSES = (
    Loss("restoration", "restoration L_r", "restore", ("restoration",), lambda step: restoration_loss(
        step.restored, step.target, step.perceptual, step.pixel_weight, step.layer_weights),
        autocast=True),  # VGG is most of the cost
    Loss("foreground", "presence L_f", "fore", ("presence", "foreground"), lambda step: foreground_loss(
        step.similarity, step.group_size, step.settings.reading), form=("foreground_form", "groups")),
    Loss("foreground", "presence L_f", "fore", ("presence", "foreground"),
         lambda step: batch_presence_loss(step.similarity), form=("foreground_form", "batch")),
    Loss("foreground", "presence L_f", "fore", ("presence", "foreground"),
         lambda step: area_loss(step.similarity, step.settings.area_epsilon, step.settings.area_background),
         form=("foreground_form", "area")),
    Loss("background", "background L_b", "back", ("presence", "background"),
         lambda step: background_loss(step.similarity, step.settings.reading)),
    Loss("semantic", "semantic L_s", "sem", ("semantic",), lambda step: semantic_loss(
        step.similarity, step.descriptors, step.features, step.settings.scale, step.settings.margin,
        step.settings.reading)),
    Loss("variation", "variation L_v", "var", ("distribution", "variation"),
         lambda step: variation_loss(step.similarity), form=("distribution_form", "variation")),
    Loss("entropy", "entropy L_e", "ent", ("distribution", "entropy"),
         lambda step: entropy_loss(step.similarity, step.settings.reading), form=("distribution_form", "variation")),
    Loss("concentration", "concentration", "conc", ("distribution",),
         lambda step: concentration_loss(step.similarity), form=("distribution_form", "concentration")),
    Loss("border", "border prior", "border", ("border",), lambda step: border_prior(step.similarity)),
    Loss("initial_parts", "distance to the initial parts", "init", ("initial_parts",),
         lambda step: None if step.initial_parts is None else initial_parts_loss(step.similarity, step.initial_parts)),
)
SHORT_TITLES = {loss.name: loss.short for loss in LOSSES}
# Everything that `Objective` returns, in the order of a page.
TITLES = {"total": "total loss"} | {loss.name: loss.title for loss in LOSSES} | {
    "pixel": "pixels within L_r", "perceptual": "VGG within L_r"}


class Objective(nn.Module):
    """All terms of the training target and their total. Keeps no state between calls.

    Args:
        settings: which terms, with which weights, in which reading.
        group_size: G of Eq. 4.
        perceptual: Phi of Eq. 3; may be None if no layer of it has a weight.
    """

    def __init__(self, settings: LossSettings, group_size: int, perceptual: PerceptualNetwork | None) -> None:
        super().__init__()
        self.pixel_weight, self.layer_weights = restoration_weights(settings)
        self.settings = settings
        self.group_size = group_size
        self.perceptual = perceptual
        weighted = [(loss, weight_of(loss, settings)) for loss in LOSSES]
        self.losses = [(loss, weight) for loss, weight in weighted if weight]

    def forward(self, output: ObjectiveInput, target: Tensor, initial_parts: Tensor | None = None) -> dict[str, Tensor]:
        """Every term whose weight is not 0 by its name, before weighting, and the weighted sum as "total".

        Args:
            output: the model's output.
            target: (B, 3, H', W'), the input at the restored size, in ImageNet-normalised space.
            initial_parts: (B, K+1, h, w), probabilities; without them their term is left out.
        """
        step = Step(at_least_float32(output.similarity), at_least_float32(output.descriptors),
                    at_least_float32(output.features), output.restored, target, initial_parts, self.settings,
                    self.group_size, self.perceptual, self.pixel_weight, self.layer_weights)
        full = torch.autocast(step.similarity.device.type, enabled=False)
        terms: dict[str, Tensor] = {}
        total = step.similarity.new_zeros(())
        for loss, weight in self.losses:
            with nullcontext() if loss.autocast else full:
                found = loss.compute(step)
            if found is not None:
                terms |= found if isinstance(found, dict) else {loss.name: found}
                total = total + weight * terms[loss.name]
        return terms | {"total": total}


def weight_of(loss: Loss, settings: LossSettings) -> float:
    """How much a loss counts in the total."""
    if loss.form is not None and getattr(settings, loss.form[0]) != loss.form[1]:
        return 0.0
    return math.prod(getattr(settings, name) for name in loss.weight)
