"""Small charts as SVG, in the page's own colours."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

WIDTH, HEIGHT = 320, 150
LEFT, BOTTOM, TOP, RIGHT = 48, 22, 8, 8


def line_chart(points: Sequence[tuple[float, float]], title: str) -> str:
    """One curve with its two axes."""
    return lines_chart([points], title)


def lines_chart(curves: Sequence[Sequence[tuple[float, float]]], title: str, colours: Sequence[str] = ()) -> str:
    """Curves on one pair of axes; long ones are thinned to what the eye can see."""
    thin = [thinned(points) for points in curves]
    xs, ys = [x for points in thin for x, _ in points], [y for points in thin for _, y in points]
    low, high = min(ys), max(ys)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    first, last = min(xs), max(xs)
    span = max(last - first, 1)
    lines = []
    for number, points in enumerate(thin):
        path = " ".join(f"{LEFT + (x - first) / span * (WIDTH - LEFT - RIGHT):.1f},"
                        f"{TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM):.1f}" for x, y in points)
        colour = f' style="stroke:{colours[number]}"' if colours else ""
        lines.append(f'<polyline class="curve"{colour} points="{path}"/>')
    labels = (text(LEFT - 5, TOP + 8, axis_label(high), "end") + text(LEFT - 5, HEIGHT - BOTTOM, axis_label(low), "end")
              + text(LEFT, HEIGHT - 6, f"step {first:.0f}") + text(WIDTH - RIGHT, HEIGHT - 6, f"{last:.0f}", "end"))
    axes = f'<path class="axis" d="M{LEFT},{TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>'
    return svg(WIDTH, HEIGHT, title, f"{axes}{''.join(lines)}{labels}")


def thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """300 points at most."""
    if len(points) <= 300:
        return points
    return [points[i] for i in np.linspace(0, len(points) - 1, 300).round().astype(int)]


def axis_label(value: float) -> str:
    """Three digits; one where small numbers would not fit beside the axis."""
    return f"{value:.3g}" if value == 0 or abs(value) >= 1e-2 else f"{value:.0e}"


def bar_chart(values: Sequence[float], names: Sequence[str], title: str, colours: Sequence[str] | None = None) -> str:
    """Vertical bars, each with its value above and its name below."""
    width = max(WIDTH, LEFT + 30 * len(values))
    top = max(max(values, default=0), 1e-9)
    step = (width - 2 * RIGHT) / max(1, len(values))
    parts = []
    for i, (value, name) in enumerate(zip(values, names, strict=True)):
        height = value / top * (HEIGHT - 20 - BOTTOM)
        x, y = RIGHT + i * step, HEIGHT - BOTTOM - height
        fill = f' style="fill:{colours[i]}"' if colours else ""
        parts.append(f'<rect class="bar"{fill} x="{x + step * 0.12:.1f}" y="{y:.1f}" width="{step * 0.76:.1f}" '
                     f'height="{height:.1f}" rx="2"/>')
        parts.append(text(x + step / 2, y - 4, f"{value:.0f}", "middle"))
        parts.append(text(x + step / 2, HEIGHT - 7, name, "middle"))
    return svg(width, HEIGHT, title, "".join(parts))


def heat_map(table: np.ndarray, names: Sequence[str], title: str) -> str:
    """A square table of shares in 0..1, darker for more; numbers where there is room."""
    n = len(names)
    cell = max(14, min(34, 420 // max(1, n)))
    margin = 30
    parts = [text(margin - 5, margin + (i + 0.65) * cell, name, "end") for i, name in enumerate(names)]
    parts += [text(margin + (i + 0.5) * cell, margin - 6, name, "middle") for i, name in enumerate(names)]
    for i in range(n):
        for j in range(n):
            share = float(table[i, j])
            x, y = margin + j * cell, margin + i * cell
            parts.append(f'<rect class="cell" x="{x}" y="{y}" width="{cell - 1}" height="{cell - 1}" '
                         f'style="fill-opacity:{share:.2f}"><title>{share:.0%}</title></rect>')
            if cell >= 26:
                kind = "strong" if share > 0.55 else ""
                parts.append(text(x + cell / 2, y + cell * 0.64, f"{100 * share:.0f}", "middle", kind))
    side = margin + n * cell + 4
    return svg(side, side, title, "".join(parts))


def svg(width: float, height: float, title: str, inner: str) -> str:
    return (f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" style="max-width:{width * 1.3:.0f}px">'
            f"<title>{escape(title)}</title>{inner}</svg>")


def text(x: float, y: float, content: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(content)}</text>'
