"""Fish: one profile of back and belly, bent by swimming."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpae.data.sources.synthetic.anatomy import FIN, HEAD, TAIL, TORSO, Fade, Figure, varied
from mpae.data.sources.synthetic.shapes import Point, limb, smooth
from mpae.data.sources.synthetic.textures import Material, Rng, darker, hsv, near


@dataclass(frozen=True)
class Build:
    """Lengths in bodies."""

    depth: float
    fullest: float  # where the body is deepest: 0 at the tail, 1 at the mouth
    stalk: float  # depth where the tail begins
    tail: float  # length of the tail fin
    tail_spread: float
    fork: float  # 0 round, 1 deeply forked
    dorsal: float  # height of the dorsal fin


BUILDS = (
    Build(0.50, 0.58, 0.15, 0.36, 0.56, 0.2, 0.15),  # a goldfish
    Build(0.34, 0.60, 0.09, 0.28, 0.50, 1.0, 0.13),  # a tuna
    Build(0.38, 0.55, 0.14, 0.27, 0.42, 0.5, 0.14),  # a trout
    Build(0.72, 0.55, 0.17, 0.30, 0.52, 0.3, 0.24),  # an angelfish
)


@dataclass(frozen=True)
class Body:
    """Points by position along the body (0 tail, 1 mouth) and across it (-1 back, 1 belly)."""

    build: Build
    bend: float
    phase: float

    def at(self, along: float, across: float = 0.0, beyond: float = 0.0) -> Point:
        """The point; `beyond` moves it away from the middle line by a length."""
        sway = self.bend * (1 - along) ** 2 * np.sin(self.phase + 2.2 * along)
        return along - 0.5, float(sway + across * self.half_depth(along) + np.sign(across) * beyond)

    def half_depth(self, along: float) -> float:
        b = self.build
        if along < b.fullest:
            rise = np.sin(np.pi / 2 * max(along / b.fullest, 0.0)) ** 1.5
            return float(b.stalk + (b.depth - b.stalk) * rise) / 2
        t = min((along - b.fullest) / (1 - b.fullest), 1.0)
        return float(b.depth / 2 * np.sqrt(1 - t**2.1))

    def outline(self, start: float = 0.0, bulge: float = 0.0) -> np.ndarray:
        """From `start` to the mouth; the cut curves back by `bulge`, as a gill cover does."""
        along = np.concatenate([np.linspace(start, 0.9, 14), np.linspace(0.92, 1, 7)]).tolist()
        back = [self.at(a, -1) for a in along]
        belly = [self.at(a, 1) for a in along[::-1]]
        return np.array(back + belly + self.cut(start, bulge, np.linspace(0.9, -0.9, 9)))

    def cut(self, start: float, bulge: float, across: np.ndarray) -> list[Point]:
        return [self.at(start - bulge * np.cos(np.pi / 2 * c), c) for c in across.tolist()]


def fish(rng: Rng) -> Figure:
    build = varied(BUILDS[rng.integers(len(BUILDS))], rng, "depth", "tail", "tail_spread", "dorsal")
    body = Body(build, bend=rng.uniform(0.05, 0.16), phase=rng.uniform(0, 2 * np.pi))
    skin = _skin(rng)
    colour = near(darker(skin.colour, rng.choice([0.7, 1.25])), rng, 0.1)
    if rng.random() < 0.4:
        colour = hsv(rng.random(), rng.uniform(0.4, 0.8), rng.uniform(0.5, 0.9))
    fin = Material(colour, None, darker(colour, 0.55), "rays", 26, 0.7)
    figure = Figure()
    _tail(figure, body, fin, rng)
    _dorsal_fin(figure, body, fin, rng)
    _belly_fins(figure, body, fin, rng)
    figure.add(body.outline(), TORSO, skin, axis=180, origin=(0.3, 0.0))
    figure.keypoints["torso"] = body.at(0.36)
    _head(figure, body, skin, rng)
    _pectoral_fin(figure, body, fin, rng)
    return figure


def _skin(rng: Rng) -> Material:
    colour = (
        hsv(rng.uniform(0.02, 0.16), rng.uniform(0.6, 0.9), rng.uniform(0.7, 0.95)),  # golden
        hsv(rng.random(), rng.uniform(0.35, 0.75), rng.uniform(0.4, 0.8)),  # of the reef
        hsv(rng.uniform(0.5, 0.62), rng.uniform(0.08, 0.3), rng.uniform(0.45, 0.75)),  # silver
    )[rng.integers(3)]
    mark = hsv(rng.random(), rng.uniform(0, 0.5), rng.choice([0.15, 0.95]))
    pattern, repeats = (
        ("plain", 1.0), ("plain", 1.0), ("bands", rng.uniform(2, 3.2)), ("stripes", rng.uniform(5, 8)),
        ("spots", rng.uniform(9, 14)))[rng.integers(5)]
    belly = near(darker(colour, 1.6), rng)
    return Material(colour, belly, mark, pattern, repeats, 0.85, "scales", gloss=0.35)


def _tail(figure: Figure, body: Body, fin: Material, rng: Rng) -> None:
    b, (x, y) = body.build, body.at(0.02)
    middle = y + 1.2 * (y - body.at(0.2)[1])  # the fin goes on in the direction of the stalk
    end, half, lean = x - b.tail, b.tail_spread / 2, rng.uniform(-0.06, 0.06)
    rim, notch = end + 0.04 + 0.3 * b.fork * b.tail, x - b.tail * (1 - 0.55 * b.fork)
    outline = smooth([
        (x + 0.06, y - 0.35 * b.stalk), (x - 0.5 * b.tail, middle - 0.62 * half),
        (end + lean, middle - half), (rim, middle - 0.45 * half), (notch, middle),
        (rim, middle + 0.45 * half), (end - lean, middle + half),
        (x - 0.5 * b.tail, middle + 0.62 * half), (x + 0.06, y + 0.35 * b.stalk)])
    figure.add(outline, TAIL, fin, origin=(x, y), axis=180, relief=0.7)
    figure.keypoints["tail"] = ((x + notch) / 2, (y + middle) / 2)


def _dorsal_fin(figure: Figure, body: Body, fin: Material, rng: Rng) -> None:
    h, start, end = body.build.dorsal, rng.uniform(0.64, 0.72), rng.uniform(0.18, 0.36)
    peak = start - rng.uniform(0.05, 0.25)
    middle = (peak + end) / 2
    outline = smooth([
        body.at(start, -0.8), body.at(peak, -1, h), body.at(middle, -1, 0.75 * h),
        body.at(end - 0.06, -1, 0.55 * h), body.at(end, -0.75), body.at((start + end) / 2, -0.6)])
    figure.add(outline, FIN, fin, axis=-115, relief=0.6)
    figure.keypoints["dorsal fin"] = body.at(middle, -1, 0.4 * h)


def _belly_fins(figure: Figure, body: Body, fin: Material, rng: Rng) -> None:
    for x in (0.62, 0.32):
        h = body.build.dorsal * rng.uniform(0.6, 0.9)
        front, back = [body.at(x, 0.75), body.at(x - 0.07, 1, 0.75 * h)], [
            body.at(x - 0.17, 1, h), body.at(x - 0.15, 0.7)]
        figure.add(smooth(front + back), FIN, fin, axis=120, relief=0.6, light=0.9)


def _head(figure: Figure, body: Body, skin: Material, rng: Rng) -> None:
    gill = 0.73 if body.build.depth < 0.45 else 0.70
    shade = darker(skin.colour, rng.choice([0.75, 0.95, 1.2]))
    face = replace(skin, grain="skin", pattern="plain", colour=shade)
    if rng.random() < 0.3:
        face = replace(face, colour=near(skin.mark, rng), under=None)
    figure.add(body.outline(gill, bulge=0.05), HEAD, face, shadow=0.35)
    rim = limb(body.cut(gill, 0.05, np.linspace(-0.75, 0.8, 5)), [0.004, 0.012, 0.013, 0.012, 0.004])
    figure.detail(rim, HEAD, darker(face.colour, 0.45), opacity=0.75)
    mouth = limb([body.at(0.985, 0.45), body.at(0.93, 0.32, beyond=0.015)], [0.011, 0.006])
    figure.detail(mouth, HEAD, darker(face.colour, 0.3))
    iris = hsv(rng.choice([0.13, 0.6]), rng.uniform(0.05, 0.5), 0.92)
    figure.eye(body.at(0.865, -0.28), rng.uniform(0.028, 0.037), iris)
    figure.keypoints["muzzle"] = body.at(0.95, 0.1)


def _pectoral_fin(figure: Figure, body: Body, fin: Material, rng: Rng) -> None:
    x, y = body.at(0.68, 0.3)
    length, drop = rng.uniform(0.17, 0.24), rng.uniform(-0.02, 0.12)
    outline = smooth([
        (x, y), (x - 0.5 * length, y - 0.045 + 0.3 * drop), (x - length, y + drop - 0.02),
        (x - 0.9 * length, y + drop + 0.05), (x - 0.35 * length, y + 0.075)])
    root = Fade((x + 0.01, y), 180, 0.02)
    figure.add(outline, FIN, fin, origin=(x, y), axis=170, shadow=0.4, relief=0.7, fade=root)
    figure.keypoints["pectoral fin"] = (x - 0.6 * length, y + 0.5 * drop + 0.015)
