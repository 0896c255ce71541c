"""Road vehicles seen from the side."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpae.data.synthetic.anatomy import BODYWORK, WHEEL, WINDOW, Figure
from mpae.data.synthetic.shapes import Point, ellipse, extent, limb, smooth
from mpae.data.synthetic.textures import Material, darker, hsv


@dataclass(frozen=True)
class Build:
    """Outlines in vehicle lengths, from the rear at -0.5 to the front at 0.5; the sills lie at y = 0."""

    roof: tuple[Point, ...]  # from the rear bumper over the roof to the front bumper
    windows: tuple[tuple[Point, ...], ...]
    wheels: tuple[float, ...]  # x of the hubs, front first
    wheel: float  # radius
    doors: tuple[float, ...]
    bonnet: Point
    rear: Point


SALOON = Build(
    roof=((-0.50, -0.02), (-0.50, -0.13), (-0.46, -0.175), (-0.34, -0.185), (-0.22, -0.285), (-0.08, -0.31), (0.06, -0.30),
          (0.19, -0.195), (0.36, -0.165), (0.47, -0.125), (0.50, -0.06), (0.49, 0.0)),
    windows=(((-0.28, -0.185), (-0.19, -0.265), (-0.07, -0.285), (-0.06, -0.185)), ((-0.04, -0.185), (-0.05, -0.285), (0.05, -0.278), (0.155, -0.187))),
    wheels=(0.30, -0.29), wheel=0.092, doors=(-0.05, 0.15, -0.22), bonnet=(0.34, -0.12), rear=(-0.43, -0.10))  # fmt: skip
HATCHBACK = Build(
    roof=((-0.46, -0.02), (-0.47, -0.16), (-0.44, -0.25), (-0.36, -0.35), (-0.15, -0.385), (0.04, -0.365), (0.20, -0.235),
          (0.38, -0.195), (0.47, -0.14), (0.48, -0.06), (0.47, 0.0)),
    windows=(((-0.39, -0.235), (-0.33, -0.325), (-0.16, -0.355), (-0.15, -0.235)), ((-0.12, -0.235), (-0.13, -0.355), (0.02, -0.338), (0.155, -0.23))),
    wheels=(0.29, -0.29), wheel=0.105, doors=(-0.135, 0.13), bonnet=(0.33, -0.14), rear=(-0.41, -0.13))  # fmt: skip
VAN = Build(
    roof=((-0.49, -0.02), (-0.495, -0.20), (-0.48, -0.43), (-0.30, -0.455), (0.10, -0.455), (0.26, -0.41), (0.37, -0.255),
          (0.47, -0.20), (0.495, -0.09), (0.48, 0.0)),
    windows=(((-0.44, -0.27), (-0.435, -0.385), (-0.20, -0.395), (-0.20, -0.27)), ((-0.16, -0.27), (-0.16, -0.395), (0.06, -0.395), (0.06, -0.27)),
             ((0.10, -0.27), (0.10, -0.395), (0.23, -0.365), (0.315, -0.26))),
    wheels=(0.31, -0.29), wheel=0.095, doors=(0.08, -0.18, 0.29), bonnet=(0.42, -0.15), rear=(-0.40, -0.14))  # fmt: skip
BUS = Build(
    roof=((-0.495, -0.01), (-0.50, -0.20), (-0.49, -0.40), (-0.40, -0.425), (0.40, -0.425), (0.475, -0.39), (0.50, -0.18), (0.49, 0.0)),
    windows=tuple(((x, -0.215), (x, -0.36), (x + 0.135, -0.36), (x + 0.135, -0.215)) for x in (-0.46, -0.305, -0.15, 0.005, 0.16))
    + (((0.32, -0.17), (0.32, -0.365), (0.44, -0.36), (0.465, -0.17)),),
    wheels=(0.30, -0.30), wheel=0.080, doors=(0.305, 0.15, -0.16), bonnet=(0.44, -0.09), rear=(-0.44, -0.12))  # fmt: skip
PICKUP = Build(
    roof=((-0.50, -0.03), (-0.50, -0.19), (-0.13, -0.195), (-0.11, -0.31), (-0.03, -0.36), (0.08, -0.355), (0.19, -0.225),
          (0.39, -0.20), (0.48, -0.16), (0.50, -0.07), (0.49, 0.0)),
    windows=(((-0.085, -0.215), (-0.075, -0.30), (-0.02, -0.33), (0.06, -0.328), (0.15, -0.218)),),
    wheels=(0.31, -0.30), wheel=0.105, doors=(-0.105, 0.14), bonnet=(0.36, -0.15), rear=(-0.40, -0.13))  # fmt: skip
BUILDS = (SALOON, HATCHBACK, VAN, BUS, PICKUP)


def vehicle(rng: np.random.Generator) -> Figure:
    build = BUILDS[rng.integers(len(BUILDS))]
    tall = rng.uniform(0.92, 1.18)
    radius = build.wheel * rng.uniform(0.95, 1.12)
    paint = hsv(rng.random(), rng.uniform(0.45, 0.9), rng.uniform(0.4, 0.85))
    if rng.random() < 0.3:
        paint = hsv(rng.random(), rng.uniform(0, 0.1), rng.choice([0.22, 0.55, 0.85]))
    enamel = Material(paint, darker(paint, 0.7), gloss=0.35)
    pitch = rng.uniform(-0.015, 0.015)  # the springs give under braking and load
    figure = Figure(ground=0.55 * radius + radius)
    for x in build.wheels:
        figure.add(ellipse((x + 0.04, 0.5 * radius), radius, radius), WHEEL, Material((0.06, 0.06, 0.07)), light=0.6)
    figure.add(limb([(-0.44, 0.01), (0.45, 0.01)], [0.04, 0.04]), BODYWORK, Material((0.10, 0.10, 0.11)))

    def lifted(points: tuple[Point, ...]) -> np.ndarray:
        return np.array([(x, tall * y + pitch * x) for x, y in points])

    _bodywork(figure, build, lifted, enamel, radius)
    for window in build.windows:
        _window(figure, lifted(window), rng)
    for x, name in zip(build.wheels, ("front wheel", "rear wheel"), strict=True):
        _wheel(figure, (x, 0.5 * radius), radius, rng)
        figure.keypoints[name] = (x, 0.5 * radius)
    figure.keypoints["bonnet"] = tuple(lifted((build.bonnet,))[0])
    figure.keypoints["rear"] = tuple(lifted((build.rear,))[0])
    figure.keypoints["window"] = tuple(lifted(build.windows[-1]).mean(0))
    return figure


def _bodywork(figure: Figure, build: Build, lifted, enamel: Material, radius: float) -> None:  # type: ignore[no-untyped-def]
    shell = smooth(np.concatenate([lifted(build.roof), [(0.40, 0.035), (0.0, 0.04), (-0.40, 0.035)]]), steps=5)
    figure.add(shell, BODYWORK, enamel)
    for x in build.wheels:
        arch = ellipse((x, 0.42 * radius), 1.22 * radius, 1.25 * radius)
        arch[:, 1] = np.minimum(arch[:, 1], 0.035)  # no lower than the sill
        figure.add(arch, BODYWORK, Material((0.05, 0.05, 0.055)), relief=0.0)
    line = Material(darker(enamel.colour, 0.4))
    left, top, right, _ = extent(shell)
    for x in build.doors:
        figure.add(lifted(((x, -0.19), (x + 0.005, -0.19), (x + 0.005, 0.0), (x, 0.0))), BODYWORK, line, relief=0.0, opacity=0.8)
        figure.add(lifted(((x - 0.06, -0.155), (x - 0.02, -0.155), (x - 0.02, -0.143), (x - 0.06, -0.143))), BODYWORK,
                   Material((0.75, 0.75, 0.77)), relief=0.0)  # fmt: skip
    figure.add(limb([(left + 0.06, -0.02), (right - 0.06, -0.02)], [0.008, 0.008]), BODYWORK, line, relief=0.0, opacity=0.6)
    chrome = Material((0.30, 0.30, 0.32), gloss=0.3)
    figure.add(limb([(right - 0.10, 0.02), (right - 0.01, 0.01)], [0.026, 0.022]), BODYWORK, chrome)
    figure.add(limb([(left + 0.01, 0.01), (left + 0.10, 0.02)], [0.022, 0.026]), BODYWORK, chrome)
    front, back = lifted(((0.462, -0.095),))[0], lifted(((-0.482, -0.11),))[0]
    figure.add(ellipse(tuple(front), 0.026, 0.022, 15), BODYWORK, Material((0.98, 0.95, 0.80), gloss=0.8))
    figure.add(ellipse(tuple(back), 0.014, 0.034), BODYWORK, Material((0.80, 0.10, 0.08), gloss=0.5))


def _window(figure: Figure, outline: np.ndarray, rng: np.random.Generator) -> None:
    glass = Material(hsv(0.57, 0.25, 0.55), hsv(0.57, 0.3, 0.22), gloss=0.2)
    centre = outline.mean(0)
    figure.add(centre + 1.07 * (outline - centre), WINDOW, Material((0.07, 0.07, 0.08)), relief=0.0)
    figure.add(outline, WINDOW, glass, relief=0.25)
    left, top, right, bottom = extent(outline)
    x, width = left + (right - left) * rng.uniform(0.25, 0.5), 0.22 * (right - left)
    slant = 0.25 * (bottom - top)
    gleam = np.array([(x + slant, top + 0.012), (x + slant + width, top + 0.012), (x + width - slant, bottom - 0.01), (x - slant, bottom - 0.01)])
    inside = Material((0.85, 0.92, 0.97))
    figure.add(gleam, WINDOW, inside, relief=0.0, opacity=0.28)


def _wheel(figure: Figure, hub: Point, radius: float, rng: np.random.Generator) -> None:
    figure.add(ellipse(hub, radius, radius), WHEEL, Material((0.085, 0.085, 0.09), grain="skin"), relief=0.8)
    rim = Material(hsv(0.6, 0.04, 0.72), gloss=0.4)
    figure.add(ellipse(hub, 0.62 * radius, 0.62 * radius), WHEEL, rim)
    turned = rng.uniform(0, 90)
    spokes = 5
    for k in range(spokes):
        angle = np.deg2rad(turned + 360 * k / spokes)
        hole = (hub[0] + 0.38 * radius * float(np.cos(angle)), hub[1] + 0.38 * radius * float(np.sin(angle)))
        figure.add(ellipse(hole, 0.11 * radius, 0.15 * radius, float(np.rad2deg(angle))), WHEEL, Material((0.12, 0.12, 0.13)), relief=0.0)
    figure.add(ellipse(hub, 0.14 * radius, 0.14 * radius), WHEEL, replace(rim, colour=(0.45, 0.45, 0.47)))
