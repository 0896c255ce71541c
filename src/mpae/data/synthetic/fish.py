"""Fish: one profile of back and belly, bent by swimming."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpae.data.synthetic.anatomy import FIN, HEAD, TAIL, TORSO, Fade, Figure
from mpae.data.synthetic.shapes import Point, ellipse, limb, smooth
from mpae.data.synthetic.textures import Colour, Material, darker, hsv, near


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


class Body:
    """Points of the body by position along it, 0 at the tail and 1 at the mouth, and across it, -1 back, 1 belly."""

    def __init__(self, build: Build, bend: float, phase: float):
        self.build, self.bend, self.phase = build, bend, phase

    def at(self, along: float, across: float = 0.0, beyond: float = 0.0) -> Point:
        """The point; `beyond` moves it away from the middle line by a length."""
        sway = self.bend * (1 - along) ** 2 * np.sin(self.phase + 2.2 * along)
        side = np.sign(across) * beyond
        return along - 0.5, float(sway + across * self.half_depth(along) + side)

    def half_depth(self, along: float) -> float:
        b = self.build
        if along < b.fullest:
            t = np.clip(along / b.fullest, 0, 1)
            return float(b.stalk / 2 + (b.depth - b.stalk) / 2 * np.sin(np.pi / 2 * t) ** 1.5)
        t = np.clip((along - b.fullest) / (1 - b.fullest), 0, 1)
        return float(b.depth / 2 * np.sqrt(max(1 - t**2.1, 0.0)))

    def outline(self, start: float = 0.0, bulge: float = 0.0) -> np.ndarray:
        """From `start` to the mouth; the cut curves back by `bulge`, as a gill cover does."""
        along = np.concatenate([np.linspace(start, 0.9, 14), np.linspace(0.92, 1, 7)])
        back = [self.at(a, -1) for a in along]
        belly = [self.at(a, 1) for a in along[::-1]]
        cut = [self.at(start - bulge * np.cos(np.pi / 2 * c), c) for c in np.linspace(0.9, -0.9, 9)]
        return np.array(back + belly + cut)


def fish(rng: np.random.Generator) -> Figure:
    build = BUILDS[rng.integers(len(BUILDS))]
    build = replace(build, **{name: getattr(build, name) * rng.uniform(0.88, 1.14)
                              for name in ("depth", "tail", "tail_spread", "dorsal")})
    body = Body(build, bend=rng.uniform(0.05, 0.16), phase=rng.uniform(0, 2 * np.pi))
    colour, skin = _skin(rng)
    fin_colour = near(darker(colour, rng.choice([0.7, 1.25])), rng, 0.1)
    if rng.random() < 0.4:
        fin_colour = hsv(rng.random(), rng.uniform(0.4, 0.8), rng.uniform(0.5, 0.9))
    fin = Material(fin_colour, mark=darker(fin_colour, 0.55), pattern="rays", repeats=26, strength=0.7)
    figure = Figure()
    _tail(figure, body, fin, rng)
    _dorsal(figure, body, fin, rng)
    _belly_fins(figure, body, fin, rng)
    figure.add(body.outline(), TORSO, skin, axis=180, origin=(0.3, 0.0))
    _head(figure, body, skin, rng)
    _pectoral(figure, body, fin, rng)
    figure.keypoints["torso"] = body.at(0.36)
    return figure


def _skin(rng: np.random.Generator) -> tuple[Colour, Material]:
    if rng.random() < 0.45:
        colour = hsv(rng.uniform(0.02, 0.16), rng.uniform(0.6, 0.9), rng.uniform(0.7, 0.95))
    elif rng.random() < 0.5:
        colour = hsv(rng.random(), rng.uniform(0.35, 0.75), rng.uniform(0.4, 0.8))
    else:
        colour = hsv(rng.uniform(0.5, 0.62), rng.uniform(0.08, 0.3), rng.uniform(0.45, 0.75))
    pattern = rng.choice(["plain", "plain", "bands", "stripes", "spots"])
    mark = hsv(rng.random(), rng.uniform(0, 0.5), rng.choice([0.15, 0.95]))
    repeats = {"bands": rng.uniform(2.0, 3.2), "stripes": rng.uniform(5, 8), "spots": rng.uniform(9, 14)}.get(str(pattern), 1.0)
    belly = near(darker(colour, 1.6), rng)
    return colour, Material(colour, belly, mark, str(pattern), repeats, strength=0.85, grain="scales", gloss=0.35)


def _tail(figure: Figure, body: Body, fin: Material, rng: np.random.Generator) -> None:
    b = body.build
    stalk, swing = body.at(0.02), body.at(0.02)[1] - body.at(0.2)[1]
    back_x = stalk[0] - b.tail
    middle_y = stalk[1] + 1.2 * swing
    half = b.tail_spread / 2
    notch = (stalk[0] - b.tail * (1 - 0.55 * b.fork), middle_y)
    lean = rng.uniform(-0.06, 0.06)
    outline = smooth([(stalk[0] + 0.06, stalk[1] - 0.35 * b.stalk), (stalk[0] - 0.5 * b.tail, middle_y - 0.62 * half),
                      (back_x + lean, middle_y - half), (back_x + 0.04 + 0.3 * b.fork * b.tail, middle_y - 0.45 * half), notch,
                      (back_x + 0.04 + 0.3 * b.fork * b.tail, middle_y + 0.45 * half), (back_x - lean, middle_y + half),
                      (stalk[0] - 0.5 * b.tail, middle_y + 0.62 * half), (stalk[0] + 0.06, stalk[1] + 0.35 * b.stalk)])  # fmt: skip
    figure.add(outline, TAIL, fin, origin=stalk, axis=180, relief=0.7)
    figure.keypoints["tail"] = ((stalk[0] + notch[0]) / 2, (stalk[1] + notch[1]) / 2)


def _dorsal(figure: Figure, body: Body, fin: Material, rng: np.random.Generator) -> None:
    h, start, end = body.build.dorsal, rng.uniform(0.64, 0.72), rng.uniform(0.18, 0.36)
    peak = start - rng.uniform(0.05, 0.25)
    crest = [body.at(start, -0.8), body.at(peak, -1, h), body.at((peak + end) / 2, -1, 0.75 * h), body.at(end - 0.06, -1, 0.55 * h)]
    root = [body.at(end, -0.75), body.at((start + end) / 2, -0.6)]
    figure.add(smooth(crest + root), FIN, fin, axis=-115, relief=0.6)
    figure.keypoints["dorsal fin"] = body.at((peak + end) / 2, -1, 0.4 * h)


def _belly_fins(figure: Figure, body: Body, fin: Material, rng: np.random.Generator) -> None:
    for start in (0.62, 0.32):
        h = body.build.dorsal * rng.uniform(0.6, 0.9)
        outline = [body.at(start, 0.75), body.at(start - 0.07, 1, 0.75 * h), body.at(start - 0.17, 1, h), body.at(start - 0.15, 0.7)]
        figure.add(smooth(outline), FIN, fin, axis=120, relief=0.6, light=0.9)


def _head(figure: Figure, body: Body, skin: Material, rng: np.random.Generator) -> None:
    gill = 0.73 if body.build.depth < 0.45 else 0.70
    face = replace(skin, grain="skin", pattern="plain", colour=darker(skin.colour, rng.choice([0.75, 0.95, 1.2])))
    if rng.random() < 0.3:
        face = replace(face, colour=near(skin.mark, rng), under=None)
    figure.add(body.outline(gill, bulge=0.05), HEAD, face, shadow=0.35)
    rim = [body.at(gill - 0.05 * np.cos(np.pi / 2 * c), c) for c in np.linspace(-0.75, 0.8, 7)]
    figure.add(limb(rim, [0.004, 0.011, 0.012, 0.012, 0.012, 0.011, 0.004]), HEAD, Material(darker(face.colour, 0.45)), relief=0.0, opacity=0.75)
    mouth = [body.at(0.985, 0.45), (body.at(0.93)[0], body.at(0.93, 0.32)[1] + 0.015)]
    figure.add(limb(mouth, [0.011, 0.006]), HEAD, Material(darker(face.colour, 0.3)), relief=0.0)
    eye, size = body.at(0.865, -0.28), 0.033 + 0.012 * float(rng.random())
    figure.add(ellipse(eye, 1.35 * size, 1.35 * size), HEAD, Material(hsv(rng.choice([0.13, 0.6]), rng.uniform(0.05, 0.5), 0.92)))
    figure.add(ellipse(eye, 0.8 * size, 0.8 * size), HEAD, Material((0.04, 0.04, 0.05), gloss=1.0))
    figure.add(ellipse((eye[0] + 0.2 * size, eye[1] - 0.3 * size), 0.25 * size, 0.25 * size), HEAD, Material((1, 1, 1)), relief=0.0)
    figure.keypoints["eye"] = eye
    figure.keypoints["muzzle"] = body.at(0.95, 0.1)


def _pectoral(figure: Figure, body: Body, fin: Material, rng: np.random.Generator) -> None:
    root = body.at(0.68, 0.3)
    length, drop = rng.uniform(0.17, 0.24), rng.uniform(-0.02, 0.12)
    outline = smooth([root, (root[0] - 0.5 * length, root[1] - 0.045 + 0.3 * drop), (root[0] - length, root[1] + drop - 0.02),
                      (root[0] - 0.9 * length, root[1] + drop + 0.05), (root[0] - 0.35 * length, root[1] + 0.075)])  # fmt: skip
    figure.add(outline, FIN, fin, origin=root, axis=170, shadow=0.4, relief=0.7,
               fade=Fade((root[0] + 0.01, root[1]), 180, 0.02))  # fmt: skip
    figure.keypoints["pectoral fin"] = (root[0] - 0.6 * length, root[1] + 0.5 * drop + 0.015)
