"""A fully connected CRF (Krähenbühl and Koltun, 2011) by mean field, as Amir et al. use it.

By hand, in torch: nothing has to be compiled for it.
Kernels end at two deviations, so that each pixel looks at a window and not at all others.
"""

from __future__ import annotations

import torch
import torch.nn.functional as nnf
from torch import Tensor

ITERATIONS = 10
SMOOTH, SMOOTH_WEIGHT = 3.0, 50.0  # deviation in pixels of the Gaussian kernel, and its weight
BILATERAL, COLOUR, BILATERAL_WEIGHT = 5.0, 13.0, 15.0  # deviations in pixels and grey levels, and weight


def dense_crf(costs: Tensor, image: Tensor, scale: float = 1.0) -> Tensor:
    """Q_k(i) proportional to exp(-cost_k(i) + sum_m w_m sum_j k_m(i, j) Q_k(j)), ten times from exp(-cost).

    k_1 = exp(-|p_i - p_j|² / 2 s²), k_2 = exp(-|p_i - p_j|² / 2 a² - |I_i - I_j|² / 2 b²), j not i, each divided by
    the root of its row sums at i and at j.

    Args:
        costs: (n, H, W).
        image: (3, H, W), 0..255.
        scale: of the deviations in pixels, for an image that was reduced.
    Returns:
        (n, H, W), summing to 1 over n.
    """
    flat = torch.zeros_like(image[:1])
    kernels = [(SMOOTH_WEIGHT, windowed_kernel(flat, SMOOTH * scale, 1.0)),
               (BILATERAL_WEIGHT, windowed_kernel(image, BILATERAL * scale, COLOUR))]
    shares = (-costs).softmax(dim=0)
    for _ in range(ITERATIONS):
        messages = [weight * gather(shares, kernel) for weight, kernel in kernels]
        shares = (torch.stack(messages).sum(dim=0) - costs).softmax(dim=0)
    return shares


def windowed_kernel(image: Tensor, deviation: float, colour: float) -> Tensor:
    """k(i, j) for j in a window around i, symmetrically normalised: (c, H, W) -> (side², H W)."""
    height, width = image.shape[1:]
    radius = max(1, round(2 * deviation))
    side = 2 * radius + 1
    offsets = torch.arange(-radius, radius + 1, device=image.device, dtype=image.dtype)
    near = (offsets[:, None].square() + offsets[None].square()).flatten() / (2 * deviation**2)  # (side²,)
    around = nnf.unfold(image[None], side, padding=radius)[0].unflatten(0, (len(image), side**2))
    away = (around - image.flatten(1)[:, None]).square().sum(dim=0) / (2 * colour**2)  # (side², H W)
    inside = nnf.unfold(torch.ones_like(image[:1])[None], side, padding=radius)[0]
    kernel = (-near[:, None] - away).exp() * inside
    kernel[side**2 // 2] = 0  # not with itself
    root = kernel.sum(dim=0).clamp_min(1e-9).rsqrt()  # (H W,)
    return kernel * root * nnf.unfold(root.view(1, 1, height, width), side, padding=radius)[0]


def gather(shares: Tensor, kernel: Tensor) -> Tensor:
    """sum_j k(i, j) Q(j): shares (n, H, W), kernel (side², H W) -> (n, H, W)."""
    side, (_, height, width) = round(kernel.shape[0] ** 0.5), shares.shape
    around, found = nnf.pad(shares, [side // 2] * 4), torch.zeros_like(shares)
    for place, weights in enumerate(kernel.unflatten(1, (height, width))):  # a tensor of all windows would be large
        row, column = divmod(place, side)
        found.addcmul_(around[:, row : row + height, column : column + width], weights)
    return found
