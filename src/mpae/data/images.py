"""Reading one image file, whatever it is, into upright RGB, or saying why it cannot be read."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from mpae.data.source import Picture, UnreadableImage

EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
MAX_PIXELS = 1_000_000_000  # a 30,000 x 30,000 px photo is read; a 50,000 x 50,000 px bomb is not


def digest_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def read_picture(path: Path, name: str) -> Picture:
    """The picture in a file; raises UnreadableImage with the reason."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableImage(error.strerror or str(error)) from None
    return Picture(name=name, image=decode(content), digest=digest_of(content))


def decode(content: bytes) -> Image.Image:
    """Bytes of an image file as upright RGB; raises UnreadableImage with the reason."""
    if not content:
        raise UnreadableImage("the file is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's size warning; the limit below is ours
            image: Image.Image = Image.open(io.BytesIO(content))
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise UnreadableImage(f"{width} x {height} pixels is more than {MAX_PIXELS:,}")
            image.load()
            return to_rgb(ImageOps.exif_transpose(image))
    except UnreadableImage:
        raise
    except Image.UnidentifiedImageError:
        raise UnreadableImage("not an image that Pillow knows") from None
    except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, struct.error, ... on bad bytes
        raise UnreadableImage(" ".join(str(error).split()) or type(error).__name__) from None


def to_rgb(image: Image.Image) -> Image.Image:
    """Grey, 16-bit, CMYK, palette and alpha images as 8-bit RGB; alpha over white, as viewers show it."""
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_to_8_bit(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _to_8_bit(values: np.ndarray) -> np.ndarray:
    """16-bit grey has the range 0..65535; 32-bit and float files that exceed it are stretched."""
    values = np.nan_to_num(values.astype(np.float64))
    low, high = float(values.min()), float(values.max())
    if 0 <= low and high <= 65535 and (high > 255 or high <= 0):
        return (values / 257).round().astype(np.uint8)
    if 0 <= low and high <= 1:
        return (values * 255).round().astype(np.uint8)
    if 0 <= low and high <= 255:
        return values.round().astype(np.uint8)
    return ((values - low) / max(high - low, 1e-12) * 255).round().astype(np.uint8)
