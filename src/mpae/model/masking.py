"""Block (a): cut the image into patches and hide most of them."""

from __future__ import annotations

import torch
from torch import Tensor


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """(B, 3, H, W) -> patches (B, N, 3·p²), row by row."""
    B, channels, H, W = images.shape
    if H % patch_size or W % patch_size:
        raise ValueError(f"image of {H} x {W} is not a multiple of patch_size {patch_size}")
    h, w = H // patch_size, W // patch_size
    grid = images.reshape(B, channels, h, patch_size, w, patch_size)
    return grid.permute(0, 2, 4, 1, 3, 5).reshape(B, h * w, channels * patch_size**2)


def unpatchify(patches: Tensor, patch_size: int, grid: tuple[int, int]) -> Tensor:
    """The inverse of `patchify`: (B, N, 3·p²) -> (B, 3, H, W)."""
    B, _, length = patches.shape
    h, w = grid
    channels = length // patch_size**2
    cells = patches.reshape(B, h, w, channels, patch_size, patch_size)
    return cells.permute(0, 3, 1, 4, 2, 5).reshape(B, channels, h * patch_size, w * patch_size)


def num_visible(num_patches: int, mask_ratio: float) -> int:
    """floor(N (1 - r)), safe against 100 * (1 - 0.9) = 9.999…: 25 of 256 and 102 of 1024 at r = 0.9."""
    return int(num_patches * (1 - mask_ratio) + 1e-6)


def random_mask(batch: int, num_patches: int, mask_ratio: float, generator: torch.Generator | None = None) -> Tensor:
    """A fresh mask for each image: (B, N) bool, True = hidden, the same number visible in each row."""
    order = torch.rand(batch, num_patches, generator=generator).argsort(dim=1)
    mask = torch.ones(batch, num_patches, dtype=torch.bool)
    return mask.scatter_(1, order[:, : num_visible(num_patches, mask_ratio)], False)


def random_window(batch: int, grid: tuple[int, int], side: int, generator: torch.Generator | None = None) -> Tensor:
    """A square of side x side patches at a random place in each image: its positions (B, side²), row by row."""
    h, w = grid
    top = torch.randint(h - side + 1, (batch, 1, 1), generator=generator)
    left = torch.randint(w - side + 1, (batch, 1, 1), generator=generator)
    rows, columns = top + torch.arange(side)[:, None], left + torch.arange(side)  # (B, side, 1), (B, 1, side)
    return (rows * w + columns).flatten(1)


def visible_positions(mask: Tensor) -> Tensor:
    """mask (B, N) -> indices of its visible patches in image order (B, V); V is the same for all images."""
    return torch.nonzero(~mask)[:, 1].reshape(mask.shape[0], -1)


def gather_tokens(tokens: Tensor, positions: Tensor) -> Tensor:
    """tokens (B, N, C) at positions (B, V) -> (B, V, C)."""
    return tokens.gather(1, positions[:, :, None].expand(-1, -1, tokens.shape[2]))
