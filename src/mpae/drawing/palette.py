"""Name and colour of each part, the same in every picture, mask, report and run."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

# Parts 1 to 8: any two are at least 56 apart in CIELAB, and at least 35 apart as seen with protanopia or
# deuteranopia (a search over a grid of sRGB for the set with the largest such distance found them).
SAFE_COLOURS = (
    (240, 60, 0), (105, 180, 255), (255, 225, 0), (210, 0, 150),
    (0, 255, 150), (120, 90, 255), (60, 255, 255), (180, 90, 90),
)
BACKGROUND_COLOUR = (0, 0, 0)  # of index 0 in mask files

RGB_TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375],
                       [0.2126729, 0.7151522, 0.0721750],
                       [0.0193339, 0.1191920, 0.9503041]])
WHITE = np.array([0.95047, 1.0, 1.08883])  # D65


def part_name(index: int) -> str:
    """'part-01' for part 1: the name of a part in tables, legends and annotation files."""
    return f"part-{index:02d}"


def part_colours(num_parts: int) -> np.ndarray:
    """Colours of parts 1..K as (K, 3) uint8 RGB; part k has the same colour for every K.

    The first eight suit the common kinds of colour blindness. Each further one is the colour of a fixed
    grid that lies farthest, in CIELAB, from all before it and from the background's black.
    """
    if num_parts < 0:
        raise ValueError(f"num_parts is {num_parts}; expected 0 or more.")
    return np.array(_colours(num_parts), dtype=np.uint8).reshape(num_parts, 3)


def mask_palette(num_parts: int, colours: np.ndarray | None = None) -> bytes:
    """The palette of a mask file, index 0 being the background, in the form that Pillow takes.

    Args:
        colours: (K, 3) uint8, if people chose others than `part_colours`.
    """
    return bytes(BACKGROUND_COLOUR) + (part_colours(num_parts) if colours is None else colours).tobytes()


@lru_cache
def _colours(num_parts: int) -> tuple[tuple[int, int, int], ...]:
    colours = list(SAFE_COLOURS[:num_parts])
    candidates = _candidates()
    lab = linear_to_lab(srgb_to_linear(candidates))  # (n, 3)
    taken = linear_to_lab(srgb_to_linear(np.array([BACKGROUND_COLOUR, *SAFE_COLOURS])))
    nearest = np.linalg.norm(lab[:, None] - taken, axis=-1).min(axis=1)  # (n,)
    while len(colours) < num_parts:
        best = int(nearest.round(6).argmax())  # rounded: the same choice on every machine
        colours.append(tuple(candidates[best].tolist()))
        nearest = np.minimum(nearest, np.linalg.norm(lab - lab[best], axis=-1))
    return tuple(colours)


def _candidates() -> np.ndarray:
    """A grid of sRGB without what is lost on a photo: the nearly black, nearly white and nearly grey."""
    levels = np.arange(0, 256, 15)
    grid = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    lightness, a, b = linear_to_lab(srgb_to_linear(grid)).T
    return grid[(lightness > 30) & (lightness < 95) & (np.hypot(a, b) > 20)]


def srgb_to_linear(colours: np.ndarray) -> np.ndarray:
    """sRGB in 0..255, (..., 3), as linear light in 0..1."""
    scaled = np.asarray(colours, dtype=np.float64) / 255
    return np.where(scaled <= 0.04045, scaled / 12.92, ((scaled + 0.055) / 1.055) ** 2.4)


def linear_to_lab(linear: np.ndarray) -> np.ndarray:
    """Linear light in 0..1, (..., 3), as CIELAB under D65."""
    xyz = linear @ RGB_TO_XYZ.T / WHITE
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], axis=-1)
