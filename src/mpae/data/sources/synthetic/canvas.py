"""Painting pieces onto a picture, with the mask of parts kept exactly in step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from mpae.data.sources.synthetic.anatomy import BACKGROUND, Fade, Piece
from mpae.data.sources.synthetic.shapes import Frame, extent, thickness, turn
from mpae.data.sources.synthetic.textures import Colour, Material, plane, sample, step, surface

FINE = 3  # outlines are drawn on a grid so many times finer: smooth edges
Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels


class Canvas:
    """A picture (3, S, S) in [0, 1] and the part that each of its pixels shows (S, S)."""

    def __init__(self, picture: np.ndarray, light: float = -60.0):
        self.picture = np.ascontiguousarray(picture, np.float32)
        self.labels = np.full(picture.shape[1:], BACKGROUND, np.uint8)
        across, down = turn(np.array([[1.0, 0.0]]), light)[0]  # the light's direction in the picture
        self.light = np.array([0.75 * across, 0.75 * down, 0.66], np.float32)

    @property
    def size(self) -> int:
        return len(self.labels)

    def paint(self, piece: Piece, frame: Frame) -> None:
        """Lay a piece over what is there: shadow on the pieces beneath, then texture and relief."""
        outlines = [frame.to_pixels(outline) for outline in piece.outlines]
        is_flat = not piece.relief and piece.material.is_flat
        round_off = 0.0 if is_flat else max(thickness(outline) for outline in outlines)
        box = self.box_around(outlines, margin=int(0.6 * round_off) + 3)
        if box is None:
            return
        cover = coverage(outlines, box)  # (h, w)
        if is_flat:
            return self.lay(box, plane(piece.material.colour), cover * piece.opacity, piece.label)
        swell = blurred(cover, 0.7 * round_off)
        left, top, right, bottom = box
        x = np.arange(left, right, dtype=np.float32)[None] + 0.5
        y = np.arange(top, bottom, dtype=np.float32)[:, None] + 0.5
        across, down = frame.to_figure(x, y)
        cover = ragged(cover, piece.material, across, down, frame.scale)
        if piece.fade is not None:
            cover = cover * fading(piece.fade, across, down)
        if piece.shadow:
            self.shade_beneath(box, swell, piece.shadow)
        colour = self.lit(piece, across, down, swell, round_off)
        self.lay(box, colour, cover * piece.opacity, piece.label)

    def lit(self, piece: Piece, across: np.ndarray, down: np.ndarray, swell: np.ndarray,
            round_off: float) -> np.ndarray:
        """The colours (3, h, w) of a piece in the light."""
        _, top, _, bottom = extent(np.concatenate(piece.outlines))
        height = (down - top) / max(bottom - top, 1e-6)
        u, v = along_axis(across - piece.origin[0], down - piece.origin[1], piece.axis)
        colour = surface(piece.material, u, v, height)
        if piece.relief:
            colour *= piece.light * self.brightness(swell, piece.relief * round_off)
            if piece.material.gloss:
                shine = piece.material.gloss * self.highlight(swell, round_off)
                colour += shine
        else:
            colour *= piece.light
        return colour

    def brightness(self, swell: np.ndarray, height: float) -> np.ndarray:
        """Light on a cushion: from above left or right, and less where the surface turns away."""
        return 0.42 + 0.78 * facing(swell, height, self.light) + 0.10 * swell

    def highlight(self, swell: np.ndarray, height: float) -> np.ndarray:
        """The gleam where the surface mirrors the light to the viewer."""
        half = self.light + np.array([0, 0, 1], np.float32)
        return facing(swell, height, half / np.linalg.norm(half)) ** 24

    def shade_beneath(self, box: Box, swell: np.ndarray, strength: float) -> None:
        left, top, right, bottom = box
        shift = max(1, round(0.008 * self.size))
        soft = np.roll(swell, shift, axis=0)
        figure = self.labels[top:bottom, left:right] != BACKGROUND
        self.picture[:, top:bottom, left:right] *= 1 - strength * soft * figure

    def lay(self, box: Box, colour: np.ndarray, cover: np.ndarray, label: int) -> None:
        """Blend in colours (3, h, w) by cover (h, w); where that is more than half, so is the label."""
        left, top, right, bottom = box
        region = self.picture[:, top:bottom, left:right]
        region += cover * (colour - region)
        self.labels[top:bottom, left:right][cover > 0.5] = label

    def scatter(self, outlines: np.ndarray, colours: Sequence[Colour]) -> None:
        """Many small flat shapes (n, m, 2) of the background at once, in pixels: leaves, blades."""
        box = self.box_around(list(outlines), margin=2)
        if box is None:
            return
        left, top, right, bottom = box
        extent_fine = ((right - left) * FINE, (bottom - top) * FINE)
        mean = tuple(int(255 * channel) for channel in np.mean(colours, 0))
        paint, mask = Image.new("RGB", extent_fine, mean), Image.new("L", extent_fine)
        brush, stencil = ImageDraw.Draw(paint), ImageDraw.Draw(mask)
        for outline, colour in zip(outlines, colours, strict=True):
            corners = ((outline - (left, top)) * FINE).ravel().tolist()
            brush.polygon(corners, fill=tuple(int(255 * channel) for channel in colour))
            stencil.polygon(corners, fill=255)
        self.lay(box, as_floats(paint.reduce(FINE)), as_floats(mask.reduce(FINE)), BACKGROUND)

    def box_around(self, outlines: Sequence[np.ndarray], margin: int) -> Box | None:
        """The pixels that the outlines can touch, or None if they lie outside the picture."""
        left, top, right, bottom = extent(np.concatenate(outlines))
        box = (
            max(0, int(left) - margin),
            max(0, int(top) - margin),
            min(self.size, int(right) + margin + 1),
            min(self.size, int(bottom) + margin + 1),
        )
        return box if box[0] < box[2] and box[1] < box[3] else None


def coverage(outlines: Sequence[np.ndarray], box: Box) -> np.ndarray:
    """How much of each pixel of the box lies inside the union of the outlines, (h, w) in [0, 1]."""
    left, top, right, bottom = box
    mask = Image.new("L", ((right - left) * FINE, (bottom - top) * FINE))
    brush = ImageDraw.Draw(mask)
    for outline in outlines:
        brush.polygon(((outline - (left, top)) * FINE).ravel().tolist(), fill=255)
    return as_floats(mask.reduce(FINE))


def blurred(values: np.ndarray, radius: float) -> np.ndarray:
    """A smooth version: shrunk so far that the radius is one sample, and grown again."""
    height, width = values.shape
    step_by = round(radius)
    if step_by <= 1:
        return values
    small = Image.fromarray(values).reduce(step_by)
    whole = (0.0, 0.0, width / step_by, height / step_by)  # the last samples stand for less than a full step
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC, box=whole))


def facing(swell: np.ndarray, height: float, direction: np.ndarray) -> np.ndarray:
    """Cosine between the surface's normal and a direction (x, y, towards the viewer), at least 0."""
    down, across = np.zeros_like(swell), np.zeros_like(swell)
    down[1:-1] = height * (swell[2:] - swell[:-2])
    across[:, 1:-1] = height * (swell[:, 2:] - swell[:, :-2])
    x, y, z = direction.tolist()
    return np.maximum(z - x * across - y * down, 0) / np.sqrt(1 + across * across + down * down)


def along_axis(x: np.ndarray, y: np.ndarray, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates along and across a direction."""
    if degrees == 0:
        return x, y
    cos, sin = np.float32(np.cos(np.deg2rad(degrees))), np.float32(np.sin(np.deg2rad(degrees)))
    return cos * x + sin * y, cos * y - sin * x


def ragged(cover: np.ndarray, material: Material, x: np.ndarray, y: np.ndarray, scale: float) -> np.ndarray:
    """Hair and wool have no hard edge: the outline is moved a little by noise."""
    if material.grain not in ("fur", "wool"):
        return cover
    amount, repeats = (0.4, 75) if material.grain == "fur" else (1.2, 30)
    soft = blurred(cover, max(1.5, 0.012 * scale))
    return step(soft + amount * soft * (1 - soft) * sample(8, x * repeats, y * repeats), 0.3, 0.7)


def fading(fade: Fade, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    along, _ = along_axis(x - fade.start[0], y - fade.start[1], fade.angle)
    return step(along / fade.length, 0.0, 1.0)


def as_floats(image: Image.Image) -> np.ndarray:
    """Values in [0, 1]: (h, w) of a mask, (3, h, w) of a picture."""
    values = np.asarray(image)
    planes = values if values.ndim == 2 else values.transpose(2, 0, 1)
    return planes.astype(np.float32, order="C") / 255


def as_image(picture: np.ndarray) -> Image.Image:
    """A picture (3, h, w) in [0, 1] in 8 bits."""
    values = (np.clip(picture, 0, 1) * 255 + 0.5).astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(values.transpose(1, 2, 0)))
