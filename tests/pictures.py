"""Small pictures for tests."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw


def draw_photo(index: int, size: tuple[int, int] = (96, 80)) -> Image.Image:
    """A small picture with something in its middle."""
    random = np.random.default_rng(index)
    image = Image.fromarray(random.integers(90, 160, (size[1], size[0], 3), dtype=np.uint8))
    draw = ImageDraw.Draw(image)
    x, y = size[0] * random.uniform(0.35, 0.65), size[1] * random.uniform(0.35, 0.65)
    draw.ellipse((x - 20, y - 12, x + 20, y + 12), fill=(200, 60, 40))
    draw.ellipse((x + 14, y - 20, x + 30, y - 4), fill=(40, 60, 200))
    return image
