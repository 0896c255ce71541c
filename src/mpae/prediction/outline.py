"""Outlines that follow the edges of the picture, for masks that come from a coarse grid of patches.

Only object against background is refined; which part a pixel of the object is stays as it was, so that neighbouring
parts do not eat each other. The probability of object u is smoothed by weighted least squares,

    min_u  sum_p (u_p - f_p)² + lambda sum_{p,q neighbours} exp(-|I_p - I_q| / sigma) (u_p - u_q)²,

which lets it run where colours I are alike and stops it at edges. It is solved along columns and rows in turn (Min et
al., "Fast global image smoothing", 2014), each a tridiagonal system: the time grows with the number of pixels alone.
Patches that are unsure count less: weights c and c f are smoothed alike, and their quotient is the answer.

NumPy, like the masks: it runs in their threads. The work is done at LONGEST pixels at most, whatever the photo.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from mpae.errors import MPAEError
from mpae.prediction.masks import interpolation_axis

OUTLINES = ("pixel", "patch")  # the edges in the picture, as prediction has it if not asked; or the grid of patches
LONGEST = 384  # pixels along the longer side at which edges are looked for
REACH = 12.0  # lambda, in squares of the side of a patch
EDGE = 0.03  # sigma: a step of colour, of 0..1 in each channel, that counts as an edge
UNSURE = 0.05  # weight of a patch that says nothing; one that is sure has 1 more
ROUNDS = 3
CERTAIN = 1e-4  # least probability of object or background
DIGITS = 1024  # steps of a logit of 1 that count: the last digits depend on the other images of a batch


def checked_outline(outline: str) -> str:
    if outline not in OUTLINES:
        raise MPAEError(f"Unknown outline '{outline}'; choose one of: {', '.join(OUTLINES)}.")
    return outline


def refine(logits: np.ndarray, image: Image.Image, size: tuple[int, int] | None = None) -> np.ndarray:
    """Logits on the pixels of the picture, made smaller where it is large, whose background keeps to its edges.

    Args:
        logits: (K+1, h, w), background last.
        image: RGB, of any size.
        size: width and height of the picture, where `image` is a smaller or larger copy of it.
    Returns:
        (K+1, H', W') float32: the largest logit is the background's where the refined probability of object is
        below one half; among the parts the order is that of the logits, interpolated.
    """
    grid = logits.shape[1:]
    width, height = working_size(size or image.size)
    colours = np.asarray(image.resize((width, height), Image.Resampling.BOX), dtype=np.float32) / 255  # (H', W', 3)
    columns, rows = interpolation_axis(width, grid[1]).weights, interpolation_axis(height, grid[0]).weights
    coarse = np.round(np.asarray(logits, dtype=np.float32) * DIGITS) / DIGITS
    fine = rows @ (coarse @ columns.T)  # (K+1, H', W')
    best = fine[:-1].max(axis=0)
    patch = max(width / grid[1], height / grid[0])  # pixels
    share = refined_share(1 / (1 + np.exp((fine[-1] - best).clip(-30, 30))), colours, patch)
    fine[-1] = best - np.log(share / (1 - share))
    return fine


def working_size(size: tuple[int, int]) -> tuple[int, int]:
    """Width and height of the picture, reduced to LONGEST where it is larger."""
    scale = min(1.0, LONGEST / max(size))
    return max(round(size[0] * scale), 1), max(round(size[1] * scale), 1)


def refined_share(share: np.ndarray, colours: np.ndarray, patch: float) -> np.ndarray:
    """Probability of object (H, W), smoothed between the edges of colours (H, W, 3); `patch` in pixels."""
    sure = (2 * share - 1) ** 2 + UNSURE
    smooth = np.stack([sure * share, sure]).astype(np.float32)  # (2, H, W)
    down = likeness(colours, axis=0)  # (H-1, W)
    across = likeness(colours, axis=1).T  # (W-1, H)
    for step in range(ROUNDS):
        weight = np.float32(1.5 * REACH * patch**2 * 4 ** (ROUNDS - 1 - step) / (4**ROUNDS - 1))
        smooth = smooth_columns(smooth, weight * down)
        smooth = smooth_columns(smooth.transpose(0, 2, 1), weight * across).transpose(0, 2, 1)
    return (smooth[0] / smooth[1]).clip(CERTAIN, 1 - CERTAIN)


def likeness(colours: np.ndarray, axis: int) -> np.ndarray:
    """exp(-|step of colour| / EDGE) between neighbours along an axis."""
    return np.exp(-np.sqrt(np.square(np.diff(colours, axis=axis)).sum(axis=2)) / EDGE)


def smooth_columns(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Solves (1 + L) u = f down every column, L the Laplacian of a chain: f (n, H, W), weights (H-1, W) -> (n, H, W).

    Elimination and substitution (Thomas), all columns at once.
    """
    height = values.shape[1]
    zero = np.zeros_like(weights[:1]) if height > 1 else np.zeros((1, values.shape[2]), dtype=np.float32)
    weights = np.concatenate([zero, weights, zero])  # (H+1, W): above and below each row
    result = np.moveaxis(values, 1, 0).astype(np.float32, order="C")  # (H, n, W)
    carried = np.zeros_like(weights)
    for row in range(height):
        pivot = 1 + weights[row] + weights[row + 1]
        if row:
            pivot -= weights[row] * carried[row - 1]
            result[row] += weights[row] * result[row - 1]
        carried[row] = weights[row + 1] / pivot
        result[row] /= pivot
    for row in range(height - 2, -1, -1):
        result[row] += carried[row] * result[row + 1]
    return np.moveaxis(result, 0, 1)
