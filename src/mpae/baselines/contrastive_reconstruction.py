"""Contrastive reconstruction (Choudhury et al., 2021): the foreground in K parts that are alike inside and differ.

Inside a given foreground, features and colours of a part should be near the part's mean, means of the same part in
two images nearer than those of other parts, and maps should move with the image. The foreground is the benchmark's
mask in training (`contrastive-reconstruction`), or our vote (`contrastive-reconstruction-votes`, which nobody
labelled anything for). On new images it comes from a linear segmenter of the frozen features, trained along with the
parts on the same foreground; the original trains one apart.

What differs besides: a head on frozen ViT features, which are also the features that parts should be alike in, in
place of a fine-tuned DeepLab and VGG-19; the two views are those of `data/augment.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as nnf
from torch import Tensor, nn

from mpae.baselines.method import PartMethod, Progress, StepInput
from mpae.baselines.saliency import Saliency
from mpae.baselines.scops import DilatedHead
from mpae.baselines.warp import warp
from mpae.config import Config
from mpae.data.source import ImageSource
from mpae.model.matching import PartMaps

BATCH = 6  # images of the original, over which it sums the feature term
TEMPERATURE = 0.19
SMALL = 1e-5


class ContrastiveReconstruction(PartMethod):
    """With the masks of people."""

    weights: ClassVar[Mapping[str, float]] = {
        "feature_consistency": 5 * BATCH, "colour_consistency": 30, "contrast": 2300, "equivariance": 5700,
        "segmenter": 1000}
    learning_rate: ClassVar[float] = 1e-3
    pair: ClassVar[bool] = True

    descriptors: Tensor  # (K, E), the mean features of each part over recent steps

    def __init__(self, config: Config, backbone: Any, classes: int = 0):
        super().__init__(config, backbone, classes)
        self.head = DilatedHead(backbone.dim, self.num_parts, self.grid)
        self.segmenter = nn.Conv2d(backbone.dim, 1, 1)
        self.register_buffer("descriptors", torch.zeros(self.num_parts, backbone.dim))

    def foreground(self, step: StepInput, frozen: Tensor, other: bool = False) -> Tensor:
        """m, the share of each position that is foreground: (B, 1, h, w)."""
        masks = step.beside["other_mask" if other else "mask"]  # (B, 1, S, S) bool
        return nnf.adaptive_avg_pool2d(masks.float(), self.grid)

    def losses(self, step: StepInput) -> tuple[dict[str, Tensor], Tensor]:
        frozen, other_frozen = step.frozen, self.frozen(step.other)
        mask, other_mask = self.foreground(step, frozen), self.foreground(step, other_frozen, other=True)
        parts = self.logits(frozen).softmax(dim=1)  # (B, K, h, w)
        colours = nnf.adaptive_avg_pool2d(to_lab(step.images), self.grid)  # (B, 3, h, w)
        means = part_means(parts, mask, frozen)  # (B, K, E)
        with torch.no_grad():
            self.descriptors.lerp_(means.mean(dim=0), 0.1)
        terms = {
            "feature_consistency": consistency_loss(parts, mask, frozen),
            "colour_consistency": consistency_loss(parts, mask, colours),
            "contrast": contrast_loss(means, step.generator),
            "equivariance": masked_equivariance_loss(parts, self.logits(other_frozen), mask, other_mask,
                                                     step.other_to_view),
            "segmenter": nnf.binary_cross_entropy_with_logits(self.foreground_logits(frozen), mask),
        }
        return terms, torch.cat([parts * mask, 1 - mask], dim=1)

    def logits(self, frozen: Tensor) -> Tensor:
        """(B, E, h, w) -> (B, K, h, w)."""
        found: Tensor = self.head(nnf.normalize(frozen, dim=1))
        return found

    def describe(self, images: Tensor, frozen: Tensor | None = None) -> PartMaps:
        """The best part has the logit of the foreground, the others as much less as they are less likely; the
        background has 0. So the largest is a part just where the segmenter says foreground."""
        features = self.frozen(images) if frozen is None else frozen
        parts = self.logits(features)  # (B, K, h, w)
        foreground = self.foreground_logits(features)  # (B, 1, h, w)
        parts = parts - parts.amax(dim=1, keepdim=True) + foreground
        descriptors = torch.cat([self.descriptors, torch.zeros_like(self.descriptors[:1])])
        return PartMaps(torch.cat([parts, torch.zeros_like(foreground)], dim=1),
                        descriptors.expand(len(images), -1, -1))

    def foreground_logits(self, frozen: Tensor) -> Tensor:
        """Above 0 where there is foreground: (B, E, h, w) -> (B, 1, h, w)."""
        found: Tensor = self.segmenter(nnf.normalize(frozen, dim=1) * frozen.shape[1] ** 0.5)
        return found


class ContrastiveReconstructionVotes(ContrastiveReconstruction):
    """With our own foreground, which nobody labelled: the segmenter learns it too."""

    def __init__(self, config: Config, backbone: Any, classes: int = 0):
        super().__init__(config, backbone, classes)
        self.saliency = Saliency(backbone.dim)

    def begin(self, source: ImageSource, features: Callable[[Tensor], Tensor], seed: int, progress: Progress) -> None:
        self.saliency.fit(source, features, self.image_size, seed, progress)

    def foreground(self, step: StepInput, frozen: Tensor, other: bool = False) -> Tensor:
        share: Tensor = self.saliency(frozen)
        return share


def part_means(parts: Tensor, mask: Tensor, features: Tensor) -> Tensor:
    """f_k = sum q f / (sum q + 1e-5), q = P m: parts (B, K, h, w), mask (B, 1, h, w), (B, E, h, w) -> (B, K, E)."""
    weights = parts * mask
    return torch.einsum("bkhw,behw->bke", weights, features) / (weights.sum(dim=(2, 3)) + SMALL)[:, :, None]


def consistency_loss(parts: Tensor, mask: Tensor, features: Tensor) -> Tensor:
    """sum over parts, channels and positions of q m (f - f_k)² / (sum m + 1e-5), mean over images.

    With q = P m; shapes as in `part_means`. The square is expanded: the (B, K, E, h, w) differences are never made.
    """
    weights = parts * mask * mask  # q m
    means = part_means(parts, mask, features)  # (B, K, E)
    squares = features.square().sum(dim=1, keepdim=True)  # (B, 1, h, w)
    products = torch.einsum("bke,behw->bkhw", means, features)
    distance = squares - 2 * products + means.square().sum(dim=2)[:, :, None, None]  # (B, K, h, w)
    return ((weights * distance).sum(dim=(1, 2, 3)) / (mask.sum(dim=(1, 2, 3)) + SMALL)).mean()


def contrast_loss(means: Tensor, generator: torch.Generator) -> Tensor:
    """Cross-entropy, for each part of each image, of its mean against one positive, the same part of another image
    drawn at random, and as negatives the other parts of all images; cosines divided by 0.19. means (B, K, E)."""
    images, number, _ = means.shape
    if images < 2:
        return means.sum() * 0
    unit = nnf.normalize(means, dim=2)
    partner = (torch.arange(images) + torch.randint(1, images, (images,), generator=generator)) % images  # (B,)
    positive = (unit * unit[partner.to(means.device)]).sum(dim=2)  # (B, K)
    cosine = torch.einsum("bke,cle->bkcl", unit, unit)  # (B, K, B, K)
    same = torch.eye(number, dtype=torch.bool, device=means.device)[None, :, None, :]
    negative = cosine.masked_fill(same, -torch.inf).flatten(2)  # (B, K, B K)
    logits = torch.cat([positive[:, :, None], negative], dim=2) / TEMPERATURE
    return -logits.log_softmax(dim=2)[:, :, 0].mean()


def masked_equivariance_loss(parts: Tensor, other_logits: Tensor, mask: Tensor, other_mask: Tensor,
                             other_to_view: Tensor) -> Tensor:
    """KL(t || P') summed over parts, t the maps of this view carried into the other, detached, P' those of the other;
    mean over the positions that are foreground in both."""
    target, inside = warp(parts.detach(), other_to_view)
    both = warp(mask, other_to_view)[0] * other_mask * inside  # (B, 1, h, w)
    divergence = target * (target.clamp_min(1e-8).log() - other_logits.log_softmax(dim=1))  # (B, K, h, w)
    return (divergence * both).sum() / (both.sum() + SMALL)


def to_lab(images: Tensor) -> Tensor:
    """sRGB in [0, 1] (B, 3, H, W) -> CIE Lab under D65: L in 0..100, a and b about -100..100."""
    linear = torch.where(images > 0.04045, ((images + 0.055) / 1.055) ** 2.4, images / 12.92)
    to_xyz = torch.tensor([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169],
                           [0.019334, 0.119193, 0.950227]]).to(images)
    white = torch.tensor([0.95047, 1.0, 1.08883]).to(images)
    xyz = torch.einsum("rc,bchw->brhw", to_xyz, linear) / white.view(1, 3, 1, 1)
    root = torch.where(xyz > 0.008856, xyz.clamp_min(1e-6) ** (1 / 3), 7.787 * xyz + 16 / 116)
    x, y, z = root.unbind(dim=1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], dim=1)
