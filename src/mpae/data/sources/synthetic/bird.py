"""Birds: perched, standing, and with raised wings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpae.data.sources.synthetic.anatomy import HEAD, LEG, TAIL, TORSO, WING, Fade, Figure, varied
from mpae.data.sources.synthetic.shapes import Point, ellipse, leaf, limb, polar, smooth
from mpae.data.sources.synthetic.textures import Colour, Material, Rng, darker, hsv, near


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
EARTHY: tuple[Colour, ...] = (
    (0.42, 0.32, 0.24), (0.18, 0.17, 0.19), (0.60, 0.56, 0.50), (0.90, 0.88, 0.84), (0.55, 0.42, 0.28))


def bird(rng: Rng) -> Figure:
    build = varied(BUILDS[rng.integers(len(BUILDS))], rng, "plump", "neck", "head", "beak", "leg", "tail")
    back, breast = _plumage(rng)
    lean = build.upright + rng.uniform(-10, 10)
    ground = 0.42 * build.plump + 0.25 * float(np.sin(np.deg2rad(lean))) + build.leg
    figure = Figure(ground=ground)
    raised = rng.uniform(-10, 10) if rng.random() < 0.22 else None
    if raised is not None:
        _spread_wing(figure, back, lean - raised, far=True)
    _tail(figure, build, back, lean, rng)
    _leg(figure, build, ground, rng, far=True)
    _leg(figure, build, ground, rng, far=False)
    head_at = _torso(figure, build, back, breast, lean, rng)
    _head(figure, build, back, breast, head_at, rng)
    if raised is not None:
        _spread_wing(figure, back, lean - raised, far=False)
    else:
        _folded_wing(figure, build, back, lean, rng)
    return figure


def _plumage(rng: Rng) -> tuple[Material, Material]:
    """Of the back and of the breast."""
    if rng.random() < 0.5:
        colour = near(EARTHY[rng.integers(len(EARTHY))], rng, 0.06)
    else:
        colour = hsv(rng.random(), rng.uniform(0.45, 0.75), rng.uniform(0.4, 0.8))
    light = hsv(rng.random(), rng.uniform(0.05, 0.6), rng.uniform(0.7, 0.95))
    front = darker(colour, 1.3) if rng.random() < 0.3 else light
    barred, speckled = rng.random(2) < 0.3
    mark = near(darker(colour, rng.choice([0.5, 1.6])), rng)
    back = Material(colour, None, mark, "stripes" if barred else "plain", 6, 0.6, "feathers")
    spots = "spots" if speckled else "plain"
    return back, Material(front, darker(front, 1.1), darker(colour, 0.6), spots, 14, 0.7, "fur")


def _quills(back: Material, shade: float) -> Material:
    """Long feathers, with fine lines along them."""
    colour = darker(back.colour, shade)
    return Material(colour, None, darker(colour, 0.75), "rays", 18, 0.8)


def _torso(figure: Figure, build: Build, back: Material, breast: Material, lean: float, rng: Rng) -> Point:
    """Also says where the head sits."""
    p = build.plump / 2
    chest, rump = polar((0, 0), -lean, 0.30), polar((0, 0), 180 - lean, 0.42)
    long_necked = build.neck > 0.2
    rise = -lean - (70 if long_necked else 25) + rng.uniform(-12, 12)
    head_at = polar(chest, rise, build.neck + 0.32 * build.plump + 0.35 * build.head)
    egg = smooth([
        polar(rump, 90 - lean, 0.05), polar(rump, -90 - lean, 0.06), polar((-0.02, 0), -90 - lean, 0.86 * p),
        polar(chest, -80 - lean, 0.82 * p), polar(chest, -lean, 0.62 * p), polar(chest, 80 - lean, 0.95 * p),
        polar((-0.05, 0), 90 - lean, 1.0 * p)])
    middle = ((chest[0] + head_at[0]) / 2 + 0.25 * build.neck, (chest[1] + head_at[1]) / 2)
    throat = 0.75 * build.head if long_necked else 0.62 * p
    neck = limb([chest, middle, head_at], [0.7 * p, throat, 0.85 * build.head])
    figure.add((egg, neck), TORSO, breast, origin=chest, axis=-lean)
    flank = Fade(polar((0, 0), 90 - lean, 0.25 * p), -90 - lean, 0.3 * p)
    figure.add(egg, TORSO, back, axis=180 - lean, fade=flank)
    figure.keypoints["torso"] = polar(chest, 50 - lean, 0.45 * p)
    return head_at


def _head(figure: Figure, build: Build, back: Material, breast: Material, at: Point, rng: Rng) -> None:
    r, pitch = build.head, rng.uniform(-12, 15)
    shade = rng.choice([0.7, 1.0, 1.2])
    crown = replace(back, grain="fur", pattern="plain", colour=darker(back.colour, shade))
    _beak(figure, build, polar(at, pitch, 0.72 * r), pitch, rng)
    if rng.random() < 0.25:
        for angle in (-150, -135, -120):
            figure.add(leaf(polar(at, angle, 0.6 * r), angle - 8, 1.1 * r, 0.35 * r), HEAD, crown)
    figure.add(ellipse(at, 1.06 * r, r, pitch), HEAD, crown, origin=at, axis=180 + pitch)
    if rng.random() < 0.6:
        cheek = ellipse(polar(at, pitch + 65, 0.42 * r), 0.75 * r, 0.5 * r, pitch)
        figure.add(cheek, HEAD, replace(breast, pattern="plain", under=None), relief=0.6)
    iris = hsv(rng.choice([0.12, 0.08, 0.0]), rng.random(), 0.8)
    figure.eye(polar(at, pitch - 30, 0.42 * r), 0.17 * r + 0.004, iris)


def _beak(figure: Figure, build: Build, face: Point, pitch: float, rng: Rng) -> None:
    length, depth = build.beak, build.beak_depth / 2
    hue = rng.choice([0.09, 0.12, 0.03, 0.6])
    horn = Material(hsv(hue, rng.uniform(0.2, 0.9), rng.uniform(0.3, 0.95)), gloss=0.3)
    if build.hooked:
        tip = polar(face, pitch + 22, length + 0.28 * build.head)
        outline = smooth([
            polar(face, pitch - 90, depth), polar(face, pitch - 25, 0.75 * length), tip,
            polar(tip, pitch + 100, 0.05), polar(face, pitch + 50, 0.55 * length),
            polar(face, pitch + 90, depth)])
    else:
        tip = polar(face, pitch + 4, length + 0.28 * build.head)
        outline = limb([face, polar(face, pitch + 1, 0.5 * length), tip], [depth, 0.62 * depth, 0.012])
    figure.add(outline, HEAD, horn)
    gape = limb([face, polar(face, pitch + 7, 0.8 * length)], [0.008, 0.004])
    figure.detail(gape, HEAD, darker(horn.colour, 0.4))
    figure.keypoints["muzzle"] = polar(face, pitch + 5, 0.35 * length + 0.25 * build.head)


def _tail(figure: Figure, build: Build, back: Material, lean: float, rng: Rng) -> None:
    root, direction = polar((0, 0), 180 - lean, 0.34), 180 - lean + rng.uniform(-16, 12)
    spread, quills = rng.uniform(3, 9), _quills(back, rng.choice([0.6, 0.85]))
    for k in (-2, 2, -1, 1, 0):
        angle, length = direction + k * spread, build.tail + 0.12 - 0.015 * abs(k)
        figure.add(leaf(root, angle, length, 0.19, blunt=0.9), TAIL, quills,
                   origin=root, axis=angle, light=0.95 - 0.06 * abs(k), shadow=0.25)
    figure.keypoints["tail"] = polar(root, direction, 0.6 * build.tail + 0.12)


def _leg(figure: Figure, build: Build, ground: float, rng: Rng, far: bool) -> None:
    x, light = (0.12, 0.7) if far else (-0.02, 1.0)
    skin = Material(hsv(0.08, 0.6, 0.75) if build.leg > 0.5 else hsv(0.07, 0.45, 0.5), grain="skin")
    top: Point = (x, 0.25 * build.plump)
    foot: Point = (x + 0.02 + build.leg * rng.uniform(-0.1, 0.1), ground - 0.025)
    ankle: Point = (x - 0.10 * build.leg, (top[1] + foot[1]) / 2 + 0.02)
    for toe in (-0.09, 0.08, 0.15):
        arch, claw = (foot[0] + 0.55 * toe, foot[1] - 0.015), (foot[0] + toe, foot[1] + 0.018)
        figure.add(limb([foot, arch, claw], [0.036, 0.032, 0.018]), LEG, skin, light=light)
    figure.add(limb([top, ankle, foot], [0.10, 0.046, 0.040]), LEG, skin, light=light, axis=90)
    if not far:
        figure.keypoints["hind foot"] = foot


def _folded_wing(figure: Figure, build: Build, back: Material, lean: float, rng: Rng) -> None:
    """Long flight feathers under two rows of shorter ones."""
    p, axis = build.plump / 2, 180 - lean + rng.uniform(-8, 6)
    shoulder = polar(polar((0, 0), -lean, 0.20), -90 - lean, 0.18 * p)
    quills = _quills(back, 0.75)
    for k in range(4):
        angle = axis - 9 + 6 * k
        figure.add(leaf(shoulder, angle, 0.86 - 0.08 * k, 0.22, blunt=0.6), WING, quills,
                   origin=shoulder, axis=angle, shadow=0.3)
    bar = replace(back, colour=near(darker(back.colour, rng.choice([0.6, 1.5])), rng))
    for material, length, width, start, tilt in ((bar, 0.62, 1.0, 0.10, -2), (back, 0.44, 0.85, 0.12, -5)):
        coverts = leaf(polar(shoulder, axis + 180, start), axis + tilt, length, width * p, blunt=0.9)
        figure.add(coverts, WING, material, origin=shoulder, axis=axis, shadow=0.3)
    figure.keypoints["wing"] = polar(shoulder, axis, 0.28)


def _spread_wing(figure: Figure, back: Material, lean: float, far: bool) -> None:
    """A wing held up: a fan of flight feathers, and coverts along the arm."""
    shoulder, light, up = ((0.16, -0.12), 0.75, -96.0) if far else ((0.08, -0.05), 1.0, -118.0)
    up -= lean / 2
    wrist = polar(shoulder, up + 12, 0.38)
    quills = _quills(back, 0.8)
    for t in np.linspace(0, 1, 8).tolist():  # from the shoulder to the wrist
        base = polar(shoulder, up + 12, 0.38 * t)
        angle = up - 62 * (1 - t) - 4
        figure.add(leaf(base, angle, 0.46 + 0.22 * t, 0.17, blunt=0.7), WING, quills,
                   origin=base, axis=angle, light=light, shadow=0.2)
    arm = limb([shoulder, wrist, polar(wrist, up - 8, 0.16)], [0.13, 0.11, 0.05])
    figure.add(arm, WING, back, origin=shoulder, axis=up, light=light)
    if not far:
        figure.keypoints["wing"] = polar(shoulder, up + 5, 0.3)
