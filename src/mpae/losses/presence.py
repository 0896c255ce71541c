"""L_p = L_f + L_b: every part in each group of images, some part and background in each image (Eq. 4-6)."""

from __future__ import annotations

import torch
import torch.nn.functional as nnf
from torch import Tensor

from mpae.config import Reading


def foreground_loss(similarity: Tensor, group_size: int, reading: Reading = "released") -> Tensor:
    """Eq. 4: in each mini-group every part appears once, and in each image at least one part.

    The batch is cut into consecutive groups; a short last one counts as much as the others. The maximum
    over k runs over the foreground: the background would satisfy it in any image. The released reading
    averages 3x3 positions first, so that a single position cannot stand for a part.

    Args:
        similarity: (B, K+1, h, w), background last.
        group_size: G.
    """
    if group_size < 1:
        raise ValueError(f"group_size is {group_size}; a group has at least 1 image.")
    foreground = similarity[:, :-1]
    peaks = (smoothed(foreground) if reading == "released" else foreground).amax(dim=(2, 3))  # (B, K)
    losses = [2 - group.amax(dim=1).mean() - group.amax(dim=0).mean() for group in peaks.split(group_size)]
    return torch.stack(losses).mean()


def background_loss(similarity: Tensor, reading: Reading = "released") -> Tensor:
    """Eq. 5: each image has background, preferably far from its centre.

    The released reading averages 3x3 positions first and measures d on the smaller grid that this leaves.

    Args:
        similarity: (B, K+1, h, w), background last.
    """
    background = similarity[:, -1:]
    background = (smoothed(background) if reading == "released" else background)[:, 0]  # (B, h, w)
    _, height, width = background.shape
    distance = centre_distance(height, width, background.dtype, background.device)  # (h, w)
    peaks = (distance * background).amax(dim=(1, 2))  # (B,)
    # -log with the released bounds: no more than 100, and a slope of no more than 1e12.
    loss = nnf.binary_cross_entropy(peaks.nan_to_num(nan=1).clamp(max=1), torch.ones_like(peaks))
    return loss + 0 * peaks.sum()  # NaN stays NaN, which training tells by its name; torch would raise here


def centre_distance(
    height: int, width: int, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> Tensor:
    """Eq. 6: squared distance of each position from the centre, (h, w); 1 in the corners.

    An axis of a single position is all border: its share of d is 1/2, where Eq. 6 reads 0/0.
    """
    rows = torch.linspace(-1, 1, height, dtype=dtype, device=device).square() / 2
    columns = torch.linspace(-1, 1, width, dtype=dtype, device=device).square() / 2
    return rows[:, None] + columns[None, :]


def smoothed(maps: Tensor) -> Tensor:
    """Means over 3x3 positions: (B, k, h, w) -> (B, k, h-2, w-2); a grid too small for that is left alone."""
    return nnf.avg_pool2d(maps, kernel_size=3, stride=1) if min(maps.shape[-2:]) >= 3 else maps
