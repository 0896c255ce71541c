"""Reading one image file, whatever it is, into upright RGB, or saying why it cannot be read."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from mpae.data.source import Picture, UnreadableImage

EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
# What is decoded, whatever the extension says. Pillow knows more, some by starting other programs.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")
MAX_PIXELS = 178_000_000  # just below Pillow's own limit: a 16,000 x 11,000 px scan is read, a bomb is not
MAX_BYTES = 2**31  # of a file; 178 million pixels with four 16-bit channels are 1.4 GB


def digest_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def read_picture(path: Path, name: str, upright: bool = True) -> Picture:
    """The picture in a file; raises UnreadableImage with the reason."""
    content = read_file(path)
    return Picture(name=name, image=decode(content, upright), digest=digest_of(content))


def read_file(path: Path) -> bytes:
    """The bytes of a regular file: a pipe would wait for ever, a device might never end."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableImage("not a regular file")
        if status.st_size > MAX_BYTES:
            raise UnreadableImage(f"{status.st_size:,} bytes are more than {MAX_BYTES:,}")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise UnreadableImage(getattr(error, "strerror", None) or str(error)) from None


def decode(content: bytes, upright: bool = True) -> Image.Image:
    """Bytes of an image file as RGB, upright or as stored; raises UnreadableImage with the reason."""
    if not content:
        raise UnreadableImage("the file is empty")
    try:
        image: Image.Image = Image.open(io.BytesIO(content), formats=FORMATS)
        check_size(image)
        image.load()
        if upright:
            turn_upright(image)
        return to_rgb(image)
    except UnreadableImage:
        raise
    except Image.DecompressionBombError:
        raise UnreadableImage(f"more than {MAX_PIXELS:,} pixels") from None
    except Image.UnidentifiedImageError:
        raise UnreadableImage("not an image, or damaged at its start") from None
    except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, struct.error, ... on bad bytes
        raise UnreadableImage(" ".join(str(error).split())[:200] or type(error).__name__) from None


def check_size(image: Image.Image) -> None:
    """Refuse what would not fit into memory before a pixel of it is decoded."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise UnreadableImage(f"{width:,} x {height:,} pixels are more than {MAX_PIXELS:,}")


def turn_upright(image: Image.Image) -> None:
    """Turn a loaded image as its EXIF orientation says."""
    with suppress(Exception):  # damaged metadata do not make a picture unreadable
        ImageOps.exif_transpose(image, in_place=True)  # not in place, it would copy every image


def to_rgb(image: Image.Image) -> Image.Image:
    """Grey, 16-bit, CMYK, palette and alpha images as 8-bit RGB; alpha over white, as viewers show it."""
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(to_8_bit(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def to_8_bit(values: np.ndarray) -> np.ndarray:
    """Grey values as uint8: integers of 0..65535 are 16-bit, floats run to 1 or 255; others are stretched."""
    whole = values.dtype.kind in "iu"
    values = np.nan_to_num(values.astype(np.float32), nan=0, posinf=0, neginf=0).clip(-1e30, 1e30)
    low, high = float(values.min()), float(values.max())
    if whole and low >= 0 and high <= 65535:
        low, high = 0, 65535
    elif low >= 0 and high <= 255:
        low, high = 0, 1 if high <= 1 else 255
    return ((values - low) * np.float32(255 / max(high - low, 1e-12))).round().clip(0, 255).astype(np.uint8)
