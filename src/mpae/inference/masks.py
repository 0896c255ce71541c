"""Masks at the size of the photo, from logits on the grid of patches.

The paper interpolates the features to the size of the image and matches them there. Matching is linear in
the features, so interpolating the K+1 logits gives the same logits at a fraction of the work. It is done in
tiles, and in each tile only for the channels that can matter there: between four grid points a channel stays
between its smallest and largest corner, so one that is far below another at its best corner is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mpae.inference.parts import Part

MAX_PARTS = 255  # a mask has 8 bits
TILE = 128  # pixels along the side of a tile
NEGLIGIBLE = 16.0  # a logit this far below another has less than 2e-7 of its probability: nothing in float32


class Axis(NamedTuple):
    """Bilinear interpolation along one axis, as F.interpolate with align_corners=False does it."""

    first: np.ndarray  # (pixels,) the grid point at or before each pixel's centre
    weights: Tensor  # (pixels, grid) rows sum to 1, at most two entries are not 0


def axis(pixels: int, grid: int) -> Axis:
    position = (np.arange(pixels) + 0.5) * (grid / pixels) - 0.5  # in units of the grid
    position = position.clip(0, grid - 1)
    first = np.floor(position).astype(np.int64)
    weights = np.zeros((pixels, grid), dtype=np.float32)
    every = np.arange(pixels)
    weights[every, first] = 1 - (position - first)
    weights[every, (first + 1).clip(max=grid - 1)] += position - first
    return Axis(first, torch.from_numpy(weights))


class InterpolatedLogits:
    """Logits (K+1, h, w) seen as a function on the H x W pixels of an image, evaluated where asked."""

    def __init__(self, logits: Tensor, size: tuple[int, int]):
        width, height = size
        self.logits = logits.detach().float().cpu()
        channels, h, w = self.logits.shape
        if channels - 1 > MAX_PARTS:
            raise ValueError(f"{channels - 1} parts do not fit into a mask of 8 bits; {MAX_PARTS} is the most.")
        self.rows, self.columns = axis(height, h), axis(width, w)
        corners = F.pad(self.logits, (0, 1, 0, 1), mode="replicate")  # (K+1, h+1, w+1)
        self.highest = F.max_pool2d(corners, kernel_size=2, stride=1)  # (K+1, h, w): in each cell of the grid
        lowest = -F.max_pool2d(-corners, kernel_size=2, stride=1)
        self.floor = lowest.amax(0)  # (h, w): the best channel of a cell is nowhere below this

    def contenders(self, y: slice, x: slice) -> Tensor:
        """Channels whose probability is not negligible everywhere in a tile, in rising order."""
        i = slice(self.rows.first[y.start], self.rows.first[y.stop - 1] + 1)
        j = slice(self.columns.first[x.start], self.columns.first[x.stop - 1] + 1)
        contends = self.highest[:, i, j] >= self.floor[i, j] - NEGLIGIBLE
        return contends.flatten(1).any(1).nonzero()[:, 0]

    def values(self, y: slice, x: slice, channels: Tensor) -> Tensor:
        """Interpolated logits of some channels in a tile, (n, tile height, tile width)."""
        i = slice(self.rows.first[y.start], self.rows.first[y.stop - 1] + 2)  # slices end at the grid's edge
        j = slice(self.columns.first[x.start], self.columns.first[x.stop - 1] + 2)
        across = self.logits[channels, i, j] @ self.columns.weights[x, j].T  # (n, few, tile width)
        return self.rows.weights[y, i] @ across


def segment(logits: Tensor, size: tuple[int, int]) -> tuple[np.ndarray, list[Part]]:
    """The mask of an image and the parts in it.

    Args:
        logits: (K+1, h, w), background last.
        size: width and height of the image.
    Returns:
        mask: (H, W) uint8, 0 background, 1..K parts.
        present: area, centre, box and confidence of each part in the mask.
    """
    width, height = size
    grid = InterpolatedLogits(logits, size)
    num_parts = len(logits) - 1
    labels = np.arange(1, num_parts + 2).astype(np.uint8)
    labels[num_parts] = 0
    mask = np.empty((height, width), dtype=np.uint8)
    count = Counts(num_parts + 1, size)
    for y in _tiles(height):
        for x in _tiles(width):
            channels = grid.contenders(y, x)
            if len(channels) == 1:
                mask[y, x] = labels[channels]
                count.add_uniform(y, x, int(channels))
                continue
            values = grid.values(y, x, channels)
            best, winner = values.max(0)  # (tile height, tile width)
            probability = 1 / values.sub_(best).exp_().sum(0)
            mask[y, x] = labels[channels.numpy()[winner.numpy()]]
            count.add(y, x, channels.numpy(), winner.numpy(), probability.numpy())
    return mask, count.parts(num_parts)


class Counts:
    """What area, centre, box and confidence follow from, gathered tile by tile."""

    def __init__(self, channels: int, size: tuple[int, int]):
        width, height = size
        self.rows = np.zeros((height, channels), dtype=np.int64)  # pixels of each channel in each row
        self.columns = np.zeros((width, channels), dtype=np.int64)
        self.certainty = np.zeros(channels)  # sum of its probability over its pixels

    def add(self, y: slice, x: slice, channels: np.ndarray, winner: np.ndarray, probability: np.ndarray) -> None:
        """``winner`` and ``probability`` of a tile; ``channels[winner]`` is the channel of each pixel."""
        height, width = winner.shape
        n = len(channels)
        by_row = np.bincount((winner + n * np.arange(height)[:, None]).ravel(), minlength=n * height)
        by_column = np.bincount((winner + n * np.arange(width)).ravel(), minlength=n * width)
        self.rows[y, channels] += by_row.reshape(height, n)
        self.columns[x, channels] += by_column.reshape(width, n)
        self.certainty[channels] += np.bincount(winner.ravel(), probability.ravel(), minlength=n)

    def add_uniform(self, y: slice, x: slice, channel: int) -> None:
        """A tile that one channel has for itself."""
        height, width = y.stop - y.start, x.stop - x.start
        self.rows[y, channel] += width
        self.columns[x, channel] += height
        self.certainty[channel] += height * width

    def parts(self, num_parts: int) -> list[Part]:
        area = self.rows.sum(0)  # (K+1,)
        present = np.flatnonzero(area[:num_parts])
        return [self._part(channel, int(area[channel])) for channel in present.tolist()]

    def _part(self, channel: int, area: int) -> Part:
        across, down = self.columns[:, channel], self.rows[:, channel]
        left, right = np.flatnonzero(across)[[0, -1]].tolist()
        top, bottom = np.flatnonzero(down)[[0, -1]].tolist()
        return Part(
            index=channel + 1, area=area, share=area / (len(across) * len(down)),
            centre=(_mean_position(across, area), _mean_position(down, area)),
            box=(left, top, right - left + 1, bottom - top + 1),
            confidence=float(self.certainty[channel] / area))


def _mean_position(counts: np.ndarray, area: int) -> float:
    return float((np.arange(len(counts)) + 0.5) @ counts / area)


def _tiles(pixels: int) -> Iterator[slice]:
    for start in range(0, pixels, TILE):
        yield slice(start, min(start + TILE, pixels))
