"""SCOPS (Hung et al., 2019): parts that are compact, move with the image, and mix a basis of features.

What differs from the original: the part maps come from a head on frozen ViT features, not from a fine-tuned
DeepLab; the features to be explained are these, not VGG's, less the mean of the salient ones and at unit length (all
features of a ViT have much in common, and a basis that may be negative spends every vector on it); saliency is our
vote; the two views are those of `data/augment.py` instead of thin-plate splines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as nnf
from torch import Tensor, nn

from mpae.baselines.method import PartMethod, Progress, StepInput
from mpae.baselines.saliency import Saliency
from mpae.baselines.warp import centroids, warp
from mpae.config import Config
from mpae.data.source import ImageSource
from mpae.model.matching import PartMaps

DILATIONS = (6, 12, 18, 24)  # of the four 3x3 convolutions, on a grid of 32
BACKGROUND = 0.1  # what a part's map, divided by its maximum, must exceed
FLOOR = 1e-3  # added to the maps whose spread is measured


class DilatedHead(nn.Module):
    """DeepLab-v2's head: four parallel 3x3 convolutions, summed; features (B, E, h, w) -> logits (B, k, h, w)."""

    def __init__(self, width: int, outputs: int, grid: tuple[int, int]):
        super().__init__()
        steps = [max(1, round(dilation * grid[0] / 32)) for dilation in DILATIONS]
        self.branches = nn.ModuleList(nn.Conv2d(width, outputs, 3, padding=step, dilation=step) for step in steps)
        for branch in self.branches:
            nn.init.normal_(branch.weight, std=0.01)  # type: ignore[arg-type]
            nn.init.zeros_(branch.bias)  # type: ignore[arg-type]

    def forward(self, features: Tensor) -> Tensor:
        return torch.stack([branch(features) for branch in self.branches]).sum(dim=0)


class Scops(PartMethod):
    """A head on frozen features, and a basis of K directions that the maps mix."""

    weights: ClassVar[Mapping[str, float]] = {
        "concentration": 10, "equivariance": 1000, "landmarks": 100, "semantic": 1e4, "orthonormality": 0.1}
    learning_rate: ClassVar[float] = 1e-3
    pair: ClassVar[bool] = True

    common: Tensor

    def __init__(self, config: Config, backbone: Any, classes: int = 0):
        super().__init__(config, backbone, classes)
        self.head = DilatedHead(backbone.dim, self.num_parts + 1, self.grid)
        self.basis = nn.Parameter(nnf.normalize(torch.randn(self.num_parts, backbone.dim), dim=1))
        self.saliency = Saliency(backbone.dim)
        self.register_buffer("common", torch.zeros(backbone.dim))  # (E,), mean of salient features at unit length

    def begin(self, source: ImageSource, features: Callable[[Tensor], Tensor], seed: int, progress: Progress) -> None:
        maps = self.saliency.fit(source, features, self.image_size, seed, progress)  # (n, E, h, w)
        salient = self.saliency(maps)
        self.common.copy_((nnf.normalize(maps, dim=1) * salient).sum(dim=(0, 2, 3)) / salient.sum())

    def explained(self, frozen: Tensor) -> Tensor:
        """What tells patches apart, at unit length: (B, E, h, w) -> (B, E, h, w)."""
        return nnf.normalize(nnf.normalize(frozen, dim=1) - self.common[:, None, None], dim=1)

    def rate_of(self, name: str) -> float:
        return 10.0 if name == "basis" else 1.0

    def losses(self, step: StepInput) -> tuple[dict[str, Tensor], Tensor]:
        unit = self.explained(step.frozen)  # (B, E, h, w)
        logits, other = self.head(unit), self.head(self.explained(self.frozen(step.other)))
        similarity = logits.softmax(dim=1)  # (B, K+1, h, w)
        return {
            "concentration": floored_concentration_loss(similarity),
            "equivariance": kl_equivariance_loss(similarity, other, step.other_to_view),
            "landmarks": landmark_loss(similarity, other.softmax(dim=1), step.other_to_view),
            "semantic": basis_loss(similarity, self.basis, unit * self.saliency(step.frozen)),
            "orthonormality": orthonormality_loss(self.basis),
        }, similarity

    def describe(self, images: Tensor, frozen: Tensor | None = None) -> PartMaps:
        """log P_k - max log P_k for the parts, log 0.1 for the background; the basis as descriptors."""
        features = self.frozen(images) if frozen is None else frozen
        log = self.head(self.explained(features)).log_softmax(dim=1)[:, :-1]  # (B, K, h, w)
        parts = log - log.amax(dim=(2, 3), keepdim=True)
        background = torch.full_like(parts[:, :1], BACKGROUND).log()
        descriptors = torch.cat([self.basis, torch.zeros_like(self.basis[:1])])  # (K+1, E)
        return PartMaps(torch.cat([parts, background], dim=1), descriptors.expand(len(images), -1, -1))


def floored_concentration_loss(similarity: Tensor) -> Tensor:
    """Variance in x plus variance in y of (P + 1e-3) / sum, coordinates in [-1, 1); summed over foreground parts and
    images, divided by B twice; (B, K+1, h, w), background last."""
    maps = similarity[:, :-1] + FLOOR
    maps = maps / maps.sum(dim=(2, 3), keepdim=True)
    return (_variance(maps.sum(dim=3)) + _variance(maps.sum(dim=2))).sum() / len(maps) ** 2


def _variance(weights: Tensor) -> Tensor:
    """Of the position along one axis: (B, K, n) -> (B, K)."""
    position = torch.arange(weights.shape[2], device=weights.device) * 2 / weights.shape[2] - 1
    centre = (weights * position).sum(dim=2, keepdim=True)
    return (weights * (position - centre).square()).sum(dim=2)


def kl_equivariance_loss(similarity: Tensor, other_logits: Tensor, other_to_view: Tensor) -> Tensor:
    """Mean over elements of t (log t - log P'), t the maps of this view carried into the other, detached, P' those of
    the other; only where both show the picture. All (B, K+1, h, w)."""
    target, inside = warp(similarity.detach(), other_to_view)
    log_target = target.clamp_min(1e-8).log()
    divergence = target * (log_target - other_logits.log_softmax(dim=1)) * inside
    return divergence.sum() / (inside.sum() * similarity.shape[1]).clamp_min(1)


def landmark_loss(similarity: Tensor, other: Tensor, other_to_view: Tensor) -> Tensor:
    """Mean squared difference of the centroids of the foreground maps carried into the other view and of its own,
    where both show the picture; coordinates in [-1, 1]. All (B, K+1, h, w)."""
    carried, inside = warp(similarity[:, :-1], other_to_view)
    return (centroids(carried * inside) - centroids(other[:, :-1] * inside)).square().mean()


def basis_loss(similarity: Tensor, basis: Tensor, features: Tensor) -> Tensor:
    """Mean squared difference of sum_k P_k w_k, foreground only, and the salient features.

    Args:
        similarity: (B, K+1, h, w), background last.
        basis: w (K, E).
        features: (B, E, h, w), times their saliency.
    """
    return (torch.einsum("bkhw,ke->behw", similarity[:, :-1], basis) - features).square().mean()


def orthonormality_loss(basis: Tensor) -> Tensor:
    """Squared Frobenius norm of w w^T - I, w at unit length: (K, E)."""
    unit = nnf.normalize(basis, dim=1)
    return (unit @ unit.T - torch.eye(len(unit), device=unit.device)).square().sum()
