"""CUB-200-2011: 200 kinds of birds, 15 keypoints and a box in each photo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mpae.data.benchmarks.tables import (
    Table,
    check_files,
    check_points,
    check_split,
    find,
    one_of,
    read_table,
    safe_name,
)
from mpae.data.dataset import Dataset, root_of
from mpae.data.source import Annotation
from mpae.data.sources.benchmark import BenchmarkImages, read_labels
from mpae.errors import MPAEError

TREE = {
    "images/<class>/<name>.jpg": "the photos",
    "images.txt": "image id, path below images/",
    "train_test_split.txt": "image id, 1 for training and 0 for test",
    "bounding_boxes.txt": "image id, x, y, width, height",
    "parts/part_locs.txt": "image id, part 1..15, x, y, visible",
    "segmentations/<class>/<name>.png": "for the foreground IoU only; a separate archive, may be absent",
}
SPLITS = ("train", "test")
KEYPOINTS = ("back", "beak", "belly", "breast", "crown", "forehead", "left eye", "left leg", "left wing",
             "nape", "right eye", "right leg", "right wing", "tail", "throat")
FOREGROUND = 128  # grey levels in segmentations/ count the annotators who said "bird": half of them or more


class CubImages(BenchmarkImages):
    """One official split. Points keep the coordinates of the official file; invisible ones are (0, 0)."""

    keypoint_names: Sequence[str] = KEYPOINTS
    part_names: Sequence[str] = ()

    def __init__(self, root: str | Path, split: str):
        check_split(split, SPLITS, "cub")
        base = find(Path(root), ("images.txt", "CUB_200_2011/images.txt"), "cub", TREE).parent
        folder = _find(base, "images")
        listed = read_table(_find(base, "images.txt"), "image-id path", 2)
        ids, names = _ids_and_names(listed)
        training = _split_column(base, ids, listed.path)
        chosen = np.flatnonzero(training == (split == "train")).tolist()
        if not chosen:
            raise MPAEError(f"'{base / 'train_test_split.txt'}' puts no image into the split '{split}'.")

        super().__init__(folder, [names[i] for i in chosen])
        check_files(folder, self.names, [listed.where(i) for i in chosen])
        self._boxes = _read_boxes(base, ids, listed.path)[chosen]  # (n, 4)
        self._points = read_table(_find(base, "parts/part_locs.txt"), "image-id part x y visible", 2)
        one_of(self._points, 2, (0, 1), "visible")
        wanted = [f"{image} {part}" for image in ids for part in range(1, len(KEYPOINTS) + 1)]
        rows = self._points.rows(wanted, listed.path).reshape(len(ids), len(KEYPOINTS))
        self._point_rows = rows[chosen]  # (n, 15)
        self._masks = _find_masks(base, Path(root), self.names)
        self.has_foreground = self._masks is not None

    def annotation(self, index: int) -> Annotation:
        name, size, rows = self.names[index], self.size(index), self._point_rows[index]
        keypoints, visible = self._points.values[rows, :2], self._points.values[rows, 2] > 0.5
        check_points(keypoints[visible], size, name, [self._points.where(row) for row in rows[visible]])
        foreground = None
        if self._masks is not None:
            foreground = read_labels(self._masks / _mask_name(name), size, name, grey=True) >= FOREGROUND
        x, y, width, height = self._boxes[index].tolist()
        return Annotation(keypoints, visible, box=(x, y, width, height), foreground=foreground)


def _find(base: Path, path: str) -> Path:
    return find(base, (path,), "cub", TREE)


def _ids_and_names(listed: Table) -> tuple[list[str], list[str]]:
    pairs = [key.split(" ") for key in listed.keys]
    names = [safe_name(name, listed.where(row)) for row, (_, name) in enumerate(pairs)]
    for column in ([image for image, _ in pairs], names):
        Table(listed.path, column, listed.values, listed.first_line).row_of()  # neither ids nor names repeat
    return [image for image, _ in pairs], names


def _split_column(base: Path, ids: list[str], owner: Path) -> np.ndarray:
    table = read_table(_find(base, "train_test_split.txt"), "image-id is-training")
    return one_of(table, 0, (0, 1), "is-training")[table.rows(ids, owner)]


def _read_boxes(base: Path, ids: list[str], owner: Path) -> np.ndarray:
    table = read_table(_find(base, "bounding_boxes.txt"), "image-id x y width height")
    empty = np.flatnonzero((table.values[:, 2:] <= 0).any(axis=1))
    if len(empty):
        width, height = table.values[empty[0], 2:]
        raise MPAEError(f"{table.where(empty[0])}: the box is {width:g} x {height:g} pixels; expected sides "
                        f"above 0.")
    return table.values[table.rows(ids, owner)]


def _mask_name(name: str) -> str:
    return name.rpartition(".")[0] + ".png"


def _find_masks(base: Path, root: Path, names: Sequence[str]) -> Path | None:
    """The archive of the masks may lie in the folder of the images or, as it unpacks, beside it."""
    for folder in (base / "segmentations", root / "segmentations"):
        if folder.is_dir():
            masks = [_mask_name(name) for name in names]
            check_files(folder, masks, [f"'{base / 'images' / name}'" for name in names], what="its mask")
            return folder
    return None


DATASET = Dataset(
    name="cub",
    description="Caltech-UCSD Birds-200-2011, 200 kinds of birds",
    annotation="15 keypoints, boxes, foreground masks",
    tree=TREE,
    origin="www.vision.caltech.edu/datasets/cub_200_2011",
    licence="images belong to their photographers; non-commercial research and education",
    sizes={"train": "5,994", "test": "5,794"},
    open=lambda settings, split: CubImages(root_of(settings), split),
    fit_split="train",
)
