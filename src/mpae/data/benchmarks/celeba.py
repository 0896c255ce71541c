"""CelebA in the wild: faces in whole photos (not the aligned crops), five landmarks and a box in each.

The evaluation lists are those of MAFL, 20,000 images that its authors drew from CelebA at random. Nothing in
CelebA's own files tells which, so the two lists of the MAFL release are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mpae.config import DataSettings
from mpae.data.benchmarks.tables import (
    Table,
    check_files,
    check_points,
    check_split,
    find,
    one_of,
    read_list,
    read_table,
    safe_name,
)
from mpae.data.dataset import Dataset, root_of
from mpae.data.geometry import resize_annotation
from mpae.data.source import Annotation, UnreadableImage
from mpae.data.sources.benchmark import BenchmarkImages, image_size
from mpae.errors import MPAEError

TREE = {
    "img_celeba/<number>.jpg": "the photos in the wild, also as Img/img_celeba/",
    "Anno/list_landmarks_celeba.txt": "five landmarks of each photo (not list_landmarks_align_celeba.txt)",
    "Anno/list_bbox_celeba.txt": "the box of the face: x, y, width, height",
    "Eval/list_eval_partition.txt": "0 training, 1 validation, 2 test",
    "MAFL/training.txt": "19,000 names, from the MAFL release (project TCDCN)",
    "MAFL/testing.txt": "1,000 names, from the MAFL release (project TCDCN)",
    "Anno/list_imsize_celeba.txt": "name, height, width; may be absent, saves opening each image",
    "cele_train_lm.txt, MAFL_train_lm.txt, MAFL_test_lm.txt":
        "name,x1,y1,...,x5,y5: the released program's lists; where one is, no other list is read for its split",
}
RELEASED = {"train": "cele_train_lm.txt", "fit": "MAFL_train_lm.txt", "test": "MAFL_test_lm.txt"}
COLUMNS = f"name{' x y' * 5}"
SPLITS = ("train", "fit", "test")
KEYPOINTS = ("left eye", "right eye", "nose", "left mouth", "right mouth")
FACE_SHARE = 0.3  # of the image's area, by the annotated box


class CelebaImages(BenchmarkImages):
    """Images whose face box covers 30 % of the image or more.

    ``train`` is CelebA's training partition without MAFL's test images, ``test`` is MAFL's test list, and
    ``fit`` is MAFL's training list, on which the landmark regression of the NME is fitted. The lists may also
    lie flat in the root. The released program's own lists hold the same images, and no boxes.
    """

    keypoint_names: Sequence[str] = KEYPOINTS
    part_names: Sequence[str] = ()
    has_foreground = False
    _points: Table
    _boxes: np.ndarray | None  # (n, 4)

    def __init__(self, root: str | Path, split: str, square: int | None = None):
        check_split(split, SPLITS, "celeba")
        base = _base(Path(root))
        folder = _image_folder(base)
        released = _released_list(base, split)
        names = self._read_official(base, folder, split) if released is None else self._read_released(folder, released)
        super().__init__(folder, names, square)

    def _read_released(self, folder: Path, path: Path) -> list[str]:
        points = read_table(path, COLUMNS, separator=",")
        points.row_of()  # no name stands there twice
        where = [points.where(row) for row in range(len(points.keys))]
        names = [safe_name(name, place) for name, place in zip(points.keys, where, strict=True)]
        if not names:
            raise MPAEError(f"'{path}' lists no image; expected lines such as 000001.jpg,x1,y1,...,x5,y5.")
        check_files(folder, names, where)
        self._points, self._rows, self._boxes = points, np.arange(len(names)), None
        return names

    def _read_official(self, base: Path, folder: Path, split: str) -> list[str]:
        points = read_table(_find(base, "Anno/list_landmarks_celeba.txt"), COLUMNS, header=True)
        boxes = read_table(_find(base, "Anno/list_bbox_celeba.txt"), "name x y width height", header=True)
        point_rows = points.row_of()
        box_rows = dict(zip(points.keys, boxes.rows(points.keys, points.path), strict=True))

        listed, rows = _split_rows(base, split, points)
        names = [safe_name(listed.keys[row], listed.where(row)) for row in rows]
        check_files(folder, names, [listed.where(row) for row in rows])
        face = {name: boxes.values[box_rows[name], 2:].prod() for name in names}
        large = _large_faces(folder, names, face, base)
        if not large:
            raise MPAEError(f"No face of the split '{split}' in '{base}' covers 30 % of its image.")

        self._points = points
        self._rows = np.array([point_rows[name] for name in large])
        self._boxes = boxes.values[[box_rows[name] for name in large]]
        return large

    def annotation(self, index: int) -> Annotation:
        row, size = self._rows[index], self.size(index)
        keypoints = self._points.values[row].reshape(5, 2)
        check_points(keypoints, size, self.names[index], [self._points.where(row)] * 5)
        box = None
        if self._boxes is not None:
            x, y, width, height = self._boxes[index].tolist()
            box = (x, y, width, height)
        annotation = Annotation(keypoints=keypoints, visible=np.ones(5, dtype=bool), box=box)
        return annotation if self.square is None else resize_annotation(annotation, size, (self.square, self.square))


def _base(root: Path) -> Path:
    """The folder itself, or one that holds it under its official name."""
    return root / "CelebA" if (root / "CelebA").is_dir() else root


def _find(base: Path, path: str) -> Path:
    return find(base, (path, path.rpartition("/")[2]), "celeba", TREE)


def _released_list(base: Path, split: str) -> Path | None:
    places = (base / RELEASED[split], base / "Anno" / RELEASED[split])
    return next((path for path in places if path.exists()), None)


def _image_folder(base: Path) -> Path:
    for folder in (base / "img_celeba", base / "Img" / "img_celeba"):
        if folder.is_dir():
            return folder
    crops = (base / "img_align_celeba", base / "Img" / "img_align_celeba")
    if any(folder.is_dir() for folder in crops):
        raise MPAEError(f"No 'img_celeba' in '{base}', only the aligned crops of 'img_align_celeba'; the "
                        f"benchmark uses the images in the wild.")
    return find(base, ("img_celeba", "Img/img_celeba"), "celeba", TREE)


def _split_rows(base: Path, split: str, points: Table) -> tuple[Table, list[int]]:
    """The file that lists the split, and which of its rows belong to it."""
    if split != "train":
        listed = _mafl(base, "training" if split == "fit" else "testing", points)
        return listed, list(range(len(listed.keys)))
    listed = read_table(_find(base, "Eval/list_eval_partition.txt"), "name partition")
    listed.rows(points.keys, points.path)
    held_out = set(_mafl(base, "testing", points).keys)
    training = one_of(listed, 0, (0, 1, 2), "the partition") == 0
    return listed, [row for row in np.flatnonzero(training).tolist() if listed.keys[row] not in held_out]


def _mafl(base: Path, name: str, points: Table) -> Table:
    listed = read_list(_find(base, f"MAFL/{name}.txt"))
    known = set(points.keys)
    for key, row in listed.row_of().items():
        if key not in known:
            raise MPAEError(f"{listed.where(row)}: '{key}' is not in '{points.path}'; expected names such as "
                            f"000001.jpg.")
    return listed


def _large_faces(folder: Path, names: Sequence[str], face: dict[str, float], base: Path) -> list[str]:
    """Names of images of whose area the face's box covers 30 %; an unreadable image stays, to be reported."""
    sizes = _listed_sizes(base)
    large = []
    for name in names:
        try:
            width, height = sizes.get(name) or image_size(folder / name)
        except UnreadableImage:
            large.append(name)
            continue
        if face[name] >= FACE_SHARE * width * height:
            large.append(name)
    return large


def _listed_sizes(base: Path) -> dict[str, tuple[float, float]]:
    """Width and height by name from the helper file that some copies have; its order is height, width."""
    for path in (base / "Anno" / "list_imsize_celeba.txt", base / "list_imsize_celeba.txt"):
        if path.exists():
            table = read_table(path, "name height width", header=True)
            rows = zip(table.keys, table.values, strict=True)
            return {name: (width, height) for name, (height, width) in rows}
    return {}


def _open(settings: DataSettings, split: str) -> CelebaImages:
    return CelebaImages(root_of(settings), split, settings.image_size if settings.reading == "released" else None)


DATASET = Dataset(
    name="celeba",
    description="CelebA in the wild, faces that cover 30 % of the image or more",
    annotation="5 landmarks, boxes",
    tree=TREE,
    origin="mmlab.ie.cuhk.edu.hk/projects/CelebA.html; the MAFL lists: github.com/zhzhanp/TCDCN-face-alignment",
    licence="non-commercial research only",
    sizes={"train": "45,609", "fit": "5,379 (MAFL training)", "test": "283 (MAFL test)"},
    open=_open,
    fit_split="fit",
)
