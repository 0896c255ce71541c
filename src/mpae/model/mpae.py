"""The Masked Part Autoencoder: the four blocks of the paper's Fig. 2, wired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from mpae.model.matching import PartMaps, fill_masked, part_logits
from mpae.model.partformer import PartFormer
from mpae.model.restoration import Decoder, VisibleEncoder, cut_out

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Backbone(Protocol):
    """A frozen network that gives a dense map: images in [0, 1] (B, 3, H, W) -> (B, E, h, w)."""

    patch_size: int
    dim: int

    def __call__(self, images: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class MPAEOutput:
    """Everything the objective looks at."""

    similarity: Tensor  # P (B, K+1, h, w)
    descriptors: Tensor  # D (B, K+1, C)
    features: Tensor  # F (B, C, h, w)
    restored: Tensor  # I' (B, 3, H', W'), in normalised colours; of a window only that
    target: Tensor  # I where and as large as I' is, in normalised colours


class MPAE(nn.Module):
    """Blocks come in finished; images are RGB in [0, 1] everywhere outside."""

    mean: Tensor
    std: Tensor
    encoder: VisibleEncoder  # None, as the decoder, in a model that only predicts
    decoder: Decoder

    def __init__(self, backbone: Backbone, partformer: PartFormer, encoder: VisibleEncoder | None,
                 decoder: Decoder | None, dim: int = 256, antialias: bool = False):
        super().__init__()
        self.backbone = backbone
        self.compress = nn.Conv2d(backbone.dim, dim, kernel_size=1, bias=False)  # the trainable 1x1 convolution
        nn.init.xavier_uniform_(self.compress.weight)
        self.partformer = partformer
        self.encoder = encoder  # type: ignore[assignment]
        self.decoder = decoder  # type: ignore[assignment]
        self.antialias = antialias  # of the target; the released program resizes it without
        self.num_parts = partformer.num_parts
        self.compress_rate = 1.0  # factor of the learning rate of `compress`, as its weights were scaled
        grid = decoder.grid if decoder else partformer.grid
        self.image_size = grid[0] * backbone.patch_size  # at which images are read; see `describe`
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor, mask: Tensor, frozen: Tensor | None = None,
                window: Tensor | None = None) -> MPAEOutput:
        """One pass of training.

        Args:
            images: (B, 3, H, W) in [0, 1].
            mask: (B, N) bool, True = hidden.
            frozen: the backbone's map (B, E, h, w), where it is known already.
            window: patches to restore (B, side²); all if not given.
        """
        normalised = self.normalise(images)
        descriptors = self.descriptors(images)  # (B, K+1, C)
        features = self.compress(self.backbone(images) if frozen is None else frozen)  # (B, C, h, w)
        similarity = part_logits(descriptors, features).softmax(dim=1)  # (B, K+1, h, w)
        visible_features = self.encoder(normalised, mask)  # (B, V, C)
        filled = fill_masked(visible_features, descriptors, similarity, mask)  # (B, N, C)
        restored = self.decoder(filled, window)  # (B, 3, H', W')
        target = functional.interpolate(normalised, self.decoder.image_size, mode="bilinear", antialias=self.antialias)
        if window is not None:
            target = cut_out(target, window, self.decoder.pixels_per_patch)
        return MPAEOutput(similarity, descriptors, features, restored, target)

    @torch.no_grad()
    def soften(self, images: Tensor, frozen: Tensor, deviation: float) -> None:
        """Scale the 1x1 convolution so that logits differ by `deviation` between parts, on these images.

        Logits are plain dot products of wide vectors. With the released initial weights they differ by 30: the softmax
        is one-hot before training has begun, and no loss can tell how a similarity map should change.
        """
        logits = self.describe(images, frozen).logits  # (B, K+1, h, w)
        self.scale_features(float(deviation / logits.std(dim=1).mean().clamp_min(1e-9)))

    @torch.no_grad()
    def scale_features(self, factor: float) -> None:
        """Scale the 1x1 convolution, and its learning rate alike: a step of Adam is as long whatever the weights."""
        self.compress.weight.mul_(factor)
        self.compress_rate *= factor

    @torch.no_grad()
    def see_through(self, matrix: Tensor) -> None:
        """Let the 1x1 convolution begin with frozen features as a matrix (E, E), symmetric, shows them."""
        self.compress.weight.copy_((self.compress.weight.flatten(1) @ matrix)[:, :, None, None])

    @torch.no_grad()
    def forget(self, directions: Tensor) -> None:
        """Take directions (E, q), orthonormal, of the frozen features out of the 1x1 convolution."""
        weight = self.compress.weight.flatten(1)  # (C, E), a view
        weight -= weight @ directions @ directions.T

    def rate_of(self, name: str) -> float:
        """Factor of the learning rate of a parameter."""
        return self.compress_rate if name.startswith("compress.") else 1.0

    def describe(self, images: Tensor, frozen: Tensor | None = None) -> PartMaps:
        """Inference keeps only PartFormer and the backbone: images (B, 3, H, W) -> logits and descriptors.

        The backbone may be shown larger images than in training, for a finer map; PartFormer, whose positions
        are learned, sees them at the size it knows.
        """
        descriptors = self.descriptors(images)
        features = self.compress(self.backbone(images) if frozen is None else frozen)
        return PartMaps(part_logits(descriptors, features), descriptors)

    def descriptors(self, images: Tensor) -> Tensor:
        """What PartFormer says of images (B, 3, H, W) in [0, 1], whatever their size: (B, K+1, C)."""
        found: Tensor = self.partformer(self.normalise(self.for_partformer(images)))
        return found

    def part_logits(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, K+1, h, w)."""
        return self.describe(images).logits

    def attention(self, images: Tensor) -> Tensor:
        """Fig. 8: where each part token looks, (B, K+1, h, w)."""
        seen = self.normalise(self.for_partformer(images))
        return self.partformer.attention(seen).unflatten(2, self.partformer.grid)

    def for_partformer(self, images: Tensor) -> Tensor:
        """Images at the size that PartFormer was trained with."""
        size = tuple(side * self.partformer.patch_size for side in self.partformer.grid)
        return images if images.shape[2:] == size else functional.interpolate(
            images, size, mode="bilinear", antialias=True)

    def normalise(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std

    def colours(self, restored: Tensor) -> Tensor:
        """Restored images back in [0, 1], for eyes."""
        return (restored * self.std + self.mean).clamp(0, 1)

    def trainable_state(self) -> dict[str, Tensor]:
        """The state without the frozen backbone, which is named in the settings instead."""
        return {key: value for key, value in self.state_dict().items() if not key.startswith("backbone.")}
