"""Four-legged animals: one skeleton, many builds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mpae.data.sources.synthetic.anatomy import HEAD, LEG, TAIL, TORSO, Fade, Figure, varied
from mpae.data.sources.synthetic.shapes import Point, ellipse, leaf, limb, polar, smooth
from mpae.data.sources.synthetic.textures import Colour, Material, Rng, darker, near

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
    tail: str  # one of TAILS
    coats: tuple[tuple[Colour, Colour, str], ...]  # colour, mark, pattern
    horns: str = "none"  # none, horns, antlers
    mane: bool = False
    hoofs: bool = True
    grain: str = "fur"


@dataclass(frozen=True)
class Tail:
    length: float
    radii: tuple[float, float, float, float]
    raised: tuple[float, float]  # degrees above the horizontal, from and to


TAILS = {
    "hair": Tail(0.62, (0.045, 0.075, 0.085, 0.03), (-65, -35)),
    "whip": Tail(0.62, (0.045, 0.042, 0.038, 0.03), (-30, 50)),
    "bushy": Tail(0.62, (0.05, 0.105, 0.12, 0.03), (-30, 50)),
    "tuft": Tail(0.55, (0.035, 0.028, 0.025, 0.022), (-65, -35)),
    "short": Tail(0.17, (0.06, 0.065, 0.06, 0.03), (-30, 50)),
}
HORSE = Build(
    0.42, 0.52, 0.078, 0.46, 52, 0.16, 0.39, 0.195, 0.60, "prick", "hair", mane=True,
    coats=((BROWN, DARK, "plain"), (DARK, DARK, "plain"), (GREY, WHITE, "spots"), (TAN, BROWN, "plain")))
ZEBRA = replace(HORSE, tail="tuft", coats=((WHITE, DARK, "stripes"),))
DOG = Build(
    0.36, 0.36, 0.078, 0.20, 48, 0.13, 0.31, 0.24, 0.55, "flop", "whip", hoofs=False,
    coats=((TAN, BROWN, "plain"), (WHITE, BROWN, "patches"), (DARK, TAN, "plain"), (WHITE, DARK, "spots")))
FOX = replace(
    DOG, depth=0.32, ears="prick", tail="bushy", muzzle=0.38,
    coats=((GINGER, WHITE, "plain"), (GREY, WHITE, "plain")))
CAT = Build(
    0.34, 0.30, 0.078, 0.14, 35, 0.13, 0.22, 0.29, 0.62, "round", "whip", hoofs=False,
    coats=((GINGER, DARK, "stripes"), (CREAM, DARK, "rosettes"), (GREY, DARK, "stripes"),
           (TAN, BROWN, "plain")))
COW = Build(
    0.50, 0.34, 0.088, 0.24, 25, 0.20, 0.39, 0.25, 0.70, "flop", "tuft", horns="horns",
    coats=((WHITE, DARK, "patches"), (BROWN, WHITE, "patches"), (CREAM, BROWN, "plain")))
DEER = Build(
    0.34, 0.52, 0.058, 0.38, 62, 0.10, 0.29, 0.17, 0.50, "prick", "short", horns="antlers",
    coats=((TAN, WHITE, "spots"), (BROWN, WHITE, "plain"), (GINGER, WHITE, "spots")))
GIRAFFE = Build(
    0.46, 0.62, 0.072, 0.85, 66, 0.12, 0.32, 0.17, 0.55, "prick", "tuft", mane=True,
    coats=((CREAM, BROWN, "net"),))
SHEEP = Build(
    0.50, 0.24, 0.072, 0.16, 35, 0.16, 0.30, 0.21, 0.60, "flop", "short", grain="wool",
    coats=((WHITE, WHITE, "plain"), (CREAM, CREAM, "plain"), (GREY, GREY, "plain")))
BUILDS = (HORSE, ZEBRA, DOG, FOX, CAT, COW, DEER, GIRAFFE, SHEEP)
REPEATS = {  # of a pattern in a torso's length, from and to
    "plain": (1, 2), "stripes": (5, 8), "spots": (9, 13), "rosettes": (9, 13), "patches": (3, 5),
    "net": (3, 5),
}


def quadruped(rng: Rng) -> Figure:
    build = BUILDS[rng.integers(len(BUILDS))]
    build = varied(build, rng, "depth", "leg", "leg_width", "neck", "neck_width", "head_width")
    coat = _coat(build, rng)
    figure = Figure(ground=build.depth / 2 + build.leg)
    stride = float(rng.choice([-1, 1]) * rng.uniform(0.3, 1.0))
    _legs(figure, build, coat, stride, far=True)
    _tail(figure, build, coat, rng)
    head_at = polar((0.40, -0.20 * build.depth), rng.uniform(-12, 8) - build.neck_rise, build.neck + 0.12)
    _torso(figure, build, coat, head_at, rng)
    _legs(figure, build, coat, -stride, far=False)
    _head(figure, build, coat, head_at, rng)
    return figure


def _coat(build: Build, rng: Rng) -> Material:
    colour, mark, pattern = build.coats[rng.integers(len(build.coats))]
    colour = near(colour, rng, 0.06)
    belly = None if pattern in ("patches", "net") else darker(colour, rng.choice([0.8, 1.25, 1.35]))
    repeats = rng.uniform(*REPEATS[pattern])
    return Material(colour, belly, near(mark, rng, 0.04), pattern, repeats, grain=build.grain)


def _skin(coat: Material) -> Material:
    """What covers head and legs: the coat, but a sheep is shorn there."""
    if coat.grain != "wool":
        return coat
    return replace(coat, colour=darker(coat.colour, 0.38), under=None, grain="fur")


def _torso(figure: Figure, build: Build, coat: Material, head_at: Point, rng: Rng) -> None:
    d, w, sag = build.depth / 2, build.neck_width, rng.uniform(0.0, 0.1)
    trunk = smooth([
        (-0.53, -0.15 * d), (-0.44, -0.86 * d), (-0.22, -0.98 * d), (0.05, (sag - 0.92) * d),
        (0.30, -1.04 * d), (0.50, -0.45 * d), (0.53, 0.25 * d), (0.38, 0.90 * d), (0.10, d),
        (-0.20, 0.85 * d), (-0.42, 0.70 * d)])
    middle = ((0.38 + head_at[0]) / 2 + 0.04, (-0.3 * d + head_at[1]) / 2 + 0.02)
    neck = limb([(0.30, -0.15 * d), middle, head_at], [1.45 * w, 1.0 * w, 0.72 * w])
    if build.mane:
        crest = [(0.26, -0.95 * d), (middle[0] - w, middle[1] - 0.35 * w), polar(head_at, -125, 0.9 * w)]
        hair = Material(darker(coat.mark, 0.8), grain="fur")
        figure.add(limb(crest, [0.05, 0.075, 0.05]), TORSO, hair, axis=60, relief=0.7)
    figure.add((trunk, neck), TORSO, coat)
    figure.keypoints["torso"] = (0.0, 0.0)


def _legs(figure: Figure, build: Build, coat: Material, stride: float, far: bool) -> None:
    """The hind and the front leg of one side; they step against each other."""
    d, w, ground = build.depth / 2, build.leg_width, build.depth / 2 + build.leg
    shift, light = (0.09, 0.62) if far else (0.0, 1.0)
    skin = _skin(coat)
    skin = replace(skin, under=darker(skin.colour, 0.7))
    sole = Material(darker(coat.colour, 0.3 if build.hoofs else 1.1), grain="skin")
    for name, hip, step in (
        ("hind foot", (shift - 0.38, -0.05 * d), -stride),
        ("front foot", (shift + 0.34, 0.15 * d), stride),
    ):
        reach, lift = ground - hip[1], 0.07 * max(step, 0.0)
        swing = 0.30 * reach * step
        foot = (hip[0] + swing, ground - 0.35 * w - lift)
        if name == "hind foot":
            knee = (hip[0] + 0.06 + 0.45 * swing, hip[1] + 0.42 * reach)
            hock = (hip[0] - 0.09 + 0.75 * swing, hip[1] + 0.68 * reach - lift)
            shape = limb([hip, knee, hock, foot], [1.8 * w, 1.2 * w, 0.64 * w, 0.60 * w])
        else:
            knee = (hip[0] + 0.02 + 0.62 * swing, hip[1] + 0.58 * reach - lift)
            shape = limb([hip, knee, foot], [1.4 * w, 0.80 * w, 0.62 * w])
        fade = None if far else Fade((hip[0], hip[1] + 0.05 * d), 90, 0.55 * d)
        figure.add(shape, LEG, skin, light=light, axis=90, origin=hip, fade=fade)
        figure.add(ellipse((foot[0] + 0.35 * w, foot[1]), 1.05 * w, 0.58 * w), LEG, sole, light=light)
        if not far:
            figure.keypoints[name] = foot


def _tail(figure: Figure, build: Build, coat: Material, rng: Rng) -> None:
    tail, root = TAILS[build.tail], (-0.49, -0.28 * build.depth)
    length = tail.length * rng.uniform(0.9, 1.15)
    axis = 180 + rng.uniform(*tail.raised)
    first = polar(root, axis, 0.3 * length)
    second = polar(first, axis + rng.uniform(-35, 10), 0.35 * length)
    tip = polar(second, axis + rng.uniform(-60, 40), 0.35 * length)
    dark = Material(darker(coat.mark, 0.85), grain="fur")
    hair = dark if build.tail == "hair" else replace(coat, under=None)
    figure.add(limb([root, first, second, tip], tail.radii), TAIL, hair, axis=axis, light=0.92)
    if build.tail == "tuft":
        figure.add(leaf(second, axis - 10, 0.5 * length, 0.15), TAIL, dark)
    if build.tail == "bushy":
        figure.add(ellipse(tip, 0.08, 0.07), TAIL, Material(coat.mark, grain="fur"))
    figure.keypoints["tail"] = first if build.tail == "short" else second


def _head(figure: Figure, build: Build, coat: Material, at: Point, rng: Rng) -> None:
    length, w = build.head, build.head_width / 2
    pitch = rng.uniform(8, 38) if build.neck_rise > 40 else rng.uniform(0, 25)
    nose, blunt = polar(at, pitch, length), build.muzzle * w
    fur = _skin(coat)
    fur = replace(fur, under=darker(fur.colour, 1.2), strength=0.75)
    _ear(figure, build, fur, at, pitch, far=True)
    _horns(figure, build, at, pitch, rng)
    skull = limb([at, polar(at, pitch + 3, 0.55 * length), nose], [1.05 * w, 0.82 * w, blunt])
    figure.add((skull, ellipse(at, 1.12 * w, 1.05 * w)), HEAD, fur, axis=pitch, origin=at, shadow=0.4)
    snout = replace(fur, colour=darker(fur.colour, rng.choice([0.6, 1.35])), under=None, pattern="plain")
    bridge = Fade(polar(at, pitch, 0.62 * length), pitch, 0.3 * length)
    figure.add(limb([polar(at, pitch, 0.72 * length), nose], [0.8 * blunt, blunt]), HEAD, snout, fade=bridge)
    tip = ellipse(polar(nose, pitch - 35, 0.72 * blunt), 0.42 * blunt + 0.012, 0.3 * blunt + 0.01, pitch)
    figure.add(tip, HEAD, Material((0.10, 0.08, 0.08), gloss=0.5))
    corner = polar(polar(at, pitch, 0.68 * length), pitch + 90, 0.35 * w)
    mouth = limb([corner, polar(nose, pitch + 70, 0.45 * blunt)], [0.006, 0.008])
    figure.detail(mouth, HEAD, darker(fur.colour, 0.3), opacity=0.8)
    eye, size = polar(polar(at, pitch, 0.30 * length), pitch - 90, 0.30 * w), 0.23 * w + 0.006
    figure.detail(ellipse(eye, 1.5 * size, 1.25 * size, pitch), HEAD, darker(fur.colour, 0.45), opacity=0.7)
    figure.eye(eye, size)
    _ear(figure, build, fur, at, pitch, far=False)
    figure.keypoints["muzzle"] = polar(nose, pitch + 180, 0.2 * blunt)


def _ear(figure: Figure, build: Build, fur: Material, at: Point, pitch: float, far: bool) -> None:
    w = build.head_width / 2
    light, ahead = (0.7, 0.35) if far else (1.0, -0.15)
    base = polar(polar(at, pitch - 90, 0.75 * w), pitch, ahead * w)
    inner = Material((0.72, 0.48, 0.42))
    plain = replace(fur, colour=darker(fur.colour, 0.8), under=None)
    if build.ears == "prick":
        for material, sunk, length, width in ((plain, 0.2, 1.75, 0.72), (inner, 0.1, 1.35, 0.38)):
            shape = leaf(polar(base, 90, sunk * w), pitch - 108, length * w, width * w, blunt=0.2)
            figure.add(shape, HEAD, material, light=light)
    elif build.ears == "round":
        centre = polar(base, pitch - 100, 0.30 * w)
        figure.add(ellipse(centre, 0.42 * w, 0.46 * w), HEAD, plain, light=light)
        figure.add(ellipse(centre, 0.22 * w, 0.27 * w), HEAD, inner, light=light)
    elif not far:
        hang = [polar(base, pitch + 90, 0.1 * w), polar(base, 125, 0.75 * w), polar(base, 100, 1.5 * w)]
        figure.add(limb(hang, [0.25 * w, 0.42 * w, 0.28 * w]), HEAD, plain, shadow=0.3)


def _horns(figure: Figure, build: Build, at: Point, pitch: float, rng: Rng) -> None:
    w, bone = build.head_width / 2, Material((0.78, 0.70, 0.58), grain="skin")
    root = polar(at, pitch - 80, 0.85 * w)
    if build.horns == "horns" and rng.random() < 0.7:
        horn = [root, polar(root, -70, 0.9 * w), polar(root, -50, 1.7 * w)]
        figure.add(limb(horn, [0.24 * w, 0.18 * w, 0.04 * w]), HEAD, bone)
    if build.horns == "antlers" and rng.random() < 0.6:
        for lean in (-115, -85):
            stem = [root, polar(root, lean - 15, 1.8 * w), polar(root, lean + 8, 3.6 * w)]
            figure.add(limb(stem, [0.17 * w, 0.14 * w, 0.06 * w]), HEAD, bone)
            figure.add(limb([stem[1], polar(stem[1], lean + 50, 1.2 * w)], [0.13 * w, 0.05 * w]), HEAD, bone)
