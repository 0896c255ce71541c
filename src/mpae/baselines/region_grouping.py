"""Region grouping (Huang and Li, 2020): soft clusters whose occurrence follows a Beta prior, driven by classification.

Positions are assigned to K+1 learned centres. Region vectors are weighed by attention and classified; a prior of a U
shape asks that each region is clearly there in most images of a batch. There is no background channel: the region
that holds most of the border of the images stands for it here.

What differs from the original: a trainable 1x1 convolution on frozen ViT features, at unit length, stands for the
fine-tuned layer3 of a ResNet-101, and the blocks behind are as much narrower as these features are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as nnf
from torch import Tensor, nn

from mpae.baselines.method import PartMethod, StepInput
from mpae.config import Config
from mpae.model.matching import PartMaps

BETA = (1.0, 0.001)  # of the prior
RADIUS, SIGMA = 2, 0.4  # of the blur
SMALL = 1e-5
SHARPNESS = 3.0  # length of the features whose distances are compared


class RegionGrouping(PartMethod):
    """Centres and their smoothing, region vectors, attention, classifier."""

    weights: ClassVar[Mapping[str, float]] = {"classification": 1, "occurrence": 0.5}
    learning_rate: ClassVar[float] = 1e-3

    border: Tensor  # (K+1,) share of the border that each region holds, over recent steps

    def __init__(self, config: Config, backbone: Any, classes: int = 0):
        super().__init__(config, backbone, classes)
        width, regions = config.model.dim, self.num_parts + 1
        self.compress = nn.Conv2d(backbone.dim, width, 1, bias=False)
        nn.init.xavier_uniform_(self.compress.weight)
        self.centres = nn.Parameter(torch.randn(regions, width))
        self.smoothing = nn.Parameter(torch.zeros(regions))  # s of beta = sigmoid(s)
        self.post = nn.Sequential(Bottleneck(width, width // 2, 2 * width),
                                  *(Bottleneck(2 * width, width // 2, 2 * width) for _ in range(3)))
        self.attend = nn.Sequential(Bottleneck(width, width // 4, width), Bottleneck(width, width // 4, width),
                                    nn.Conv1d(width, 1, 1), nn.BatchNorm1d(1), nn.ReLU())
        self.norm = nn.BatchNorm1d(2 * width)
        self.classify = nn.Linear(2 * width, classes)
        self.register_buffer("border", torch.zeros(regions))

    def assignment_logits(self, frozen: Tensor) -> tuple[Tensor, Tensor]:
        """-||x - c_k||² / beta_k, (B, K+1, h, w), and the features (B, C, h, w); both of length SHARPNESS."""
        features = SHARPNESS * nnf.normalize(self.compress(frozen), dim=1)
        centres = SHARPNESS * nnf.normalize(self.centres, dim=1)
        return assignment_logits(features, centres, self.smoothing.sigmoid()), features

    def losses(self, step: StepInput) -> tuple[dict[str, Tensor], Tensor]:
        logits, features = self.assignment_logits(step.frozen)
        regions = logits.softmax(dim=1)  # (B, K+1, h, w)
        centres = SHARPNESS * nnf.normalize(self.centres, dim=1)
        vectors = region_vectors(regions, features, centres, self.smoothing.sigmoid()).transpose(1, 2)  # (B, C, K+1)
        attention = self.attend(vectors).softmax(dim=2)  # (B, 1, K+1)
        whole = (self.post(vectors) * attention).sum(dim=2)  # (B, 2C)
        with torch.no_grad():
            self.border.lerp_(border_shares(regions), 0.1)
        return {
            "classification": nnf.cross_entropy(self.classify(self.norm(whole)), step.classes),
            "occurrence": occurrence_loss(regions),
        }, regions.index_select(1, self.order())

    def order(self) -> Tensor:
        """Regions with the background last: (K+1,)."""
        numbers = torch.arange(len(self.border), device=self.border.device)
        return (numbers + (numbers == self.border.argmax()) * len(numbers)).argsort()

    def describe(self, images: Tensor, frozen: Tensor | None = None) -> PartMaps:
        features = self.frozen(images) if frozen is None else frozen
        logits = self.assignment_logits(features)[0].index_select(1, self.order())
        centres = nnf.normalize(self.centres, dim=1).index_select(0, self.order())
        return PartMaps(logits, centres.expand(len(images), -1, -1))


class Bottleneck(nn.Module):
    """1x1, 1x1, 1x1 with a way past, for region vectors (B, C, K+1)."""

    def __init__(self, inputs: int, inner: int, outputs: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(inputs, inner, 1, bias=False), nn.BatchNorm1d(inner), nn.ReLU(),
            nn.Conv1d(inner, inner, 1, bias=False), nn.BatchNorm1d(inner), nn.ReLU(),
            nn.Conv1d(inner, outputs, 1, bias=False), nn.BatchNorm1d(outputs))
        self.past = nn.Identity() if inputs == outputs else nn.Conv1d(inputs, outputs, 1, bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        return (self.layers(vectors) + self.past(vectors)).relu()


def assignment_logits(features: Tensor, centres: Tensor, smoothing: Tensor) -> Tensor:
    """min(0, -||x - c_k||²) / beta_k: features (B, C, h, w), centres (n, C), smoothing (n,) -> (B, n, h, w)."""
    products = torch.einsum("nc,bchw->bnhw", centres, features)
    lengths = features.square().sum(dim=1, keepdim=True) + centres.square().sum(dim=1).view(1, -1, 1, 1)
    return (2 * products - lengths).clamp(max=0) / smoothing.view(1, -1, 1, 1)


def region_vectors(regions: Tensor, features: Tensor, centres: Tensor, smoothing: Tensor) -> Tensor:
    """(sum Q x / max(sum Q, 1e-5) - c_k) / sqrt(beta_k / 2), at unit length: (B, n, C)."""
    sums = torch.einsum("bnhw,bchw->bnc", regions, features)
    means = sums / regions.sum(dim=(2, 3)).clamp_min(SMALL)[:, :, None]
    return nnf.normalize((means - centres) / (smoothing / 2).sqrt()[None, :, None], dim=2)


def occurrence_loss(regions: Tensor) -> Tensor:
    """Mean over images and regions of |log(t + 1e-5) - log(prior + 1e-5)|.

    t is the maximum over positions of the blurred map, sorted over the batch; the prior is the inverse distribution
    function of Beta(1, 0.001) at (2b - 1) / 2B, b = 1..B. regions (B, n, h, w).
    """
    peaks = blurred(regions).amax(dim=(2, 3)).sort(dim=0).values  # (B, n)
    prior = beta_quantiles(len(regions)).to(peaks)[:, None]  # (B, 1)
    return ((peaks + SMALL).log() - (prior + SMALL).log()).abs().mean()


def blurred(maps: Tensor) -> Tensor:
    """Gaussian of radius 2 and deviation 0.4, without padding; a grid too small for it is left alone."""
    if min(maps.shape[2:]) < 2 * RADIUS + 1:
        return maps
    offsets = torch.arange(-RADIUS, RADIUS + 1, device=maps.device, dtype=maps.dtype)
    line = (-offsets.square() / (2 * SIGMA**2)).exp()
    kernel = torch.outer(line, line)
    kernel = (kernel / kernel.sum()).expand(maps.shape[1], 1, -1, -1)
    return nnf.conv2d(maps, kernel, groups=maps.shape[1])


def beta_quantiles(number: int) -> Tensor:
    """Of Beta(1, b) at (2i - 1) / 2n, i = 1..n: 1 - (1 - u)^(1/b)."""
    levels = (2 * torch.arange(1, number + 1, dtype=torch.float64) - 1) / (2 * number)
    return (1 - (1 - levels) ** (1 / BETA[1])).float()


def border_shares(regions: Tensor) -> Tensor:
    """Mean of each map on the outermost ring of positions: (B, n, h, w) -> (n,)."""
    ring = torch.ones(regions.shape[2:], device=regions.device)
    ring[1:-1, 1:-1] = 0
    return (regions * ring).sum(dim=(2, 3)).mean(dim=0) / ring.sum()
