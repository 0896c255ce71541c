"""Where figures stand: backdrops out of focus, shadows on the ground, and things that stand in the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from mpae.data.synthetic.canvas import as_floats, as_image
from mpae.data.synthetic.shapes import Point, leaves, limb, smooth
from mpae.data.synthetic.textures import Colour, blend, darker, near, plane, sample, step

GREENS: tuple[Colour, ...] = ((0.22, 0.36, 0.12), (0.36, 0.46, 0.18), (0.14, 0.27, 0.13), (0.48, 0.50, 0.22))
AUTUMN: tuple[Colour, ...] = ((0.52, 0.34, 0.12), (0.62, 0.45, 0.16), (0.38, 0.24, 0.12), (0.40, 0.40, 0.16))
STONE: tuple[Colour, ...] = ((0.45, 0.43, 0.40), (0.34, 0.33, 0.32), (0.58, 0.54, 0.47))
CORAL: tuple[Colour, ...] = ((0.62, 0.36, 0.38), (0.48, 0.40, 0.52), (0.62, 0.50, 0.34), (0.22, 0.40, 0.36))
WALLS: tuple[Colour, ...] = ((0.62, 0.52, 0.44), (0.55, 0.56, 0.58), (0.72, 0.68, 0.60), (0.46, 0.36, 0.32))


@dataclass(frozen=True)
class Habitat:
    sky: tuple[Colour, Colour]  # above, and at the horizon
    ground: tuple[Colour, Colour]  # at the horizon, and near
    growth: tuple[Colour, ...]  # of plants, stones, walls
    clutter: tuple[str, ...]
    grass: bool = False


MEADOW = Habitat(((0.45, 0.64, 0.86), (0.80, 0.88, 0.93)), ((0.52, 0.58, 0.30), (0.30, 0.40, 0.14)), GREENS, ("hills", "bushes", "trees"), True)
WOODS = Habitat(((0.34, 0.44, 0.28), (0.62, 0.68, 0.46)), ((0.34, 0.32, 0.18), (0.28, 0.24, 0.13)), GREENS, ("trunks", "bushes", "rocks"), True)
AUTUMNAL = Habitat(((0.68, 0.66, 0.60), (0.84, 0.78, 0.64)), ((0.52, 0.42, 0.24), (0.42, 0.30, 0.15)), AUTUMN, ("trunks", "bushes", "trees"), True)
SAVANNA = Habitat(((0.50, 0.66, 0.82), (0.90, 0.84, 0.70)), ((0.76, 0.64, 0.38), (0.60, 0.46, 0.24)), AUTUMN, ("hills", "trees", "rocks"), True)
SNOW = Habitat(((0.60, 0.70, 0.82), (0.86, 0.88, 0.92)), ((0.86, 0.89, 0.93), (0.76, 0.81, 0.88)), GREENS, ("hills", "trunks", "trees"))
SHORE = Habitat(((0.52, 0.70, 0.86), (0.86, 0.90, 0.92)), ((0.30, 0.46, 0.56), (0.66, 0.58, 0.44)), STONE, ("hills", "rocks", "rocks"))
STREET = Habitat(((0.58, 0.70, 0.84), (0.86, 0.88, 0.90)), ((0.42, 0.42, 0.43), (0.30, 0.30, 0.32)), WALLS, ("houses", "houses", "street trees"))
ROAD = Habitat(MEADOW.sky, ((0.44, 0.43, 0.42), (0.34, 0.33, 0.33)), GREENS, ("hills", "trees", "bushes"))
LAGOON = Habitat(((0.22, 0.62, 0.74), (0.14, 0.44, 0.62)), ((0.36, 0.54, 0.58), (0.62, 0.62, 0.50)), CORAL, ("corals", "rocks", "weeds"))
POND = Habitat(((0.30, 0.46, 0.32), (0.20, 0.34, 0.28)), ((0.26, 0.32, 0.22), (0.36, 0.32, 0.20)), GREENS, ("weeds", "rocks", "weeds"))
DEEP = Habitat(((0.10, 0.30, 0.56), (0.06, 0.20, 0.42)), ((0.12, 0.24, 0.40), (0.30, 0.34, 0.38)), CORAL, ("rocks", "corals", "corals"))
HABITATS = {
    "quadruped": (MEADOW, WOODS, AUTUMNAL, SAVANNA, SNOW),
    "bird": (MEADOW, WOODS, AUTUMNAL, SHORE, SNOW),
    "fish": (LAGOON, POND, DEEP),
    "vehicle": (STREET, ROAD, STREET, SAVANNA),
}


def backdrop(habitat: Habitat, size: int, horizon: float, rng: np.random.Generator) -> np.ndarray:
    """A landscape (3, S, S) in [0, 1]; the horizon as a share of the height. Sharper towards the viewer."""
    half = size // 2  # it is blurred anyhow
    picture = _sky_and_ground(habitat, half, horizon, rng)
    image = as_image(picture)
    brush = ImageDraw.Draw(image)
    for name in habitat.clutter:
        CLUTTER[name](brush, habitat.growth, half, horizon * half, rng)
    soft = image.filter(ImageFilter.GaussianBlur(half * rng.uniform(0.006, 0.018)))
    far, close = (as_floats(layer.resize((size, size), Image.Resampling.BICUBIC)) for layer in (soft, image))
    ramp = step(np.linspace(0, 1, size, dtype=np.float32), horizon, 1.05)[:, None]
    return blend(far, close, ramp)


def _sky_and_ground(habitat: Habitat, size: int, horizon: float, rng: np.random.Generator) -> np.ndarray:
    y = (np.arange(size, dtype=np.float32)[:, None] + 0.5) / size  # (S, 1)
    x = np.arange(size, dtype=np.float32)[None] / size + np.float32(rng.uniform(0, 50))  # (1, S)
    above, level, beyond, here = (near(colour, rng, 0.04) for colour in (*habitat.sky, *habitat.ground))
    sky = blend(plane(above), level, np.clip(y / horizon, 0, 1))  # (3, S, 1)
    clouds = step(sample(32, x * 2.5, y * 6) + 0.5 * sample(16, x * 7, y * 14), 0.3, 2.0)
    sky = blend(sky, darker(level, 1.2), 0.6 * clouds)  # (3, S, S)
    depth = np.clip((y - horizon) / (1 - horizon), 0.02, 1)
    ground = blend(plane(beyond), here, depth)
    # Rows lie closer together towards the horizon, as they do on a plain.
    tufts = 0.10 * sample(16, (x - x.mean()) * 8 / (depth + 0.3), 6 * np.log(depth))
    specks = 0.09 * sample(8, x * 60 / (depth + 0.5), 40 * np.log(depth))
    return np.where(y > horizon, ground * (1 + tufts + specks), sky)


def _hills(brush: ImageDraw.ImageDraw, colours: tuple[Colour, ...], size: int, horizon: float, rng: np.random.Generator) -> None:
    for rise in (0.16, 0.08):
        ridge = horizon - size * rise * rng.uniform(0.2, 1.0, 7)
        crest = smooth(list(zip(np.linspace(-0.1, 1.1, 7) * size, ridge, strict=True)), closed=False)
        land = np.concatenate([crest, [(1.1 * size, horizon + 2), (-0.1 * size, horizon + 2)]])
        brush.polygon(land.ravel().tolist(), fill=_bytes(_hazy(colours, rng, 0.45)))


def _foliage(brush: ImageDraw.ImageDraw, colours: tuple[Colour, ...], centre: Point, radius: float, rng: np.random.Generator) -> None:
    """A heap of leaves, lit from above."""
    tone = near(colours[rng.integers(len(colours))], rng, 0.05)
    spread = rng.normal(0, 0.42, (60, 2)) * radius
    for dx, dy in spread[np.argsort(-spread[:, 1])].tolist():
        side = radius * rng.uniform(0.10, 0.24)
        fill = _bytes(darker(tone, float(rng.uniform(0.75, 1.05) - 0.35 * dy / radius)))
        x, y = centre[0] + dx, centre[1] + dy
        brush.ellipse((x - side, y - 0.8 * side, x + side, y + 0.8 * side), fill=fill)


def _bushes(brush: ImageDraw.ImageDraw, colours: tuple[Colour, ...], size: int, horizon: float, rng: np.random.Generator) -> None:
    for x in rng.uniform(0, 1, rng.integers(3, 7)):
        _foliage(brush, colours, (x * size, horizon + size * rng.uniform(-0.04, 0.06)), size * rng.uniform(0.06, 0.15), rng)


def _trees(brush: ImageDraw.ImageDraw, colours: tuple[Colour, ...], size: int, horizon: float, rng: np.random.Generator) -> None:
    for x in rng.uniform(0, 1, rng.integers(2, 5)) * size:
        top = horizon - size * rng.uniform(0.14, 0.32)
        brush.line((x, horizon + 3, x, top), fill=(70, 54, 40), width=max(1, int(0.02 * size)))
        _foliage(brush, colours, (x, top), size * rng.uniform(0.09, 0.16), rng)


def _trunks(brush: ImageDraw.ImageDraw, colours: tuple[Colour, ...], size: int, horizon: float, rng: np.random.Generator) -> None:
    for _ in range(rng.integers(2, 6)):
        _foliage(brush, colours, (size * rng.random(), size * rng.uniform(0, 0.5 * horizon / size)), 0.18 * size, rng)
    for x in rng.uniform(0, 1, rng.integers(3, 7)) * size:
        width, foot = size * rng.uniform(0.012, 0.035), horizon + size * rng.uniform(0.0, 0.12)
        bark = near((0.30, 0.24, 0.19), rng, 0.06)
        brush.rectangle((x - width, 0, x + width, foot), fill=_bytes(bark))
        brush.rectangle((x - width, 0, x - 0.2 * width, foot), fill=_bytes(darker(bark, 0.7)))


def _rocks(brush: ImageDraw.ImageDraw, colours: tuple[Colour, ...], size: int, horizon: float, rng: np.random.Generator) -> None:
    for _ in range(rng.integers(3, 7)):
        centre = np.array([size * rng.random(), horizon + size * rng.uniform(0.0, 0.3)])
        stone, radius = near(STONE[rng.integers(len(STONE))], rng), size * rng.uniform(0.025, 0.08)
        shape = np.stack([np.cos(ANGLES), 0.7 * np.sin(ANGLES)], 1) * radius * rng.uniform(0.8, 1.2, (len(ANGLES), 1))
        brush.polygon((centre + shape).ravel().tolist(), fill=_bytes(darker(stone, 0.7)))
        brush.polygon((centre - (0.0, 0.2 * radius) + 0.75 * shape).ravel().tolist(), fill=_bytes(stone))


def _houses(brush: ImageDraw.ImageDraw, colours: tuple[Colour, ...], size: int, horizon: float, rng: np.random.Generator) -> None:
    x = -0.1 * size * rng.random()
    while x < size:
        width, height = size * rng.uniform(0.14, 0.3), size * rng.uniform(0.2, 0.5)
        wall = near(colours[rng.integers(len(colours))], rng)
        brush.rectangle((x, horizon - height, x + width, horizon + 3), fill=_bytes(wall))
        pane, pitch = 0.028 * size, 0.062 * size
        for row in np.arange(horizon - height + pane, horizon - 2 * pane, pitch):
            for column in np.arange(x + pane, x + width - 1.5 * pane, pitch):
                brush.rectangle((column, row, column + pane, row + 1.3 * pane), fill=_bytes(darker(wall, float(rng.uniform(0.4, 0.7)))))
        x += width + size * rng.uniform(-0.02, 0.08)


def _street_trees(brush: ImageDraw.ImageDraw, colours: tuple[Colour, ...], size: int, horizon: float, rng: np.random.Generator) -> None:
    brush.rectangle((0, horizon, size, horizon + 0.05 * size), fill=_bytes(near((0.60, 0.58, 0.55), rng, 0.03)))
    _trees(brush, GREENS, size, horizon, rng)


def _corals(brush: ImageDraw.ImageDraw, colours: tuple[Colour, ...], size: int, horizon: float, rng: np.random.Generator) -> None:
    for _ in range(rng.integers(4, 8)):
        root: Point = (size * float(rng.random()), horizon + size * float(rng.uniform(0.05, 0.3)))
        tone = near(colours[rng.integers(len(colours))], rng)
        lengths = size * rng.uniform(0.06, 0.2, 9)
        for arm in leaves(np.array([root]), rng.uniform(-140, -40, 9), lengths, 0.3, blunt=0.9):
            brush.polygon(arm.ravel().tolist(), fill=_bytes(darker(tone, float(rng.uniform(0.7, 1.1)))))


def _weeds(brush: ImageDraw.ImageDraw, colours: tuple[Colour, ...], size: int, horizon: float, rng: np.random.Generator) -> None:
    for x in rng.uniform(0, 1, rng.integers(8, 16)) * size:
        outline, colour = _weed((x, size * rng.uniform(0.8, 1.0)), size * rng.uniform(0.2, 0.6), size, rng)
        brush.polygon(outline.ravel().tolist(), fill=_bytes(colour))


def _weed(root: Point, height: float, size: int, rng: np.random.Generator) -> tuple[np.ndarray, Colour]:
    t, phase = np.linspace(0, 1, 6), rng.uniform(0, 6)
    stem = np.stack([root[0] + 0.025 * size * np.sin(phase + 5 * t), root[1] - height * t], 1)
    tone = near(GREENS[rng.integers(len(GREENS))], rng, 0.06)
    return limb(stem, (size * np.array([0.010, 0.013, 0.013, 0.011, 0.008, 0.002])).tolist()), darker(tone, float(rng.uniform(0.7, 1.2)))


ANGLES = np.arange(9) * (2 * np.pi / 9)
CLUTTER = {
    "hills": _hills, "bushes": _bushes, "trees": _trees, "trunks": _trunks, "rocks": _rocks, "houses": _houses,
    "street trees": _street_trees, "corals": _corals, "weeds": _weeds,
}  # fmt: skip


def _hazy(colours: tuple[Colour, ...], rng: np.random.Generator, haze: float) -> Colour:
    red, green, blue = near(colours[rng.integers(len(colours))], rng)
    return red + haze * (0.72 - red), green + haze * (0.78 - green), blue + haze * (0.84 - blue)


def _bytes(colour: Colour) -> tuple[int, int, int]:
    red, green, blue = (int(255 * min(max(channel, 0.0), 1.0)) for channel in colour)
    return red, green, blue
