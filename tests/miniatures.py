"""Miniature copies of the benchmarks, written in exactly the layouts of the official releases.

Each writer returns what it wrote, so that a reader can be held against it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

KEYPOINTS_CUB = ("back", "beak", "belly", "breast", "crown", "forehead", "left eye", "left leg", "left wing",
                 "nape", "right eye", "right leg", "right wing", "tail", "throat")
FIGURE = (200, 60, 40)


def draw_image(width: int, height: int, random: np.random.Generator) -> tuple[Image.Image, tuple[int, ...]]:
    """A reddish figure before noise, and its box (left, top, right, bottom)."""
    image = Image.fromarray(random.integers(0, 120, (height, width, 3), dtype=np.uint8))
    left, top = int(random.integers(4, width // 4)), int(random.integers(4, height // 4))
    box = (left, top, left + width // 2, top + height // 2)
    ImageDraw.Draw(image).ellipse(box, fill=FIGURE)
    return image, box


@dataclass
class Cub:
    """What ``write_cub`` wrote: for each image name its split, box, points, visibility and foreground."""

    root: Path
    split: dict[str, str] = field(default_factory=dict)
    box: dict[str, tuple[float, ...]] = field(default_factory=dict)
    points: dict[str, np.ndarray] = field(default_factory=dict)
    visible: dict[str, np.ndarray] = field(default_factory=dict)
    foreground: dict[str, np.ndarray] = field(default_factory=dict)

    def names(self, split: str) -> list[str]:
        return [name for name, its in self.split.items() if its == split]


def write_cub(root: Path, images: int = 12, seed: int = 0) -> Cub:
    """``root`` becomes the folder CUB_200_2011, with the masks of the separate archive in it."""
    random = np.random.default_rng(seed)
    written = Cub(root)
    (root / "parts").mkdir(parents=True)
    lists: dict[str, list[str]] = {name: [] for name in ("images", "train_test_split", "bounding_boxes",
                                                          "image_class_labels", "part_locs")}
    for number in range(1, images + 1):
        kind = (number - 1) * 2 // images
        name = f"{kind + 1:03d}.Bird_{kind}/Bird_{kind}_{number:04d}_{number * 17}.jpg"
        width, height = int(random.integers(60, 90)), int(random.integers(50, 80))
        image, (left, top, right, bottom) = draw_image(width, height, random)
        box = (float(left), float(top), float(right - left), float(bottom - top))
        points = random.uniform((left, top), (right, bottom), (15, 2)).round(2)
        visible = random.random(15) < 0.7
        points[~visible] = 0
        annotators = random.integers(0, 6, (height, width))  # of five, how many said "bird"
        (root / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        image.save(root / "images" / name, quality=95)
        mask = root / "segmentations" / name.replace(".jpg", ".png")
        mask.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((annotators * 51).astype(np.uint8)).save(mask)

        is_train = number % 2
        lists["images"].append(f"{number} {name}")
        lists["train_test_split"].append(f"{number} {is_train}")
        lists["image_class_labels"].append(f"{number} {kind + 1}")
        lists["bounding_boxes"].append(f"{number} {box[0]:.1f} {box[1]:.1f} {box[2]:.1f} {box[3]:.1f}")
        lists["part_locs"] += [f"{number} {part + 1} {x:.2f} {y:.2f} {int(seen)}"
                               for part, ((x, y), seen) in enumerate(zip(points, visible, strict=True))]
        written.split[name] = "train" if is_train else "test"
        written.box[name], written.points[name], written.visible[name] = box, points, visible
        written.foreground[name] = annotators >= 3
    for name, lines in lists.items():
        folder = root / "parts" if name == "part_locs" else root
        write_lines(folder / f"{name}.txt", lines)
    write_lines(root / "classes.txt", ["1 001.Bird_0", "2 002.Bird_1"])
    write_lines(root / "parts" / "parts.txt", [f"{i + 1} {name}" for i, name in enumerate(KEYPOINTS_CUB)])
    return written


@dataclass
class Pets:
    """What ``write_pets`` wrote: the names of each split, and the trimap of each name."""

    root: Path
    splits: dict[str, list[str]] = field(default_factory=dict)
    trimaps: dict[str, np.ndarray] = field(default_factory=dict)


def write_pets(root: Path, images: int = 12, seed: int = 0, sorted_by_split: bool = False) -> Pets:
    """images/ and annotations/ of the official release; or train/, test/ and trimaps/."""
    random = np.random.default_rng(seed)
    written = Pets(root, {"train": [], "test": []})
    trimaps = root / ("trimaps" if sorted_by_split else "annotations/trimaps")
    trimaps.mkdir(parents=True)
    lists: dict[str, list[str]] = {"train": [], "test": []}
    for number in range(images):
        split, breed = ("train", "test")[number % 3 // 2], ("Abyssinian", "yorkshire_terrier")[number % 2]
        name = f"{breed}_{number}"
        width, height = int(random.integers(40, 70)), int(random.integers(40, 70))
        image, box = draw_image(width, height, random)
        trimap = Image.new("L", (width, height), 2)
        ImageDraw.Draw(trimap).ellipse(box, fill=1, outline=3, width=3)
        folder = root / (split if sorted_by_split else "images")
        folder.mkdir(parents=True, exist_ok=True)
        image.save(folder / f"{name}.jpg")
        trimap.save(trimaps / f"{name}.png")
        lists[split].append(f"{name} {number % 2 + 1} {number % 2 + 1} 1")
        written.splits[split].append(f"{name}.jpg")
        written.trimaps[f"{name}.jpg"] = np.asarray(trimap)
    if sorted_by_split:
        written.splits = {split: sorted(names) for split, names in written.splits.items()}
        return written
    for split, file in (("train", "trainval"), ("test", "test")):
        write_lines(root / "annotations" / f"{file}.txt", lists[split])
    return written


@dataclass
class Celeba:
    """What ``write_celeba`` wrote; the splits hold the names that the 30 % filter lets pass."""

    root: Path
    splits: dict[str, list[str]] = field(default_factory=dict)
    box: dict[str, tuple[float, ...]] = field(default_factory=dict)
    points: dict[str, np.ndarray] = field(default_factory=dict)


def write_celeba(root: Path, images: int = 24, seed: int = 0, flat: bool = False) -> Celeba:
    """Every third face is too small. MAFL draws from all three partitions, as the real one does."""
    random = np.random.default_rng(seed)
    written = Celeba(root)
    photos = root / ("img_celeba" if flat else "Img/img_celeba")
    photos.mkdir(parents=True)
    landmarks, boxes, partition, large = [], [], [], []
    for number in range(1, images + 1):
        name = f"{number:06d}.jpg"
        width, height = int(random.integers(60, 90)), int(random.integers(60, 90))
        image, (left, top, _, _) = draw_image(width, height, random)
        share = 0.25 if number % 3 == 0 else 0.45
        side = round(share**0.5 * width) + 1, round(share**0.5 * height) + 1
        points = random.uniform((left, top), (left + width // 2, top + height // 2), (5, 2)).astype(int)
        image.save(photos / name)
        landmarks.append(name + "".join(f"  {value:3d}" for value in points.ravel()))
        boxes.append(f"{name}    {left:3d} {top:3d} {side[0]:3d} {side[1]:3d}")
        partition.append(f"{name} {0 if number <= images * 2 // 3 else number % 2 + 1}")
        written.box[name] = (float(left), float(top), float(side[0]), float(side[1]))
        written.points[name] = points.astype(float)
        if side[0] * side[1] >= 0.3 * width * height:
            large.append(name)
    names = [f"{number:06d}.jpg" for number in range(1, images + 1)]
    drawn = list(random.permutation(names))
    mafl_test, mafl_train = drawn[:images // 4], drawn[images // 4:images * 3 // 4]
    trained = [name for name, row in zip(names, partition, strict=True) if row.endswith(" 0")]
    written.splits["train"] = [name for name in trained if name not in mafl_test and name in large]
    written.splits["fit"] = [name for name in mafl_train if name in large]
    written.splits["test"] = [name for name in mafl_test if name in large]

    landmark_names = ("lefteye", "righteye", "nose", "leftmouth", "rightmouth")
    points_header = " ".join(f"{point}_{axis}" for point in landmark_names for axis in "xy")
    files = {
        "Anno/list_landmarks_celeba.txt": [str(images), points_header, *landmarks],
        "Anno/list_bbox_celeba.txt": [str(images), "image_id x_1 y_1 width height", *boxes],
        "Eval/list_eval_partition.txt": partition,
        "MAFL/training.txt": mafl_train,
        "MAFL/testing.txt": mafl_test,
    }
    for path, lines in files.items():
        write_lines(root / (Path(path).name if flat else path), lines)
    return written


@dataclass
class PartImageNet:
    """What a writer of PartImageNet wrote: label maps by split and image name; 40 is background."""

    root: Path
    labels: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)


CATEGORIES = [(thing, part) for thing, parts in {
    "Quadruped": ("Head", "Body", "Foot", "Tail"), "Biped": ("Head", "Body", "Hand", "Foot", "Tail"),
    "Fish": ("Head", "Body", "Fin", "Tail"), "Bird": ("Head", "Body", "Wing", "Foot", "Tail"),
    "Snake": ("Head", "Body"), "Reptile": ("Head", "Body", "Foot", "Tail"),
    "Car": ("Body", "Tier", "Side Mirror"), "Bicycle": ("Head", "Body", "Seat", "Tier"),
    "Boat": ("Body", "Sail"), "Aeroplane": ("Head", "Body", "Wing", "Engine", "Tail"),
    "Bottle": ("Body", "Mouth"),
}.items() for part in parts]


def rectangle(x: int, y: int, width: int, height: int) -> list[int]:
    """A polygon that COCO's rasteriser fills to exactly ``width`` x ``height`` pixels from (x, y)."""
    return [x, y, x + width, y, x + width, y + height, x, y + height]


def annotate(number: int, image: int, part: int, boxes: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    """A COCO annotation of one polygon for each box (x, y, width, height)."""
    x, y = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, bottom = max(box[0] + box[2] for box in boxes), max(box[1] + box[3] for box in boxes)
    return {"id": number, "image_id": image, "category_id": part, "iscrowd": 0,
            "segmentation": [rectangle(*box) for box in boxes], "bbox": [x, y, right - x, bottom - y],
            "area": sum(box[2] * box[3] for box in boxes)}


def coco(images: list[Any], annotations: list[Any], first_id: int = 0) -> dict[str, Any]:
    categories = [{"id": number + first_id, "name": f"{thing} {part}", "supercategory": thing}
                  for number, (thing, part) in enumerate(CATEGORIES)]
    return {"images": images, "annotations": annotations, "categories": categories}


class _Figures:
    """Images with two rectangular parts side by side; image 3 of any writer carries no annotation."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []
        self.labels: dict[str, np.ndarray] = {}

    def add(self, path: Path, file_name: str, first_id: int = 0) -> None:
        number = len(self.images)
        width, height = int(self.random.integers(40, 70)), int(self.random.integers(40, 70))
        image, (left, top, right, bottom) = draw_image(width, height, self.random)
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, format="JPEG")
        self.images.append({"id": number, "file_name": file_name, "width": width, "height": height})
        if number == 3:
            return
        middle, head = (left + right) // 2, int(self.random.integers(0, 38))
        labels = np.full((height, width), 40, dtype=np.uint8)
        labels[top:bottom, left:middle], labels[top:bottom, middle:right] = head, head + 1
        halves = ((left, middle, head), (middle, right, head + 1))
        self.annotations += [
            annotate(2 * number + i, number, part + first_id, [(start, top, end - start, bottom - top)])
            for i, (start, end, part) in enumerate(halves)]
        self.labels[path.name] = labels


def write_partimagenet_ood(root: Path, images: int = 10, seed: int = 0,
                           prepared: bool = False) -> PartImageNet:
    """The archive's train/ and train.json with the public split file, or the two files prepared from them."""
    figures = _Figures(seed)
    rows = []
    for number in range(images):
        synset = f"n0{1000000 + number % 3}"
        name = f"{synset}_{number * 31}.JPEG"
        figures.add(root / "train" / synset / name, name)
        rows.append((number, int(number % 3 == 1), number % 3, synset, name))
    written = PartImageNet(root)
    for split, flag in (("train", 0), ("test", 1)):
        written.labels[split] = {f"{row[3]}/{row[4]}": figures.labels[row[4]] for row in rows
                                 if row[1] == flag and row[4] in figures.labels}
    if not prepared:
        write_json(root / "train.json", coco(figures.images, figures.annotations))
        write_lines(root / "train_test_split_pimagenet_ood.txt", ["\t".join(map(str, row)) for row in rows])
        return written
    for split, flag in (("train", 0), ("test", 1)):
        new_id = {row[0]: i for i, row in enumerate(row for row in rows if row[1] == flag)}
        write_json(root / f"train_{split}.json", coco(
            [{**image, "id": new_id[image["id"]], "file_name": f"{rows[image['id']][3]}/{image['file_name']}"}
             for image in figures.images if image["id"] in new_id],
            [{**entry, "image_id": new_id[entry["image_id"]]} for entry in figures.annotations
             if entry["image_id"] in new_id]))
    return written


def write_partimagenet_seg(root: Path, images: int = 6, seed: int = 0, first_id: int = 0,
                           polygons: bool = True) -> PartImageNet:
    """images/ and annotations/ of three splits; without polygons, the release with PNG label maps."""
    written = PartImageNet(root)
    for offset, split in enumerate(("train", "val", "test")):
        figures = _Figures(seed + offset)
        for number in range(images):
            name = f"n0200000{number}_{offset}{number}.JPEG"
            figures.add(root / "images" / split / name, name, first_id)
        written.labels[split] = figures.labels
        folder = root / "annotations" / split
        folder.mkdir(parents=True)
        if polygons:
            write_json(folder / f"{split}.json", coco(figures.images, figures.annotations, first_id))
            continue
        write_json(folder / f"{split}.json", {
            image["file_name"]: {key: image[key] for key in ("height", "width")} for image in figures.images})
        for image in figures.images:
            nothing = np.full((image["height"], image["width"]), 40, dtype=np.uint8)
            labels = figures.labels.get(image["file_name"], nothing)
            Image.fromarray(labels).save(folder / image["file_name"].replace(".JPEG", ".png"))
    return written


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def edit_line(path: Path, number: int, line: str | None) -> None:
    """Replaces line ``number`` (from 1) of a file, or removes it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[number - 1:number] = [] if line is None else [line]
    write_lines(path, lines)
