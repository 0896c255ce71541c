"""The training target: L = L_r + lambda_p L_p + lambda_s L_s + lambda_d L_d, and what we add: border prior,
initial parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

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
from mpae.losses.restoration import restoration_loss
from mpae.losses.semantic import semantic_loss

# Weights of the pixels and of the VGG layers within L_r. Released: 0.1 and (5/32, 5/16, 5/8, 5/4, 5) on plain
# ImageNet weights, which weighs the layers about equally; here equal weights do that, as all layers of the
# bundled VGG have a mean activation of about 1. Paper: 1/2 and 1/2, the latter spread over the layers.
RESTORATION_WEIGHTS = {"released": (0.1, (0.5,) * 5), "paper": (0.5, (0.1,) * 5)}


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


class Objective(nn.Module):
    """All terms of the training target and their total. Keeps no state between calls.

    Args:
        settings: which terms, with which weights, in which reading.
        group_size: G of Eq. 4.
        perceptual: Phi of Eq. 3; may be None if no layer of it has a weight.
    """

    def __init__(self, settings: LossSettings, group_size: int, perceptual: PerceptualNetwork | None) -> None:
        super().__init__()
        pixel, layers = RESTORATION_WEIGHTS[settings.reading]
        self.pixel_weight = pixel if settings.pixel is None else settings.pixel
        self.layer_weights = layers if settings.perceptual is None else settings.perceptual
        self.settings = settings
        self.group_size = group_size
        self.perceptual = perceptual
        self.weights = {name: weight for name, weight in term_weights(settings).items() if weight}

    def forward(self, output: ObjectiveInput, target: Tensor, initial_parts: Tensor | None = None) -> dict[str, Tensor]:
        """Every term whose weight is not 0 by its name, before weighting, and the weighted sum as "total".

        Args:
            output: the model's output.
            target: (B, 3, H', W'), the input at the restored size, in ImageNet-normalised space.
            initial_parts: (B, K+1, h, w), probabilities; without them their term is left out.
        """
        terms: dict[str, Tensor] = {}
        if "restoration" in self.weights:  # VGG in the caller's precision; it is most of the cost
            terms |= restoration_loss(
                output.restored, target, self.perceptual, self.pixel_weight, self.layer_weights)
        similarity = at_least_float32(output.similarity)
        with torch.autocast(similarity.device.type, enabled=False):
            constraints = self._constraints(
                similarity, at_least_float32(output.descriptors), at_least_float32(output.features), initial_parts)
            terms |= {name: loss() for name, loss in constraints.items() if name in self.weights}
            weighted = (weight * terms[name] for name, weight in self.weights.items() if name in terms)
            return terms | {"total": sum(weighted, start=similarity.new_zeros(()))}

    def _constraints(
        self, similarity: Tensor, descriptors: Tensor, features: Tensor, initial_parts: Tensor | None
    ) -> dict[str, Callable[[], Tensor]]:
        settings, reading = self.settings, self.settings.reading
        foreground: dict[str, Callable[[], Tensor]] = {
            "groups": lambda: foreground_loss(similarity, self.group_size, reading),
            "batch": lambda: batch_presence_loss(similarity),
            "area": lambda: area_loss(similarity),
        }
        constraints = {
            "foreground": foreground[settings.foreground_form],
            "background": lambda: background_loss(similarity, reading),
            "semantic": lambda: semantic_loss(
                similarity, descriptors, features, settings.scale, settings.margin, reading),
            "variation": lambda: variation_loss(similarity),
            "entropy": lambda: entropy_loss(similarity, reading),
            "concentration": lambda: concentration_loss(similarity),
            "border": lambda: border_prior(similarity),
        }
        return constraints if initial_parts is None else constraints | {
            "initial_parts": lambda: initial_parts_loss(similarity, initial_parts)}


def term_weights(settings: LossSettings) -> dict[str, float]:
    """How much each term counts in the total."""
    weights = {
        "restoration": settings.restoration,
        "foreground": settings.presence * settings.foreground,
        "background": settings.presence * settings.background,
        "semantic": settings.semantic,
    }
    if settings.distribution_form == "concentration":
        weights["concentration"] = settings.distribution
    else:
        weights["variation"] = settings.distribution * settings.variation
        weights["entropy"] = settings.distribution * settings.entropy
    return weights | {"border": settings.border, "initial_parts": settings.initial_parts}
