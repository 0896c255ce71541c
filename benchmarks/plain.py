"""The paper read plainly: every formula as it is printed, no thought for time or memory.

The yardstick of the benchmarks, and the reference of their tests: with the same weights it gives the same
losses, gradients and masks as the package. Where paper and released implementation disagree, it follows the
released one. Parameters have the names of the package's, so that `copy_weights` finds them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as nnf
from torch import Tensor, nn

from mpae.config import LossSettings, ModelSettings
from mpae.losses.perceptual import PerceptualNetwork
from mpae.model.mpae import MPAE, Backbone, MPAEOutput

# Written out here and not taken from the package, which these are to check.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's colours
LAYERS = (1, 6, 11, 20, 29)  # relu1_1, relu2_1, relu3_1, relu4_1, relu5_1 of VGG-19
PIXEL_WEIGHT = 0.1
LAYER_WEIGHTS = {"bundled": (0.5, 0.5, 0.5, 0.5, 0.5),  # its layers have equal activations
                 "vgg19": (0.15625, 0.3125, 0.625, 1.25, 5.0)}


class PlainQuickGELU(nn.Module):
    """x·σ(1.702 x)."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class PlainLayer(nn.Module):
    """A pre-norm transformer layer, softmax(Q Kᵀ) V spelled out, on all tokens."""

    def __init__(self, dim: int, heads: int, activation: type[nn.Module] = nn.GELU):
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.project = nn.Linear(dim, dim)
        self.norm_mlp = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), activation(), nn.Linear(4 * dim, dim))

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (B, T, C) -> (B, T, C)."""
        joined = self.query_key_value(self.norm_attention(tokens))  # (B, T, 3C)
        query, key, value = (each.unflatten(2, (self.heads, -1)).transpose(1, 2) for each in joined.chunk(3, dim=2))
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])  # (B, heads, T, T)
        attended = scores.softmax(dim=-1) @ value  # (B, heads, T, C/heads)
        tokens = tokens + self.project(attended.transpose(1, 2).flatten(2))
        return tokens + self.mlp(self.norm_mlp(tokens))


def positions(grid: tuple[int, int], dim: int) -> Tensor:
    """(N, C): sines and cosines of the column, then of the row, at frequencies from 1 down to nearly 1/10000."""
    y, x = torch.meshgrid(*(torch.arange(side, dtype=torch.float64) for side in grid), indexing="ij")
    frequency = torch.tensor([10000 ** (-4 * index / dim) for index in range(dim // 4)], dtype=torch.float64)
    x, y = x.flatten()[:, None] * frequency, y.flatten()[:, None] * frequency  # (N, C/4)
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], dim=1).float()


class PlainPartFormer(nn.Module):
    """Block (b): a ViT with K+1 part tokens; what the last layer makes of the patches is thrown away."""

    def __init__(self, num_parts: int, patch_size: int, grid: tuple[int, int], dim: int, layers: int, heads: int):
        super().__init__()
        self.num_parts = num_parts
        self.embed = nn.Conv2d(3, dim, patch_size, stride=patch_size, bias=False)
        self.part_tokens = nn.Parameter(torch.zeros(num_parts + 1, dim))
        self.part_positions = nn.Parameter(torch.zeros(num_parts + 1, dim))
        self.patch_positions = nn.Parameter(positions(grid, dim))
        self.norm_input = nn.LayerNorm(dim)
        self.layers = nn.Sequential(*(PlainLayer(dim, heads, PlainQuickGELU) for _ in range(layers)))
        self.norm_output = nn.LayerNorm(dim)
        self.project = nn.Linear(dim, dim, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """images (B, 3, H, W), normalised -> descriptors (B, K+1, C)."""
        patches = self.embed(images).flatten(2).transpose(1, 2) + self.patch_positions  # (B, N, C)
        parts = (self.part_tokens + self.part_positions).expand(len(images), -1, -1)  # (B, K+1, C)
        tokens = self.layers(self.norm_input(torch.cat([parts, patches], dim=1)))  # (B, K+1+N, C)
        return self.project(self.norm_output(tokens))[:, : self.num_parts + 1]


class PlainEncoder(nn.Module):
    """Blocks (a) and (d): embed all patches, keep the visible ones, encode them."""

    positions: Tensor

    def __init__(self, patch_size: int, grid: tuple[int, int], dim: int, layers: int, heads: int):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch_size, stride=patch_size)
        self.register_buffer("positions", positions(grid, dim), persistent=False)
        self.layers = nn.Sequential(*(PlainLayer(dim, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(dim)
        self.project = nn.Linear(dim, dim)

    def forward(self, images: Tensor, mask: Tensor) -> Tensor:
        """images (B, 3, H, W), mask (B, N), True = hidden -> visible_features (B, V, C)."""
        patches = self.embed(images).flatten(2).transpose(1, 2) + self.positions  # (B, N, C)
        visible = torch.stack([each[~hidden] for each, hidden in zip(patches, mask, strict=True)])  # (B, V, C)
        return self.project(self.norm(self.layers(visible)))


class PlainDecoder(nn.Module):
    """Block (d): the filled map as an image."""

    positions: Tensor

    def __init__(self, grid: tuple[int, int], dim: int, layers: int, heads: int, pixels_per_patch: int):
        super().__init__()
        self.grid, self.pixels = grid, pixels_per_patch
        self.register_buffer("positions", positions(grid, dim), persistent=False)
        self.layers = nn.Sequential(*(PlainLayer(dim, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(dim)
        self.paint = nn.Linear(dim, 3 * pixels_per_patch**2)

    def forward(self, filled: Tensor) -> Tensor:
        """filled (B, N, C) -> restored (B, 3, H', W')."""
        painted = self.paint(self.norm(self.layers(filled + self.positions)))  # (B, N, 3·p'²)
        cells = painted.transpose(1, 2)  # (B, 3·p'², N)
        side = self.grid[0] * self.pixels, self.grid[1] * self.pixels
        return nnf.fold(cells, side, kernel_size=self.pixels, stride=self.pixels)


class PlainMPAE(nn.Module):
    """The four blocks; the frozen backbone runs in every step."""

    mean: Tensor
    std: Tensor

    def __init__(self, settings: ModelSettings, backbone: Backbone, image_size: int):
        super().__init__()
        patch, dim = backbone.patch_size, settings.dim
        grid = (image_size // patch,) * 2
        self.backbone = backbone
        self.compress = nn.Conv2d(backbone.dim, dim, kernel_size=1, bias=False)
        self.partformer = PlainPartFormer(settings.num_parts, patch, grid, dim, settings.partformer_layers,
                                          settings.partformer_heads)
        self.encoder = PlainEncoder(patch, grid, dim, settings.encoder_layers, settings.restoration_heads)
        self.decoder = PlainDecoder(grid, dim, settings.decoder_layers, settings.restoration_heads,
                                    settings.pixels_per_patch)
        self.restored_size = grid[0] * settings.pixels_per_patch
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(DEVIATION).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor, mask: Tensor) -> MPAEOutput:
        """images (B, 3, H, W) in [0, 1], mask (B, N), True = hidden."""
        normalised = (images - self.mean) / self.std
        descriptors = self.partformer(normalised)  # (B, K+1, C)
        features = self.compress(self.backbone(images))  # (B, C, h, w)
        similarity = torch.einsum("bkc,bchw->bkhw", descriptors, features).softmax(dim=1)  # Eq. 1
        mixture = torch.einsum("bkhw,bkc->bhwc", similarity, descriptors).flatten(1, 2)  # (B, N, C)
        filled = mixture.masked_scatter(~mask[:, :, None], self.encoder(normalised, mask))  # Eq. 2
        restored = self.decoder(filled)  # (B, 3, H', W')
        target = nnf.interpolate(normalised, self.restored_size, mode="bilinear")
        return MPAEOutput(similarity, descriptors, features, restored, target)

    @torch.no_grad()
    def masks(self, images: Tensor, size: tuple[int, int]) -> Tensor:
        """Inference: images (B, 3, S, S) -> masks (B, H, W) uint8 at (H, W) = size; 0 background, 1..K parts."""
        descriptors = self.partformer((images - self.mean) / self.std)  # (B, K+1, C)
        features = self.compress(self.backbone(images))  # (B, C, h, w)
        features_up = nnf.interpolate(features, size, mode="bilinear")  # (B, C, H, W)
        similarity = torch.einsum("bkc,bchw->bkhw", descriptors, features_up).softmax(dim=1)  # (B, K+1, H, W)
        labels = similarity.argmax(dim=1)  # (B, H, W), the background is the last
        return ((labels + 1) % similarity.shape[1]).to(torch.uint8)


class PlainObjective(nn.Module):
    """L = L_r + lambda_p L_p + lambda_s L_s + lambda_d L_d with the released constants, term by term."""

    def __init__(self, settings: LossSettings, group_size: int, vgg: PerceptualNetwork):
        super().__init__()
        self.settings, self.group_size = settings, group_size
        self.vgg = plain_vgg(vgg)

    def forward(self, output: MPAEOutput, target: Tensor) -> dict[str, Tensor]:
        """Every term before weighting, and the weighted sum as "total"."""
        similarity, settings = output.similarity, self.settings
        terms = {
            "restoration": self.restoration_loss(output.restored, target),
            "foreground": foreground_loss(similarity, self.group_size),
            "background": background_loss(similarity),
            "semantic": semantic_loss(similarity, output.descriptors, output.features, settings.scale, settings.margin),
            "variation": variation_loss(similarity),
            "entropy": -(similarity * similarity.log()).sum(dim=1).mean(),  # Eq. 11
        }
        total = (terms["restoration"]
                 + settings.presence * (terms["foreground"] + terms["background"])
                 + settings.semantic * terms["semantic"]
                 + settings.distribution * (terms["variation"] + terms["entropy"]))
        return terms | {"total": total}

    def restoration_loss(self, restored: Tensor, target: Tensor) -> Tensor:
        """Eq. 3: L1 of pixels and of five VGG layers."""
        layers = LAYER_WEIGHTS[self.settings.vgg]
        loss = PIXEL_WEIGHT * (restored - target).abs().mean()
        for weight, ours, theirs in zip(layers, self.perceive(restored), self.perceive(target), strict=True):
            loss = loss + weight * (ours - theirs).abs().mean()
        return loss

    def perceive(self, images: Tensor) -> Sequence[Tensor]:
        maps = []
        for index, layer in enumerate(self.vgg):
            images = layer(images)
            if index in LAYERS:
                maps.append(images)
        return maps


def plain_vgg(network: PerceptualNetwork) -> nn.Sequential:
    """The same frozen layers as textbook convolutions in the default memory format."""
    layers: list[nn.Module] = []
    for layer in network.features:
        if isinstance(layer, nn.Conv2d):
            layers.append(nn.Conv2d(layer.in_channels, layer.out_channels, 3, padding=1))
            layers[-1].load_state_dict(layer.state_dict())
        else:
            layers.append(layer)
    return nn.Sequential(*layers).requires_grad_(False)


def foreground_loss(similarity: Tensor, group_size: int) -> Tensor:
    """Eq. 4 on means over 3x3 positions."""
    peaks = nnf.avg_pool2d(similarity[:, :-1], 3, stride=1).amax(dim=(2, 3))  # (B, K)
    losses = [(1 - group.amax(dim=0).mean()) + (1 - group.amax(dim=1).mean()) for group in peaks.split(group_size)]
    return torch.stack(losses).mean()


def background_loss(similarity: Tensor) -> Tensor:
    """Eq. 5 and 6 on means over 3x3 positions."""
    background = nnf.avg_pool2d(similarity[:, -1:], 3, stride=1)[:, 0]  # (B, h-2, w-2)
    _, h, w = background.shape
    y = torch.linspace(-1, 1, h, dtype=background.dtype)[:, None]
    x = torch.linspace(-1, 1, w, dtype=background.dtype)[None, :]
    distance = (x**2 + y**2) / 2  # (h-2, w-2)
    return -(distance * background).amax(dim=(1, 2)).log().mean()


def semantic_loss(similarity: Tensor, descriptors: Tensor, features: Tensor, scale: float, margin: float) -> Tensor:
    """Eq. 7-9: the mean feature of a part against all descriptors, with a margin on its own."""
    weighted = similarity[:, None] * features[:, :, None]  # (B, C, K+1, h, w)
    means = nnf.normalize(weighted.mean(dim=(3, 4))[:, :, :-1], dim=1)  # (B, C, K), Eq. 8 up to its length
    cosine = torch.einsum("bct,bkc->btk", means, nnf.normalize(descriptors[:, :-1], dim=2))  # (B, K, K), Eq. 9
    sine = (1 - cosine**2).clamp(min=1e-6).sqrt()
    shifted = torch.where(cosine > math.cos(math.pi - margin),
                          cosine * math.cos(margin) - sine * math.sin(margin),  # cos(theta + m)
                          cosine - margin * math.sin(math.pi - margin))
    own = torch.eye(cosine.shape[1], dtype=torch.bool)
    logits = torch.where(own, shifted, cosine)
    shares = (scale * logits).exp() / (scale * logits).exp().sum(dim=2, keepdim=True)  # (B, K, K)
    present = similarity[:, :-1].sum(dim=(2, 3)) > 1e-3  # (B, K)
    return -(shares.diagonal(dim1=1, dim2=2).log() * present).mean()


def variation_loss(similarity: Tensor) -> Tensor:
    """Eq. 10."""
    down = (similarity[:, :, 1:] - similarity[:, :, :-1]).abs().sum()
    across = (similarity[:, :, :, 1:] - similarity[:, :, :, :-1]).abs().sum()
    batch, _, h, w = similarity.shape
    return (down + across) / (batch * h * w)


def copy_weights(source: MPAE, target: PlainMPAE) -> None:
    """The trained weights; a convolution over patches and a linear layer on them differ in shape only."""
    weights, own = source.trainable_state(), target.state_dict()
    for name in own:
        if not name.startswith("backbone."):
            own[name].copy_(weights[name].reshape(own[name].shape))
