"""Pictures to look at: parts painted over the photo, a legend, and grids of pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mpae.drawing.palette import mask_palette, part_colours, part_name

OPACITY = 0.55  # of a part's colour within its outline
SMALLEST, LARGEST = 480, 2048  # pixels along the longer side of an overlay
PAPER, INK = (255, 255, 255), (32, 32, 32)


def overlay(image: Image.Image, mask: np.ndarray, names: Sequence[str] = (),
            colours: np.ndarray | None = None) -> Image.Image:
    """The photo with its parts in colour, outlined, and a legend of those present below it.

    Args:
        image: the photo, or a smaller or larger copy of it; the overlay has its size, plus the legend.
        mask: (H, W) uint8 of the photo at any size, 0 background, 1..K parts.
        names: of the K parts, if people named them; likewise their colours, (K, 3) uint8.
    """
    labels = Image.fromarray(mask).resize(image.size, Image.Resampling.NEAREST)
    present = [part for part, pixels in enumerate(labels.histogram()) if part and pixels]
    if colours is None:
        colours = part_colours(max(present, default=0))
    entries = [(names[part - 1] if names else part_name(part), colours[part - 1]) for part in present]
    return _with_legend(paint_parts(image, np.asarray(labels), colours), entries)


def viewing_size(size: tuple[int, int]) -> tuple[int, int]:
    """The size at which a picture is good to look at: a thumbnail larger, a huge photo smaller."""
    longer = max(size)
    factor = min(max(longer, SMALLEST), LARGEST) / longer
    width, height = (max(1, round(side * factor)) for side in size)
    return width, height


def paint_parts(image: Image.Image, mask: np.ndarray, colours: np.ndarray | None = None) -> Image.Image:
    """The photo with each part tinted in its colour and outlined; ``mask`` (H, W) has the photo's size."""
    if mask.shape != (image.height, image.width):
        raise ValueError(f"The mask has shape {mask.shape}, the image {(image.height, image.width)}; "
                         f"expected the same.")
    tint = Image.fromarray(mask)
    tint.putpalette(mask_palette(int(mask.max(initial=0)), colours))
    inside = mask > 0
    opacity = inside * np.uint8(255 * OPACITY)
    opacity[_outlines(mask, _line_width(image.size)) & inside] = 255
    return Image.composite(tint.convert("RGB"), image.convert("RGB"), Image.fromarray(opacity))


def inner_edge(inside: np.ndarray, width: int = 2) -> np.ndarray:
    """Pixels within `width` of the rim of a region, on its inner side."""
    core = inside.copy()
    for _ in range(width):
        padded = np.pad(core, 1)
        core = core & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return inside & ~core


def _outlines(mask: np.ndarray, width: int) -> np.ndarray:
    """Pixels of a label that have another label ``width`` pixels above, below, left or right: (H, W) bool."""
    edges = np.zeros(mask.shape, dtype=bool)
    across = mask[:, width:] != mask[:, :-width]
    edges[:, width:] |= across
    edges[:, :-width] |= across
    down = mask[width:] != mask[:-width]
    edges[width:] |= down
    edges[:-width] |= down
    return edges


def _line_width(size: tuple[int, int]) -> int:
    return max(1, round(max(size) / 500))


def _font(size: tuple[int, int]) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=max(11, round(max(size) / 55)))


def _with_legend(picture: Image.Image, parts: Sequence[tuple[str, np.ndarray]]) -> Image.Image:
    """The picture above a panel with the name and colour of each part, in as many lines as needed."""
    font = _font(picture.size)
    entries = [name for name, _ in parts] or ["no parts"]
    left, top, right, bottom = font.getbbox(max(entries, key=len))
    line = round((bottom - top) * 1.8)  # also the step from a swatch to its name
    step = line + round(right - left) + line // 2
    width = max(picture.width, step + line)
    columns = max(1, (width - line // 2) // step)
    lines = -(-len(entries) // columns)
    canvas = Image.new("RGB", (width, picture.height + lines * line + line // 2), PAPER)
    canvas.paste(picture, ((width - picture.width) // 2, 0))
    draw = ImageDraw.Draw(canvas)
    for number, name in enumerate(entries):
        x = line // 2 + number % columns * step
        y = picture.height + line // 4 + number // columns * line
        if parts:
            swatch = (x, y + line // 5, x + line * 3 // 5, y + line * 4 // 5)
            draw.rectangle(swatch, fill=tuple(parts[number][1].tolist()), outline=INK)
        draw.text((x + line * 4 // 5, y + line / 2), name, fill=INK, font=font, anchor="lm")
    return canvas


def preview_grid(rows: Sequence[Sequence[Image.Image]], titles: Sequence[str] = ()) -> Image.Image:
    """Pictures in rows and columns, all drawn as wide as the widest, with a title above each column.

    >>> picture = Image.new("RGB", (64, 48))
    >>> preview_grid([[picture, picture], [picture, picture]], ["image", "parts"]).width > 2 * 64
    True
    """
    columns = max((len(row) for row in rows), default=0)
    if columns == 0:
        raise ValueError("A grid needs at least one picture.")
    width = max(picture.width for row in rows for picture in row)
    scaled = [[_to_width(picture, width) for picture in row] for row in rows]
    heights = [max((picture.height for picture in row), default=0) for row in scaled]
    gap = max(2, width // 50)
    font_size = max(9, min(28, width // 10))
    font = ImageFont.load_default(size=font_size)
    header = round(font_size * 1.6) if titles else 0
    canvas = Image.new("RGB", (columns * (width + gap) + gap, sum(heights) + gap * (len(rows) + 1) + header), PAPER)
    draw = ImageDraw.Draw(canvas)
    for column, title in enumerate(titles):
        draw.text((gap + column * (width + gap) + width / 2, gap / 2 + header / 2), title, INK, font, anchor="mm")
    y = gap + header
    for row, height in zip(scaled, heights, strict=True):
        for column, picture in enumerate(row):
            canvas.paste(picture, (gap + column * (width + gap), y + (height - picture.height) // 2))
        y += height + gap
    return canvas


def _to_width(picture: Image.Image, width: int) -> Image.Image:
    if picture.width == width:
        return picture
    return picture.resize((width, max(1, round(picture.height * width / picture.width))), Image.Resampling.BICUBIC)
