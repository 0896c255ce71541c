"""PartImageNet: 158 classes of ImageNet with 40 parts, as masks.

Two variants. OOD uses only the archive's training part (109 classes), divided anew by a public split file.
Seg has its own division, the same classes in each split.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from mpae.data.benchmarks.coco import CocoImage, CocoParts, has_polygons, parse_parts, rasterise, read_json
from mpae.data.benchmarks.tables import Table, check_files, check_split, find, read_table
from mpae.data.dataset import Dataset, root_of
from mpae.data.source import Annotation
from mpae.data.sources.benchmark import BenchmarkImages, read_labels
from mpae.data.sources.folder import find_images
from mpae.errors import MPAEError

SPLIT_FILE = "train_test_split_pimagenet_ood.txt"
TREES = {
    "ood": {
        "train/<synset>/<synset>_<n>.JPEG": "the archive's training part; val/ and test/ are not used",
        "train.json": "its annotations, in COCO's format",
        SPLIT_FILE: "image id, 1 for test, class, synset, file name; published with PDiscoFormer",
        "train_train.json, train_test.json": "or, in place of the two above, what PDiscoFormer prepares",
    },
    "seg": {
        "images/<split>/<name>.JPEG": "the images of train, val and test",
        "annotations/<split>/<split>.json": "their annotations, in COCO's format",
        "annotations/<split>/<name>.png": "label maps, 40 is background; read if the json has no polygons",
    },
}
SPLITS = {"ood": ("train", "test"), "seg": ("train", "val", "test")}
PARTS = {
    "Quadruped": "Head Body Foot Tail", "Biped": "Head Body Hand Foot Tail", "Fish": "Head Body Fin Tail",
    "Bird": "Head Body Wing Foot Tail", "Snake": "Head Body", "Reptile": "Head Body Foot Tail",
    "Car": "Body Tier Side-Mirror", "Bicycle": "Head Body Seat Tier", "Boat": "Body Sail",
    "Aeroplane": "Head Body Wing Engine Tail", "Bottle": "Body Mouth",
}
PART_NAMES = tuple(f"{thing} {part}" for thing, parts in PARTS.items() for part in parts.split())  # ids 0..39


class PartImageNetImages(BenchmarkImages):
    """The annotated images of one split; the foreground is whatever belongs to a part."""

    keypoint_names: Sequence[str] = ()
    has_foreground = True

    def __init__(self, root: str | Path, split: str, variant: str = "seg"):
        check_split(variant, tuple(TREES), "partimagenet")
        check_split(split, SPLITS[variant], f"partimagenet-{variant}")
        self._maps: Path | None = None  # folder of PNG label maps, if they are the annotation
        self._images: list[CocoImage] = []
        self.part_names: Sequence[str] = PART_NAMES
        opener = self._open_ood if variant == "ood" else self._open_seg
        folder, names = opener(Path(root), split)
        if not names:
            raise MPAEError(f"No annotated image of partimagenet-{variant}'s split '{split}' in '{root}'.")
        super().__init__(folder, names)

    def annotation(self, index: int) -> Annotation:
        name, size, background = self.names[index], self.size(index), len(self.part_names)
        if self._maps is not None:
            path = self._maps / _map_name(name)
            labels = read_labels(path, size, name)
            if labels.max() > background:
                raise MPAEError(f"'{path}' has the label {labels.max()}; expected 0 to {background}.")
        else:
            image = self._images[index]
            if image.size != size:
                raise MPAEError(f"{image.where}: the masks are for {image.size[0]} x {image.size[1]} pixels "
                                f"but the image '{name}' has {size[0]} x {size[1]}.")
            labels = rasterise(image.shapes, size, background)
        return Annotation(part_mask=labels, foreground=labels != background)

    def _open_ood(self, root: Path, split: str) -> tuple[Path, list[str]]:
        folder = _find(root, "train", "ood")
        prepared = root / f"train_{split}.json"
        if prepared.exists():
            parts = parse_parts(read_json(prepared), prepared)
        else:
            parts = _select(_find(root, "train.json", "ood"), _find(root, SPLIT_FILE, "ood"), split)
        return folder, self._take(folder, parts, synsets=True)

    def _open_seg(self, root: Path, split: str) -> tuple[Path, list[str]]:
        folder = _find(root, f"images/{split}", "seg")
        maps = _find(root, f"annotations/{split}", "seg")
        path = maps / f"{split}.json"
        content = read_json(path) if path.exists() else None
        if has_polygons(content):
            return folder, self._take(folder, parse_parts(content, path), synsets=False)
        self._maps = maps
        return folder, _mapped_images(folder, maps, path)

    def _take(self, folder: Path, parts: CocoParts, synsets: bool) -> list[str]:
        """Keeps the annotated images and returns their names below ``folder``."""
        self.part_names = parts.part_names
        self._images = [image for image in parts.images.values() if image.annotated]
        names = [_in_synset_folder(image.name) if synsets else image.name for image in self._images]
        first: dict[str, CocoImage] = {}
        for name, image in zip(names, self._images, strict=True):
            if first.setdefault(name, image) is not image:
                raise MPAEError(f"{image.where}: the image '{name}' is listed a second time.")
        check_files(folder, names, [image.where for image in self._images])
        return names


def _find(root: Path, path: str, variant: str) -> Path:
    return find(root, (path,), f"partimagenet-{variant}", TREES[variant])


def _in_synset_folder(name: str) -> str:
    """The archive's json names the file alone; it lies in the folder of its synset."""
    return name if "/" in name else f"{name.partition('_')[0]}/{name}"


def _select(path: Path, split_path: Path, split: str) -> CocoParts:
    """The images of the archive's train.json that the public split file puts into a split."""
    parts = parse_parts(read_json(path), path)
    listed = read_table(split_path, "image-id is-test class synset file-name", 5)
    fields = [key.split(" ") for key in listed.keys]
    by_id = Table(split_path, [row[0] for row in fields], listed.values, listed.first_line)
    chosen = {}
    for (number, image), row in zip(parts.images.items(),
                                    by_id.rows([str(number) for number in parts.images], path), strict=True):
        _, is_test, _, _, file = fields[row]
        if is_test not in ("0", "1"):
            raise MPAEError(f"{by_id.where(row)}: is-test is '{is_test}', expected 0 or 1.")
        if file != image.name.rpartition("/")[2]:
            raise MPAEError(f"{by_id.where(row)}: image {number} is '{file}' but '{image.name}' in '{path}'; "
                            f"the two files belong to different copies.")
        if (is_test == "1") == (split == "test"):
            chosen[number] = image
    return CocoParts(parts.part_names, chosen)


def _map_name(name: str) -> str:
    return name.rpartition(".")[0] + ".png"


def _mapped_images(folder: Path, maps: Path, path: Path) -> list[str]:
    """Images by their PNG label maps; as with the json, one without any part is left out."""
    names = find_images(folder)
    if not any(maps.glob("*.png")):
        raise MPAEError(f"No polygons in '{path}' and no label maps (.png) in '{maps}'; partimagenet-seg "
                        f"expects: {', '.join(TREES['seg'])}.")
    where = [f"'{folder / name}'" for name in names]
    check_files(maps, [_map_name(name) for name in names], where, what="its label map")
    return [name for name in names if not _is_background(maps / _map_name(name))]


def _is_background(path: Path) -> bool:
    try:
        with Image.open(path) as labels:
            return labels.getextrema() == (len(PART_NAMES), len(PART_NAMES))
    except Exception as error:
        raise MPAEError(f"Cannot read the label map '{path}': {' '.join(str(error).split())}.") from None


_ORIGIN = "github.com/TACJu/PartImageNet"
_LICENCE = "images: ImageNet's terms, non-commercial research; annotations: none stated"

OOD = Dataset(
    name="partimagenet-ood",
    description="PartImageNet, 109 classes of the original archive, divided as in PDiscoFormer and MPAE",
    annotation="masks of 40 parts",
    tree=TREES["ood"],
    origin=f"{_ORIGIN}; split file: github.com/ananthu-aniraj/pdiscoformer, data_sets/",
    licence=_LICENCE,
    sizes={"train": "14,865", "test": "1,658"},
    open=lambda settings, split: PartImageNetImages(root_of(settings), split, "ood"),
)
SEG = Dataset(
    name="partimagenet-seg",
    description="PartImageNet, 158 classes, the release for segmentation",
    annotation="masks of 40 parts",
    tree=TREES["seg"],
    origin=_ORIGIN,
    licence=_LICENCE,
    sizes={"train": "20,457", "val": "about 1,200", "test": "2,405"},
    open=lambda settings, split: PartImageNetImages(root_of(settings), split, "seg"),
)
