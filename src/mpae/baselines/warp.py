"""Maps of one view seen from another, and where the two agree: what equivariance losses compare."""

from __future__ import annotations

import torch
import torch.nn.functional as nnf
from torch import Tensor


def warp(maps: Tensor, other_to_view: Tensor) -> tuple[Tensor, Tensor]:
    """Maps of a view, carried into the frame of the other view.

    Args:
        maps: (B, k, h, w).
        other_to_view: (B, 2, 3), coordinates of the other view -> of this view, both in [-1, 1].
    Returns:
        (B, k, h, w), and where that lies inside the view, (B, 1, h, w) as 0 or 1.
    """
    grid = nnf.affine_grid(other_to_view.to(maps), [len(maps), 1, *maps.shape[2:]], align_corners=False)
    inside = (grid.abs() <= 1).all(dim=3)[:, None].to(maps)  # (B, 1, h, w)
    return nnf.grid_sample(maps, grid, padding_mode="border", align_corners=False), inside


def equivariance_loss(similarity: Tensor, other: Tensor, other_to_view: Tensor) -> Tensor:
    """1 - mean over images and foreground parts of the cosine between the flattened map of one view, carried into the
    other, and the map of the other. Positions that only one view shows do not count. The gradient goes through both.

    Args:
        similarity: (B, K+1, h, w) of this view, background last.
        other: (B, K+1, h, w) of the other view.
        other_to_view: (B, 2, 3).
    """
    carried, inside = warp(similarity[:, :-1], other_to_view)
    ours, theirs = (carried * inside).flatten(2), (other[:, :-1] * inside).flatten(2)  # (B, K, N)
    return 1 - nnf.cosine_similarity(ours, theirs, dim=2, eps=1e-6).mean()


def centroids(similarity: Tensor) -> Tensor:
    """Centre of mass of each map, x and y in [-1, 1]: (B, k, h, w) -> (B, k, 2)."""
    height, width = similarity.shape[2:]
    x = (torch.arange(width, device=similarity.device) + 0.5) * 2 / width - 1
    y = (torch.arange(height, device=similarity.device) + 0.5) * 2 / height - 1
    mass = similarity.sum(dim=(2, 3)).clamp_min(1e-8)  # (B, k)
    return torch.stack([(similarity.sum(dim=2) * x).sum(dim=2), (similarity.sum(dim=3) * y).sum(dim=2)],
                       dim=2) / mass[:, :, None]
