"""What every comparison system that is trained has in common: parts from the frozen features of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mpae.config import Config, nearest_multiples
from mpae.data.source import ImageSource
from mpae.errors import MPAEError
from mpae.losses.perceptual import PerceptualNetwork
from mpae.losses.precision import at_least_float32
from mpae.model.matching import PartMaps
from mpae.model.mpae import IMAGENET_MEAN, IMAGENET_STD

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class StepInput:
    """What the losses of a step may look at; what a method did not ask for is not there."""

    images: Tensor  # (B, 3, S, S) in [0, 1]
    frozen: Tensor  # (B, E, h, w)
    beside: Mapping[str, Tensor]  # of `mpae.data.beside.Beside`, stacked
    generator: torch.Generator  # of this step, on the CPU: everything random is drawn from it
    vgg: PerceptualNetwork | None = None

    @property
    def classes(self) -> Tensor:
        """(B,), numbers of classes."""
        return self.beside["class"]

    @property
    def other(self) -> Tensor:
        """Another view of each image, (B, 3, S, S) in [0, 1]."""
        return self.beside["other"].float() / 255

    @property
    def other_to_view(self) -> Tensor:
        """Where the other view lies in this one: (B, 2, 3)."""
        return self.beside["other_to_view"]


class Pixels(nn.Module):
    """In the place of a frozen backbone, for a method that trains a network of its own: images as they are."""

    patch_size, dim, fingerprint = 1, 3, None

    def forward(self, images: Tensor) -> Tensor:
        return images


class PartMethod(nn.Module):
    """A comparison system: a `PartModel` that knows its own losses.

    A subclass has `describe` and `losses`, the weights of its losses by name, and says what it needs.
    """

    weights: ClassVar[Mapping[str, float]]  # of the terms of `losses` in the total
    learning_rate: ClassVar[float] = 5e-4
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)  # of Adam
    pair: ClassVar[bool] = False  # whether it asks for a second view of each image
    vgg: ClassVar[bool] = False  # whether it asks for VGG-19

    mean: Tensor
    std: Tensor

    def __init__(self, config: Config, backbone: Any, classes: int = 0):
        """
        Args:
            classes: how many there are, for a method that learns from class labels.
        """
        super().__init__()
        size, patch = config.data.image_size, backbone.patch_size
        if size % patch:
            raise MPAEError(f"image_size {size} is not a multiple of patch_size {patch}; "
                            f"use {nearest_multiples(size, patch)}.")
        self.backbone = backbone
        self.num_parts = config.model.num_parts
        self.image_size = size
        self.grid = (size // patch,) * 2
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(1, 3, 1, 1), persistent=False)

    # -- for a subclass

    def load_pretrained(self) -> None:
        """Weights that a new run begins with, where they are not drawn from the seed."""

    def begin(self, source: ImageSource, features: Callable[[Tensor], Tensor], seed: int, progress: Progress) -> None:
        """Look at the images before the first step, by the first process; its state goes to the others."""

    def losses(self, step: StepInput) -> tuple[dict[str, Tensor], Tensor]:
        """Every term by its name, before weighting, and the similarity maps (B, K+1, h, w), background last."""
        raise NotImplementedError

    def describe(self, images: Tensor, frozen: Tensor | None = None) -> PartMaps:
        """images (B, 3, S, S) in [0, 1], and their frozen map where it is known -> logits and descriptors."""
        raise NotImplementedError

    def rate_of(self, name: str) -> float:
        """By what the learning rate of a parameter is multiplied."""
        return 1.0

    # -- for the rest of the house

    @property
    def is_trained(self) -> bool:
        """Whether it takes steps at all; clustering does not."""
        return any(parameter.requires_grad for parameter in self.parameters())

    def forward(self, pixels: Tensor, beside: Mapping[str, Tensor],
                vgg: PerceptualNetwork | None = None) -> tuple[dict[str, Tensor], Tensor]:
        """pixels (B, 3, S, S) uint8 -> every term and their weighted sum "total"; the similarity maps.

        Args:
            beside: what it asked for, and "seed", that of the step.
        """
        images = pixels.float() / 255
        frozen = at_least_float32(self.frozen(images))
        with torch.autocast(pixels.device.type, enabled=False):
            step = StepInput(images, frozen, beside, torch.Generator().manual_seed(int(beside["seed"])), vgg)
            terms, similarity = self.losses(step)
        weighted = [self.weights[name] * term for name, term in terms.items()]
        return terms | {"total": torch.stack(weighted).sum()}, similarity

    def frozen(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) in [0, 1] -> (B, E, h, w)."""
        maps: Tensor = self.backbone(images)
        return maps

    def part_logits(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) in [0, 1] -> (B, K+1, h, w)."""
        return self.describe(images).logits

    def normalise(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std

    def trainable_state(self) -> dict[str, Tensor]:
        """The state without the frozen backbone, which is named in the settings instead."""
        return {key: value for key, value in self.state_dict().items() if not key.startswith("backbone.")}


def drop_parts(vectors: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Whole-part dropout: vectors (B, K, C), each zeroed with probability `share`, the others scaled up."""
    kept = torch.rand(vectors.shape[:2], generator=generator) >= share  # (B, K)
    return vectors * (kept.to(vectors) / (1 - share))[:, :, None]


def gumbel_noise(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """-log(-log u), u uniform: added to logits it makes their softmax a relaxed draw."""
    uniform = torch.rand(shape, generator=generator).clamp(1e-10, 1 - 1e-7)
    return -(-uniform.log()).log()
