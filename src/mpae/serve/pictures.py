"""Pictures as the page shows them: decoded and encoded anew, so that nothing but pixels leaves the machine."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mpae.data.source import UnreadableImage
from mpae.drawing.overlay import overlay, viewing_size
from mpae.files import write_atomically
from mpae.prediction.coco import encode_labels
from mpae.prediction.part_names import PartNames
from mpae.serve.samples import Samples
from mpae.serve.session import Session

THUMBNAIL, VIEW = 256, 1280  # pixels along the longer side


def scaled(image: Image.Image, side: int) -> Image.Image:
    """At most ``side`` pixels long."""
    factor = min(1.0, side / max(image.size))
    width, height = (max(1, round(length * factor)) for length in image.size)
    return image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)


def jpeg(image: Image.Image, quality: int = 88) -> bytes:
    content = io.BytesIO()
    image.convert("RGB").save(content, "JPEG", quality=quality)
    return content.getvalue()


def png(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def data_url(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def thumbnail(session: Session, row: int) -> bytes:
    """A small JPEG of a photo; kept in the prediction folder, for a large photo takes long to decode."""
    file = _thumbnail_file(session, row)
    if file is not None and file.is_file():
        return file.read_bytes()
    content = jpeg(scaled(session.picture(row).image, THUMBNAIL), quality=82)
    if file is not None:
        write_atomically(file, lambda temporary: temporary.write_bytes(content))
    return content


def _thumbnail_file(session: Session, row: int) -> Path | None:
    if session.folder is None:
        return None
    root = session.folder.thumbnails.resolve()
    file = (root / f"{session.shown.table.files[row]}.jpg").resolve()
    if not file.is_relative_to(root):
        raise UnreadableImage("its name leaves the folder of thumbnails")
    return file


def view(session: Session, row: int) -> bytes:
    return jpeg(scaled(session.picture(row).image, VIEW))


def sample(samples: Samples, number: int) -> bytes:
    return jpeg(scaled(samples.picture(number).image, VIEW))


def overlay_of(session: Session, row: int) -> bytes:
    return overlay_jpeg(session.picture(row).image, np.asarray(session.mask(row)), session.names())


def overlay_jpeg(image: Image.Image, mask: np.ndarray, names: PartNames) -> bytes:
    shown = image.resize(viewing_size(image.size), Image.Resampling.BICUBIC)
    return jpeg(overlay(shown, names.seen(mask), names.all_names(), names.colours()))


def coco_of(name: str, mask: np.ndarray, names: PartNames) -> dict[str, Any]:
    """One photo as a COCO file, with the parts as people see them."""
    labels = names.seen(mask)
    height, width = labels.shape
    runs = encode_labels(labels)
    annotations = []
    for number, (label, counts) in enumerate(runs.items(), start=1):
        inside = labels == label
        rows, columns = inside.any(axis=1).nonzero()[0], inside.any(axis=0).nonzero()[0]
        box = [int(columns[0]), int(rows[0]), int(columns[-1] - columns[0] + 1), int(rows[-1] - rows[0] + 1)]
        annotations.append({"id": number, "image_id": 1, "category_id": label, "area": int(inside.sum()), "bbox": box,
                            "iscrowd": 0, "segmentation": {"size": [height, width], "counts": counts}})
    categories = [{"id": part.index, "name": part.name, "supercategory": "part"} for part in names.shown()]
    return {"info": {"description": "Parts discovered by mpae"}, "licenses": [],
            "images": [{"id": 1, "file_name": name, "width": width, "height": height}],
            "annotations": annotations, "categories": categories}


def coco_pieces(session: Session) -> Iterator[str]:
    """All photos as one COCO file, piece by piece, with the memory for one."""
    names, table = session.names(), session.shown.table
    categories = [{"id": part.index, "name": part.name, "supercategory": "part"} for part in names.shown()]
    images = [{"id": row + 1, "file_name": name, "width": int(width), "height": int(height)}
              for row, (name, (width, height)) in enumerate(zip(table.names, table.sizes, strict=True))]
    yield (f'{{"info": {{"description": "Parts discovered by mpae"}}, "licenses": [],\n'
           f'"categories": {json.dumps(categories)},\n"images": {json.dumps(images)},\n"annotations": [')
    number, separator = 0, "\n"
    for row, name in enumerate(table.names):
        try:
            found = coco_of(name, np.asarray(session.mask(row)), names)["annotations"]
        except UnreadableImage:  # a mask that was taken away meanwhile
            continue
        for annotation in found:
            number += 1
            yield separator + json.dumps(annotation | {"id": number, "image_id": row + 1})
            separator = ",\n"
    yield "]}\n"
