"""Block (d): encode the visible patches, decode the filled map into an image."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mpae.model.masking import gather_tokens, patchify, unpatchify, visible_positions
from mpae.model.transformer import Layer, initialise, sincos_positions

FAINT = 0.1  # of the released initial weights that stay in queries and keys which look nearby


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
                 pixels_per_patch: int = 8, window: int | None = None, nearby: bool = False):
        """
        Args:
            window: side in patches of the windows that it is trained on, where they are less than the whole image. It
                then restores a whole image from overlapping windows: with more patches at once, attention goes astray.
            nearby: attention begins by looking at patches nearby (ours, not the paper's).
        """
        super().__init__()
        self.grid = grid
        self.pixels_per_patch = pixels_per_patch
        self.window = window if window is not None and window < min(grid) else None
        self.register_buffer("positions", sincos_positions(grid, dim))
        stack = [Layer(dim, heads) for _ in range(layers)]
        self.layers = nn.ModuleList(stack)
        self.norm = nn.LayerNorm(dim)
        self.paint = nn.Linear(dim, 3 * pixels_per_patch**2)
        self.apply(initialise)
        if nearby:
            for layer in stack:
                look_nearby(layer)

    @property
    def image_size(self) -> tuple[int, int]:
        """(H', W') of the restored image."""
        return self.grid[0] * self.pixels_per_patch, self.grid[1] * self.pixels_per_patch

    def forward(self, filled: Tensor, window: Tensor | None = None) -> Tensor:
        """filled (B, N, C) -> restored (B, 3, H', W'), in normalised colours; of a window (B, side²) only that."""
        if window is None and self.window is not None:
            return self._window_by_window(filled, self.window)
        tokens = filled + self.positions
        if window is not None:
            tokens = gather_tokens(tokens, window)  # (B, side², C)
        for layer in self.layers:
            tokens = layer(tokens)
        grid = self.grid if window is None else square(window)
        return unpatchify(self.paint(self.norm(tokens)), self.pixels_per_patch, grid)


    def _window_by_window(self, filled: Tensor, side: int) -> Tensor:
        """(B, N, C) -> (B, 3, H', W'), from windows that overlap by half, each counting most in its middle."""
        places = torch.arange(filled.shape[1], device=filled.device).view(self.grid)
        pixels = side * self.pixels_per_patch
        across = torch.arange(1.0, pixels + 1, device=filled.device)
        tent = torch.minimum(across, across.flip(0))  # (pixels,)
        total = filled.new_zeros(len(filled), 4, *self.image_size)  # colours by weight, and the weight
        for top in windows_along(self.grid[0], side):
            for left in windows_along(self.grid[1], side):
                window = places[top : top + side, left : left + side].reshape(1, -1).expand(len(filled), -1)
                restored = nn.functional.pad(self(filled, window), (0, 0, 0, 0, 0, 1), value=1.0)  # (B, 4, ..)
                y, x = self.pixels_per_patch * top, self.pixels_per_patch * left
                total[:, :, y : y + pixels, x : x + pixels] += tent[:, None] * tent * restored
        return total[:, :3] / total[:, 3:]


def windows_along(patches: int, side: int) -> list[int]:
    """Where windows begin that cover so many patches and overlap by half; the last one ends with them.

    >>> windows_along(16, 8), windows_along(7, 4)
    ([0, 4, 8], [0, 2, 3])
    """
    return sorted({min(start, patches - side) for start in range(0, patches, max(side // 2, 1))})


@torch.no_grad()
def look_nearby(layer: Layer) -> None:
    """Queries and keys of a layer that pick sines and cosines of the same frequencies, of row and column, in each head.

    The product of two such positions is a sum of cosines of their distance, largest for patches nearby. From random
    weights a decoder takes hundreds of steps to find that colours are those of the visible patches around (compare
    Trockman and Kolter, "Mimetic initialization of self-attention layers", 2023).
    """
    weight = layer.query_key_value.weight  # (3 C, C)
    dim = weight.shape[1]
    frequencies = sorted(range(dim // 4), key=lambda each: each % layer.heads)  # every head has high and low ones
    order = torch.arange(dim).view(4, -1)[:, frequencies].T.flatten()  # of `sincos_positions`
    chosen = torch.eye(dim)[order]  # (C, C)
    weight[: 2 * dim] = FAINT * weight[: 2 * dim] + chosen.repeat(2, 1)


def square(window: Tensor) -> tuple[int, int]:
    """Rows and columns of a square window (B, side²)."""
    side = math.isqrt(window.shape[1])
    return side, side


def cut_out(images: Tensor, window: Tensor, pixels_per_patch: int) -> Tensor:
    """What a decoder restores of a window (B, side²): (B, 3, H', W') -> (B, 3, side·p, side·p); any
    number of channels."""
    return unpatchify(gather_tokens(patchify(images, pixels_per_patch), window), pixels_per_patch, square(window))
