"""Outlines as polygons (n, 2), in whatever unit the caller draws in; x to the right, y down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Point = tuple[float, float]

LEAF_STEPS = np.linspace(0, 1, 9)


def smooth(points: Sequence[Point] | np.ndarray, closed: bool = True, steps: int = 8) -> np.ndarray:
    """A Catmull-Rom curve through the points, `steps` points for each stretch."""
    knots = np.asarray(points, dtype=np.float64)  # (n, 2)
    if closed:
        before, after, last = np.roll(knots, 1, 0), np.roll(knots, -1, 0), np.roll(knots, -2, 0)
    else:
        padded = np.concatenate([2 * knots[:1] - knots[1:2], knots, 2 * knots[-1:] - knots[-2:-1]])
        before, knots, after, last = padded[:-3], padded[1:-2], padded[2:-1], padded[3:]
    t = np.arange(steps)[:, None, None] / steps  # (steps, 1, 1)
    curve = 0.5 * (
        2 * knots
        + (after - before) * t
        + (2 * before - 5 * knots + 4 * after - last) * t**2
        + (3 * knots - before - 3 * after + last) * t**3
    )  # (steps, n, 2)
    curve = curve.transpose(1, 0, 2).reshape(-1, 2)
    return curve if closed else np.concatenate([curve, after[-1:]])


def ellipse(centre: Point, width: float, height: float, angle: float = 0.0, corners: int = 28) -> np.ndarray:
    """An ellipse of these half axes; the angle in degrees turns x towards y."""
    t = np.arange(corners) * (2 * np.pi / corners)
    return turn(np.stack([width * np.cos(t), height * np.sin(t)], 1), angle) + centre


def limb(joints: Sequence[Point] | np.ndarray, radii: Sequence[float]) -> np.ndarray:
    """A tube with round ends along a curve through the joints; the radius at each joint is given."""
    steps = 6
    centre = smooth(joints, closed=False, steps=steps)  # (m, 2)
    radius = np.interp(np.arange(len(centre)), np.arange(len(radii)) * steps, radii)[:, None]  # (m, 1)
    along = np.gradient(centre, axis=0)
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    across = np.stack([-along[:, 1], along[:, 0]], 1)
    bend = np.linspace(-np.pi / 2, np.pi / 2, 9)[1:-1, None]
    tip = centre[-1] + radius[-1] * (along[-1] * np.cos(bend) - across[-1] * np.sin(bend))
    root = centre[0] - radius[0] * (along[0] * np.cos(bend) - across[0] * np.sin(bend))
    return np.concatenate([centre + radius * across, tip, (centre - radius * across)[::-1], root])


def leaf(base: Point, angle: float, length: float, width: float, blunt: float = 0.5) -> np.ndarray:
    """A leaf or feather from its base; `blunt` 0 is pointed, 1 is round at the tip."""
    return leaves(np.array([base]), np.array([angle]), np.array([length]), width / length, blunt)[0]


def leaves(bases: np.ndarray, angles: np.ndarray, lengths: np.ndarray, slender: float,
           blunt: float) -> np.ndarray:
    """Leaves (n, 18, 2) from bases (n, 2); `slender` is width over length."""
    t = LEAF_STEPS
    half = slender / 2 * np.maximum(np.sin(np.pi * t ** (1 + blunt)), 0) ** (1 - 0.4 * blunt)
    rim = np.stack([np.concatenate([t, t[::-1]]), np.concatenate([half, -half[::-1]])], 1)  # (18, 2)
    cos, sin = lengths * np.cos(np.deg2rad(angles)), lengths * np.sin(np.deg2rad(angles))
    axes = np.stack([np.stack([cos, sin], 1), np.stack([-sin, cos], 1)], 1)  # (n, 2, 2)
    return rim @ axes + bases[:, None]


def turn(points: np.ndarray, degrees: float) -> np.ndarray:
    """Rotation about the origin, from x towards y."""
    cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    return points @ np.array([[cos, sin], [-sin, cos]])


def polar(origin: Point, degrees: float, distance: float) -> Point:
    """The point at a distance in a direction, from x towards y."""
    angle = np.deg2rad(degrees)
    return float(origin[0] + distance * np.cos(angle)), float(origin[1] + distance * np.sin(angle))


def extent(outline: np.ndarray) -> tuple[float, float, float, float]:
    """Left, top, right and bottom."""
    (left, top), (right, bottom) = outline.min(0), outline.max(0)
    return float(left), float(top), float(right), float(bottom)


def thickness(outline: np.ndarray) -> float:
    """Twice the area over the perimeter: the radius of a circle, the half width of a long band."""
    x, y = outline.T
    next_x, next_y = np.append(x[1:], x[0]), np.append(y[1:], y[0])
    twice_area = abs(float(x @ next_y - y @ next_x))
    return twice_area / max(float(np.hypot(next_x - x, next_y - y).sum()), 1e-9)


@dataclass(frozen=True)
class Frame:
    """Where a figure stands in the picture: turned, mirrored, scaled and moved, in that order."""

    angle: float = 0.0
    mirrored: bool = False
    scale: float = 1.0
    offset: Point = (0.0, 0.0)

    @cached_property
    def matrix(self) -> np.ndarray:  # (2, 2), for row vectors
        turned = turn(np.eye(2), self.angle)
        return turned * self.scale * np.array([-1.0 if self.mirrored else 1.0, 1.0])

    @cached_property
    def inverse(self) -> np.ndarray:  # (2, 2) float32
        return np.linalg.inv(self.matrix).astype(np.float32)

    def to_pixels(self, points: np.ndarray) -> np.ndarray:
        return points @ self.matrix + self.offset

    def to_figure(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The figure's coordinates of pixels given by a row x (1, w) and a column y (h, 1)."""
        inverse = self.inverse
        x, y = x - np.float32(self.offset[0]), y - np.float32(self.offset[1])
        return x * inverse[0, 0] + y * inverse[1, 0], x * inverse[0, 1] + y * inverse[1, 1]
