"""What a figure is made of: pieces with part labels, and named points."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from mpae.data.sources.synthetic.shapes import Point, ellipse, polar
from mpae.data.sources.synthetic.textures import Colour, Material, Rng

PART_NAMES = ("head", "torso", "leg", "tail", "wing", "fin", "bodywork", "window", "wheel")
HEAD, TORSO, LEG, TAIL, WING, FIN, BODYWORK, WINDOW, WHEEL = range(len(PART_NAMES))
BACKGROUND = len(PART_NAMES)

# Each named point, and the part that it lies on. No kind of figure has them all.
KEYPOINT_PARTS = {
    "eye": HEAD,
    "muzzle": HEAD,
    "torso": TORSO,
    "front foot": LEG,
    "hind foot": LEG,
    "tail": TAIL,
    "wing": WING,
    "dorsal fin": FIN,
    "pectoral fin": FIN,
    "bonnet": BODYWORK,
    "rear": BODYWORK,
    "window": WINDOW,
    "front wheel": WHEEL,
    "rear wheel": WHEEL,
}

Build = TypeVar("Build")


@dataclass(frozen=True)
class Fade:
    """A soft beginning: nothing at `start`, all of it `length` further on in the direction (degrees)."""

    start: Point
    angle: float
    length: float


@dataclass(frozen=True)
class Piece:
    """One shape of one part, in the figure's own units."""

    outlines: tuple[np.ndarray, ...]  # their union is painted
    label: int
    material: Material
    origin: Point = (0.0, 0.0)  # of the texture
    axis: float = 0.0  # degrees: the direction in which the texture runs
    light: float = 1.0  # below 1 for what lies on the far side
    relief: float = 1.0  # 0 is flat
    shadow: float = 0.0  # how dark a shadow falls on the pieces beneath
    opacity: float = 1.0
    fade: Fade | None = None


@dataclass
class Figure:
    """Pieces in the order of painting, facing right. The torso is about one unit long."""

    pieces: list[Piece] = field(default_factory=list)
    keypoints: dict[str, Point] = field(default_factory=dict)
    ground: float | None = None  # y of the ground it stands on; None if it swims

    def add(self, outline: np.ndarray | tuple[np.ndarray, ...], label: int, material: Material,
            **look: Any) -> None:
        """One more piece; `look` are the other fields of Piece."""
        outlines = outline if isinstance(outline, tuple) else (outline,)
        self.pieces.append(Piece(outlines, label, material, **look))

    def detail(self, outline: np.ndarray, label: int, colour: Colour, opacity: float = 1.0) -> None:
        """A flat mark on a piece: a line, a pupil, a door handle."""
        self.add(outline, label, Material(colour), relief=0.0, opacity=opacity)

    def eye(self, at: Point, size: float, iris: Colour | None = None) -> None:
        """A dark pupil with a gleam, in a ring of the iris where one is to be seen."""
        if iris is not None:
            self.add(ellipse(at, 1.5 * size, 1.5 * size), HEAD, Material(iris))
        self.add(ellipse(at, size, size), HEAD, Material((0.05, 0.04, 0.04), gloss=1.0))
        self.detail(ellipse(polar(at, -60, 0.4 * size), 0.32 * size, 0.32 * size), HEAD, (1.0, 1.0, 1.0))
        self.keypoints["eye"] = at

    def points(self) -> np.ndarray:
        """All corners of all outlines, (n, 2)."""
        return np.concatenate([outline for piece in self.pieces for outline in piece.outlines])


def varied(build: Build, rng: Rng, *lengths: str) -> Build:
    """An individual of this build: each of the lengths named is some 12 % more or less."""
    changed = {name: getattr(build, name) * rng.uniform(0.88, 1.13) for name in lengths}
    return replace(build, **changed)  # type: ignore[type-var]
