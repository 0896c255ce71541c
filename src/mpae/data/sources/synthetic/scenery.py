"""Backdrops: landscapes, streets and waters, out of focus behind the figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from mpae.data.sources.synthetic.canvas import as_floats, as_image
from mpae.data.sources.synthetic.shapes import Point, leaves, limb, smooth
from mpae.data.sources.synthetic.textures import Colour, Rng, blend, darker, near, plane, sample, step

Palette = tuple[Colour, ...]
GREENS: Palette = ((0.22, 0.36, 0.12), (0.36, 0.46, 0.18), (0.14, 0.27, 0.13), (0.48, 0.50, 0.22))
AUTUMN: Palette = ((0.52, 0.34, 0.12), (0.62, 0.45, 0.16), (0.38, 0.24, 0.12), (0.40, 0.40, 0.16))
STONE: Palette = ((0.45, 0.43, 0.40), (0.34, 0.33, 0.32), (0.58, 0.54, 0.47))
CORAL: Palette = ((0.62, 0.36, 0.38), (0.48, 0.40, 0.52), (0.62, 0.50, 0.34), (0.22, 0.40, 0.36))
WALLS: Palette = ((0.62, 0.52, 0.44), (0.55, 0.56, 0.58), (0.72, 0.68, 0.60), (0.46, 0.36, 0.32))


@dataclass(frozen=True)
class Scene:
    """A backdrop being drawn."""

    brush: ImageDraw.ImageDraw
    size: int  # its side in pixels
    horizon: float  # y in pixels
    palette: Palette
    rng: Rng

    def tone(self, palette: Palette | None = None) -> Colour:
        colours = palette or self.palette
        return near(colours[self.rng.integers(len(colours))], self.rng)

    def polygon(self, outline: np.ndarray, colour: Colour) -> None:
        self.brush.polygon(outline.ravel().tolist(), fill=in_bytes(colour))

    def rectangle(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        self.brush.rectangle((left, top, right, bottom), fill=in_bytes(colour))

    def places(self, low: int, high: int) -> list[float]:
        """Some x, fewer than `high`, from side to side."""
        return (self.size * self.rng.random(self.rng.integers(low, high))).tolist()


def in_bytes(colour: Colour) -> tuple[int, int, int]:
    red, green, blue = (int(255 * min(max(channel, 0.0), 1.0)) for channel in colour)
    return red, green, blue


def hills(scene: Scene) -> None:
    size, horizon = scene.size, scene.horizon
    for rise in (0.16, 0.08):
        heights = horizon - size * rise * scene.rng.uniform(0.2, 1.0, 7)
        crest = smooth(np.stack([np.linspace(-0.1, 1.1, 7) * size, heights], 1), closed=False)
        land = np.concatenate([crest, [(1.1 * size, horizon + 2), (-0.1 * size, horizon + 2)]])
        red, green, blue = scene.tone()
        haze = 0.45
        tint = (red + haze * (0.72 - red), green + haze * (0.78 - green), blue + haze * (0.84 - blue))
        scene.polygon(land, tint)


def foliage(scene: Scene, centre: Point, radius: float, palette: Palette) -> None:
    """A heap of leaves, lit from above."""
    rng, count = scene.rng, 50
    spread = rng.normal(0, 0.42, (count, 2))
    spread = spread[np.argsort(-spread[:, 1])]  # the upper leaves lie over the lower
    reach = np.array([[1.0, 0.8]]) * rng.uniform(0.10, 0.24, (count, 1))
    boxes = np.concatenate([spread - reach, spread + reach], 1) * radius + np.array(centre * 2)  # (count, 4)
    shades = (rng.uniform(0.75, 1.05, (count, 1)) - 0.35 * spread[:, 1:]) * np.array(scene.tone(palette))
    fills = (255 * np.clip(shades, 0, 1)).astype(int).tolist()
    for box, fill in zip(boxes.tolist(), fills, strict=True):
        scene.brush.ellipse(box, fill=tuple(fill))


def bushes(scene: Scene) -> None:
    for x in scene.places(3, 7):
        y = scene.horizon + scene.size * scene.rng.uniform(-0.04, 0.06)
        foliage(scene, (x, y), scene.size * scene.rng.uniform(0.06, 0.15), scene.palette)


def trees(scene: Scene) -> None:
    palette = AUTUMN if scene.palette is AUTUMN else GREENS
    for x in scene.places(2, 5):
        top = scene.horizon - scene.size * scene.rng.uniform(0.14, 0.32)
        width = 0.01 * scene.size
        scene.rectangle(x - width, top, x + width, scene.horizon + 3, (0.27, 0.21, 0.16))
        foliage(scene, (x, top), scene.size * scene.rng.uniform(0.09, 0.16), palette)


def trunks(scene: Scene) -> None:
    for x in scene.places(2, 6):
        foliage(scene, (x, scene.horizon * scene.rng.uniform(0, 0.5)), 0.18 * scene.size, scene.palette)
    for x in scene.places(3, 7):
        width = scene.size * scene.rng.uniform(0.012, 0.035)
        foot = scene.horizon + scene.size * scene.rng.uniform(0.0, 0.12)
        bark = near((0.30, 0.24, 0.19), scene.rng, 0.06)
        scene.rectangle(x - width, 0, x + width, foot, bark)
        scene.rectangle(x - width, 0, x - 0.2 * width, foot, darker(bark, 0.7))


def rocks(scene: Scene) -> None:
    angles = np.arange(9) * (2 * np.pi / 9)
    for x in scene.places(3, 7):
        radius = scene.size * scene.rng.uniform(0.025, 0.08)
        y = scene.horizon + scene.size * scene.rng.uniform(0.0, 0.3)
        uneven = radius * scene.rng.uniform(0.8, 1.2, (9, 1))
        shape = np.stack([np.cos(angles), 0.7 * np.sin(angles)], 1) * uneven
        stone = scene.tone(STONE)
        scene.polygon(shape + np.array([x, y]), darker(stone, 0.7))
        scene.polygon(0.75 * shape + np.array([x, y - 0.2 * radius]), stone)


def houses(scene: Scene) -> None:
    size, rng = scene.size, scene.rng
    x = -0.1 * size * rng.random()
    while x < size:
        width, top = size * rng.uniform(0.14, 0.3), scene.horizon - size * rng.uniform(0.2, 0.5)
        wall, pane, pitch = scene.tone(), 0.028 * size, 0.062 * size
        scene.rectangle(x, top, x + width, scene.horizon + 3, wall)
        for row in np.arange(top + pane, scene.horizon - 2 * pane, pitch).tolist():
            for column in np.arange(x + pane, x + width - 1.5 * pane, pitch).tolist():
                glass = darker(wall, rng.uniform(0.4, 0.7))
                scene.rectangle(column, row, column + pane, row + 1.3 * pane, glass)
        x += width + size * rng.uniform(-0.02, 0.08)


def pavement(scene: Scene) -> None:
    kerb = near((0.60, 0.58, 0.55), scene.rng, 0.03)
    scene.rectangle(0, scene.horizon, scene.size, scene.horizon + 0.05 * scene.size, kerb)


def corals(scene: Scene) -> None:
    for x in scene.places(4, 8):
        root = np.array([[x, scene.horizon + scene.size * scene.rng.uniform(0.05, 0.3)]])
        tone, lengths = scene.tone(), scene.size * scene.rng.uniform(0.06, 0.2, 9)
        for arm in leaves(root, scene.rng.uniform(-140, -40, 9), lengths, slender=0.3, blunt=0.9):
            scene.polygon(arm, darker(tone, scene.rng.uniform(0.7, 1.1)))


def weeds(scene: Scene) -> None:
    for x in scene.places(8, 16):
        foot, height = scene.rng.uniform(0.8, 1.0), scene.rng.uniform(0.2, 0.6)
        ribbon = waving((x / scene.size, foot), height, 0.009, scene.rng) * scene.size
        scene.polygon(ribbon, darker(scene.tone(GREENS), scene.rng.uniform(0.7, 1.2)))


def waving(root: Point, height: float, radius: float, rng: Rng) -> np.ndarray:
    """A ribbon of weed, in the same unit as the root."""
    t = np.linspace(0, 1, 7)
    stem = np.stack([root[0] + 0.03 * np.sin(rng.uniform(0, 6) + 5 * t), root[1] - height * t], 1)
    return limb(stem, [radius * r for r in (1.0, 1.4, 1.5, 1.4, 1.2, 0.8, 0.2)])


@dataclass(frozen=True)
class Habitat:
    sky: tuple[Colour, Colour]  # above, and at the horizon
    ground: tuple[Colour, Colour]  # at the horizon, and near
    palette: Palette  # of what grows or stands there
    clutter: tuple[Callable[[Scene], None], ...]
    occluders: tuple[str, ...] = ("bush", "branch", "rock", "trunk")
    grass: bool = False


IN_WATER = ("weed", "weed", "rock")
MEADOW = Habitat(((0.45, 0.64, 0.86), (0.80, 0.88, 0.93)), ((0.52, 0.58, 0.30), (0.30, 0.40, 0.14)),
                 GREENS, (hills, bushes, trees), grass=True)
WOODS = Habitat(((0.34, 0.44, 0.28), (0.62, 0.68, 0.46)), ((0.34, 0.32, 0.18), (0.28, 0.24, 0.13)),
                GREENS, (trunks, bushes, rocks), grass=True)
GROVE = Habitat(((0.68, 0.66, 0.60), (0.84, 0.78, 0.64)), ((0.52, 0.42, 0.24), (0.42, 0.30, 0.15)),
                AUTUMN, (trunks, bushes, trees), grass=True)
SAVANNA = Habitat(((0.50, 0.66, 0.82), (0.90, 0.84, 0.70)), ((0.76, 0.64, 0.38), (0.60, 0.46, 0.24)),
                  AUTUMN, (hills, trees, rocks), grass=True)
SNOW = Habitat(((0.60, 0.70, 0.82), (0.86, 0.88, 0.92)), ((0.86, 0.89, 0.93), (0.76, 0.81, 0.88)),
               GREENS, (hills, trunks, trees))
SHORE = Habitat(((0.52, 0.70, 0.86), (0.86, 0.90, 0.92)), ((0.30, 0.46, 0.56), (0.66, 0.58, 0.44)),
                STONE, (hills, rocks, rocks))
STREET = Habitat(((0.58, 0.70, 0.84), (0.86, 0.88, 0.90)), ((0.42, 0.42, 0.43), (0.30, 0.30, 0.32)),
                 WALLS, (houses, pavement, trees), ("trunk", "trunk", "bush"))
ROAD = Habitat(MEADOW.sky, ((0.44, 0.43, 0.42), (0.34, 0.33, 0.33)), GREENS, (hills, trees, bushes))
LAGOON = Habitat(((0.22, 0.62, 0.74), (0.14, 0.44, 0.62)), ((0.36, 0.54, 0.58), (0.62, 0.62, 0.50)),
                 CORAL, (corals, rocks, weeds), IN_WATER)
POND = Habitat(((0.30, 0.46, 0.32), (0.20, 0.34, 0.28)), ((0.26, 0.32, 0.22), (0.36, 0.32, 0.20)),
               GREENS, (weeds, rocks, weeds), IN_WATER)
DEEP = Habitat(((0.10, 0.30, 0.56), (0.06, 0.20, 0.42)), ((0.12, 0.24, 0.40), (0.30, 0.34, 0.38)),
               CORAL, (rocks, corals, corals), IN_WATER)

LAND = (MEADOW, WOODS, GROVE, SAVANNA, SNOW)
LAND_AND_SHORE = (*LAND, SHORE)
ROADS = (STREET, STREET, ROAD, SAVANNA)
WATERS = (LAGOON, POND, DEEP)


def backdrop(habitat: Habitat, size: int, horizon: float, rng: Rng) -> np.ndarray:
    """A landscape (3, S, S) in [0, 1], sharper towards the viewer; the horizon as a share of the height."""
    half = size // 2  # it is blurred anyhow
    image = as_image(_sky_and_ground(habitat, half, horizon, rng))
    scene = Scene(ImageDraw.Draw(image), half, horizon * half, habitat.palette, rng)
    for put in habitat.clutter:
        put(scene)
    soft = image.filter(ImageFilter.GaussianBlur(half * rng.uniform(0.006, 0.018)))
    far, close = (as_floats(layer.resize((size, size), Image.Resampling.BICUBIC)) for layer in (soft, image))
    ramp = step(np.linspace(0, 1, size, dtype=np.float32), horizon, 1.05)[:, None]
    return blend(far, close, ramp)


def _sky_and_ground(habitat: Habitat, size: int, horizon: float, rng: Rng) -> np.ndarray:
    y = (np.arange(size, dtype=np.float32)[:, None] + 0.5) / size  # (S, 1)
    x = (np.arange(size, dtype=np.float32)[None] + 0.5) / size  # (1, S)
    above, level, beyond, here = (near(colour, rng, 0.04) for colour in (*habitat.sky, *habitat.ground))
    sky = blend(plane(above), level, np.clip(y / horizon, 0, 1))  # (3, S, 1)
    drift = x + rng.uniform(0, 50)
    clouds = step(sample(32, drift * 2.5, y * 6) + 0.5 * sample(16, drift * 7, y * 14), 0.3, 2.0)  # (S, S)
    sky = blend(sky, darker(level, 1.2), 0.6 * clouds)  # (3, S, S)
    depth = np.clip((y - horizon) / (1 - horizon), 0.02, 1)
    ground = blend(plane(beyond), here, depth)  # (3, S, 1)
    # Seen at a slant: what lies farther off is smaller, and its rows closer together.
    rows = np.log(depth)
    tufts = 0.10 * sample(16, (x - 0.5) * 8 / (depth + 0.3), 6 * rows)
    specks = 0.09 * sample(8, drift * 60 / (depth + 0.5), 40 * rows)
    return np.where(y > horizon, ground * (1 + tufts + specks), sky)
