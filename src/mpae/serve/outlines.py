"""Outlines of parts as SVG paths, from a mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

Point = tuple[int, int]  # x, y of a corner between pixels


def reduced(mask: Image.Image, side: int, lookup: Sequence[int]) -> np.ndarray:
    """A mask at most ``side`` pixels long, (h, w) uint8, with each value replaced by what stands for it."""
    factor = min(1.0, side / max(mask.size))
    width, height = (max(1, round(length * factor)) for length in mask.size)
    table = np.zeros(256, dtype=np.uint8)
    table[:len(lookup)] = lookup
    return table[np.asarray(mask.resize((width, height), Image.Resampling.NEAREST))]


def outline_paths(labels: np.ndarray) -> dict[int, str]:
    """For each label but 0 the path around its pixels, in pixels of (h, w) labels; holes are part of it.

    >>> outline_paths(np.array([[0, 0, 0], [0, 4, 0], [0, 0, 0]], dtype=np.uint8))
    {4: 'M1.5 1L2 1.5L1.5 2L1 1.5Z'}
    """
    present = [int(label) for label in np.unique(labels) if label]
    return {label: "".join(_path(loop) for loop in _loops(labels == label)) for label in present}


def _loops(inside: np.ndarray) -> Iterator[list[Point]]:
    """Closed walks along the border, the inside on the right."""
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    top, left = int(rows[0]), int(columns[0])
    following = _edges(np.pad(inside[top:rows[-1] + 1, left:columns[-1] + 1], 1))
    while following:
        start = next(iter(following))
        loop, here = [], start
        while True:
            ends = following[here]
            there = ends.pop()
            if not ends:
                del following[here]
            loop.append((here[0] + left, here[1] + top))
            here = there
            if here == start:
                break
        yield loop


def _edges(inside: np.ndarray) -> dict[Point, list[Point]]:
    """Where each border edge of a padded (h+2, w+2) bool array leads, from corner to corner."""
    following: dict[Point, list[Point]] = {}
    core = inside[1:-1, 1:-1]
    sides = ((inside[:-2, 1:-1], (0, 0), (1, 0)), (inside[1:-1, 2:], (1, 0), (1, 1)),
             (inside[2:, 1:-1], (1, 1), (0, 1)), (inside[1:-1, :-2], (0, 1), (0, 0)))
    for neighbour, (x0, y0), (x1, y1) in sides:
        for y, x in np.argwhere(core & ~neighbour).tolist():
            following.setdefault((x + x0, y + y0), []).append((x + x1, y + y1))
    return following


def _path(loop: Sequence[Point]) -> str:
    """Through the middles of the edges, which cuts the corners of the staircase; straight runs are one line."""
    closed = [*loop, loop[0]]
    middles = [((ax + bx) / 2, (ay + by) / 2) for (ax, ay), (bx, by) in zip(loop, closed[1:], strict=True)]
    kept = [point for before, point, after in zip([middles[-1], *middles], middles, [*middles[1:], middles[0]],
                                                  strict=False) if not _straight(before, point, after)]
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in kept or middles) + "Z"


def _straight(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - b[1]) == (b[1] - a[1]) * (c[0] - b[0])
