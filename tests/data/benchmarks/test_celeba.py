"""The reader of CelebA against a miniature copy: the face filter, MAFL's lists, errors word by word."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from miniatures import Celeba, edit_line, write_celeba, write_lines
from PIL import Image

from mpae.config import DataSettings
from mpae.data.benchmarks import celeba
from mpae.data.benchmarks.celeba import CelebaImages
from mpae.data.catalogue import open_annotated, open_images
from mpae.errors import MPAEError


@pytest.fixture
def copy(tmp_path: Path) -> Celeba:
    return write_celeba(tmp_path / "CelebA")


@pytest.mark.parametrize("split", ["train", "fit", "test"])
def test_reads_exactly_what_was_written(copy: Celeba, split: str) -> None:
    source = CelebaImages(copy.root, split)
    assert list(source.names) == copy.splits[split]
    assert source.names
    for index, name in enumerate(source.names):
        annotation = source.annotation(index)
        assert source[index].name == name
        assert annotation.box == copy.box[name]
        assert annotation.visible.all()
        np.testing.assert_array_equal(annotation.keypoints, copy.points[name])


def test_training_never_sees_a_test_image(copy: Celeba) -> None:
    mafl_test = (copy.root / "MAFL" / "testing.txt").read_text().split()
    rows = (copy.root / "Eval" / "list_eval_partition.txt").read_text().splitlines()
    partition = dict(row.split() for row in rows)
    assert any(partition[name] == "0" for name in mafl_test)  # the lists do overlap, as the real ones
    assert not set(CelebaImages(copy.root, "train").names) & set(mafl_test)


@pytest.mark.parametrize(("box", "kept"), [
    ("30 20", True), ("20 30", True), ("24 25", True), ("24 24", False), ("0 0", False),
])
def test_the_filter_is_thirty_percent_of_the_area(tmp_path: Path, box: str, kept: bool) -> None:
    """600 of 50 x 40 = 2,000 pixels are kept, one row less is not."""
    copy = write_celeba(tmp_path)
    name = copy.splits["test"][0]
    Image.new("RGB", (50, 40)).save(copy.root / "Img" / "img_celeba" / name)
    edit_line(copy.root / "Anno" / "list_bbox_celeba.txt", int(name[:6]) + 2, f"{name} 0 0 {box}")
    assert (name in CelebaImages(copy.root, "test").names) == kept


def test_listed_sizes_spare_opening_the_images(copy: Celeba, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {}
    for path in (copy.root / "Img" / "img_celeba").iterdir():
        with Image.open(path) as image:
            sizes[path.name] = image.size
    write_lines(copy.root / "Anno" / "list_imsize_celeba.txt",
                [f"{name} {height} {width}" for name, (width, height) in sizes.items()])
    monkeypatch.setattr(celeba, "image_size", lambda path: pytest.fail(f"opened {path}"))
    assert list(CelebaImages(copy.root, "train").names) == copy.splits["train"]


def test_files_may_lie_flat_and_without_headers(tmp_path: Path) -> None:
    copy = write_celeba(tmp_path, flat=True)
    for name in ("list_landmarks_celeba.txt", "list_bbox_celeba.txt"):
        edit_line(tmp_path / name, 1, None)
        edit_line(tmp_path / name, 1, None)
    before = sorted(tmp_path.rglob("*"))
    source = CelebaImages(tmp_path, "fit")
    assert list(source.names) == copy.splits["fit"]
    np.testing.assert_array_equal(source.annotation(0).keypoints, copy.points[source.names[0]])
    assert sorted(tmp_path.rglob("*")) == before  # nothing is written into the dataset


def write_released(copy: Celeba, split: str, folder: str = "") -> None:
    """The released program's own list of a split: name,x1,y1,...,x5,y5."""
    name = {"train": "cele_train_lm.txt", "fit": "MAFL_train_lm.txt", "test": "MAFL_test_lm.txt"}[split]
    write_lines(copy.root / folder / name, [",".join([each, *map(str, copy.points[each].astype(int).ravel().tolist())])
                                            for each in copy.splits[split]])


@pytest.mark.parametrize("folder", ["", "Anno"])
@pytest.mark.parametrize("split", ["train", "fit", "test"])
def test_the_released_lists_take_the_place_of_all_others(copy: Celeba, split: str, folder: str) -> None:
    official = CelebaImages(copy.root, split)
    write_released(copy, split, folder)
    for name in (POINTS, BOXES, "MAFL/training.txt", "MAFL/testing.txt", "Eval/list_eval_partition.txt"):
        (copy.root / name).unlink()
    source = CelebaImages(copy.root, split)
    assert list(source.names) == list(official.names)
    for index in range(len(source)):
        np.testing.assert_array_equal(source.annotation(index).keypoints, official.annotation(index).keypoints)
        assert source.annotation(index).box is None


@pytest.mark.parametrize(("line", "expected"), [
    ("000001.jpg,1,2", "MAFL_test_lm.txt', line 1: 3 fields, expected 11: name x y"),
    ("000099.jpg,1,2,3,4,5,6,7,8,9,10", "MAFL_test_lm.txt', line 1: image '000099.jpg' is not in"),
    ("../a.jpg,1,2,3,4,5,6,7,8,9,10", "line 1: '../a.jpg' is no path inside the dataset folder; refused."),
    ("000001.jpg,1,2,3,4,5,6,7,8,9,x", "line 1: 'x' is not a number; expected name x y"),
])
def test_a_bad_line_of_a_released_list_is_named(copy: Celeba, line: str, expected: str) -> None:
    write_released(copy, "test")
    edit_line(copy.root / "MAFL_test_lm.txt", 1, line)
    assert expected in fails(copy.root)
    (copy.root / "MAFL_test_lm.txt").write_text("")
    assert "MAFL_test_lm.txt' lists no image" in fails(copy.root)


def test_the_released_reading_squashes_pictures_with_their_points(copy: Celeba) -> None:
    ours = DataSettings(dataset="celeba", root=str(copy.root), image_size=28)
    released = ours.model_copy(update={"reading": "released"})
    plain, squashed = open_annotated(ours, "test"), open_annotated(released, "test")
    assert list(plain.names) == list(squashed.names)
    width, height = plain[0].image.size
    assert squashed[0].image.size == (28, 28)
    before, after = plain.annotation(0), squashed.annotation(0)
    for (x, y), moved in zip(before.keypoints, after.keypoints, strict=True):
        assert tuple(moved) == pytest.approx((x * 28 / width, y * 28 / height))
    assert after.box == pytest.approx([side * 28 / whole for side, whole in zip(before.box, (width, height) * 2,
                                                                                strict=True)])
    assert open_images(released)[0].image.size == (28, 28)  # training too


def test_an_unreadable_image_stays_to_be_reported(copy: Celeba) -> None:
    name = copy.splits["test"][0]
    (copy.root / "Img" / "img_celeba" / name).write_bytes(b"")
    assert name in CelebaImages(copy.root, "test").names


def read_everything(root: Path, split: str) -> None:
    source = CelebaImages(root, split)
    for index in range(len(source)):
        source.annotation(index)


def fails(root: Path, split: str = "test") -> str:
    with pytest.raises(MPAEError) as caught:
        read_everything(root, split)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("name", "split"), [
    ("Anno/list_landmarks_celeba.txt", "train"), ("Anno/list_bbox_celeba.txt", "train"),
    ("Eval/list_eval_partition.txt", "train"), ("MAFL/testing.txt", "train"), ("MAFL/training.txt", "fit"),
])
def test_a_missing_file_is_named_with_the_tree(copy: Celeba, name: str, split: str) -> None:
    (copy.root / name).unlink()
    message = fails(copy.root, split)
    assert message.startswith(f"No '{name}' in '{copy.root}'; celeba expects there: img_celeba/")
    assert "MAFL/testing.txt" in message


def test_the_aligned_crops_do_not_do(copy: Celeba) -> None:
    images = copy.root / "Img" / "img_celeba"
    images.rename(copy.root / "Img" / "img_align_celeba")
    assert "only the aligned crops of 'img_align_celeba'; the benchmark uses the images" in fails(copy.root)
    (copy.root / "Img" / "img_align_celeba").rename(copy.root / "unused")
    assert f"No 'img_celeba' in '{copy.root}'; celeba expects there:" in fails(copy.root)


def test_splits_are_listed(copy: Celeba) -> None:
    assert fails(copy.root, "val") == "celeba has no split 'val'; choose one of: train, fit, test."


POINTS, BOXES = "Anno/list_landmarks_celeba.txt", "Anno/list_bbox_celeba.txt"
LINES = [
    (POINTS, 5, None, "list_landmarks_celeba.txt', line 1 announces 24 rows but 23 follow"),
    (POINTS, 1, "25", "list_landmarks_celeba.txt', line 1 announces 25 rows but 24 follow"),
    (POINTS, 5, "000003.jpg 1 2", "celeba.txt', line 5: 3 fields, expected 11: name x y"),
    (BOXES, 5, "000002.jpg 1 2 3 4", "line 5: '000002.jpg' is listed a second time, first on"),
    (BOXES, 5, "000099.jpg 1 2 3 4", "list_bbox_celeba.txt' has no row '000003.jpg', which"),
    ("Eval/list_eval_partition.txt", 5, None, "list_eval_partition.txt' has no row '000005.jpg', which"),
    ("Eval/list_eval_partition.txt", 5, "000005.jpg 7", "line 5: the partition is 7, expected 0 or 1 or 2."),
    ("MAFL/testing.txt", 1, "girl.jpg", "testing.txt', line 1: 'girl.jpg' is not in"),
    ("MAFL/testing.txt", 1, "000001.jpg 5", "testing.txt', line 1: 2 fields, expected 1: name."),
]


@pytest.mark.parametrize(("file", "line", "text", "expected"), LINES)
def test_a_bad_line_is_named(copy: Celeba, file: str, line: int, text: str | None, expected: str) -> None:
    edit_line(copy.root / file, line, text)
    assert expected in fails(copy.root, "train")


def test_an_absent_image_and_a_point_outside(copy: Celeba) -> None:
    name = copy.splits["test"][0]
    number = int(name[:6])
    edit_line(copy.root / POINTS, number + 2, f"{name} 900 5 5 5 5 5 5 5 5 5")
    expected = f"list_landmarks_celeba.txt', line {number + 2}: point (900, 5) lies outside '{name}'"
    assert expected in fails(copy.root)
    (copy.root / "Img" / "img_celeba" / name).unlink()
    assert f"testing.txt', line 1: image '{name}' is not in" in fails(copy.root)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Celeba:
    return write_celeba(tmp_path_factory.mktemp("fuzzed"), images=8)


@settings(max_examples=50, deadline=None)
@given(file=st.sampled_from([POINTS, BOXES, "Eval/list_eval_partition.txt", "MAFL/testing.txt"]),
       line=st.integers(0, 5),
       text=st.binary(max_size=20) | st.sampled_from([b"9" * 5000, b"8", b"000001.jpg 0", b"../a.jpg"]))
def test_garbage_gives_an_error_and_nothing_else(fuzzed: Celeba, file: str, line: int, text: bytes) -> None:
    path = fuzzed.root / file
    good = path.read_bytes()
    lines = good.split(b"\n")
    lines[min(line, len(lines) - 1)] = text
    path.write_bytes(b"\n".join(lines))
    try:
        with contextlib.suppress(MPAEError):
            read_everything(fuzzed.root, "train")
    finally:
        path.write_bytes(good)
