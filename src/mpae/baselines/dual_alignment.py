"""Dual representation alignment (Xia et al.): descriptors of one view explain and repaint the other view.

The descriptors that PartFormer makes of one view are matched with the dense features of the other view of the same
image; mixed by these maps, they are painted as that other view by a small decoder. No labels: on PartImageNet the
original picks part tokens by the true class, here it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as nnf
from timm.layers import LayerNorm2d
from torch import Tensor, nn

from mpae.baselines.method import PartMethod, StepInput
from mpae.config import Config
from mpae.losses.alternatives import area_loss, concentration_loss
from mpae.losses.restoration import perceptual_term, pixel_loss, restoration_weights
from mpae.losses.semantic import with_margin
from mpae.model.masking import random_window
from mpae.model.matching import PartMaps, part_logits
from mpae.model.partformer import PartFormer
from mpae.model.restoration import cut_out

WIDTH = 64  # of descriptors
TEMPERATURE = 0.8  # factor of the matching
EPSILON, OTHERS = {"cub": 0.5, "celeba": 2.0}, 1.5  # of the area loss, in positions of the published grid
PUBLISHED_GRID = 32  # positions along its side; with fewer, a part that is as large as there has fewer
PAINTED = 4  # pixels along the side of each position of the grid
ARC_SCALE, ARC_MARGIN = 20.0, 0.5


class DualAlignment(PartMethod):
    """PartFormer sees the image at half its size, as in the original."""

    weights: ClassVar[Mapping[str, float]] = {
        "reconstruction": 1, "concentration": 0.3, "area": 0.5, "identity": 0.01}
    learning_rate: ClassVar[float] = 5e-4
    pair: ClassVar[bool] = True
    vgg: ClassVar[bool] = True

    def __init__(self, config: Config, backbone: Any, classes: int = 0):
        super().__init__(config, backbone, classes)
        settings, half = config.model, (max(1, self.grid[0] // 2),) * 2
        self.small = half[0] * backbone.patch_size  # side of the images that PartFormer sees
        self.partformer = PartFormer(self.num_parts, backbone.patch_size, half, settings.dim,
                                     settings.partformer_layers, settings.partformer_heads)
        self.partformer.project = nn.Linear(settings.dim, WIDTH, bias=False)
        nn.init.xavier_uniform_(self.partformer.project.weight)
        self.compress = nn.Sequential(
            nn.Conv2d(backbone.dim, 4 * WIDTH, 1), nn.ReLU(), nn.BatchNorm2d(4 * WIDTH),
            nn.Conv2d(4 * WIDTH, 2 * WIDTH, 1), nn.ReLU(), nn.BatchNorm2d(2 * WIDTH), nn.Conv2d(2 * WIDTH, WIDTH, 1))
        up = nn.Upsample(scale_factor=2, mode="bilinear")
        self.paint = nn.Sequential(_block(), _block(), up, _block(), _block(), up, _block(), nn.Conv2d(WIDTH, 3, 1))
        self.identities = nn.Parameter(nn.init.xavier_uniform_(torch.empty(self.num_parts, WIDTH)))
        self.epsilon = EPSILON.get(config.data.dataset, OTHERS) * self.grid[0] * self.grid[1] / PUBLISHED_GRID**2
        # 1/32, 1/16, 1/8, 1/4, 1 of the plain VGG: a fifth of what the released MPAE has. A layer that the settings
        # leave out is left out here too.
        released = config.loss.model_copy(update={"perceptual": None, "reading": "released"})
        self.layers = tuple(weight / 5 if wanted else 0.0 for weight, wanted in zip(
            restoration_weights(released)[1], restoration_weights(config.loss)[1], strict=True))
        self.window = settings.window  # side of what is painted in a step, in positions of the grid

    def losses(self, step: StepInput) -> tuple[dict[str, Tensor], Tensor]:
        views = torch.cat([step.images, step.other])  # (2B, 3, S, S)
        frozen = torch.cat([step.frozen, self.frozen(step.other)])
        descriptors = self.descriptors(views)  # (2B, K+1, C)
        crossed = self.compress(frozen).roll(len(step.images), dims=0)  # features of the other view of each
        similarity = (TEMPERATURE * part_logits(descriptors, crossed)).softmax(dim=1)  # (2B, K+1, h, w)
        mixed = torch.einsum("bkhw,bkc->bchw", similarity, descriptors)  # (2B, C, h, w)
        return {
            "reconstruction": self.reconstruction(mixed, views.roll(len(step.images), dims=0), step),
            "concentration": concentration_loss(similarity),
            "area": area_loss(similarity, self.epsilon),
            "identity": identity_loss(descriptors[:, :-1], self.identities),
        }, similarity

    def reconstruction(self, mixed: Tensor, images: Tensor, step: StepInput) -> Tensor:
        """sum_l w_l mean |Phi_l(painted) - Phi_l(image at that size)|; pixels where no layer has a weight.

        Args:
            mixed: descriptors mixed by the maps, (B, C, h, w); with `model.window` a square of it is painted, at a
                random place in each image.
            images: (B, 3, S, S) in [0, 1].
        """
        size = [PAINTED * side for side in self.grid]
        target = nnf.interpolate(self.normalise(images), size, mode="bilinear", antialias=True)  # (B, 3, 4 h, 4 w)
        if self.window is not None and self.window < min(self.grid):
            window = random_window(len(mixed), self.grid, self.window, step.generator).to(mixed.device)  # (B, side²)
            mixed, target = cut_out(mixed, window, 1), cut_out(target, window, PAINTED)
        painted = self.paint(mixed)
        if step.vgg is None:
            return pixel_loss(painted, target)
        return perceptual_term(painted, target, step.vgg, self.layers)

    def descriptors(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) in [0, 1] -> (B, K+1, C)."""
        small = nnf.interpolate(images, (self.small, self.small), mode="bilinear", antialias=True)
        found: Tensor = self.partformer(self.normalise(small))
        return found

    def describe(self, images: Tensor, frozen: Tensor | None = None) -> PartMaps:
        descriptors = self.descriptors(images)
        features = self.compress(self.frozen(images) if frozen is None else frozen)  # (B, C, h, w)
        return PartMaps(TEMPERATURE * part_logits(descriptors, features), descriptors)


def identity_loss(descriptors: Tensor, identities: Tensor) -> Tensor:
    """ArcFace: -log of the share of e^{s cos(theta_kk + m)} among e^{s cos theta_kc}, descriptor k against K learned
    directions c; mean over images and parts.

    Args:
        descriptors: (B, K, C), foreground only.
        identities: (K, C).
    """
    cosine = nnf.normalize(descriptors, dim=2) @ nnf.normalize(identities, dim=1).T  # (B, K, K)
    own = with_margin(cosine.diagonal(dim1=1, dim2=2), ARC_MARGIN)  # (B, K)
    logits = ARC_SCALE * cosine.diagonal_scatter(own, dim1=1, dim2=2)
    return -logits.log_softmax(dim=2).diagonal(dim1=1, dim2=2).mean()


def _block() -> nn.Module:
    return nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), LayerNorm2d(WIDTH), nn.ReLU())
