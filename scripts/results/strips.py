"""Strips of pictures: for the page without a pixel of the photos, for the reader's own eyes with them.

The datasets' photos may not be passed on, so what goes into docs/ is drawn from masks and annotation alone, as
an image of palette indices into which no colour of a photo can come.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from mpae.data.geometry import resize_annotation, resize_labels
from mpae.data.source import AnnotatedSource, Annotation
from mpae.drawing.overlay import inner_edge, paint_parts, preview_grid
from mpae.drawing.palette import part_colours, part_name
from mpae.model.protocol import PartModel
from mpae.prediction.predictor import PartPredictor

CELL, COLUMNS, GAP, LINE = 160, 6, 6, 18  # pixels, pictures in a row, pixels between them, pixels of a line of text
DOT = 2  # radius of a keypoint in pixels
PAPER, INK, RIM = 255, 254, 253  # indices of the palette above all parts; 0 is the backdrop
COLOURS = {0: (64, 64, 64), PAPER: (255, 255, 255), INK: (0, 0, 0), RIM: (255, 255, 255)}


@dataclass(frozen=True)
class Cell:
    """One image at the size of its place in the strip."""

    photo: Image.Image
    mask: np.ndarray  # (H, W) uint8: 0 background, 1..K parts
    annotation: Annotation
    caption: str


def look(model: PartModel, source: AnnotatedSource, captions: Mapping[int, str]) -> list[Cell]:
    """The parts that a model finds in the images of these numbers, and what people marked there."""
    pictures = [source[number] for number in captions]
    cells = []
    for (number, caption), picture, parts in zip(captions.items(), pictures, PartPredictor(
            model, outline="patch").predict(pictures), strict=True):
        old = picture.image.size
        width, height = (max(1, round(side * CELL / max(old))) for side in old)
        cells.append(Cell(picture.image.resize((width, height), Image.Resampling.LANCZOS),
                          resize_labels(parts.mask, (width, height)),
                          resize_annotation(source.annotation(number), old, (width, height)), caption))
    return cells


def draw_parts(cells: Sequence[Cell], num_parts: int) -> Image.Image:
    """Parts in their colours on a plain backdrop, the object's outline, its keypoints as dots, and a legend."""
    step, rows = CELL + GAP, -(-len(cells) // COLUMNS)
    width = GAP + COLUMNS * step
    entries = width // (4 * LINE)  # of the legend in a line
    height = GAP + rows * (step + LINE) + -(-num_parts // entries) * LINE
    strip = Image.new("L", (width, height), PAPER)
    draw = ImageDraw.Draw(strip)
    draw.fontmode = "1"  # no shades between two indices
    font = ImageFont.load_default(size=12)
    for number, cell in enumerate(cells):
        x, y = GAP + number % COLUMNS * step, GAP + number // COLUMNS * (step + LINE)
        picture = ImageOps.pad(_indexed(cell), (CELL, CELL), Image.Resampling.NEAREST, color=PAPER)
        strip.paste(picture, (x, y))
        draw.text((x + CELL / 2, y + CELL + LINE / 2), cell.caption, INK, font, anchor="mm")
    for part in range(1, num_parts + 1):
        x = GAP + (part - 1) % entries * 4 * LINE
        y = GAP + rows * (step + LINE) + (part - 1) // entries * LINE
        draw.rectangle((x, y + 3, x + LINE - 6, y + LINE - 3), fill=part, outline=INK)
        draw.text((x + LINE, y + LINE / 2), part_name(part), INK, font, anchor="lm")
    return _coloured(strip, num_parts)


def draw_rows(rows: Mapping[str, Sequence[Cell]], num_parts: int) -> Image.Image:
    """A row for each name: the parts, outlines and keypoints of the same images."""
    step, names = CELL + GAP, 2 * CELL
    strip = Image.new("L", (names + max(map(len, rows.values())) * step, GAP + len(rows) * step), PAPER)
    draw = ImageDraw.Draw(strip)
    draw.fontmode = "1"
    font = ImageFont.load_default(size=18)
    for row, (name, cells) in enumerate(rows.items()):
        y = GAP + row * step
        draw.multiline_text((GAP, y + CELL / 2), textwrap.fill(name, 28), INK, font, anchor="lm")
        for column, cell in enumerate(cells):
            picture = ImageOps.pad(_indexed(cell), (CELL, CELL), Image.Resampling.NEAREST, color=PAPER)
            strip.paste(picture, (names + column * step, y))
    return _coloured(strip, num_parts)


def _indexed(cell: Cell) -> Image.Image:
    """(H, W) palette indices of one image."""
    indices = cell.mask.copy()
    if cell.annotation.foreground is not None:
        indices[inner_edge(cell.annotation.foreground, width=1)] = RIM
    picture = Image.fromarray(indices)
    draw = ImageDraw.Draw(picture)
    for x, y in _points(cell.annotation):
        draw.ellipse((x - DOT - 1, y - DOT - 1, x + DOT + 1, y + DOT + 1), fill=INK)
        draw.ellipse((x - DOT + 1, y - DOT + 1, x + DOT - 1, y + DOT - 1), fill=PAPER)
    return picture


def _points(annotation: Annotation) -> np.ndarray:
    """Visible keypoints (n, 2)."""
    if annotation.keypoints is None:
        return np.zeros((0, 2))
    return annotation.keypoints if annotation.visible is None else annotation.keypoints[annotation.visible]


def _coloured(strip: Image.Image, num_parts: int) -> Image.Image:
    palette = np.zeros((256, 3), dtype=np.uint8)
    palette[1:num_parts + 1] = part_colours(num_parts)
    for index, colour in COLOURS.items():
        palette[index] = colour
    strip.putpalette(palette.tobytes())  # L becomes P
    return strip


def draw_photos(cells: Sequence[Cell]) -> Image.Image:
    """Each photo above its parts. Not to be passed on."""
    rows: list[list[Image.Image]] = []
    for start in range(0, len(cells), COLUMNS):
        some = cells[start:start + COLUMNS]
        rows.append([_square(cell.photo) for cell in some])
        rows.append([_square(paint_parts(cell.photo, cell.mask)) for cell in some])
    return preview_grid(rows)


def _square(picture: Image.Image) -> Image.Image:
    return ImageOps.pad(picture, (CELL, CELL), color="white")
