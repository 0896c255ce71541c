"""Surfaces: colours, patterns and grain, as functions of a position on the figure."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image

Colour = tuple[float, float, float]  # red, green and blue in [0, 1]
Rng = np.random.Generator

TILE = 512  # the noise repeats after so many samples


@dataclass(frozen=True)
class Material:
    colour: Colour
    under: Colour | None = None  # of the belly: blends in from above to below
    mark: Colour = (0.1, 0.1, 0.1)  # of the pattern
    pattern: str = "plain"  # plain, stripes, bands, spots, rosettes, patches, net, rays
    repeats: float = 8.0  # of the pattern for each unit of length
    strength: float = 1.0  # of the pattern
    grain: str = "smooth"  # smooth, fur, wool, feathers, scales, skin
    gloss: float = 0.0

    @property
    def is_flat(self) -> bool:
        return self.under is None and self.pattern == "plain" and self.grain == "smooth"


@lru_cache(maxsize=4)
def noise(cell: int) -> np.ndarray:
    """Smooth noise (TILE, TILE), mean 0, deviation 1, joined at its edges; a value every `cell` samples."""
    cells = TILE // cell
    values = np.random.default_rng([17, cell]).standard_normal((cells, cells)).astype(np.float32)
    padded = np.pad(values, 2, mode="wrap")
    side = (cells + 4) * cell
    wide = np.asarray(Image.fromarray(padded).resize((side, side), Image.Resampling.BICUBIC))
    tile = wide[2 * cell : 2 * cell + TILE, 2 * cell : 2 * cell + TILE]
    tile = (tile - tile.mean()) / tile.std()
    tile.flags.writeable = False  # shared by all pictures
    return tile


def sample(cell: int, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Noise at positions counted in cells, to the nearest of `cell` samples for each."""
    # Positions are made positive by whole tiles, since conversion to integers rounds towards zero.
    column = (u * cell + 16 * TILE).astype(np.int32) & (TILE - 1)
    row = (v * cell + 16 * TILE).astype(np.int32) & (TILE - 1)
    return noise(cell).ravel().take(row * TILE + column)


def step(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """0 below low, 1 above high, and a smooth passage between them."""
    t = np.clip((values - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def surface(material: Material, u: np.ndarray, v: np.ndarray, height: np.ndarray) -> np.ndarray:
    """The colour (3, h, w) at (u, v) along and across the piece; `height` is 0 at its top, 1 at its foot."""
    colour = plane(material.colour)  # (3, 1, 1) while it is one
    if material.under is not None:
        colour = blend(colour, material.under, step(height + 0.06 * sample(8, u * 9, v * 9), 0.5, 0.85))
    if material.pattern != "plain":
        colour = blend(colour, material.mark, material.strength * pattern(material, u, v))
    return colour * grain(material.grain, u, v)


def plane(colour: Colour) -> np.ndarray:
    """A colour as (3, 1, 1): pictures are kept as three planes, over which masks (h, w) broadcast fast."""
    return np.array(colour, np.float32)[:, None, None]


def blend(colour: np.ndarray, other: Colour | np.ndarray, share: np.ndarray) -> np.ndarray:
    """A share (h, w) of the other colour; colours are (3, h, w) or (3, 1, 1)."""
    return colour + share * ((other if isinstance(other, np.ndarray) else plane(other)) - colour)


def pattern(material: Material, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """How much of the mark's colour shows, (h, w) in [0, 1]."""
    n = material.repeats
    if material.pattern == "rays":
        return 0.5 + 0.5 * np.sin(2 * np.pi * n * v + 0.8 * sample(16, u * 4, v * 4))
    if material.pattern == "stripes":
        wave = np.sin(2 * np.pi * (n * u + 0.9 * v) + 1.1 * sample(32, u * 3, v * 3))
        return step(wave + 0.25 * sample(8, u * 8, v * 8), -0.1, 0.3)
    if material.pattern == "bands":
        return step(np.sin(2 * np.pi * n * u + 0.5 * sample(32, u * 3, v * 3)), 0.35, 0.5)
    blobs = sample(16, u * n, v * n)
    if material.pattern == "spots":
        return step(blobs, 0.45, 0.75)
    if material.pattern == "rosettes":
        return step(0.55 - np.abs(blobs - 0.75), 0.0, 0.25) * (0.55 + 0.45 * step(-blobs, -0.8, -0.6))
    if material.pattern == "patches":
        return step(blobs, 0.0, 0.12)
    if material.pattern == "net":
        return step(np.abs(blobs) - 0.22, 0.0, 0.12)
    raise ValueError(f"unknown pattern {material.pattern!r}")


def grain(kind: str, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A factor (h, w) about 1: the small light and dark of hair, feathers, scales."""
    if kind == "smooth":
        return 1 + 0.02 * sample(8, u * 12, v * 12)
    if kind == "fur":
        return 1 + 0.08 * sample(8, u * 22, v * 80) + 0.05 * sample(16, u * 8, v * 14)
    if kind == "wool":
        return 1 + 0.13 * sample(8, u * 22, v * 22) + 0.05 * sample(16, u * 9, v * 9)
    if kind == "skin":
        return 1 + 0.05 * sample(8, u * 30, v * 30) + 0.05 * sample(16, u * 7, v * 7)
    if kind == "feathers":
        return 0.97 + 0.17 * shingles(u * 11, v * 15) + 0.05 * sample(8, u * 20, v * 70)
    if kind == "scales":
        return 0.95 + 0.22 * shingles(u * 17, v * 17) + 0.04 * sample(16, u * 8, v * 8)
    raise ValueError(f"unknown grain {kind!r}")


def shingles(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rows of overlapping round tiles, each lighter towards its free end and dark beyond; about -0.5..0.5."""
    row = np.floor(v)
    across = v - row - 0.5
    along = u + 0.5 * (row % 2) + 1.2 * across * across
    return np.floor(along) - along + 0.5 + 0.25 * step(np.abs(across), 0.5, 0.3)


def hsv(hue: float, saturation: float, value: float) -> Colour:
    return colorsys.hsv_to_rgb(hue % 1.0, min(max(saturation, 0.0), 1.0), min(max(value, 0.0), 1.0))


def near(colour: Colour, rng: Rng, amount: float = 0.05) -> Colour:
    """A colour like this one."""
    hue, saturation, value = colorsys.rgb_to_hsv(*colour)
    hue_shift, saturation_shift, value_shift = rng.normal(0, amount, 3).tolist()
    return hsv(hue + 0.3 * hue_shift, saturation + saturation_shift, value * (1 + 1.5 * value_shift))


def darker(colour: Colour, factor: float) -> Colour:
    red, green, blue = colour
    return min(red * factor, 1.0), min(green * factor, 1.0), min(blue * factor, 1.0)
