"""Part masks as a COCO annotation file, written image by image."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from mpae.files import write_atomically
from mpae.prediction.journal import Journal, Record
from mpae.prediction.part_names import PartNames


def encode_labels(mask: np.ndarray) -> dict[int, str]:
    """COCO's compressed run lengths of every part in a mask (H, W), by part; one pass for all of them."""
    from pycocotools import mask as rle

    height, width = mask.shape
    flat = mask.T.ravel()  # COCO counts down the columns
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])  # of runs of one label
    stops = np.append(starts[1:], flat.size)
    labels = flat[starts]
    encoded = {}
    for label in np.unique(labels[labels > 0]).tolist():
        runs = np.stack([starts[labels == label], stops[labels == label]], axis=1)  # (n, 2)
        counts = np.diff(runs.ravel(), prepend=0, append=flat.size)  # outside, inside, outside, ...
        counts = counts[:-1] if counts[-1] == 0 else counts
        packed = rle.frPyObjects({"size": [height, width], "counts": counts.tolist()}, height, width)
        encoded[label] = packed["counts"].decode("ascii")
    return encoded


def write_coco(path: Path, journal: Journal, names: PartNames) -> None:
    """One COCO file of all images, with the memory for one; parts as people see them: joined, hidden, named."""
    categories = [{"id": part.index, "name": part.name, "supercategory": "part"} for part in names.shown()]

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8") as file:
            file.write('{"info": {"description": "Parts discovered by mpae"}, "licenses": [],\n"images": [')
            _write_list(file, (_coco_image(*numbered) for numbered in enumerate(journal.records(), start=1)))
            file.write('],\n"annotations": [')
            _write_list(file, _annotations(journal.records(), names))
            file.write(f'],\n"categories": {json.dumps(categories)}}}\n')

    write_atomically(path, write)


def _coco_image(number: int, record: Record) -> dict[str, Any]:
    return {"id": number, "file_name": record["name"], "width": record["width"], "height": record["height"]}


def _annotations(records: Iterable[Record], names: PartNames) -> Iterator[dict[str, Any]]:
    number = 0
    for image, record in enumerate(records, start=1):
        present = {part["index"]: part for part in record["parts"]}
        for named in names.shown():
            members = [present[index] for index in named.members if index in present]
            if members:
                number += 1
                area = sum(part["area"] for part in members)
                certainty = sum(part["area"] * part["confidence"] for part in members) / area
                yield {"id": number, "image_id": image, "category_id": named.index,
                       "segmentation": {"size": [record["height"], record["width"]],
                                        "counts": record["kept"]["coco"][str(named.index)]},
                       "area": area, "bbox": _around([part["box"] for part in members]), "iscrowd": 0,
                       "score": round(certainty, 4)}


def _around(boxes: Sequence[Sequence[int]]) -> list[int]:
    """The box x, y, width, height around some boxes."""
    left, top = (min(box[axis] for box in boxes) for axis in (0, 1))
    right, bottom = (max(box[axis] + box[axis + 2] for box in boxes) for axis in (0, 1))
    return [left, top, right - left, bottom - top]


def _write_list(file: TextIO, items: Iterable[dict[str, Any]]) -> None:
    separator = "\n"
    for item in items:
        file.write(separator + json.dumps(item))
        separator = ",\n"
