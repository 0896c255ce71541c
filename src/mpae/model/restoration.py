"""Block (d): encode the visible patches, decode the filled map into an image."""

from __future__ import annotations

import math

from torch import Tensor, nn

from mpae.model.masking import gather_tokens, patchify, unpatchify, visible_positions
from mpae.model.transformer import Layer, initialise, sincos_positions


class VisibleEncoder(nn.Module):
    """Features F^U of the visible patches, and of them alone: hidden patches are never computed."""

    positions: Tensor

    def __init__(self, patch_size: int, grid: tuple[int, int], dim: int = 256, layers: int = 2, heads: int = 4):
        super().__init__()
        self.patch_size = patch_size
        self.embed = nn.Linear(3 * patch_size**2, dim)
        self.register_buffer("positions", sincos_positions(grid, dim))
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.project = nn.Linear(dim, dim)
        bias = self.embed.bias.detach().clone()
        self.apply(initialise)
        self.embed.bias.data.copy_(bias)  # the one bias that the released program does not begin with at 0

    def forward(self, images: Tensor, mask: Tensor) -> Tensor:
        """images (B, 3, H, W), mask (B, N) -> visible_features (B, V, C); V may be 0 (r = 100 %)."""
        visible = visible_positions(mask)  # (B, V)
        patches = gather_tokens(patchify(images, self.patch_size), visible)  # (B, V, 3p²)
        tokens = self.embed(patches) + self.positions[visible]  # (B, V, C)
        if visible.shape[1]:
            for layer in self.layers:
                tokens = layer(tokens)
        return self.project(self.norm(tokens))


class Decoder(nn.Module):
    """The filled map R as an image I', `pixels_per_patch` pixels along the side of each patch."""

    positions: Tensor

    def __init__(self, grid: tuple[int, int], dim: int = 256, layers: int = 2, heads: int = 4,
                 pixels_per_patch: int = 8):
        super().__init__()
        self.grid = grid
        self.pixels_per_patch = pixels_per_patch
        self.register_buffer("positions", sincos_positions(grid, dim))
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.paint = nn.Linear(dim, 3 * pixels_per_patch**2)
        self.apply(initialise)

    @property
    def image_size(self) -> tuple[int, int]:
        """(H', W') of the restored image."""
        return self.grid[0] * self.pixels_per_patch, self.grid[1] * self.pixels_per_patch

    def forward(self, filled: Tensor, window: Tensor | None = None) -> Tensor:
        """filled (B, N, C) -> restored (B, 3, H', W'), in normalised colours; of a window (B, side²) only that."""
        tokens = filled + self.positions
        if window is not None:
            tokens = gather_tokens(tokens, window)  # (B, side², C)
        for layer in self.layers:
            tokens = layer(tokens)
        grid = self.grid if window is None else square(window)
        return unpatchify(self.paint(self.norm(tokens)), self.pixels_per_patch, grid)


def square(window: Tensor) -> tuple[int, int]:
    """Rows and columns of a square window (B, side²)."""
    side = math.isqrt(window.shape[1])
    return side, side


def cut_out(images: Tensor, window: Tensor, pixels_per_patch: int) -> Tensor:
    """What a decoder restores of a window (B, side²): (B, 3, H', W') -> (B, 3, side·p, side·p); any
    number of channels."""
    return unpatchify(gather_tokens(patchify(images, pixels_per_patch), window), pixels_per_patch, square(window))
