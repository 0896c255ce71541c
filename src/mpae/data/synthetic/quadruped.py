"""Four-legged animals: one skeleton, many builds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpae.data.synthetic.anatomy import HEAD, LEG, TAIL, TORSO, Fade, Figure
from mpae.data.synthetic.shapes import Point, ellipse, leaf, limb, polar, smooth
from mpae.data.synthetic.textures import Colour, Material, darker, near

BROWN, DARK, GREY = (0.45, 0.29, 0.17), (0.20, 0.16, 0.14), (0.55, 0.53, 0.50)
WHITE, CREAM, GINGER, TAN = (0.93, 0.91, 0.87), (0.86, 0.76, 0.58), (0.78, 0.43, 0.16), (0.70, 0.53, 0.34)


@dataclass(frozen=True)
class Build:
    """Lengths in torsos."""

    depth: float  # of the torso
    leg: float  # below the belly
    leg_width: float
    neck: float
    neck_rise: float  # degrees above the horizontal
    neck_width: float
    head: float  # length
    head_width: float
    muzzle: float  # width of the nose as a share of the head's
    ears: str  # prick, round, flop
    tail: str  # hair, whip, bushy, tuft, short
    coats: tuple[tuple[Colour, Colour, str], ...]  # colour, mark, pattern
    horns: str = "none"  # none, horns, antlers
    mane: bool = False
    hoofs: bool = True
    grain: str = "fur"


PLAIN = ((BROWN, DARK, "plain"), (DARK, DARK, "plain"), (GREY, WHITE, "spots"), (TAN, BROWN, "plain"))
HORSE = Build(0.42, 0.52, 0.075, 0.46, 52, 0.16, 0.34, 0.17, 0.60, "prick", "hair", PLAIN, mane=True)
DOG = Build(0.36, 0.36, 0.075, 0.20, 48, 0.13, 0.27, 0.21, 0.55, "flop", "whip", hoofs=False, coats=(
    (TAN, BROWN, "plain"), (WHITE, BROWN, "patches"), (DARK, TAN, "plain"), (CREAM, WHITE, "plain"), (WHITE, DARK, "spots")))
CAT = Build(0.34, 0.30, 0.075, 0.14, 35, 0.13, 0.19, 0.25, 0.62, "round", "whip", hoofs=False, coats=(
    (GINGER, DARK, "stripes"), (CREAM, DARK, "rosettes"), (GREY, DARK, "stripes"), (TAN, BROWN, "plain"), (WHITE, GREY, "stripes")))
COW = Build(0.50, 0.34, 0.085, 0.24, 25, 0.20, 0.34, 0.22, 0.70, "flop", "tuft", horns="horns", coats=(
    (WHITE, DARK, "patches"), (BROWN, WHITE, "patches"), (CREAM, BROWN, "plain"), (GINGER, WHITE, "patches")))
BUILDS = (
    HORSE,
    replace(HORSE, coats=((WHITE, DARK, "stripes"),), tail="tuft"),  # a zebra
    DOG,
    replace(DOG, depth=0.32, ears="prick", tail="bushy", muzzle=0.38, coats=((GINGER, WHITE, "plain"), (GREY, WHITE, "plain"))),
    CAT,
    COW,
    Build(0.34, 0.52, 0.055, 0.38, 62, 0.10, 0.25, 0.15, 0.50, "prick", "short", horns="antlers", coats=(
        (TAN, WHITE, "spots"), (BROWN, WHITE, "plain"), (GINGER, WHITE, "spots"))),
    Build(0.46, 0.62, 0.070, 0.85, 66, 0.12, 0.28, 0.15, 0.55, "prick", "tuft", ((CREAM, BROWN, "net"),), mane=True),
    Build(0.50, 0.24, 0.070, 0.16, 35, 0.16, 0.26, 0.18, 0.60, "flop", "short", horns="none", grain="wool", coats=(
        (WHITE, WHITE, "plain"), (CREAM, CREAM, "plain"), (DARK, DARK, "plain"))),
)  # fmt: skip


def quadruped(rng: np.random.Generator) -> Figure:
    build = BUILDS[rng.integers(len(BUILDS))]
    build = replace(build, **{name: getattr(build, name) * rng.uniform(0.9, 1.12)
                              for name in ("depth", "leg", "leg_width", "neck", "neck_width", "head_width")})
    colour, mark, pattern = build.coats[rng.integers(len(build.coats))]
    colour = near(colour, rng, 0.06)
    light_belly = rng.random() < 0.6
    coat = Material(colour, near(darker(colour, 1.25), rng) if light_belly else darker(colour, 0.8), near(mark, rng, 0.04),
                    pattern, repeats=rng.uniform(5, 8), grain=build.grain)  # fmt: skip
    if pattern in ("patches", "net"):
        coat = replace(coat, repeats=rng.uniform(3.0, 5.0), under=None)
    elif pattern in ("spots", "rosettes"):
        coat = replace(coat, repeats=rng.uniform(9, 13))
    figure = Figure(ground=build.depth / 2 + build.leg)
    swing = rng.choice([-1, 1]) * rng.uniform(0.3, 1.0)
    _legs(figure, build, coat, rng, swing, near_side=False)
    _tail(figure, build, coat, rng)
    head_at = polar((0.40, -0.20 * build.depth), -build.neck_rise + rng.uniform(-12, 8), build.neck + 0.12)
    _torso(figure, build, coat, head_at, rng)
    _legs(figure, build, coat, rng, -swing, near_side=True)
    _head(figure, build, coat, head_at, rng)
    return figure


def _torso(figure: Figure, build: Build, coat: Material, head_at: Point, rng: np.random.Generator) -> None:
    d, sag = build.depth / 2, rng.uniform(0.0, 0.1)
    back = [(-0.53, -0.15 * d), (-0.44, -0.86 * d), (-0.22, -0.98 * d), (0.05, -(0.92 - sag) * d), (0.30, -1.04 * d)]
    belly = [(0.50, -0.45 * d), (0.53, 0.25 * d), (0.38, 0.90 * d), (0.10, 1.0 * d), (-0.20, 0.85 * d), (-0.42, 0.70 * d)]
    trunk = smooth(back + belly)
    w = build.neck_width
    middle = ((0.38 + head_at[0]) / 2 + 0.04, (-0.3 * d + head_at[1]) / 2 + 0.02)
    neck = limb([(0.30, -0.15 * d), middle, head_at], [1.45 * w, 1.0 * w, 0.72 * w])
    if build.mane:
        crest = [(0.26, -0.95 * d), (middle[0] - 1.0 * w, middle[1] - 0.35 * w), polar(head_at, -125, 0.9 * w)]
        hair = Material(darker(coat.mark, 0.8), grain="fur")
        figure.add(limb(crest, [0.05, 0.075, 0.05]), TORSO, hair, axis=60, relief=0.7)
    figure.add((trunk, neck), TORSO, coat)
    figure.keypoints["torso"] = (0.0, 0.0)


def _legs(figure: Figure, build: Build, coat: Material, rng: np.random.Generator, swing: float, near_side: bool) -> None:
    """The hind and the front leg of one side; they step against each other."""
    d, w = build.depth / 2, build.leg_width
    ground, shift = build.depth / 2 + build.leg, 0.0 if near_side else 0.09
    light = 1.0 if near_side else 0.62
    skin = coat if build.grain != "wool" else replace(coat, colour=darker(coat.colour, 0.35), under=None, grain="fur")
    skin = replace(skin, under=darker(skin.colour, rng.choice([0.55, 1.0, 1.35])))
    end = Material(darker(coat.colour, 0.3) if build.hoofs else darker(coat.colour, 1.1), grain="skin")
    for name, hip, step_by in (("hind foot", (-0.38 + shift, -0.05 * d), -swing), ("front foot", (0.34 + shift, 0.15 * d), swing)):
        reach = ground - hip[1]
        stride = 0.30 * reach * step_by
        lift = 0.07 * max(step_by, 0)
        foot = (hip[0] + stride, ground - 0.35 * w - lift)
        if name == "hind foot":
            knee = (hip[0] + 0.06 + 0.45 * stride, hip[1] + 0.42 * reach)
            ankle = (hip[0] - 0.09 + 0.75 * stride, hip[1] + 0.68 * reach - lift)
            joints, radii = [hip, knee, ankle, foot], [1.8 * w, 1.2 * w, 0.62 * w, 0.56 * w]
        else:
            knee = (hip[0] + 0.02 + 0.62 * stride, hip[1] + 0.58 * reach - lift)
            joints, radii = [hip, knee, foot], [1.4 * w, 0.78 * w, 0.58 * w]
        fade = Fade((hip[0], hip[1] + 0.05 * d), 90, 0.55 * d) if near_side else None
        figure.add(limb(joints, radii), LEG, skin, light=light, axis=90, origin=hip, fade=fade)
        sole = ellipse((foot[0] + 0.35 * w, foot[1]), 1.05 * w, 0.58 * w)
        figure.add(sole, LEG, end, light=light)
        if near_side:
            figure.keypoints[name] = foot


def _tail(figure: Figure, build: Build, coat: Material, rng: np.random.Generator) -> None:
    root: Point = (-0.49, -0.28 * build.depth)
    lengths = {"hair": 0.62, "whip": 0.62, "bushy": 0.62, "tuft": 0.55, "short": 0.17}
    length = lengths[build.tail] * rng.uniform(0.9, 1.15)
    raised = rng.uniform(-50, 30) if build.tail in ("whip", "bushy", "short") else rng.uniform(35, 65)
    first = polar(root, 180 - raised, 0.3 * length)
    second = polar(first, 180 - raised - rng.uniform(-10, 35), 0.35 * length)
    tip = polar(second, 180 - raised - rng.uniform(-40, 60), 0.35 * length)
    widths = {
        "hair": (0.045, 0.075, 0.085, 0.03), "whip": (0.045, 0.042, 0.038, 0.03), "bushy": (0.05, 0.105, 0.12, 0.03),
        "tuft": (0.035, 0.028, 0.025, 0.022), "short": (0.06, 0.065, 0.06, 0.03),
    }  # fmt: skip
    hair = coat if build.tail != "hair" else Material(darker(coat.mark, 0.9), grain="fur")
    figure.add(limb([root, first, second, tip], widths[build.tail]), TAIL, replace(hair, under=None), axis=180 - raised, light=0.92)
    if build.tail == "tuft":
        figure.add(leaf(second, 180 - raised - 10, 0.5 * length, 0.15), TAIL, Material(darker(coat.mark, 0.8), grain="fur"))
    if build.tail == "bushy":
        figure.add(ellipse(tip, 0.08, 0.07), TAIL, Material(coat.mark, grain="fur"))
    figure.keypoints["tail"] = first if build.tail == "short" else second


def _head(figure: Figure, build: Build, coat: Material, at: Point, rng: np.random.Generator) -> None:
    length, w = 1.15 * build.head, 1.15 * build.head_width / 2
    pitch = rng.uniform(8, 38) if build.neck_rise > 40 else rng.uniform(0, 25)
    fur = coat if build.grain != "wool" else replace(coat, colour=darker(coat.colour, 0.4), grain="fur")
    fur = replace(fur, under=darker(fur.colour, 1.2), strength=0.75)
    nose = polar(at, pitch, length)
    _ear(figure, build, fur, at, pitch, far=True)
    _horns(figure, build, at, pitch, rng)
    skull = limb([at, polar(at, pitch + 3, 0.55 * length), nose], [1.05 * w, 0.82 * w, build.muzzle * w])
    figure.add((skull, ellipse(at, 1.12 * w, 1.05 * w)), HEAD, fur, axis=pitch, origin=at, shadow=0.4)
    snout = replace(fur, colour=darker(fur.colour, rng.choice([0.6, 1.35])), under=None, pattern="plain")
    figure.add(limb([polar(at, pitch, 0.72 * length), nose], [0.8 * build.muzzle * w, build.muzzle * w]), HEAD, snout,
               fade=Fade(polar(at, pitch, 0.62 * length), pitch, 0.3 * length))  # fmt: skip
    tip = polar(nose, pitch - 35, 0.72 * build.muzzle * w)
    figure.add(ellipse(tip, 0.42 * build.muzzle * w + 0.012, 0.3 * build.muzzle * w + 0.01, pitch), HEAD,
               Material((0.10, 0.08, 0.08), gloss=0.5))  # fmt: skip
    corner = polar(polar(at, pitch, 0.68 * length), pitch + 90, 0.35 * w)
    lip = polar(nose, pitch + 70, 0.45 * build.muzzle * w)
    figure.add(limb([corner, lip], [0.006, 0.008]), HEAD, Material(darker(fur.colour, 0.3)), relief=0.0, opacity=0.8)
    eye = polar(polar(at, pitch, 0.30 * length), pitch - 90, 0.30 * w)
    size = 0.23 * w + 0.006
    figure.add(ellipse(eye, 1.5 * size, 1.25 * size, pitch), HEAD, Material(darker(fur.colour, 0.45)), relief=0.0, opacity=0.7)
    figure.add(ellipse(eye, size, size), HEAD, Material((0.07, 0.05, 0.04), gloss=1.0))
    figure.add(ellipse(polar(eye, -60, 0.4 * size), 0.3 * size, 0.3 * size), HEAD, Material((1, 1, 1)), relief=0.0)
    _ear(figure, build, fur, at, pitch, far=False)
    figure.keypoints["eye"] = eye
    figure.keypoints["muzzle"] = polar(nose, pitch + 180, 0.2 * build.muzzle * w)


def _ear(figure: Figure, build: Build, fur: Material, at: Point, pitch: float, far: bool) -> None:
    w = 1.15 * build.head_width / 2
    light, ahead = (0.7, 0.35) if far else (1.0, -0.15)
    base = polar(polar(at, pitch - 90, 0.75 * w), pitch, ahead * w)
    inner = Material((0.72, 0.48, 0.42))
    plain = replace(fur, colour=darker(fur.colour, 0.85), under=None)
    if build.ears == "flop":
        if not far:
            hang = [polar(base, pitch + 90, 0.1 * w), polar(base, 125, 0.75 * w), polar(base, 100, 1.5 * w)]
            figure.add(limb(hang, [0.25 * w, 0.42 * w, 0.28 * w]), HEAD, replace(plain, colour=darker(fur.colour, 0.7)), shadow=0.3)
        return
    if build.ears == "round":
        centre = polar(base, pitch - 100, 0.30 * w)
        figure.add(ellipse(centre, 0.42 * w, 0.46 * w), HEAD, plain, light=light)
        figure.add(ellipse(centre, 0.22 * w, 0.27 * w), HEAD, inner, light=light, relief=0.5)
        return
    figure.add(leaf(polar(base, 90, 0.2 * w), pitch - 108, 1.75 * w, 0.72 * w, blunt=0.2), HEAD, plain, light=light)
    figure.add(leaf(polar(base, 90, 0.1 * w), pitch - 108, 1.35 * w, 0.38 * w, blunt=0.2), HEAD, inner, light=light, relief=0.5)


def _horns(figure: Figure, build: Build, at: Point, pitch: float, rng: np.random.Generator) -> None:
    w = build.head_width / 2
    root = polar(at, pitch - 80, 0.85 * w)
    bone = Material((0.78, 0.70, 0.58), grain="skin")
    if build.horns == "horns" and rng.random() < 0.7:
        figure.add(limb([root, polar(root, -70, 0.9 * w), polar(root, -50, 1.7 * w)], [0.24 * w, 0.18 * w, 0.04 * w]), HEAD, bone)
    if build.horns == "antlers" and rng.random() < 0.6:
        for lean in (-115, -85):
            stem = [root, polar(root, lean - 15, 1.8 * w), polar(root, lean + 8, 3.6 * w)]
            figure.add(limb(stem, [0.17 * w, 0.14 * w, 0.06 * w]), HEAD, bone)
            figure.add(limb([stem[1], polar(stem[1], lean + 50, 1.2 * w)], [0.13 * w, 0.05 * w]), HEAD, bone)
