"""The contingency table as a picture: which discovered part falls on which annotated part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mpae.drawing.palette import part_colours

CELL = (46, 26)  # pixels
PADDING = 12
SWATCH = 8  # height of the strip of colour above each part's column
INK, PAPER, FULL = (32, 32, 32), (255, 255, 255), (20, 90, 160)


@dataclass(frozen=True)
class Contingency:
    """How many samples of each annotated part carry each discovered part."""

    table: np.ndarray  # (targets, K+1) int64, background last
    targets: list[str]  # names of the rows
    parts: list[str]  # names of the columns


def draw_contingency(contingency: Contingency) -> Image.Image:
    """One row for each annotated part, one column for each discovered part, the background last.

    A cell says how much of its row it holds, in percent: a good part has a column that is dark in few rows.
    Columns are sorted by the row in which they are strongest, so that agreement runs down the diagonal.
    """
    share = row_percent(contingency.table)
    order = column_order(share)
    font, small = ImageFont.load_default(14), ImageFont.load_default(12)
    names = [_shortened(name) for name in contingency.targets]
    left = 2 * PADDING + max(round(font.getlength(name)) for name in names)
    top = 3 * PADDING + SWATCH + max(round(font.getlength(name)) for name in contingency.parts)
    width, height = left + len(order) * CELL[0] + PADDING, top + len(names) * CELL[1] + PADDING
    picture = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(picture)
    colours = [*part_colours(len(order) - 1).tolist(), [190, 190, 190]]
    for place, column in enumerate(order):
        x = left + place * CELL[0]
        _write_upwards(picture, contingency.parts[column], (x, top - SWATCH - PADDING), font)
        draw.rectangle((x + 3, top - SWATCH - 3, x + CELL[0] - 4, top - 4), fill=tuple(colours[column]))
        for row in range(len(names)):
            _draw_cell(draw, (x, top + row * CELL[1]), float(share[row, column]), small)
    for row, name in enumerate(names):
        draw.text((left - PADDING, top + (row + 0.5) * CELL[1]), name, fill=INK, font=font, anchor="rm")
    return picture


def row_percent(table: np.ndarray) -> np.ndarray:
    """Counts as percent of their row; 0 in a row without samples."""
    return 100 * table / np.maximum(table.sum(1, keepdims=True), 1)


def column_order(share: np.ndarray) -> list[int]:
    """Parts by the row in which they are strongest, the strongest first within a row; the background last."""
    parts = range(share.shape[1] - 1)
    by_row = sorted(parts, key=lambda part: (int(share[:, part].argmax()), -float(share[:, part].max())))
    used = [part for part in by_row if share[:, part].any()]
    return [*used, *(part for part in by_row if part not in used), share.shape[1] - 1]


def _draw_cell(draw: ImageDraw.ImageDraw, corner: tuple[float, float], percent: float,
               font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> None:
    x, y = corner
    depth = percent / 100
    colour = tuple(round(paper + (full - paper) * depth) for paper, full in zip(PAPER, FULL, strict=True))
    draw.rectangle((x, y, x + CELL[0] - 2, y + CELL[1] - 2), fill=colour, outline=(225, 225, 225))
    if percent >= 0.5:
        draw.text((x + CELL[0] / 2 - 1, y + CELL[1] / 2 - 1), f"{percent:.0f}", font=font, anchor="mm",
                  fill=PAPER if depth > 0.5 else INK)


def _write_upwards(picture: Image.Image, text: str, corner: tuple[int, int],
                   font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> None:
    """Text that ends above `corner` and reads from below, centred over a column."""
    strip = Image.new("RGB", (round(font.getlength(text)) + 2, CELL[1]), PAPER)
    ImageDraw.Draw(strip).text((0, CELL[1] / 2), text, fill=INK, font=font, anchor="lm")
    x, y = corner
    picture.paste(strip.rotate(90, expand=True), (x + (CELL[0] - CELL[1]) // 2, y - strip.width))


def _shortened(name: str, length: int = 28) -> str:
    return name if len(name) <= length else name[:length - 1] + "…"
