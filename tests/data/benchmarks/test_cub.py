"""The reader of CUB against a miniature copy, its errors word by word, and the real dataset where it is."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from miniatures import Cub, edit_line, write_cub
from PIL import Image

from mpae.data.benchmarks.cub import CubImages
from mpae.errors import MPAEError


@pytest.fixture
def copy(tmp_path: Path) -> Cub:
    return write_cub(tmp_path / "CUB_200_2011")


@pytest.mark.parametrize("split", ["train", "test"])
def test_reads_exactly_what_was_written(copy: Cub, split: str) -> None:
    source = CubImages(copy.root, split)
    assert list(source.names) == copy.names(split)
    assert len(source) == 6
    assert source.has_foreground
    for index, name in enumerate(source.names):
        annotation, picture = source.annotation(index), source[index]
        assert picture.name == name
        assert annotation.box == copy.box[name]
        np.testing.assert_array_equal(annotation.keypoints, copy.points[name])
        np.testing.assert_array_equal(annotation.visible, copy.visible[name])
        np.testing.assert_array_equal(annotation.foreground, copy.foreground[name])
        assert annotation.foreground.shape == (picture.image.height, picture.image.width)


def test_rows_may_come_in_any_order(copy: Cub) -> None:
    path = copy.root / "parts" / "part_locs.txt"
    path.write_text("\n".join(reversed(path.read_text().splitlines())))
    source = CubImages(copy.root, "test")
    np.testing.assert_array_equal(source.annotation(2).keypoints, copy.points[source.names[2]])


def test_root_may_be_the_folder_that_holds_it_with_the_masks_beside(copy: Cub) -> None:
    (copy.root / "segmentations").rename(copy.root.parent / "segmentations")
    source = CubImages(copy.root.parent, "train")
    np.testing.assert_array_equal(source.annotation(0).foreground, copy.foreground[source.names[0]])


def test_works_without_masks(copy: Cub) -> None:
    (copy.root / "segmentations").rename(copy.root / "unused")
    source = CubImages(copy.root, "train")
    assert not source.has_foreground
    assert source.annotation(0).foreground is None


def test_one_bit_masks_are_read(copy: Cub) -> None:
    source = CubImages(copy.root, "test")
    path = copy.root / "segmentations" / source.names[0].replace(".jpg", ".png")
    Image.fromarray(copy.foreground[source.names[0]]).save(path)
    np.testing.assert_array_equal(source.annotation(0).foreground, copy.foreground[source.names[0]])


def test_a_rotation_noted_in_the_file_does_not_part_image_and_points(copy: Cub) -> None:
    source = CubImages(copy.root, "test")
    path = source.folder / source.names[0]
    stored = Image.open(path).convert("RGB")
    plain = source[0]
    exif = Image.Exif()
    exif[0x0112] = 6
    stored.save(path, quality=95, exif=exif)
    turned = source[0]
    assert turned.image.size == plain.image.size == stored.size
    assert np.abs(np.asarray(turned.image, float) - np.asarray(stored, float)).mean() < 12


def read_everything(root: Path, split: str) -> None:
    source = CubImages(root, split)
    for index in range(len(source)):
        source.annotation(index)


def fails(root: Path, split: str = "test") -> str:
    with pytest.raises(MPAEError) as caught:
        read_everything(root, split)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["images.txt", "train_test_split.txt", "bounding_boxes.txt",
                                  "parts/part_locs.txt", "images"])
def test_a_missing_file_is_named_with_the_tree(copy: Cub, name: str) -> None:
    (copy.root / name).rename(copy.root / "gone")
    message = fails(copy.root)
    assert message.startswith(f"No '{name}' in '{copy.root}'; cub expects there: images/<class>/<name>.jpg, ")
    assert "parts/part_locs.txt" in message


def test_wrong_roots(copy: Cub, tmp_path: Path) -> None:
    assert fails(tmp_path / "nowhere") == f"No such folder: '{tmp_path / 'nowhere'}'."
    assert fails(copy.root / "images.txt") == f"'{copy.root / 'images.txt'}' is a file; cub expects a folder."
    assert fails(copy.root, "val") == "cub has no split 'val'; choose one of: train, test."


LINES = [
    # file, line, its new text, what the error must say
    ("images.txt", 3, "3", "images.txt', line 3: 1 fields, expected 2: image-id path."),
    ("images.txt", 3, "3 ../../secret.jpg", "images.txt', line 3: '../../secret.jpg' is no path inside the"),
    ("images.txt", 3, "3 /etc/secret.jpg", "images.txt', line 3: '/etc/secret.jpg' is no path inside the"),
    ("images.txt", 3, "2 001.Bird_0/other.jpg", "line 3: '2' is listed a second time, first on line 2;"),
    ("images.txt", 4, "4 001.Bird_0/none.jpg", "images.txt', line 4: image '001.Bird_0/none.jpg' is not in"),
    ("train_test_split.txt", 5, None, "train_test_split.txt' has no row '5', which"),
    ("train_test_split.txt", 5, "5 2", "train_test_split.txt', line 5: is-training is 2, expected 0 or 1."),
    ("bounding_boxes.txt", 12, "12 1 1 10 10\n13 1 1 5 5", "bounding_boxes.txt', line 13: '13' is not in"),
    ("bounding_boxes.txt", 2, "2 1 1 0 10", "bounding_boxes.txt', line 2: the box is 0 x 10 pixels"),
    ("bounding_boxes.txt", 2, "2 1 1 x 10", "boxes.txt', line 2: 'x' is not a number; expected image-id x"),
    ("bounding_boxes.txt", 2, "2 1 1 nan 10", "bounding_boxes.txt', line 2: 'nan' is not a number"),
    ("bounding_boxes.txt", 2, "", "bounding_boxes.txt', line 2: 0 fields, expected 5"),
    ("parts/part_locs.txt", 180, None, "part_locs.txt' has no row '12 15', which"),
    ("parts/part_locs.txt", 17, "2 2 5 5 3", "part_locs.txt', line 17: visible is 3, expected 0 or 1."),
    ("parts/part_locs.txt", 17, "2 16 5 5 1", "part_locs.txt' has no row '2 2', which"),
    ("parts/part_locs.txt", 17, "2 2 500 20 1", "line 17: point (500, 20) lies outside '001.Bird_0/Bird_0"),
    ("parts/part_locs.txt", 17, "2 2 20 -300 1", "part_locs.txt', line 17: point (20, -300) lies outside"),
]


@pytest.mark.parametrize(("file", "line", "text", "expected"), LINES)
def test_a_bad_line_is_named(copy: Cub, file: str, line: int, text: str | None, expected: str) -> None:
    edit_line(copy.root / file, line, text)
    assert expected in fails(copy.root)


def test_an_absent_image_is_found_before_anything_is_read(copy: Cub) -> None:
    name = copy.names("test")[1]
    (copy.root / "images" / name).unlink()
    with pytest.raises(MPAEError, match=re.escape(f"', line 4: image '{name}' is not in")) as caught:
        CubImages(copy.root, "test")
    assert "(1 of 6 are absent)" in str(caught.value)
    assert len(CubImages(copy.root, "train")) == 6  # the other split is whole


def test_an_absent_mask_and_one_of_another_size(copy: Cub) -> None:
    name = copy.names("test")[0]
    mask = copy.root / "segmentations" / name.replace(".jpg", ".png")
    Image.new("L", (7, 5)).save(mask)
    assert f"{mask}' has 7 x 5 pixels but its image '{name}' has " in fails(copy.root)
    mask.write_bytes(b"no image")
    assert f"Cannot read the mask '{mask}'" in fails(copy.root)
    mask.unlink()
    assert f"{name}': its mask '{name.replace('.jpg', '.png')}' is not in" in fails(copy.root)


def test_a_slip_of_the_annotator_is_kept(copy: Cub) -> None:
    """The official file has a point 2 % below its image."""
    edit_line(copy.root / "parts" / "part_locs.txt", 17, "2 2 -2.00 20.00 1")
    source = CubImages(copy.root, "test")
    np.testing.assert_array_equal(source.annotation(0).keypoints[1], [-2, 20])


words = st.sampled_from(["1", "2", "-5", "1e9", "1e999", "0.5", "../x.jpg", "nan", "\t", "001.Bird_0/a.jpg"])
letters = st.characters(codec="utf-8")
garbage = (st.text(letters, max_size=30).map(str.encode) | st.binary(max_size=20)
           | st.lists(words, max_size=6).map(" ".join).map(str.encode))
TABLES = ["images.txt", "train_test_split.txt", "bounding_boxes.txt", "parts/part_locs.txt"]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Cub:
    return write_cub(tmp_path_factory.mktemp("fuzzed") / "CUB_200_2011", images=4)


@settings(max_examples=50, deadline=None)
@given(file=st.sampled_from(TABLES), line=st.integers(0, 3), text=garbage)
def test_garbage_gives_an_error_and_nothing_else(fuzzed: Cub, file: str, line: int, text: bytes) -> None:
    path = fuzzed.root / file
    good = path.read_bytes()
    lines = good.split(b"\n")
    lines[line] = text
    path.write_bytes(b"\n".join(lines))
    try:
        with contextlib.suppress(MPAEError):
            read_everything(fuzzed.root, "test")
    finally:
        path.write_bytes(good)


def test_the_real_dataset(shared: Path) -> None:
    root = shared / "data" / "cub_200_2011"
    if not root.is_dir():
        pytest.skip("CUB-200-2011 is not here")
    train, test = CubImages(root, "train"), CubImages(root, "test")
    assert (len(train), len(test)) == (5994, 5794)
    assert not set(train.names) & set(test.names)
    for index in range(0, 5794, 500):
        annotation, picture = test.annotation(index), test[index]
        inside = annotation.keypoints[annotation.visible].astype(int)
        hit = annotation.foreground[inside[:, 1], inside[:, 0]]
        assert hit.mean() > 0.5, picture.name  # keypoints lie on the bird
