"""The pictures of the report, cut and coloured."""

from __future__ import annotations

import numpy as np
from PIL import Image

from mpae.drawing.overlay import inner_edge
from mpae.drawing.palette import part_colours
from mpae.prediction.parts import Part
from mpae.report.collect import Seen

CROP = 220  # pixels along the side of a gallery picture


def part_crop(seen: Seen, part: Part) -> Image.Image:
    """A square around one part, what is not the part paled, its edge drawn in its colour."""
    colour = part_colours(part.index)[part.index - 1]
    inside = seen.mask == part.index
    pixels = np.asarray(seen.image).astype(np.float32)
    pixels[~inside] = 0.55 * pixels[~inside] + 0.45 * 128
    pixels[inner_edge(inside)] = colour
    x, y, width, height = part.box
    side = int(min(max(1.7 * max(width, height), 0.35 * max(seen.image.size)), min(seen.image.size)))
    left = int(np.clip(x + width / 2 - side / 2, 0, seen.image.width - side))
    top = int(np.clip(y + height / 2 - side / 2, 0, seen.image.height - side))
    cut = Image.fromarray(pixels.astype(np.uint8)).crop((left, top, left + side, top + side))
    return cut.resize((CROP, CROP), Image.Resampling.LANCZOS)


def attention_map(seen: Seen, channel: int) -> Image.Image:
    """The image, dark where a part token does not look."""
    assert seen.attention is not None
    values = seen.attention[channel]
    values = (values - values.min()) / max(float(values.max() - values.min()), 1e-9)
    glow = Image.fromarray((255 * values**0.7).astype(np.uint8)).resize(seen.image.size, Image.Resampling.BICUBIC)
    weight = 0.12 + 0.88 * np.asarray(glow)[..., None] / 255
    return Image.fromarray((np.asarray(seen.image) * weight).astype(np.uint8))


def swatch(index: int) -> str:
    """A part's colour for CSS."""
    red, green, blue = part_colours(index)[index - 1].tolist()
    return f"rgb({red},{green},{blue})"
