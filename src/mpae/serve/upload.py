"""Photos that somebody drops on the page: bounded in bytes, pixels and time, decoded like any image, never kept."""

from __future__ import annotations

import io
from typing import Any
from urllib.parse import unquote

import anyio
import numpy as np
from PIL import Image
from starlette.requests import Request

from mpae.data.images import FORMATS, decode, digest_of
from mpae.data.source import Picture, UnreadableImage
from mpae.drawing.palette import mask_palette
from mpae.errors import MPAEError
from mpae.prediction.part_names import PartNames
from mpae.prediction.parts import Parts
from mpae.serve import pictures
from mpae.serve.outlines import outline_paths, reduced
from mpae.serve.session import Session

MAX_BYTES = 30_000_000
MAX_PIXELS = 50_000_000
SECONDS = 30  # in which a request must have sent its body
MODEL_SECONDS = 90  # in which the model must have been loaded
OUTLINES = 400  # pixels along the longer side of the mask whose outlines are drawn


class UploadRefused(MPAEError):
    """What was sent is too large or too slow."""


async def read_body(request: Request, limit: int = MAX_BYTES) -> bytes:
    """The body of a request, which ends where it becomes too large or takes too long."""
    announced = request.headers.get("content-length", "0")
    too_large = UploadRefused(f"More than {limit:,} bytes were sent; send less, or a smaller photo.")
    if not announced.isdigit() or len(announced) > 12 or int(announced) > limit:
        raise too_large
    content = bytearray()
    try:
        with anyio.fail_after(SECONDS):
            async for chunk in request.stream():
                content += chunk
                if len(content) > limit:
                    raise too_large
    except TimeoutError:
        raise UploadRefused(f"Nothing whole was sent within {SECONDS} seconds; try again.") from None
    return bytes(content)


def predict_upload(session: Session, content: bytes, name: str) -> dict[str, Any]:
    """Everything that the page shows of a dropped photo, and can do with it."""
    name = clean_name(name)
    image = decode_upload(content, name)
    predictor = session.wait_for_model(MODEL_SECONDS)
    with session.before_others():
        parts = next(predictor.predict([Picture(name, image, digest_of(content))]))
    return describe(parts, image, session.names())


def decode_upload(content: bytes, name: str) -> Image.Image:
    try:
        check_pixels(content)
        return decode(content)
    except UnreadableImage as error:
        raise MPAEError(f"'{name}' cannot be read: {error}; expected a photo as {', '.join(FORMATS)}.") from None


def check_pixels(content: bytes) -> None:
    """A few bytes can stand for a huge picture: its size is looked at before a pixel is decoded."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
    except Exception:  # whatever it is, `decode` says it
        return
    if width * height > MAX_PIXELS:
        raise UnreadableImage(f"{width:,} x {height:,} pixels are more than {MAX_PIXELS:,}")


def describe(parts: Parts, image: Image.Image, names: PartNames) -> dict[str, Any]:
    mask = Image.fromarray(parts.mask)
    labels = reduced(mask, OUTLINES, names.lookup())
    mask.putpalette(mask_palette(names.num_parts))
    present = {part.index: part for part in parts.present}
    found, vectors = [], {}
    for named in names.parts():
        members = [present[index] for index in named.members if index in present]
        if members:
            area = sum(part.area for part in members)
            certainty = sum(part.area * part.confidence for part in members) / area
            found.append({"index": named.index, "share": round(sum(part.share for part in members), 4),
                          "certainty": round(certainty, 4), "unusual": 0})
            largest = max(members, key=lambda part: part.area)
            if parts.features is not None and not named.hidden:
                vector = np.round(parts.features[largest.index - 1].astype(float), 4).tolist()
                vectors[named.index] = {"part": largest.index, "vector": vector}
    return {"name": parts.name, "width": image.width, "height": image.height,
            "box": f"0 0 {labels.shape[1]} {labels.shape[0]}", "paths": outline_paths(labels), "parts": found,
            "vectors": vectors,
            "view": pictures.data_url(pictures.jpeg(pictures.scaled(image, pictures.VIEW)), "image/jpeg"),
            "mask": pictures.data_url(pictures.png(mask), "image/png"),
            "overlay": pictures.data_url(pictures.overlay_jpeg(image, parts.mask, names), "image/jpeg"),
            "coco": pictures.coco_of(parts.name, parts.mask, names)}


def clean_name(name: str) -> str:
    """The file name that a browser gave, without folders, control characters and excess."""
    last = unquote(name[:400], errors="replace").replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join(letter for letter in last if letter.isprintable())[:100].strip()
    return kept or "photo"
