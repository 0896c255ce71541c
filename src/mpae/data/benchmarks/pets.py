"""Oxford-IIIT Pet: 37 breeds of cats and dogs, a trimap of each photo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mpae.data.benchmarks.tables import check_files, check_split, find, read_table, safe_name
from mpae.data.dataset import Dataset, root_of
from mpae.data.source import Annotation
from mpae.data.sources.benchmark import BenchmarkImages, read_labels
from mpae.data.sources.folder import find_images
from mpae.errors import MPAEError

TREE = {
    "images/<name>.jpg": "the photos",
    "annotations/trainval.txt, annotations/test.txt": "name, class, species, breed of each photo of a split",
    "annotations/trimaps/<name>.png": "1 object, 2 background, 3 outline, which does not count",
    "train/<name>.jpg, test/<name>.jpg, trimaps/<name>.png": "or, in place of all above, photos sorted by split",
}
SPLITS = {"train": "annotations/trainval.txt", "test": "annotations/test.txt"}
OBJECT, BACKGROUND, OUTLINE = 1, 2, 3


class PetsImages(BenchmarkImages):
    """One split. A trimap without any object (there are a few) marks nothing, and its photo does not count."""

    keypoint_names: Sequence[str] = ()
    part_names: Sequence[str] = ()
    has_foreground = True

    def __init__(self, root: str | Path, split: str):
        check_split(split, tuple(SPLITS), "pets")
        base = Path(root)
        first = find(base, ("images", split), "pets", TREE)
        if first.name == split:
            super().__init__(first, find_images(first))
            self._trimaps = find(base, ("trimaps",), "pets", TREE)
            where = [f"'{first / name}'" for name in self.names]
        else:
            listed = read_table(find(base, (SPLITS[split],), "pets", TREE), "name class species breed")
            listed.row_of()  # no name stands there twice
            where = [listed.where(row) for row in range(len(listed.keys))]
            super().__init__(first, [f"{safe_name(name, place)}.jpg"
                                     for name, place in zip(listed.keys, where, strict=True)])
            check_files(first, self.names, where)
            self._trimaps = find(base, ("annotations/trimaps",), "pets", TREE)
        if not self.names:
            raise MPAEError(f"No photo of pets' split '{split}' in '{base}'.")
        check_files(self._trimaps, [_trimap_name(name) for name in self.names], where, what="its trimap")

    def annotation(self, index: int) -> Annotation:
        name = self.names[index]
        path = self._trimaps / _trimap_name(name)
        labels = read_labels(path, self.size(index), name)
        wrong = labels[~np.isin(labels, (OBJECT, BACKGROUND, OUTLINE))]
        if wrong.size:
            raise MPAEError(f"'{path}' has the label {wrong[0]}; expected 1 object, 2 background or 3 outline.")
        if not (labels == OBJECT).any():
            return Annotation()
        return Annotation(foreground=labels == OBJECT, uncertain=labels == OUTLINE)


def _trimap_name(name: str) -> str:
    return name.rpartition(".")[0] + ".png"


DATASET = Dataset(
    name="pets",
    description="Oxford-IIIT Pet, 37 breeds of cats and dogs",
    annotation="foreground masks",
    tree=TREE,
    origin="www.robots.ox.ac.uk/~vgg/data/pets",
    licence="CC BY-SA 4.0; copyright of the photos with their owners",
    sizes={"train": "3,680", "test": "3,669"},
    open=lambda settings, split: PetsImages(root_of(settings), split),
)
