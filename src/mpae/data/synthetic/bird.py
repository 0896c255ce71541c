"""Birds: perched, wading and with raised wings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpae.data.synthetic.anatomy import HEAD, LEG, TAIL, TORSO, WING, Fade, Figure
from mpae.data.synthetic.shapes import Point, ellipse, leaf, limb, polar, smooth
from mpae.data.synthetic.textures import Colour, Material, darker, hsv, near


@dataclass(frozen=True)
class Build:
    """Lengths in torsos."""

    plump: float  # height of the torso
    upright: float  # degrees of the torso above the horizontal
    neck: float
    head: float  # radius
    beak: float  # length
    beak_depth: float
    hooked: bool
    leg: float  # below the torso
    tail: float


BUILDS = (
    Build(0.60, 28, 0.02, 0.20, 0.17, 0.11, False, 0.26, 0.55),  # a songbird
    Build(0.62, 40, 0.02, 0.21, 0.14, 0.15, True, 0.20, 0.65),  # a parrot or a falcon
    Build(0.50, 8, 0.26, 0.155, 0.24, 0.10, False, 0.18, 0.26),  # a duck
    Build(0.46, 18, 0.50, 0.125, 0.34, 0.075, False, 0.62, 0.26),  # a heron
    Build(0.52, 22, 0.08, 0.17, 0.24, 0.08, False, 0.36, 0.50),  # a thrush or a crow
)
EARTHY: tuple[Colour, ...] = ((0.42, 0.32, 0.24), (0.16, 0.15, 0.17), (0.60, 0.56, 0.50), (0.90, 0.88, 0.84), (0.55, 0.42, 0.28))


def bird(rng: np.random.Generator) -> Figure:
    build = BUILDS[rng.integers(len(BUILDS))]
    build = replace(build, **{name: getattr(build, name) * rng.uniform(0.88, 1.14)
                              for name in ("plump", "neck", "head", "beak", "leg", "tail")})
    back, breast = _colours(rng)
    lean = build.upright + rng.uniform(-10, 10)
    figure = Figure(ground=0.42 * build.plump + 0.25 * np.sin(np.deg2rad(lean)) + build.leg)
    raised = rng.random() < 0.22
    if raised:
        _spread_wing(figure, back, lean, far=True, rng=rng)
    _tail(figure, build, back, lean, rng)
    _leg(figure, build, rng, far=True)
    _leg(figure, build, rng, far=False)
    head_at = _torso(figure, build, back, breast, lean, rng)
    _head(figure, build, back, breast, head_at, rng)
    if raised:
        _spread_wing(figure, back, lean, far=False, rng=rng)
    else:
        _folded_wing(figure, build, back, lean, rng)
    return figure


def _colours(rng: np.random.Generator) -> tuple[Material, Material]:
    """The plumage of the back and of the breast."""
    if rng.random() < 0.5:
        back = near(EARTHY[rng.integers(len(EARTHY))], rng, 0.06)
    else:
        back = hsv(rng.random(), rng.uniform(0.45, 0.8), rng.uniform(0.4, 0.8))
    breast = darker(back, 1.3) if rng.random() < 0.3 else hsv(rng.random(), rng.uniform(0.05, 0.6), rng.uniform(0.7, 0.95))
    speckled = rng.random() < 0.3
    coat = Material(back, mark=near(darker(back, rng.choice([0.5, 1.6])), rng), grain="feathers",
                    pattern="stripes" if rng.random() < 0.3 else "plain", strength=0.6, repeats=6)  # fmt: skip
    front = Material(breast, darker(breast, 1.1), mark=darker(back, 0.6), grain="fur", strength=0.7, repeats=14,
                     pattern="spots" if speckled else "plain")  # fmt: skip
    return coat, front


def _torso(figure: Figure, build: Build, back: Material, breast: Material, lean: float, rng: np.random.Generator) -> Point:
    p = build.plump / 2
    chest, rump = polar((0, 0), -lean, 0.30), polar((0, 0), 180 - lean, 0.42)
    rise = -lean - (70 if build.neck > 0.2 else 25) + rng.uniform(-12, 12)
    head_at = polar(chest, rise, build.neck + 0.32 * build.plump + 0.35 * build.head)
    egg = smooth([polar(rump, 90 - lean, 0.05), polar(rump, -90 - lean, 0.06), polar((-0.02, 0), -90 - lean, 0.86 * p),
                  polar(chest, -80 - lean, 0.82 * p), polar(chest, -lean, 0.62 * p), polar(chest, 80 - lean, 0.95 * p),
                  polar((-0.05, 0), 90 - lean, 1.0 * p)])  # fmt: skip
    middle = ((chest[0] + head_at[0]) / 2 + 0.25 * build.neck, (chest[1] + head_at[1]) / 2)
    neck = limb([chest, middle, head_at], [0.7 * p, 0.75 * build.head if build.neck > 0.2 else 0.62 * p, 0.85 * build.head])
    figure.add((egg, neck), TORSO, replace(breast, under=breast.under), origin=chest, axis=-lean)
    figure.add(egg, TORSO, back, axis=180 - lean, fade=Fade(polar((0, 0), 90 - lean, 0.25 * p), -90 - lean, 0.3 * p))
    figure.keypoints["torso"] = polar(chest, 50 - lean, 0.45 * p)
    return head_at


def _head(figure: Figure, build: Build, back: Material, breast: Material, at: Point, rng: np.random.Generator) -> None:
    r, pitch = build.head, rng.uniform(-12, 15)
    crown = replace(back, grain="fur", pattern="plain", colour=darker(back.colour, rng.choice([0.7, 1.0, 1.2])))
    bill = Material(hsv(rng.choice([0.09, 0.12, 0.03, 0.6]), rng.uniform(0.2, 0.9), rng.uniform(0.3, 0.95)), gloss=0.3)
    face = polar(at, pitch, 0.72 * r)
    tip = polar(face, pitch + (22 if build.hooked else 4), build.beak + 0.28 * r)
    depth = build.beak_depth / 2
    if build.hooked:
        upper = smooth([polar(face, pitch - 90, depth), polar(face, pitch - 25, 0.75 * build.beak), tip,
                        polar(tip, pitch + 100, 0.05), polar(face, pitch + 50, 0.55 * build.beak), polar(face, pitch + 90, depth)])  # fmt: skip
    else:
        upper = limb([face, polar(face, pitch + 1, 0.5 * build.beak), tip], [depth, 0.62 * depth, 0.012])
    figure.add(upper, HEAD, bill)
    figure.add(limb([face, polar(face, pitch + 7, 0.8 * build.beak)], [0.008, 0.004]), HEAD, Material(darker(bill.colour, 0.4)), relief=0.0)
    if rng.random() < 0.25:
        for angle in (-150, -135, -120):
            figure.add(leaf(polar(at, angle, 0.6 * r), angle - 8, 1.1 * r, 0.35 * r), HEAD, crown)
    figure.add(ellipse(at, 1.06 * r, r, pitch), HEAD, crown, origin=at, axis=180 + pitch)
    cheek = replace(breast, pattern="plain", colour=near(breast.colour, rng), under=None)
    if rng.random() < 0.6:
        figure.add(ellipse(polar(at, pitch + 65, 0.42 * r), 0.75 * r, 0.5 * r, pitch), HEAD, cheek, relief=0.6)
    eye, size = polar(at, pitch - 30, 0.42 * r), 0.17 * r + 0.004
    figure.add(ellipse(eye, 1.5 * size, 1.5 * size), HEAD, Material(hsv(rng.choice([0.12, 0.08, 0.0]), rng.random(), 0.8)))
    figure.add(ellipse(eye, size, size), HEAD, Material((0.05, 0.04, 0.04), gloss=1.0))
    figure.add(ellipse(polar(eye, -60, 0.4 * size), 0.32 * size, 0.32 * size), HEAD, Material((1, 1, 1)), relief=0.0)
    figure.keypoints["eye"] = eye
    figure.keypoints["muzzle"] = polar(face, pitch + 5, 0.35 * build.beak)


def _tail(figure: Figure, build: Build, back: Material, lean: float, rng: np.random.Generator) -> None:
    root, direction = polar((0, 0), 180 - lean, 0.34), 180 - lean + rng.uniform(-16, 12)
    spread = rng.uniform(3, 9)
    quill = replace(back, grain="smooth", pattern="rays", mark=darker(back.colour, 0.6), repeats=16, strength=0.5,
                    colour=darker(back.colour, rng.choice([0.6, 0.85])))  # fmt: skip
    for k in (-2, 2, -1, 1, 0):
        angle = direction + k * spread
        figure.add(leaf(root, angle, build.tail + 0.12 - 0.015 * abs(k), 0.19, blunt=0.9), TAIL, quill,
                   origin=root, axis=angle, light=0.95 - 0.06 * abs(k), shadow=0.25)  # fmt: skip
    figure.keypoints["tail"] = polar(root, direction, 0.6 * build.tail + 0.12)


def _leg(figure: Figure, build: Build, rng: np.random.Generator, far: bool) -> None:
    assert figure.ground is not None
    x = 0.12 if far else -0.02
    skin = Material(hsv(0.08, 0.6, 0.75) if build.leg > 0.5 else hsv(0.07, 0.45, 0.5), grain="skin")
    light = 0.7 if far else 1.0
    top: Point = (x, 0.25 * build.plump)
    foot: Point = (x + 0.02 + 0.1 * build.leg * float(rng.uniform(-1, 1)), figure.ground - 0.025)
    ankle: Point = (x - 0.10 * build.leg, (top[1] + foot[1]) / 2 + 0.02)
    for toe in (-0.09, 0.08, 0.15):
        figure.add(limb([foot, (foot[0] + 0.55 * toe, foot[1] - 0.015), (foot[0] + toe, foot[1] + 0.018)],
                        [0.034, 0.03, 0.016]), LEG, skin, light=light)  # fmt: skip
    figure.add(limb([top, ankle, foot], [0.10, 0.042, 0.036]), LEG, skin, light=light, axis=90)
    if not far:
        figure.keypoints["hind foot"] = foot


def _folded_wing(figure: Figure, build: Build, back: Material, lean: float, rng: np.random.Generator) -> None:
    """Long flight feathers under two rows of shorter ones."""
    p, droop = build.plump / 2, rng.uniform(-6, 8)
    shoulder = polar(polar((0, 0), -lean, 0.20), -90 - lean, 0.18 * p)
    flight = replace(back, grain="smooth", pattern="rays", mark=darker(back.colour, 0.55), repeats=20, strength=0.6,
                     colour=darker(back.colour, 0.75))  # fmt: skip
    bar = replace(back, colour=near(darker(back.colour, rng.choice([0.6, 1.5])), rng))
    axis = 180 - lean - droop
    for k in range(4):
        angle = axis - 9 + 6 * k
        figure.add(leaf(shoulder, angle, 0.86 - 0.08 * k, 0.22, blunt=0.6), WING, flight, origin=shoulder, axis=angle, shadow=0.3)
    figure.add(leaf(polar(shoulder, axis + 180, 0.1), axis - 2, 0.62, 1.0 * p, blunt=0.9), WING, bar, origin=shoulder, axis=axis, shadow=0.3)
    figure.add(leaf(polar(shoulder, axis + 180, 0.12), axis - 5, 0.44, 0.85 * p, blunt=0.9), WING, back, origin=shoulder, axis=axis, shadow=0.25)
    figure.keypoints["wing"] = polar(shoulder, axis, 0.28)


def _spread_wing(figure: Figure, back: Material, lean: float, far: bool, rng: np.random.Generator) -> None:
    """A wing held up: a fan of flight feathers, and coverts along the arm."""
    shoulder: Point = (0.16, -0.12) if far else (0.08, -0.05)
    up = -118 - lean / 2 + rng.uniform(-10, 10) + (22 if far else 0)
    light = 0.75 if far else 1.0
    quill = replace(back, grain="smooth", pattern="rays", mark=darker(back.colour, 0.55), repeats=18, strength=0.6,
                    colour=darker(back.colour, 0.8))  # fmt: skip
    wrist = polar(shoulder, up + 12, 0.38)
    for k in range(8):
        t = k / 7
        base = (shoulder[0] + (wrist[0] - shoulder[0]) * t, shoulder[1] + (wrist[1] - shoulder[1]) * t)
        angle = up - 62 * (1 - t) - 4
        figure.add(leaf(base, angle, 0.46 + 0.22 * t, 0.17, blunt=0.7), WING, quill, origin=base, axis=angle, light=light, shadow=0.2)
    figure.add(limb([shoulder, wrist, polar(wrist, up - 8, 0.16)], [0.13, 0.11, 0.05]), WING, back, origin=shoulder, axis=up, light=light)
    if not far:
        figure.keypoints["wing"] = polar(shoulder, up + 5, 0.3)
