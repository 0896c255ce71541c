"""A second, closer look: the first finds where the object is, the second sees it as large as the input allows.

A bird that takes up a third of the photo is seven patches wide in an input of 224 px. Cut out and enlarged it is
fourteen: small parts are found, and outlines are finer, for the price of a first look at few pixels. Where objects fill
the photo, or there are none, the second look is at the whole of it.

The close-up is a whole number of patches of a photo that is a whole number of the same patches, so what the second look
says is put into a map of the photo as it is, without interpolation. Around it stays what the first look said.
docs/studies/close_up.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as nnf
from PIL import Image
from torch import Tensor

from mpae.data.geometry import Size
from mpae.model import MPAE

LEAST = 12  # patches along the side of the input, below which there is one look
FIRST = 12  # patches along the side of the first look
MARGIN = 0.1  # of the object's width and height, on every side
SLENDER = 1.5  # times as long as wide, in pixels of the photo, at most: the close-up is squashed to a square
MINOR = 0.2  # of the largest piece of foreground: smaller ones need not be in the close-up
CLOSEST = 4  # times as large as in the whole photo, at most


class CloseUp(NamedTuple):
    """`height` x `width` patches, from `top` and `left` on, of a photo that has `rows` x `columns` of them."""

    top: int
    left: int
    height: int
    width: int
    rows: int
    columns: int


@dataclass(frozen=True)
class CloseUps:
    """Of B photos."""

    images: Tensor  # (B, 3, S, S) in [0, 1], the inputs of the second look
    first: Tensor  # (B, K+1, h, w), logits of the first
    where: list[CloseUp]

    def placed(self, logits: Tensor) -> list[Tensor]:
        """Logits of the whole photos, (K+1, rows, columns) each, from (B, K+1, height, width) of the close-ups."""
        return [placed(*each) for each in zip(logits.cpu(), self.first, self.where, strict=True)]


def can_look_closer(model: Any) -> bool:
    """Whether this is a model that takes images of any size, and large enough ones."""
    return isinstance(model, MPAE) and model.image_size // model.backbone.patch_size >= LEAST


def look_closer(model: Any, images: Tensor, shown: Sequence[np.ndarray],
                part_logits: Callable[[Tensor], Tensor]) -> CloseUps:
    """Close-ups of photos, after a first look at them.

    Args:
        model: one that `can_look_closer`.
        images: (B, 3, S, S) in [0, 1], the photos as inputs.
        shown: (H, W, 3) uint8 each, the photos at a size to look at.
        part_logits: of the model, of images of any size, (B, 3, s, s) -> (B, K+1, h, w).
    """
    patch_size = model.backbone.patch_size
    side, small = images.shape[-1], FIRST * patch_size
    few = images if side <= small else nnf.interpolate(images, (small, small), mode="bilinear", antialias=True)
    first = part_logits(few).float().cpu()
    where = [find_close_up(logits, (photo.shape[1], photo.shape[0]), side // patch_size)
             for logits, photo in zip(first.numpy(), shown, strict=True)]
    pixels = np.stack([cut_out(photo, close, side) for photo, close in zip(shown, where, strict=True)])
    closer = torch.from_numpy(pixels).to(images.device).permute(0, 3, 1, 2).float().div_(255).contiguous()
    return CloseUps(closer, first, where)


def find_close_up(logits: np.ndarray, size: Size, patches: int) -> CloseUp:
    """Where the object is.

    Args:
        logits: (K+1, h, w) of the first look, background last.
        size: width and height of the photo.
        patches: along the side of the input.
    """
    inside = main_pieces(logits[:-1].max(axis=0) > logits[-1])  # (h, w)
    if not inside.any():
        return CloseUp(0, 0, patches, patches, patches, patches)
    (top, bottom), (left, right) = extent(inside), extent(inside.T)  # in shares of the photo
    width, height = size
    wide, high = ((right - left) * (1 + 2 * MARGIN) * width, (bottom - top) * (1 + 2 * MARGIN) * height)  # pixels
    least = max(wide, high) / SLENDER
    rows, first_row = patches_around((top + bottom) / 2, max(high, least) / height, patches)
    columns, first_column = patches_around((left + right) / 2, max(wide, least) / width, patches)
    return CloseUp(first_row, first_column, patches, patches, rows, columns)


def main_pieces(inside: np.ndarray) -> np.ndarray:
    """Foreground (h, w) bool without the pieces that are minor beside the largest one."""
    from scipy.ndimage import label

    pieces, number = label(inside, structure=np.ones((3, 3)))
    areas = np.bincount(pieces.ravel(), minlength=number + 1)
    areas[0] = 0  # the background
    return np.asarray(inside & (areas >= MINOR * areas.max())[pieces])


def extent(inside: np.ndarray) -> tuple[float, float]:
    """From where to where rows of (h, w) bool have any that is True, in shares of all rows."""
    rows = np.flatnonzero(inside.any(axis=1))
    return float(rows[0] / len(inside)), float((rows[-1] + 1) / len(inside))


def patches_around(centre: float, share: float, patches: int) -> tuple[int, int]:
    """How many patches a side of the photo has if `patches` are to cover this share of it around a centre, and which of
    them is the first.

    >>> patches_around(0.5, 0.5, 16), patches_around(0.9, 0.5, 16), patches_around(0.5, 1.3, 16)
    ((32, 8), (32, 16), (16, 0))
    """
    every = int(min(max(patches / share, patches), CLOSEST * patches))
    return every, min(max(round(centre * every - patches / 2), 0), every - patches)


def cut_out(shown: np.ndarray, close: CloseUp, side: int) -> np.ndarray:
    """The close-up of a photo (H, W, 3) uint8, as an input (side, side, 3) uint8."""
    height, width = shown.shape[:2]
    box = (close.left * width / close.columns, close.top * height / close.rows,
           (close.left + close.width) * width / close.columns, (close.top + close.height) * height / close.rows)
    return np.asarray(Image.fromarray(shown).resize((side, side), Image.Resampling.BILINEAR, box))


def placed(closer: Tensor, first: Tensor, close: CloseUp) -> Tensor:
    """Logits (K+1, height, width) of a close-up, and around it (K+1, h, w) of the first look: (K+1, rows, columns)."""
    whole = nnf.interpolate(first[None], (close.rows, close.columns), mode="bilinear")[0]
    whole[:, close.top : close.top + close.height, close.left : close.left + close.width] = closer
    return whole
