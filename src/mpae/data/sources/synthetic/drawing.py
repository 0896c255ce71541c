"""One picture from its number: a figure of some kind, placed in a landscape, with its annotation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image

from mpae.data.sources.synthetic import scenery
from mpae.data.sources.synthetic.anatomy import KEYPOINT_PARTS, Figure
from mpae.data.sources.synthetic.bird import bird
from mpae.data.sources.synthetic.canvas import Box, Canvas, as_image
from mpae.data.sources.synthetic.fish import fish
from mpae.data.sources.synthetic.foreground import cast_shadow, grass, occlude, perch
from mpae.data.sources.synthetic.quadruped import quadruped
from mpae.data.sources.synthetic.shapes import Frame, extent
from mpae.data.sources.synthetic.textures import Rng, plane, sample
from mpae.data.sources.synthetic.vehicle import vehicle

VERSION = 1  # raise it when the drawings change: it enters the digests, and so every cache
SPLITS = ("train", "test")


@dataclass(frozen=True)
class Kind:
    sketch: Callable[[Rng], Figure]
    habitats: tuple[scenery.Habitat, ...]
    tilt: float  # degrees, at most
    perches: bool = False


KINDS = {
    "quadruped": Kind(quadruped, scenery.LAND, 8.0),
    "bird": Kind(bird, scenery.LAND_AND_SHORE, 9.0, perches=True),
    "fish": Kind(fish, scenery.WATERS, 22.0),
    "vehicle": Kind(vehicle, scenery.ROADS, 5.0),
}


@dataclass(frozen=True)
class Drawing:
    picture: Image.Image
    labels: np.ndarray  # (S, S) uint8, the background last
    keypoints: np.ndarray  # (n, 2) float64; (0, 0) where the kind has no such point
    visible: np.ndarray  # (n,) bool


def random_stream(seed: int, split: str, index: int, purpose: int) -> Rng:
    """Independent random numbers for each picture; no stream is used by two splits."""
    return np.random.default_rng([VERSION, seed, SPLITS.index(split), purpose, index])


def kind_of(seed: int, split: str, index: int) -> int:
    """Each run of len(KINDS) pictures shows each kind once, in random order."""
    block, place = divmod(index, len(KINDS))
    return int(random_stream(seed, split, block, purpose=0).permutation(len(KINDS))[place])


@lru_cache(maxsize=4)  # evaluation asks for the picture and then for its annotation
def draw(seed: int, split: str, index: int, size: int) -> Drawing:
    rng = random_stream(seed, split, index, purpose=1)
    kind = tuple(KINDS.values())[kind_of(seed, split, index)]
    figure = kind.sketch(rng)
    frame = place(figure, size, kind.tilt, rng)
    left, top, right, bottom = extent(frame.to_pixels(figure.points()))
    box: Box = (int(left), int(top), int(right), int(bottom))
    habitat = kind.habitats[rng.integers(len(kind.habitats))]
    horizon = rng.uniform(0.5, 0.85) if figure.ground is None else rng.uniform(0.4, 0.7)
    canvas = Canvas(scenery.backdrop(habitat, size, horizon, rng), light=rng.uniform(-130, -50))
    perched = kind.perches and rng.random() < 0.5
    paint_on_its_ground(canvas, figure, frame, box, perched, habitat, rng)
    if rng.random() < 0.4:
        occlude(canvas, box, habitat, rng)
    keypoints, present = named_points(figure, frame)
    visible = present & shows_its_part(keypoints, canvas.labels)
    return Drawing(as_image(develop(canvas.picture, rng)), canvas.labels, keypoints, visible)


def paint_on_its_ground(canvas: Canvas, figure: Figure, frame: Frame, box: Box, perched: bool,
                        habitat: scenery.Habitat, rng: Rng) -> None:
    ground = None if figure.ground is None else float(frame.to_pixels(np.array([(0.0, figure.ground)]))[0, 1])
    if ground is not None and perched:
        perch(canvas, box, ground, rng)
    elif ground is not None:
        cast_shadow(canvas, box, ground)
    for piece in figure.pieces:
        canvas.paint(piece, frame)
    if ground is not None and habitat.grass and not perched:
        grass(canvas, ground, habitat.palette, rng)


def place(figure: Figure, size: int, tilt: float, rng: Rng) -> Frame:
    """Facing left or right, tilted a little; a box of up to 72 % of the picture, clear of its border."""
    frame = Frame(angle=rng.uniform(-tilt, tilt), mirrored=bool(rng.random() < 0.5))
    left, top, right, bottom = extent(frame.to_pixels(figure.points()))
    width, height = right - left, bottom - top
    scale = size * min(np.sqrt(rng.uniform(0.44, 0.72) / (width * height)), 0.94 / width, 0.92 / height)
    spare = np.array([size - scale * width, size - scale * height])
    # What stands on the ground has more sky above it than ground below.
    lowest = 0.45 if figure.ground is not None else 0.25
    share = np.array([rng.uniform(0.2, 0.8), rng.uniform(lowest, 0.75)])
    offset = spare * share - scale * np.array([left, top])
    return Frame(frame.angle, frame.mirrored, float(scale), (float(offset[0]), float(offset[1])))


def named_points(figure: Figure, frame: Frame) -> tuple[np.ndarray, np.ndarray]:
    """All keypoints (n, 2) in pixels, and which of them this kind has, (n,)."""
    present = np.array([name in figure.keypoints for name in KEYPOINT_PARTS])
    points = np.array([figure.keypoints.get(name, (0.0, 0.0)) for name in KEYPOINT_PARTS])
    return frame.to_pixels(points) * present[:, None], present


def shows_its_part(keypoints: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether the pixel under each keypoint belongs to the keypoint's part, (n,) bool."""
    size = len(labels)
    column, row = np.floor(keypoints).astype(int).T
    inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
    under = labels[np.clip(row, 0, size - 1), np.clip(column, 0, size - 1)]
    return inside & (under == np.array(list(KEYPOINT_PARTS.values())))


def develop(picture: np.ndarray, rng: Rng) -> np.ndarray:
    """As a camera would: uneven light, a cast of colour, contrast and grain; (3, S, S)."""
    size = picture.shape[1]
    x = np.linspace(-1, 1, size, dtype=np.float32)[None]
    y = x.T
    light = 1 - 0.13 * (x * x + y * y) + 0.05 * sample(32, (x + rng.uniform(3, 9)) * 1.5, y * 1.5)
    cast = plane(tuple(rng.uniform(0.94, 1.06, 3) * rng.uniform(0.88, 1.1)))
    grain = rng.standard_normal((size, size), dtype=np.float32) * rng.uniform(0.004, 0.014)
    contrast = rng.uniform(0.9, 1.12)
    return picture * (cast * contrast) * light + (contrast * grain + 0.45 * (1 - contrast))
