"""The reader of Oxford-IIIT Pet against miniature copies of both layouts, errors word by word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from miniatures import Pets, edit_line, write_pets
from PIL import Image

from mpae.data.benchmarks.pets import PetsImages
from mpae.errors import MPAEError


@pytest.mark.parametrize("sorted_by_split", [False, True])
@pytest.mark.parametrize("split", ["train", "test"])
def test_reads_exactly_what_was_written(tmp_path: Path, split: str, sorted_by_split: bool) -> None:
    copy = write_pets(tmp_path, sorted_by_split=sorted_by_split)
    source = PetsImages(tmp_path, split)
    assert list(source.names) == copy.splits[split]
    for index, name in enumerate(source.names):
        annotation = source.annotation(index)
        assert source[index].name == name
        np.testing.assert_array_equal(annotation.foreground, copy.trimaps[name] == 1)
        np.testing.assert_array_equal(annotation.uncertain, copy.trimaps[name] == 3)
        assert annotation.foreground is not None
        assert annotation.foreground.any()


@pytest.fixture
def copy(tmp_path: Path) -> Pets:
    return write_pets(tmp_path)


def trimap_of(copy: Pets, name: str) -> Path:
    return copy.root / "annotations" / "trimaps" / name.replace(".jpg", ".png")


def test_a_trimap_without_object_marks_nothing(copy: Pets) -> None:
    name = copy.splits["test"][1]
    Image.new("L", copy.trimaps[name].shape[::-1], 2).save(trimap_of(copy, name))
    annotation = PetsImages(copy.root, "test").annotation(1)
    assert annotation.foreground is None
    assert annotation.uncertain is None


def read_everything(root: Path, split: str) -> None:
    source = PetsImages(root, split)
    for index in range(len(source)):
        source.annotation(index)


def fails(root: Path, split: str = "test") -> str:
    with pytest.raises(MPAEError) as caught:
        read_everything(root, split)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_missing_is_named(copy: Pets) -> None:
    assert fails(copy.root, "val") == "pets has no split 'val'; choose one of: train, test."
    assert fails(copy.root / "absent") == f"No such folder: '{copy.root / 'absent'}'."
    assert fails(copy.root / "annotations").startswith(f"No 'images' in '{copy.root / 'annotations'}'; pets expects")
    name = copy.splits["test"][0]
    trimap_of(copy, name).unlink()
    assert f"line 1: its trimap '{name.replace('.jpg', '.png')}' is not in" in fails(copy.root)
    (copy.root / "images" / name).unlink()
    assert f"test.txt', line 1: image '{name}' is not in" in fails(copy.root)
    (copy.root / "annotations" / "test.txt").unlink()
    assert f"No 'annotations/test.txt' in '{copy.root}'; pets expects there: images/" in fails(copy.root)


@pytest.mark.parametrize(("line", "expected"), [
    ("Abyssinian_2 1", "test.txt', line 1: 2 fields, expected 4: name class species breed."),
    ("../../etc/passwd 1 1 1", "line 1: '../../etc/passwd' is no path inside the dataset folder; refused."),
    ("yorkshire_terrier_5 1 1 1", "line 2: 'yorkshire_terrier_5' is listed a second time, first on line 1"),
])
def test_a_bad_line_is_named(copy: Pets, line: str, expected: str) -> None:
    edit_line(copy.root / "annotations" / "test.txt", 1, line)
    assert expected in fails(copy.root)


def test_a_bad_trimap_is_named(copy: Pets) -> None:
    path = trimap_of(copy, copy.splits["test"][0])
    labels = copy.trimaps[copy.splits["test"][0]].copy()
    labels[0, 0] = 7
    Image.fromarray(labels).save(path)
    assert fails(copy.root) == f"'{path}' has the label 7; expected 1 object, 2 background or 3 outline."
    Image.new("L", (3, 5), 1).save(path)
    assert f"'{path}' has 3 x 5 pixels but its image" in fails(copy.root)
