"""What lies on the ground under a figure, and what stands in front of it."""

from __future__ import annotations

import numpy as np

from mpae.data.sources.synthetic.anatomy import BACKGROUND, Piece
from mpae.data.sources.synthetic.canvas import Box, Canvas, blurred, coverage
from mpae.data.sources.synthetic.scenery import AUTUMN, GREENS, STONE, Habitat, Palette, waving
from mpae.data.sources.synthetic.shapes import Frame, ellipse, leaves, limb, smooth
from mpae.data.sources.synthetic.textures import Colour, Material, Rng, darker, near

# Lengths are shares of the picture's side; only the figure's box and its ground line are in pixels.


def cast_shadow(canvas: Canvas, box: Box, ground: float) -> None:
    """A soft dark patch on the ground, below the figure."""
    width = (box[2] - box[0]) / 2
    patch = ellipse((box[0] + width, ground), 0.95 * width, 0.16 * width)
    cover = blurred(coverage([patch], (0, 0, canvas.size, canvas.size)), 0.03 * canvas.size)
    canvas.picture *= 1 - 0.5 * np.clip(cover, 0, 1)


def perch(canvas: Canvas, box: Box, ground: float, rng: Rng) -> None:
    """A branch across the picture, under the bird's feet."""
    radius, tilt = rng.uniform(0.022, 0.035), rng.uniform(-0.02, 0.02)
    middle, top = (box[0] + box[2]) / 2 / canvas.size, ground / canvas.size - 0.012
    stem = [(x, top + 0.8 * radius + tilt * (x - middle)) for x in (-0.1, 0.3, 0.6, 1.1)]
    wood = near((0.36, 0.27, 0.20), rng)
    branch = limb(stem, [1.2 * radius, 1.05 * radius, 0.95 * radius, 0.8 * radius])
    _put(canvas, branch, Material(wood, darker(wood, 0.5), grain="skin"))
    twigs = np.stack([rng.uniform(0, 1, 5), top + rng.uniform(-0.02, 0.08, 5)], 1)
    _leaves(canvas, twigs, 0.05, GREENS, 9, rng)


def grass(canvas: Canvas, ground: float, palette: Palette, rng: Rng) -> None:
    """Blades in front of the feet."""
    count = 90
    roots = np.stack([rng.uniform(0, 1, count), ground / canvas.size + rng.uniform(0.01, 0.10, count)], 1)
    lengths = rng.uniform(0.03, 0.075, count)
    blades = leaves(roots, rng.uniform(-115, -65, count), lengths, slender=0.22, blunt=0.1)
    canvas.scatter(blades * canvas.size, _tones(palette, count, rng))


def occlude(canvas: Canvas, box: Box, habitat: Habitat, rng: Rng) -> None:
    """Something in front of the figure, more often over one of its ends than over its middle."""
    left, top, right, bottom = (side / canvas.size for side in box)
    where = (rng.uniform(0.0, 0.35), rng.uniform(0.65, 1.0), rng.uniform(0, 1))[rng.integers(3)]
    x, height = left + (right - left) * where, bottom - top
    palette = AUTUMN if habitat.palette is AUTUMN else GREENS
    thing = rng.choice(habitat.occluders)
    if thing == "bush":
        y = bottom - rng.uniform(-0.1, 1, 14) * height * rng.uniform(0.22, 0.42)
        _leaves(canvas, np.stack([rng.normal(x, 0.09, 14), y], 1), 0.055, palette, 14, rng)
    elif thing == "branch":
        y = top + rng.uniform(-0.25, 0.32, 14) * height
        _leaves(canvas, np.stack([rng.normal(x, 0.08, 14), y], 1), 0.06, palette, 12, rng)
    elif thing == "rock":
        _boulder(canvas, x, bottom + 0.04, height * rng.uniform(0.25, 0.42), rng)
    elif thing == "trunk":
        _trunk(canvas, x, rng)
    else:
        for root in rng.normal(x, 0.05, 7).tolist():
            ribbon = waving((root, 1.02), rng.uniform(0.5, 0.85), 0.015, rng)
            tone = near(GREENS[rng.integers(len(GREENS))], rng, 0.06)
            _put(canvas, ribbon, Material(tone, grain="skin"), axis=90)


def _leaves(canvas: Canvas, centres: np.ndarray, length: float, palette: Palette, each: int,
            rng: Rng) -> None:
    """So many leaves about each of the centres (n, 2)."""
    count = each * len(centres)
    bases = np.repeat(centres, each, 0) + rng.normal(0, 0.02, (count, 2))
    lengths = length * rng.uniform(0.6, 1.2, count)
    shapes = leaves(bases, rng.uniform(0, 360, count), lengths, slender=0.45, blunt=0.4)
    canvas.scatter(shapes * canvas.size, _tones(palette, count, rng))


def _boulder(canvas: Canvas, x: float, foot: float, radius: float, rng: Rng) -> None:
    angle, uneven = np.arange(11) * (2 * np.pi / 11), rng.uniform(0.85, 1.15, 11)
    shape = np.stack([1.1 * uneven * np.cos(angle), 0.85 * uneven * np.sin(angle) - 0.2], 1) * radius
    stone = near(STONE[rng.integers(len(STONE))], rng)
    lichen = Material(stone, darker(stone, 0.6), darker(stone, 0.7), "patches", 14, 0.4, "wool")
    _put(canvas, smooth(shape + np.array([x, foot])), lichen)


def _trunk(canvas: Canvas, x: float, rng: Rng) -> None:
    """Of a young tree, from the ground up out of the picture."""
    radius, lean = rng.uniform(0.018, 0.04), rng.uniform(-0.04, 0.04)
    wood = near((0.36, 0.29, 0.22), rng, 0.08)
    shape = limb([(x + lean, -0.1), (x, 0.5), (x - lean, 1.1)], [0.9 * radius, radius, 1.1 * radius])
    _put(canvas, shape, Material(wood, None, darker(wood, 0.6), "rays", 22, 0.5, "skin"), axis=90)


def _put(canvas: Canvas, outline: np.ndarray, material: Material, axis: float = 0.0) -> None:
    canvas.paint(Piece((outline,), BACKGROUND, material, axis=axis), Frame(scale=canvas.size))


def _tones(palette: Palette, count: int, rng: Rng) -> list[Colour]:
    base = near(palette[rng.integers(len(palette))], rng, 0.04)
    return [darker(base, factor) for factor in rng.uniform(0.65, 1.35, count).tolist()]
