"""COCO json files of part masks: checked when read, rasterised one image at a time.

Rules of the paper's evaluation (those of PDiscoFormer): an annotation of area 0 or with ``iscrowd`` is
skipped, and a polygon of four numbers stands for the annotation's box. Where parts overlap, the one marked
more often wins, then the lower id.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpae.data.benchmarks.tables import safe_name
from mpae.errors import MPAEError


@dataclass(frozen=True)
class PartShape:
    """One annotation: the index of its part, and polygons as x0, y0, x1, y1, ..."""

    part: int
    polygons: list[np.ndarray]


@dataclass
class CocoImage:
    name: str  # as in the file, with forward slashes
    size: tuple[int, int]  # width, height
    where: str  # file and entry, for errors
    annotated: bool = False  # also by an annotation that is skipped
    shapes: list[PartShape] = field(default_factory=list)


@dataclass(frozen=True)
class CocoParts:
    part_names: tuple[str, ...]
    images: dict[int, CocoImage]  # by COCO id, in the order of the file


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        where = f"'{path}', line {error.lineno}"
        raise MPAEError(f"{where}: not JSON ({error.msg}); get the file again.") from None
    except (ValueError, RecursionError):
        raise MPAEError(f"'{path}' is not JSON; get the file again.") from None
    except OSError as error:
        raise MPAEError(f"Cannot read '{path}': {error.strerror}.") from None


def has_polygons(content: Any) -> bool:
    """False for the release whose json holds image sizes only; its masks are PNG files."""
    annotations = content.get("annotations") if isinstance(content, dict) else None
    entries = annotations if isinstance(annotations, list) else []
    return any(isinstance(entry, dict) and "segmentation" in entry for entry in entries)


def parse_parts(content: Any, path: Path) -> CocoParts:
    """Part names, and every image with the shapes that count; ``path`` is named in errors."""
    part_names, part_of = _categories(content, path)
    images: dict[int, CocoImage] = {}
    for entry, where in _entries(content, "images", path):
        number = _integer(entry, "id", where)
        if number in images:
            raise MPAEError(f"{where}: image id {number} is used a second time.")
        images[number] = _image(entry, where)
    for entry, where in _entries(content, "annotations", path):
        number = _integer(entry, "image_id", where)
        if number not in images:
            raise MPAEError(f"{where}: image_id {number} is not among the images of the file.")
        image = images[number]
        image.annotated = True
        image.shapes += _shapes(entry, part_of, image.size, where)
    return CocoParts(part_names, images)


def rasterise(shapes: Sequence[PartShape], size: tuple[int, int], background: int) -> np.ndarray:
    """Label map (H, W) uint8 of one image: the part of each pixel, or ``background``."""
    from pycocotools import mask as coco_mask

    width, height = size
    if not shapes:
        return np.full((height, width), background, dtype=np.uint8)
    parts = sorted({shape.part for shape in shapes})
    # How often each part was marked; COCO's masks run down the columns, so do these. (parts, W, H)
    counts = np.zeros((len(parts), width, height), dtype=np.uint16)
    for shape in shapes:
        polygons = [polygon.tolist() for polygon in shape.polygons]
        union = coco_mask.merge(coco_mask.frPyObjects(polygons, height, width))
        counts[parts.index(shape.part)] += coco_mask.decode(union).T
    most, labels = np.zeros((width, height), np.uint16), np.full((width, height), background, np.uint8)
    for part, count in zip(parts, counts, strict=True):  # ascending: of equals the lower id stays
        labels[count > most] = part
        np.maximum(most, count, out=most)
    return np.ascontiguousarray(labels.T)


def _entries(content: Any, key: str, path: Path) -> list[tuple[dict[str, Any], str]]:
    entries = content.get(key) if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise MPAEError(f"'{path}' has no list '{key}'; expected COCO's images, annotations and categories.")
    pairs = [(entry, f"'{path}', {key}[{index}]") for index, entry in enumerate(entries)]
    for entry, where in pairs:
        if not isinstance(entry, dict):
            raise MPAEError(f"{where} is a {type(entry).__name__}; expected an object.")
    return pairs


def _categories(content: Any, path: Path) -> tuple[tuple[str, ...], dict[int, int]]:
    """Names of the parts and, by category id, their index: ids 0..39 as they are, ids 1..40 one lower."""
    name_of: dict[int, str] = {}
    for entry, where in _entries(content, "categories", path):
        number = _integer(entry, "id", where)
        if number in name_of:
            raise MPAEError(f"{where}: category id {number} is used a second time.")
        name_of[number] = str(entry.get("name", number))
    if not 1 <= len(name_of) <= 255:
        raise MPAEError(f"'{path}' has {len(name_of)} categories; expected 1 to 255.")
    ids = sorted(name_of)
    return tuple(name_of[number] for number in ids), {number: part for part, number in enumerate(ids)}


def _integer(entry: dict[str, Any], key: str, where: str) -> int:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise MPAEError(f"{where}: '{key}' is {_short(value)}; expected an integer.")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _image(entry: dict[str, Any], where: str) -> CocoImage:
    name = entry.get("file_name")
    if not isinstance(name, str):
        raise MPAEError(f"{where}: 'file_name' is {_short(name)}; expected a text.")
    size = (_integer(entry, "width", where), _integer(entry, "height", where))
    if not all(1 <= side <= 65_535 for side in size):
        raise MPAEError(f"{where}: the image is {size[0]} x {size[1]} pixels; expected sides of 1 to 65,535.")
    return CocoImage(safe_name(name, where), size, where)


def _shapes(entry: dict[str, Any], part_of: dict[int, int], size: tuple[int, int],
            where: str) -> list[PartShape]:
    """The shape of one annotation, or nothing where it does not count."""
    category = _integer(entry, "category_id", where)
    if category not in part_of:
        raise MPAEError(f"{where}: category_id {category} is not among the categories of the file.")
    if entry.get("area", 1) == 0 or entry.get("iscrowd", 0) == 1:
        return []
    segmentation = entry.get("segmentation")
    if not isinstance(segmentation, list):
        raise MPAEError(f"{where}: 'segmentation' is {_short(segmentation)}; expected a list of polygons.")
    polygons = [_coordinates(polygon, size, where) for polygon in segmentation]
    for index, polygon in enumerate(polygons):
        if len(polygon) == 4:  # pycocotools would read the two points as x, y, width, height
            polygons[index] = _rectangle(entry.get("bbox"), size, where)
        elif len(polygon) % 2:
            raise MPAEError(f"{where}: a polygon has {len(polygon)} numbers; expected pairs of x and y.")
    polygons = [polygon for polygon in polygons if len(polygon) > 4]  # a point has no area
    return [PartShape(part_of[category], polygons)] if polygons else []


def _coordinates(values: Any, size: tuple[int, int], where: str) -> np.ndarray:
    try:
        numbers = np.array(values)
    except (ValueError, OverflowError, RecursionError):
        numbers = np.array(None)
    # A shape may lean out of the image; far points would keep the rasteriser busy for hours.
    limit = max(size)
    if not isinstance(values, list) or numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "if"):
        raise MPAEError(f"{where}: {_short(values)} is no list of coordinates.")
    if not ((numbers >= -limit) & (numbers <= 2 * limit)).all():
        raise MPAEError(f"{where}: a polygon or box lies outside its image of {size[0]} x {size[1]} pixels.")
    return numbers.astype(np.float64)


def _rectangle(box: Any, size: tuple[int, int], where: str) -> np.ndarray:
    numbers = _coordinates(box, size, where)
    if len(numbers) != 4:
        raise MPAEError(f"{where}: 'bbox' has {len(numbers)} numbers; expected x, y, width, height.")
    x, y, width, height = numbers
    return np.array([x, y, x, y + height, x + width, y + height, x + width, y])
