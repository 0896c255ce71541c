"""PDiscoFormer (Aniraj et al., 2024) and PDiscoNet (van der Klis et al., 2023), on frozen features or a ResNet-101.

Prototypes attend to positions; the mean feature under each map, modulated, is classified; the maps are shaped by
priors. The two differ in the softmax (with Gumbel noise or without), the modulation (a LayerNorm or a table of
factors) and the priors. Both learn from class labels.

What differs from the originals: their equivariance rotates each batch by up to 90 degrees and computes its features
anew; here the two views of an image are those of `data/augment.py`, whose features are kept. Gumbel noise is drawn in
training only, so that masks are the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as nnf
from torch import Tensor, nn

from mpae.backbones import FrozenViT, build_backbone
from mpae.baselines.method import PartMethod, StepInput, drop_parts, gumbel_noise
from mpae.baselines.resnet import ResNetTrunk
from mpae.baselines.warp import equivariance_loss
from mpae.config import Config
from mpae.losses.alternatives import batch_presence_loss
from mpae.losses.distribution import entropy_loss, variation_loss
from mpae.losses.presence import background_loss, smoothed
from mpae.model.matching import PartMaps

DROPOUT = 0.3  # of whole parts
CROP = 2  # cells along each side that PDiscoNet's presence does not look at


class PDisco(PartMethod):
    """What the two share: prototypes, part vectors, modulation, a classifier for all parts."""

    learning_rate: ClassVar[float] = 1.4e-3  # of the prototypes; the published one at a batch of 32
    faster: ClassVar[float] = 10.0  # modulation and classifier
    pair: ClassVar[bool] = True

    def __init__(self, config: Config, backbone: Any, classes: int = 0):
        super().__init__(config, backbone, classes)
        self.trunk = self.new_trunk(config)
        width = self.trunk.width if self.trunk else backbone.dim
        self.prototypes = nn.Parameter(nn.init.kaiming_uniform_(torch.empty(self.num_parts + 1, width), a=5**0.5))
        self.modulation = self.new_modulation(width)
        self.classify = nn.Linear(width, classes, bias=False)
        nn.init.trunc_normal_(self.classify.weight, std=0.02)

    def new_trunk(self, config: Config) -> ResNetTrunk | TunedViT | None:
        """A network of its own in place of the frozen backbone."""
        return None

    def new_modulation(self, width: int) -> nn.Module:
        raise NotImplementedError

    def frozen(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) in [0, 1] -> (B, E, h, w): of the backbone, or of the trunk, which is not frozen."""
        features: Tensor = self.trunk(images) if self.trunk else super().frozen(images)
        return features

    def rate_of(self, name: str) -> float:
        return 1.0 if name == "prototypes" else self.faster

    def describe(self, images: Tensor, frozen: Tensor | None = None) -> PartMaps:
        """Logits -||x - p||² and the prototypes, which are the same for every image."""
        features = self.frozen(images) if self.trunk or frozen is None else frozen
        return PartMaps(prototype_logits(features, self.prototypes), self.prototypes.expand(len(images), -1, -1))

    def classification(self, vectors: Tensor, step: StepInput) -> Tensor:
        """Cross-entropy of the mean over parts of W v_k; vectors (B, K+1, E), modulated."""
        kept = drop_parts(vectors[:, :-1], DROPOUT, step.generator)  # (B, K, E)
        return nnf.cross_entropy(self.classify(kept).mean(dim=1), step.classes)


class PDiscoFormer(PDisco):
    """Gumbel softmax, LayerNorm modulation, total variation and entropy."""

    weights: ClassVar[Mapping[str, float]] = {
        "classification": 1, "foreground": 1, "background": 2, "equivariance": 1, "orthogonality": 1, "variation": 1,
        "entropy": 1}

    def new_modulation(self, width: int) -> nn.Module:
        return nn.LayerNorm([self.num_parts + 1, width])  # jointly over parts and channels

    def losses(self, step: StepInput) -> tuple[dict[str, Tensor], Tensor]:
        similarity = self.noisy(step.frozen, step)  # (B, K+1, h, w)
        other = self.noisy(self.frozen(step.other), step)
        vectors = self.modulation(part_vectors(similarity, step.frozen))  # (B, K+1, E)
        return {
            "classification": self.classification(vectors, step),
            "foreground": batch_presence_loss(similarity),
            "background": background_loss(similarity),
            "equivariance": equivariance_loss(similarity, other, step.other_to_view),
            "orthogonality": orthogonality_loss(vectors),
            "variation": variation_loss(similarity),
            "entropy": entropy_loss(similarity),
        }, similarity

    def noisy(self, features: Tensor, step: StepInput) -> Tensor:
        """Gumbel softmax, temperature 1, soft."""
        logits = prototype_logits(features, self.prototypes)
        return (logits + gumbel_noise(logits.shape, step.generator).to(logits)).softmax(dim=1)


class PDiscoFormerTuned(PDiscoFormer):
    """The rows with a dagger: class token, registers and positions of the ViT learn too, a thousand times slower."""

    def new_trunk(self, config: Config) -> TunedViT:
        return TunedViT(build_backbone(config.backbone, config.data.image_size))

    def rate_of(self, name: str) -> float:
        return 1e-3 if name.startswith("trunk.") else super().rate_of(name)


class TunedViT(nn.Module):
    """A ViT of which only class token, registers and positions are trained."""

    def __init__(self, vit: FrozenViT):
        super().__init__()
        self.vit, self.width = vit, vit.dim
        for name in ("cls_token", "reg_token", "pos_embed"):
            value = getattr(vit.model, name, None)
            if value is not None:
                value.requires_grad_(True)

    def forward(self, images: Tensor) -> Tensor:
        """As `FrozenViT`, with a gradient: (B, 3, S, S) in [0, 1] -> (B, E, h, w)."""
        normalised = (images - self.vit.mean) / self.vit.std
        maps: Tensor = self.vit.model.forward_intermediates(
            normalised, indices=1, norm=True, intermediates_only=True)[-1]
        return maps


class PDiscoNetViT(PDisco):
    """Plain softmax, factors as modulation, concentration; losses and weights of PDiscoNet."""

    weights: ClassVar[Mapping[str, float]] = {
        "classification": 2, "foreground": 1, "concentration": 1000, "equivariance": 1, "orthogonality": 1}

    def new_modulation(self, width: int) -> nn.Module:
        return Factors(self.num_parts + 1, width)

    def losses(self, step: StepInput) -> tuple[dict[str, Tensor], Tensor]:
        similarity = prototype_logits(step.frozen, self.prototypes).softmax(dim=1)  # (B, K+1, h, w)
        other = prototype_logits(self.frozen(step.other), self.prototypes).softmax(dim=1)
        vectors = part_vectors(similarity, step.frozen)  # (B, K+1, E)
        return {
            "classification": self.classification(self.modulation(vectors), step),
            "foreground": cropped_presence_loss(similarity),
            "concentration": weighted_concentration_loss(similarity),
            "equivariance": equivariance_loss(similarity, other, step.other_to_view),
            "orthogonality": orthogonality_loss(vectors),
        }, similarity


class PDiscoNet(PDiscoNetViT):
    """The original: layer3 and layer4 of a ResNet-101, all of it trained; images as they are, without mean and std."""

    learning_rate: ClassVar[float] = 1e-4

    def new_trunk(self, config: Config) -> ResNetTrunk:
        return ResNetTrunk(config.backbone)

    def load_pretrained(self) -> None:
        assert isinstance(self.trunk, ResNetTrunk)
        self.trunk.load_pretrained()

    def rate_of(self, name: str) -> float:
        return 10.0 if name.startswith("classify") else 100.0 if name.startswith("modulation") else 1.0


class Factors(nn.Module):
    """A factor for each part and channel, 1 at the start."""

    def __init__(self, parts: int, width: int):
        super().__init__()
        self.factors = nn.Parameter(torch.ones(parts, width))

    def forward(self, vectors: Tensor) -> Tensor:
        """(B, K+1, E) -> (B, K+1, E)."""
        return vectors * self.factors


def prototype_logits(features: Tensor, prototypes: Tensor) -> Tensor:
    """-||x_ij - p_k||²: features (B, E, h, w), prototypes (K+1, E) -> (B, K+1, h, w)."""
    products = torch.einsum("ke,behw->bkhw", prototypes, features)
    lengths = features.square().sum(dim=1, keepdim=True)  # (B, 1, h, w)
    return 2 * products - prototypes.square().sum(dim=1).view(1, -1, 1, 1) - lengths


def part_vectors(similarity: Tensor, features: Tensor) -> Tensor:
    """v_k = mean over positions of P_k x, divided by h w and not by the area: (B, K+1, E)."""
    return torch.einsum("bkhw,behw->bke", similarity, features) / (similarity.shape[2] * similarity.shape[3])


def orthogonality_loss(vectors: Tensor) -> Tensor:
    """Mean of the squared entries of V V^T - I, V the part vectors at unit length; (B, K+1, E), background included."""
    unit = nnf.normalize(vectors, dim=2)
    likeness = unit @ unit.transpose(1, 2)  # (B, K+1, K+1)
    return (likeness - torch.eye(likeness.shape[1], device=likeness.device)).square().mean()


def cropped_presence_loss(similarity: Tensor) -> Tensor:
    """1 - mean_k max_{b,ij} of the 3x3 means of P_k without its outer 2 cells, background included; (B, K+1, h, w)."""
    large = min(similarity.shape[2:]) > 2 * CROP
    inner = similarity[:, :, CROP:-CROP, CROP:-CROP] if large else similarity
    return 1 - smoothed(inner).amax(dim=(0, 2, 3)).mean()


def weighted_concentration_loss(similarity: Tensor) -> Tensor:
    """Mean over b, foreground k and positions of P [((c_row - i) / w)² + ((c_col - j) / h)²].

    The centroid is c = sum idx P / sum P, its denominator detached; (B, K+1, h, w), background last.
    """
    foreground = similarity[:, :-1]  # (B, K, h, w)
    height, width = foreground.shape[2:]
    rows = torch.arange(height, device=similarity.device, dtype=similarity.dtype)[:, None]  # (h, 1)
    columns = torch.arange(width, device=similarity.device, dtype=similarity.dtype)[None, :]  # (1, w)
    mass = foreground.sum(dim=(2, 3), keepdim=True).detach().clamp_min(1e-8)
    row = (foreground * rows).sum(dim=(2, 3), keepdim=True) / mass  # (B, K, 1, 1)
    column = (foreground * columns).sum(dim=(2, 3), keepdim=True) / mass
    return (foreground * (((row - rows) / width).square() + ((column - columns) / height).square())).mean()
