"""Masks at the size of the photo, from logits on the grid of patches.

The paper interpolates the features to the size of the image and matches them there. Matching is linear in
the features, so interpolating the K+1 logits gives the same logits at a fraction of the work. It is done in
tiles, and in each tile only for the channels that matter there: between four grid points a channel stays
between its smallest and its largest corner, so one whose best corner is far below another's worst is out.

NumPy, not torch: masks are made in threads while the network has the cores, and torch would wait for its
own pool of threads at each of many small steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mpae.prediction.parts import Part

MAX_PARTS = 255  # a mask has 8 bits
TILE = 128  # pixels along the side of a tile: the work on one stays in the processor's cache
NEGLIGIBLE = 14.0  # a logit this far below another has less than a millionth of its probability


class Axis(NamedTuple):
    """Bilinear interpolation along one axis, as F.interpolate with align_corners=False does it."""

    first: np.ndarray  # (pixels,) the grid point at or before the centre of each pixel
    weights: np.ndarray  # (pixels, grid) float32, rows sum to 1, two entries at most are not 0


def interpolation_axis(pixels: int, grid: int) -> Axis:
    position = ((np.arange(pixels) + 0.5) * (grid / pixels) - 0.5).clip(0, grid - 1)  # in steps of the grid
    first = np.floor(position).astype(np.int64)
    weights = np.zeros((pixels, grid), dtype=np.float32)
    every = np.arange(pixels)
    weights[every, first] = 1 - (position - first)
    weights[every, (first + 1).clip(max=grid - 1)] += (position - first).astype(np.float32)
    return Axis(first, weights)


class InterpolatedLogits:
    """Logits on a grid, (K+1, h, w), as a function on the pixels of an image."""

    def __init__(self, logits: np.ndarray, size: tuple[int, int]):
        width, height = size
        if not np.isfinite(logits).all():
            raise ValueError("The logits are not finite.")
        self.logits = np.ascontiguousarray(logits, dtype=np.float32)
        self.rows = interpolation_axis(height, logits.shape[1])
        self.columns = interpolation_axis(width, logits.shape[2])
        corners = np.pad(self.logits, ((0, 0), (0, 1), (0, 1)), mode="edge")
        corners = np.lib.stride_tricks.sliding_window_view(corners, (2, 2), axis=(1, 2))  # (K+1, h, w, 2, 2)
        self.highest = corners.max(axis=(3, 4))  # (K+1, h, w): in each cell of the grid
        self.floor = corners.min(axis=(3, 4)).max(axis=0)  # (h, w): the winner is nowhere below this

    def contenders(self, y: slice, x: slice) -> np.ndarray:
        """Channels that are not negligible everywhere in a tile, in rising order."""
        i = slice(self.rows.first[y.start], self.rows.first[y.stop - 1] + 1)
        j = slice(self.columns.first[x.start], self.columns.first[x.stop - 1] + 1)
        return np.flatnonzero((self.highest[:, i, j] >= self.floor[i, j] - NEGLIGIBLE).any(axis=(1, 2)))

    def values(self, y: slice, x: slice, channels: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Interpolated logits of some channels in a tile, (n, tile height, tile width)."""
        i = slice(self.rows.first[y.start], self.rows.first[y.stop - 1] + 2)  # ends at the edge of the grid
        j = slice(self.columns.first[x.start], self.columns.first[x.stop - 1] + 2)
        across = self.logits[channels, i, j] @ self.columns.weights[x, j].T  # (n, few, tile width)
        return self.rows.weights[y, i] @ across

    def probability_rows(self, part_of: Sequence[int] | None = None) -> Iterator[np.ndarray]:
        """The softmax at every pixel, part by part and from top to bottom: pieces (rows, W) float32."""
        bands, every = list(_cuts(self.rows.first)), slice(0, len(self.columns.first))
        log_sum = np.empty((len(self.rows.first), len(self.columns.first)), dtype=np.float32)
        for y, x in self.tiles():
            log_sum[y, x] = _log_sum_exp(self.values(y, x))
        joined = joined_channels(len(self.logits), part_of)
        for channel in range(joined[-1] + 1):
            for y in bands:
                values = self.values(y, every, np.flatnonzero(joined == channel))
                yield np.exp(values - log_sum[y]).sum(axis=0)

    def tiles(self) -> Iterator[tuple[slice, slice]]:
        columns = list(_cuts(self.columns.first))
        for y in _cuts(self.rows.first):
            for x in columns:
                yield y, x


def joined_channels(channels: int, part_of: Sequence[int] | None) -> np.ndarray:
    """The channel that each of K+1 becomes where parts are joined, (K+1,); the background stays last.

    Args:
        part_of: (K,) as `Hierarchy.part_of` gives it; None where no parts are joined.
    """
    if part_of is None:
        return np.arange(channels)
    return np.array([*part_of, max(part_of) + 1])


def segment(logits: np.ndarray, size: tuple[int, int],
            part_of: Sequence[int] | None = None) -> tuple[np.ndarray, list[Part]]:
    """The mask of an image and the parts in it.

    Args:
        logits: (K+1, h, w), background last.
        size: width and height of the image.
        part_of: (K,), the joined part that each belongs to. The mask is then that of the K parts, with other numbers.
    Returns:
        mask: (H, W) uint8, 0 background, 1..K parts.
        present: the parts in the mask, measured.
    """
    width, height = size
    joined = joined_channels(len(logits), part_of)
    num_parts = int(joined[-1])
    if num_parts > MAX_PARTS:
        raise ValueError(f"{num_parts} parts do not fit into a mask of 8 bits; expected at most {MAX_PARTS}.")
    labels = np.arange(1, num_parts + 2).astype(np.uint8)
    labels[num_parts] = 0
    grid = InterpolatedLogits(logits, size)
    counts = Counts(num_parts + 1, size)
    mask = np.empty((height, width), dtype=np.uint8)
    for y, x in grid.tiles():
        channels = grid.contenders(y, x)
        parts = np.unique(joined[channels])
        if len(parts) == 1:
            mask[y, x] = labels[parts]
            counts.add_uniform(y, x, parts[0])
        else:
            values = grid.values(y, x, channels)
            winner, probability = _strongest(values)
            if len(parts) < len(channels):  # `values` are by now their exponentials
                winner = np.searchsorted(parts, joined[channels]).astype(np.uint8)[winner]
                sums = np.stack([values[joined[channels] == part].sum(axis=0) for part in parts])
                probability *= np.take_along_axis(sums, winner[None].astype(np.int64), axis=0)[0]
            mask[y, x] = labels[parts][winner]
            counts.add(y, x, parts, winner, probability)
    return mask, counts.parts()


def probabilities(logits: np.ndarray, size: tuple[int, int], part_of: Sequence[int] | None = None) -> np.ndarray:
    """Softmax of the interpolated logits at every pixel, (K+1, H, W) float32, background last; joined parts' sums."""
    width, height = size
    channels = int(joined_channels(len(logits), part_of)[-1]) + 1
    result = np.empty((channels * height, width), dtype=np.float32)
    start = 0
    for rows in InterpolatedLogits(logits, size).probability_rows(part_of):
        result[start:start + len(rows)] = rows
        start += len(rows)
    return result.reshape(channels, height, width)


def _log_sum_exp(values: np.ndarray) -> np.ndarray:
    best = values.max(axis=0)
    return best + np.log(np.exp(values - best).sum(axis=0))


def _strongest(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First channel with the largest logit, uint8, and its softmax probability; overwrites (n, H, W) values."""
    best = values.max(axis=0)
    winner = np.zeros(best.shape, dtype=np.uint8)
    holds, code = np.empty_like(winner, dtype=bool), np.empty_like(winner)
    for channel in range(1, len(values)):
        # In 8 bits and without branches: several times as fast as argmax along the first axis.
        np.equal(values[-1 - channel], best, out=holds)
        np.multiply(holds, np.uint8(channel), out=code)
        np.maximum(winner, code, out=winner)
    values -= best
    np.exp(values, out=values)
    return np.subtract(np.uint8(len(values) - 1), winner, out=winner), 1 / values.sum(axis=0)


class Counts:
    """What area, centre, box and confidence follow from, gathered tile by tile."""

    def __init__(self, channels: int, size: tuple[int, int]):
        width, height = size
        self.rows = np.zeros((height, channels), dtype=np.int64)  # pixels of each channel in each row
        self.columns = np.zeros((width, channels), dtype=np.int64)
        self.certainty = np.zeros(channels)  # sum of its probability over its pixels

    def add(self, y: slice, x: slice, channels: np.ndarray, winner: np.ndarray, probability: np.ndarray) -> None:
        """A tile, of which ``channels[winner]`` is the channel of each pixel."""
        n, (height, width) = len(channels), winner.shape
        by_row = np.bincount((winner + n * np.arange(height)[:, None]).ravel(), minlength=n * height)
        by_column = np.bincount((winner + n * np.arange(width)).ravel(), minlength=n * width)
        self.rows[y, channels] += by_row.reshape(height, n)
        self.columns[x, channels] += by_column.reshape(width, n)
        self.certainty[channels] += np.bincount(winner.ravel(), probability.ravel(), minlength=n)

    def add_uniform(self, y: slice, x: slice, channel: int) -> None:
        """A tile that one channel has to itself."""
        height, width = y.stop - y.start, x.stop - x.start
        self.rows[y, channel] += width
        self.columns[x, channel] += height
        self.certainty[channel] += height * width

    def parts(self) -> list[Part]:
        """All channels that have pixels, but for the last, the background."""
        present = np.flatnonzero(self.certainty[:-1])
        return [self._part(channel) for channel in present.tolist()]

    def _part(self, channel: int) -> Part:
        across, down = self.columns[:, channel], self.rows[:, channel]
        area = int(down.sum())
        (left, right), (top, bottom) = _extent(across), _extent(down)
        return Part(
            index=channel + 1, area=area, share=area / (len(across) * len(down)),
            centre=(_mean_position(across), _mean_position(down)),
            box=(left, top, right - left, bottom - top),
            confidence=float(self.certainty[channel] / area))


def _extent(counts: np.ndarray) -> tuple[int, int]:
    positions = np.flatnonzero(counts)
    return int(positions[0]), int(positions[-1]) + 1


def _mean_position(counts: np.ndarray) -> float:
    return float((np.arange(len(counts)) + 0.5) @ counts / counts.sum())


def _cuts(first: np.ndarray) -> Iterator[slice]:
    """Cuts an axis into pieces of at most TILE pixels, between cells of the grid where one ends in time."""
    cells = np.flatnonzero(np.diff(first)) + 1  # pixels at which a cell begins
    start = 0
    while start < len(first):
        stop = min(start + TILE, len(first))
        ends = cells[(cells > start) & (cells <= stop)]
        if stop < len(first) and len(ends):
            stop = int(ends[-1])
        yield slice(start, stop)
        start = stop
