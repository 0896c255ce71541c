"""What lies on the ground under a figure and what stands in front of it."""

from __future__ import annotations

import numpy as np

from mpae.data.synthetic.anatomy import BACKGROUND, Piece
from mpae.data.synthetic.canvas import Box, Canvas, blurred, coverage
from mpae.data.synthetic.scenery import AUTUMN, GREENS, STONE, Habitat
from mpae.data.synthetic.shapes import Frame, ellipse, leaves, limb, smooth
from mpae.data.synthetic.textures import Colour, Material, darker, near


def cast_shadow(canvas: Canvas, box: Box, ground: float) -> None:
    """A soft dark patch on the ground, below the figure."""
    left, _, right, _ = box
    width = (right - left) / 2
    patch = ellipse(((left + right) / 2, ground), 0.95 * width, 0.16 * width)
    cover = blurred(coverage([patch], (0, 0, canvas.size, canvas.size)), 0.03 * canvas.size)
    canvas.picture *= 1 - 0.5 * np.clip(cover, 0, 1)


def perch(canvas: Canvas, box: Box, ground: float, rng: np.random.Generator) -> None:
    """A branch across the picture, under the bird's feet."""
    s, tilt = canvas.size, rng.uniform(-0.02, 0.02)
    r = s * rng.uniform(0.022, 0.035)
    middle = (box[0] + box[2]) / 2
    joints = [(x * s, ground + 0.8 * r + tilt * (x * s - middle)) for x in (-0.1, 0.3, 0.6, 1.1)]
    bark = Material(near((0.36, 0.27, 0.20), rng), darker((0.36, 0.27, 0.20), 0.5), grain="skin")
    frame = Frame(scale=s)
    branch = limb([(x / s, y / s) for x, y in joints], [1.2 * r / s, 1.05 * r / s, 0.95 * r / s, 0.8 * r / s])
    canvas.paint(Piece((branch,), BACKGROUND, bark), frame)
    twigs = rng.uniform(0, s, 5)
    _leaves(canvas, [(float(x), ground + float(rng.uniform(-0.02, 0.08)) * s) for x in twigs], 0.05, GREENS, 9, rng)


def grass(canvas: Canvas, ground: float, colours: tuple[Colour, ...], rng: np.random.Generator) -> None:
    """Blades in front of the feet."""
    s, count = canvas.size, 90
    roots = np.stack([rng.uniform(0, s, count), ground + s * rng.uniform(0.01, 0.10, count)], 1)
    blades = leaves(roots, rng.uniform(-115, -65, count), s * rng.uniform(0.03, 0.075, count), 0.22, blunt=0.1)
    canvas.scatter(blades, _tones(colours, count, rng))


def occlude(canvas: Canvas, box: Box, habitat: Habitat, rng: np.random.Generator) -> None:
    """Something in front of the figure, somewhere along it."""
    left, top, right, bottom = box
    x = left + (right - left) * float(rng.choice([rng.uniform(0.0, 0.35), rng.uniform(0.65, 1.0), rng.uniform(0, 1)]))
    choice = rng.choice(_occluders(habitat))
    height = bottom - top
    if choice == "bush":
        reach = height * rng.uniform(0.22, 0.42)
        heap = [(x + float(rng.normal(0, 0.09)) * canvas.size, bottom - float(rng.uniform(-0.1, 1)) * reach) for _ in range(14)]
        _leaves(canvas, heap, 0.055, AUTUMN if habitat.growth is AUTUMN else GREENS, 14, rng)
    elif choice == "rock":
        _boulder(canvas, x, bottom + 0.04 * canvas.size, height * rng.uniform(0.25, 0.42), rng)
    elif choice == "post":
        _post(canvas, x, rng)
    elif choice == "weed":
        for _ in range(7):
            _kelp(canvas, x + float(rng.normal(0, 0.05)) * canvas.size, float(rng.uniform(0.5, 0.85)), rng)
    else:
        hang = [(x + float(rng.normal(0, 0.08)) * canvas.size, top + float(rng.uniform(-0.25, 0.32)) * height) for _ in range(14)]
        _leaves(canvas, hang, 0.06, GREENS, 12, rng)


def _occluders(habitat: Habitat) -> list[str]:
    if "weeds" in habitat.clutter or "corals" in habitat.clutter:
        return ["weed", "rock", "weed"]
    if "houses" in habitat.clutter:
        return ["post", "bush", "post"]
    return ["bush", "rock", "post", "hanging leaves"]


def _leaves(canvas: Canvas, centres: list[tuple[float, float]], length: float, colours: tuple[Colour, ...], each: int,
            rng: np.random.Generator) -> None:  # fmt: skip
    s, count = canvas.size, each * len(centres)
    bases = np.repeat(np.array(centres), each, 0) + s * rng.normal(0, 0.02, (count, 2))
    shapes = leaves(bases, rng.uniform(0, 360, count), s * length * rng.uniform(0.6, 1.2, count), 0.45, blunt=0.4)
    canvas.scatter(shapes, _tones(colours, count, rng))


def _boulder(canvas: Canvas, x: float, foot: float, radius: float, rng: np.random.Generator) -> None:
    t = np.arange(11) * (2 * np.pi / 11)
    rough = rng.uniform(0.85, 1.15, 11)
    shape = np.stack([x + 1.1 * radius * rough * np.cos(t), foot - 0.2 * radius + 0.85 * radius * rough * np.sin(t)], 1)
    stone = near(STONE[rng.integers(len(STONE))], rng)
    material = Material(stone, darker(stone, 0.6), darker(stone, 0.7), "patches", repeats=14, strength=0.4, grain="wool")
    canvas.paint(Piece((smooth(shape / canvas.size),), BACKGROUND, material), Frame(scale=canvas.size))


def _post(canvas: Canvas, x: float, rng: np.random.Generator) -> None:
    """A tree trunk or a pole, from the ground up out of the picture."""
    r, lean = rng.uniform(0.018, 0.04), rng.uniform(-0.04, 0.04)
    wood = near((0.36, 0.29, 0.22), rng, 0.08)
    material = Material(wood, None, darker(wood, 0.6), "rays", repeats=22, strength=0.5, grain="skin")
    x /= canvas.size
    trunk = limb([(x + lean, -0.1), (x, 0.5), (x - lean, 1.1)], [0.9 * r, r, 1.1 * r])
    canvas.paint(Piece((trunk,), BACKGROUND, material, axis=90), Frame(scale=canvas.size))


def _kelp(canvas: Canvas, x: float, height: float, rng: np.random.Generator) -> None:
    t, phase = np.linspace(0, 1, 7), rng.uniform(0, 6)
    stem = np.stack([x / canvas.size + 0.03 * np.sin(phase + 5 * t), 1.02 - height * t], 1)
    tone = near(GREENS[rng.integers(len(GREENS))], rng, 0.06)
    ribbon = limb(stem, (np.array([1.0, 1.4, 1.5, 1.4, 1.2, 0.8, 0.2]) * 0.015).tolist())
    canvas.paint(Piece((ribbon,), BACKGROUND, Material(tone, grain="skin"), axis=90), Frame(scale=canvas.size))


def _tones(colours: tuple[Colour, ...], count: int, rng: np.random.Generator) -> list[Colour]:
    base = near(colours[rng.integers(len(colours))], rng, 0.04)
    return [darker(base, factor) for factor in rng.uniform(0.65, 1.35, count).tolist()]
