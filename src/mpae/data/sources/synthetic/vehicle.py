"""Road vehicles seen from the side."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mpae.data.sources.synthetic.anatomy import BODYWORK, WHEEL, WINDOW, Figure
from mpae.data.sources.synthetic.shapes import Point, ellipse, extent, limb, polar, smooth
from mpae.data.sources.synthetic.textures import Colour, Material, Rng, darker, hsv


@dataclass(frozen=True)
class Build:
    """Outlines in vehicle lengths, from the rear at -0.5 to the front at 0.5; the sills lie at y = 0."""

    roof: tuple[Point, ...]  # from the rear bumper over the roof to the front bumper
    windows: tuple[tuple[Point, ...], ...]
    doors: tuple[float, ...]
    wheels: tuple[float, float]  # x of the hubs, front and rear
    wheel: float  # radius
    bonnet: Point
    rear: Point


SALOON = Build(
    roof=((-0.50, -0.02), (-0.50, -0.13), (-0.46, -0.175), (-0.34, -0.185), (-0.22, -0.285), (-0.08, -0.31),
          (0.06, -0.30), (0.19, -0.195), (0.36, -0.165), (0.47, -0.125), (0.50, -0.06), (0.49, 0.0)),
    windows=(((-0.28, -0.185), (-0.19, -0.265), (-0.07, -0.285), (-0.06, -0.185)),
             ((-0.04, -0.185), (-0.05, -0.285), (0.05, -0.278), (0.155, -0.187))),
    doors=(-0.05, 0.15, -0.22), wheels=(0.30, -0.29), wheel=0.092, bonnet=(0.34, -0.12), rear=(-0.43, -0.10))
HATCHBACK = Build(
    roof=((-0.46, -0.02), (-0.47, -0.16), (-0.44, -0.25), (-0.36, -0.35), (-0.15, -0.385), (0.04, -0.365),
          (0.20, -0.235), (0.38, -0.195), (0.47, -0.14), (0.48, -0.06), (0.47, 0.0)),
    windows=(((-0.39, -0.235), (-0.33, -0.325), (-0.16, -0.355), (-0.15, -0.235)),
             ((-0.12, -0.235), (-0.13, -0.355), (0.02, -0.338), (0.155, -0.23))),
    doors=(-0.135, 0.13), wheels=(0.29, -0.29), wheel=0.105, bonnet=(0.33, -0.14), rear=(-0.41, -0.13))
VAN = Build(
    roof=((-0.49, -0.02), (-0.495, -0.20), (-0.48, -0.43), (-0.30, -0.455), (0.10, -0.455), (0.26, -0.41),
          (0.37, -0.255), (0.47, -0.20), (0.495, -0.09), (0.48, 0.0)),
    windows=(((-0.44, -0.27), (-0.435, -0.385), (-0.20, -0.395), (-0.20, -0.27)),
             ((-0.16, -0.27), (-0.16, -0.395), (0.06, -0.395), (0.06, -0.27)),
             ((0.10, -0.27), (0.10, -0.395), (0.23, -0.365), (0.315, -0.26))),
    doors=(0.08, -0.18, 0.29), wheels=(0.31, -0.29), wheel=0.095, bonnet=(0.42, -0.15), rear=(-0.40, -0.14))
BUS = Build(
    roof=((-0.495, -0.01), (-0.50, -0.20), (-0.49, -0.40), (-0.40, -0.425), (0.40, -0.425), (0.475, -0.39),
          (0.50, -0.18), (0.49, 0.0)),
    windows=(*(((x, -0.215), (x, -0.36), (x + 0.135, -0.36), (x + 0.135, -0.215))
               for x in (-0.46, -0.305, -0.15, 0.005, 0.16)),
             ((0.32, -0.17), (0.32, -0.365), (0.44, -0.36), (0.465, -0.17))),
    doors=(0.305, 0.15, -0.16), wheels=(0.30, -0.30), wheel=0.080, bonnet=(0.44, -0.09), rear=(-0.44, -0.12))
PICKUP = Build(
    roof=((-0.50, -0.03), (-0.50, -0.19), (-0.13, -0.195), (-0.11, -0.31), (-0.03, -0.36), (0.08, -0.355),
          (0.19, -0.225), (0.39, -0.20), (0.48, -0.16), (0.50, -0.07), (0.49, 0.0)),
    windows=(((-0.085, -0.215), (-0.075, -0.30), (-0.02, -0.33), (0.06, -0.328), (0.15, -0.218)),),
    doors=(-0.105, 0.14), wheels=(0.31, -0.30), wheel=0.105, bonnet=(0.36, -0.15), rear=(-0.40, -0.13))
BUILDS = (SALOON, HATCHBACK, VAN, BUS, PICKUP)


@dataclass(frozen=True)
class Stance:
    """How a body sits on its wheels: taller or lower than drawn, and tipped as the springs give."""

    tall: float
    pitch: float

    def __call__(self, points: tuple[Point, ...]) -> np.ndarray:
        return np.array([(x, self.tall * y + self.pitch * x) for x, y in points])


def vehicle(rng: Rng) -> Figure:
    build = BUILDS[rng.integers(len(BUILDS))]
    stance = Stance(tall=rng.uniform(0.92, 1.18), pitch=rng.uniform(-0.02, 0.02))
    radius = build.wheel * rng.uniform(0.95, 1.12)
    paint = hsv(rng.random(), rng.uniform(0.45, 0.9), rng.uniform(0.4, 0.85))
    if rng.random() < 0.3:
        paint = hsv(rng.random(), rng.uniform(0, 0.1), rng.choice([0.22, 0.55, 0.85]))
    figure = Figure(ground=1.5 * radius)
    rubber = Material((0.06, 0.06, 0.07))
    for x in build.wheels:  # those of the far side
        figure.add(ellipse((x + 0.04, 0.5 * radius), radius, radius), WHEEL, rubber, light=0.6)
    _bodywork(figure, build, stance, Material(paint, darker(paint, 0.7), gloss=0.35), radius)
    _fittings(figure, build, stance, darker(paint, 0.4))
    for window in build.windows:
        _window(figure, stance(window), rng)
    for x, name in zip(build.wheels, ("front wheel", "rear wheel"), strict=True):
        _wheel(figure, (x, 0.5 * radius), radius, rng)
        figure.keypoints[name] = (x, 0.5 * radius)
    for name, points in (("bonnet", (build.bonnet,)), ("rear", (build.rear,)), ("window", build.windows[-1])):
        x, y = stance(points).mean(0).tolist()
        figure.keypoints[name] = (x, y)
    return figure


def _bodywork(figure: Figure, build: Build, stance: Stance, enamel: Material, radius: float) -> None:
    figure.add(limb([(-0.44, 0.01), (0.45, 0.01)], [0.04, 0.04]), BODYWORK, Material((0.10, 0.10, 0.11)))
    sill = [(0.40, 0.035), (0.0, 0.04), (-0.40, 0.035)]
    shell = smooth(np.concatenate([stance(build.roof), sill]), steps=5)
    figure.add(shell, BODYWORK, enamel)
    for x in build.wheels:
        arch = ellipse((x, 0.42 * radius), 1.22 * radius, 1.25 * radius)
        arch[:, 1] = np.minimum(arch[:, 1], 0.035)  # no lower than the sill
        figure.detail(arch, BODYWORK, (0.05, 0.05, 0.055))


def _fittings(figure: Figure, build: Build, stance: Stance, line: Colour) -> None:
    """Doors, a moulding, bumpers and lamps."""
    left, right = build.roof[1][0], build.roof[-2][0]
    for x in build.doors:
        figure.detail(_bar(stance, x, -0.19, 0.005, 0.19), BODYWORK, line, opacity=0.8)
        figure.detail(_bar(stance, x - 0.06, -0.155, 0.04, 0.012), BODYWORK, (0.75, 0.75, 0.77))
    moulding = limb([(left + 0.06, -0.02), (right - 0.06, -0.02)], [0.008, 0.008])
    figure.detail(moulding, BODYWORK, line, opacity=0.6)
    chrome = Material((0.30, 0.30, 0.32), gloss=0.3)
    figure.add(limb([(right - 0.10, 0.02), (right - 0.01, 0.01)], [0.026, 0.022]), BODYWORK, chrome)
    figure.add(limb([(left + 0.01, 0.01), (left + 0.10, 0.02)], [0.022, 0.026]), BODYWORK, chrome)
    (front_x, front_y), (rear_x, rear_y) = stance(((right - 0.035, -0.095), (left + 0.018, -0.11))).tolist()
    lamp, tail_lamp = Material((0.98, 0.95, 0.80), gloss=0.8), Material((0.80, 0.10, 0.08), gloss=0.5)
    figure.add(ellipse((front_x, front_y), 0.026, 0.022, 15), BODYWORK, lamp)
    figure.add(ellipse((rear_x, rear_y), 0.014, 0.034), BODYWORK, tail_lamp)


def _bar(stance: Stance, left: float, top: float, width: float, height: float) -> np.ndarray:
    right, bottom = left + width, top + height
    return stance(((left, top), (right, top), (right, bottom), (left, bottom)))


def _window(figure: Figure, outline: np.ndarray, rng: Rng) -> None:
    glass = Material(hsv(0.57, 0.25, 0.55), hsv(0.57, 0.3, 0.22), gloss=0.2)
    centre = outline.mean(0)
    figure.detail(centre + 1.07 * (outline - centre), WINDOW, (0.07, 0.07, 0.08))
    figure.add(outline, WINDOW, glass, relief=0.25)
    left, top, right, bottom = extent(outline)
    x, width = left + (right - left) * rng.uniform(0.3, 0.5), 0.2 * (right - left)
    slant, top, bottom = 0.25 * (bottom - top), top + 0.012, bottom - 0.01
    gleam = [(x + slant, top), (x + slant + width, top), (x + width - slant, bottom), (x - slant, bottom)]
    figure.detail(np.clip(gleam, (left, top), (right, bottom)), WINDOW, (0.85, 0.92, 0.97), opacity=0.28)


def _wheel(figure: Figure, hub: Point, radius: float, rng: Rng) -> None:
    rim = Material(hsv(0.6, 0.04, 0.72), gloss=0.4)
    figure.add(ellipse(hub, radius, radius), WHEEL, Material((0.085, 0.085, 0.09), grain="skin"), relief=0.8)
    figure.add(ellipse(hub, 0.62 * radius, 0.62 * radius), WHEEL, rim)
    turned, holes = rng.uniform(0, 90), 5
    for angle in (turned + 360 / holes * np.arange(holes)).tolist():
        hole = polar(hub, angle, 0.38 * radius)
        figure.detail(ellipse(hole, 0.11 * radius, 0.15 * radius, angle), WHEEL, (0.12, 0.12, 0.13))
    figure.add(ellipse(hub, 0.14 * radius, 0.14 * radius), WHEEL, replace(rim, colour=(0.45, 0.45, 0.47)))
