"""GANSeg (He et al., 2022): a generator that draws parts before the image; a segmenter learns from what it drew.

Noise places K keypoints; they become part masks, and the masks become an image that a discriminator is to take for a
real one. A segmenter is trained on the generated pairs of image and mask, and is all that is used on photos. No labels
and no frozen backbone.

What differs from the original: smaller images and fewer channels (`SIDE`, `WIDTH`), as a laptop can; the three
networks take their steps together instead of in turns, the segmenter along with the others and not after them; the
segmenter is a small encoder and decoder, not a DeepLabV3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as nnf
from torch import Tensor, nn

from mpae.baselines.ganseg_blocks import Background, Discriminator, Segmenter, SpadeStack, mlp, positions
from mpae.baselines.method import PartMethod, StepInput
from mpae.config import Config
from mpae.model.matching import PartMaps

SIDE = 64  # pixels of generated images; 128 in the original
WIDTH = 32  # channels of the widest maps; 512 in the original
NOISE = 256  # of each of the three noises
EMBEDDING = 64  # of a part
POINTS = 4  # that make a keypoint
PENALTY_EVERY, PRIORS_EVERY = 16, 2  # steps


class Generated(NamedTuple):
    images: Tensor  # (B, 3, s, s) in [-1, 1]
    masks: Tensor  # (B, K+1, s, s), summing to 1, background last
    keypoints: Tensor  # (B, K, 2) x and y in [-1, 1]
    sizes: Tensor  # (B, K), the mean distance of its points from a keypoint


class GANSeg(PartMethod):
    """Generator, discriminator and segmenter, and their losses in one step."""

    weights: ClassVar[Mapping[str, float]] = {
        "generator": 1, "discriminator": 1, "penalty": 10, "concentration": 10, "area": 1, "segmenter": 1}
    learning_rate: ClassVar[float] = 1e-4
    betas: ClassVar[tuple[float, float]] = (0.5, 0.9)

    steps: Tensor  # taken so far

    def __init__(self, config: Config, backbone: Any, classes: int = 0):
        super().__init__(config, backbone, classes)
        self.generator = Generator(self.num_parts)
        self.discriminator = Discriminator(WIDTH, SIDE)
        self.segmenter = Segmenter(WIDTH, self.num_parts + 1)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def rate_of(self, name: str) -> float:
        """4e-4 for the discriminator, 3e-4 for the segmenter."""
        return {"discriminator": 4.0, "segmenter": 3.0}.get(name.partition(".")[0], 1.0)

    def losses(self, step: StepInput) -> tuple[dict[str, Tensor], Tensor]:
        real = self.reduced(step.images)  # (B, 3, s, s)
        noise = torch.randn(len(real), 3 * NOISE, generator=step.generator).to(real)
        drawn: Generated = self.generator(noise)
        fixed = {name: value.detach() for name, value in self.discriminator.state_dict().items()}
        judged = torch.func.functional_call(self.discriminator, fixed, (drawn.images,))
        priors = float(int(self.steps) % PRIORS_EVERY == 0)
        terms = {
            "generator": nnf.softplus(-judged).mean(),
            "discriminator": nnf.softplus(self.discriminator(drawn.images.detach())).mean()
            + nnf.softplus(-self.discriminator(real)).mean(),
            "penalty": self.penalty(real) if int(self.steps) % PENALTY_EVERY == 0 else real.new_zeros(()),
            "concentration": priors * keypoint_concentration_loss(drawn.masks, drawn.keypoints),
            "area": priors * least_area_loss(drawn.masks, drawn.sizes),
            "segmenter": segmenter_loss(self.segmenter(drawn.images.detach()), drawn.masks.detach()),
        }
        self.steps += 1
        return terms, drawn.masks

    def penalty(self, real: Tensor) -> Tensor:
        """(||gradient of D by a real image|| - 1)², mean over images."""
        images = real.detach().requires_grad_()
        with torch.enable_grad():
            slope = torch.autograd.grad(self.discriminator(images).sum(), images, create_graph=True)[0]
        return (slope.flatten(1).norm(dim=1) - 1).square().mean()

    def reduced(self, images: Tensor) -> Tensor:
        """Images in [0, 1] at the size of the generated ones, in [-1, 1]."""
        return 2 * nnf.interpolate(images, (SIDE, SIDE), mode="bilinear", antialias=True) - 1

    def describe(self, images: Tensor, frozen: Tensor | None = None) -> PartMaps:
        table = self.generator.embeddings
        descriptors = torch.cat([table, torch.zeros_like(table[:1])])
        return PartMaps(self.segmenter(self.reduced(images)), descriptors.expand(len(images), -1, -1))


class Generator(nn.Module):
    """Noise (B, 3 · 256) -> keypoints -> masks -> image."""

    def __init__(self, num_parts: int):
        super().__init__()
        self.num_parts = num_parts
        self.points = mlp(NOISE, 2 * POINTS * num_parts)
        self.embeddings = nn.Parameter(torch.randn(num_parts, EMBEDDING))
        self.appearance = mlp(NOISE, EMBEDDING)
        sizes = (SIDE // 4, SIDE // 4, SIDE // 2, SIDE)
        self.start = nn.Conv2d(4 * num_parts, WIDTH, 1)
        self.shape = SpadeStack(WIDTH, EMBEDDING, sizes)
        self.to_masks = nn.Conv2d(WIDTH, num_parts + 1, 3, padding=1)
        self.begin = nn.Parameter(torch.randn(1, WIDTH, sizes[0], sizes[0]))
        self.paint = SpadeStack(WIDTH, EMBEDDING, sizes)
        self.background = Background(WIDTH, NOISE, sizes)
        self.to_image = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.LeakyReLU(0.2),
                                      nn.Conv2d(WIDTH, 3, 3, padding=1), nn.Tanh())

    def forward(self, noise: Tensor) -> Generated:
        places, looks, scenery = noise.chunk(3, dim=1)  # each (B, 256)
        points = (self.points(places) / 20).tanh().view(len(noise), self.num_parts, POINTS, 2)
        keypoints = points.mean(dim=2)  # (B, K, 2)
        sizes = (points - keypoints[:, :, None]).norm(dim=3).mean(dim=2) + 1e-6  # (B, K)
        parts = self.embeddings * self.appearance(looks)[:, None]  # (B, K, D)
        masks = self.masks(keypoints, sizes, parts)
        condition = torch.einsum("bkhw,bkd->bdhw", masks[:, :-1], parts)
        front = self.paint(self.begin.expand(len(noise), -1, -1, -1), condition)  # (B, C, s, s)
        behind = self.background(scenery)
        image = self.to_image(front * (1 - masks[:, -1:]) + behind * masks[:, -1:])
        return Generated(image, masks, keypoints, sizes)

    def masks(self, keypoints: Tensor, sizes: Tensor, parts: Tensor) -> Tensor:
        """(B, K, 2), (B, K), (B, K, D) -> (B, K+1, s, s)."""
        grid = positions(SIDE, keypoints)  # (s, s, 2)
        offsets = grid - keypoints[:, :, None, None]  # (B, K, s, s, 2)
        near = (1 - offsets.norm(dim=4) / sizes[:, :, None, None]).clamp_min(0)  # (B, K, s, s)
        condition = torch.einsum("bkhw,bkd->bdhw", near, parts)
        waves = math.pi * offsets[:, :, 2::4, 2::4]
        start = torch.cat([waves.sin(), waves.cos()], dim=4).permute(0, 1, 4, 2, 3).flatten(1, 2)  # (B, 4K, s/4, s/4)
        logits: Tensor = self.to_masks(self.shape(self.start(start), condition))
        return logits.softmax(dim=1)


def keypoint_concentration_loss(masks: Tensor, keypoints: Tensor) -> Tensor:
    """Mean over images and parts of sum_ij m_ij |p_ij - keypoint|² / (sum m + 1e-6).

    Args:
        masks: (B, K+1, s, s), background last.
        keypoints: (B, K, 2).
    """
    foreground = masks[:, :-1]
    weights = foreground / (foreground.sum(dim=(2, 3), keepdim=True) + 1e-6)
    offsets = positions(masks.shape[2], keypoints) - keypoints[:, :, None, None]  # (B, K, s, s, 2)
    return (weights * offsets.square().sum(dim=4)).sum(dim=(2, 3)).mean()


def least_area_loss(masks: Tensor, sizes: Tensor) -> Tensor:
    """sum_k max(0, pi (tau_k s / 2)² - area of mask k in pixels), mean over images; (B, K+1, s, s) and tau (B, K)."""
    wanted = math.pi * (sizes * masks.shape[2] / 2).square()
    return (wanted - masks[:, :-1].sum(dim=(2, 3))).clamp_min(0).sum(dim=1).mean()


def segmenter_loss(logits: Tensor, masks: Tensor) -> Tensor:
    """Half the cross-entropy against the drawn masks, half 1 - Dice, mean over channels; both (B, K+1, s, s)."""
    entropy = -(masks * logits.log_softmax(dim=1)).sum(dim=1).mean()
    shares = logits.softmax(dim=1)
    both = (shares * masks).sum(dim=(0, 2, 3))
    dice = 2 * both / (shares.sum(dim=(0, 2, 3)) + masks.sum(dim=(0, 2, 3)) + 1e-6)
    return 0.5 * entropy + 0.5 * (1 - dice).mean()
