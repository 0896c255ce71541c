"""Both variants of PartImageNet against miniature copies, and their errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from miniatures import CATEGORIES, PartImageNet, edit_line, write_partimagenet_ood, write_partimagenet_seg
from PIL import Image

from mpae.data.benchmarks.partimagenet import PART_NAMES, PartImageNetImages
from mpae.errors import MPAEError

SPLIT_FILE = "train_test_split_pimagenet_ood.txt"


def check(source: PartImageNetImages, written: PartImageNet, split: str) -> None:
    assert list(source.names) == list(written.labels[split])
    assert source.names
    for index, name in enumerate(source.names):
        annotation = source.annotation(index)
        assert source[index].name == name
        np.testing.assert_array_equal(annotation.part_mask, written.labels[split][name])
        np.testing.assert_array_equal(annotation.foreground, written.labels[split][name] != 40)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("split", ["train", "test"])
def test_ood_reads_exactly_what_was_written(tmp_path: Path, split: str, prepared: bool) -> None:
    written = write_partimagenet_ood(tmp_path, prepared=prepared)
    check(PartImageNetImages(tmp_path, split, "ood"), written, split)


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize(("first_id", "polygons"), [(0, True), (1, True), (0, False)])
def test_seg_reads_what_was_written(tmp_path: Path, split: str, first_id: int, polygons: bool) -> None:
    written = write_partimagenet_seg(tmp_path, first_id=first_id, polygons=polygons)
    source = PartImageNetImages(tmp_path, split, "seg")
    check(source, written, split)
    assert len(source) == 5  # of six: one has no annotation
    assert len(source.part_names) == 40


def test_the_names_of_the_parts_are_those_of_the_release() -> None:
    assert len(PART_NAMES) == 40
    assert [name.split(" ")[0] for name in PART_NAMES] == [thing for thing, _ in CATEGORIES]
    assert PART_NAMES.index("Aeroplane Head") == 33
    assert PART_NAMES.index("Bottle Body") == 38


def test_ood_reads_a_json_prepared_on_windows(tmp_path: Path) -> None:
    written = write_partimagenet_ood(tmp_path, prepared=True)
    path = tmp_path / "train_test.json"
    content = json.loads(path.read_text())
    for image in content["images"]:
        image["file_name"] = image["file_name"].replace("/", "\\")
    path.write_text(json.dumps(content))
    check(PartImageNetImages(tmp_path, "test", "ood"), written, "test")


def read_everything(root: Path, split: str, variant: str) -> None:
    source = PartImageNetImages(root, split, variant)
    for index in range(len(source)):
        source.annotation(index)


def fails(root: Path, split: str = "test", variant: str = "ood") -> str:
    with pytest.raises(MPAEError) as caught:
        read_everything(root, split, variant)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["train", "train.json", SPLIT_FILE])
def test_a_missing_file_of_ood_is_named_with_the_tree(tmp_path: Path, name: str) -> None:
    write_partimagenet_ood(tmp_path)
    (tmp_path / name).rename(tmp_path / "gone")
    message = fails(tmp_path)
    assert message.startswith(f"No '{name}' in '{tmp_path}'; partimagenet-ood expects there: train/<synset>/")
    assert SPLIT_FILE in message


@pytest.mark.parametrize("name", ["images/test", "annotations/test"])
def test_a_missing_folder_of_seg_is_named_with_the_tree(tmp_path: Path, name: str) -> None:
    write_partimagenet_seg(tmp_path)
    (tmp_path / name).rename(tmp_path / "gone")
    assert fails(tmp_path, variant="seg").startswith(f"No '{name}' in '{tmp_path}'; partimagenet-seg expects")


def test_splits_are_listed(tmp_path: Path) -> None:
    assert fails(tmp_path, "val") == "partimagenet-ood has no split 'val'; choose one of: train, test."
    assert fails(tmp_path, "x", "seg").endswith("-seg has no split 'x'; choose one of: train, val, test.")


@pytest.mark.parametrize(("line", "text", "expected"), [
    (5, None, f"{SPLIT_FILE}' has no row '4', which"),
    (5, "4\t2\t1\tn01000001\tn01000001_124.JPEG", f"{SPLIT_FILE}', line 5: is-test is '2', expected 0 or 1."),
    (5, "4\t1\t1\tn01000001\tother.JPEG", "line 5: image 4 is 'other.JPEG' but 'n01000001_124.JPEG' in '"),
    (5, "4\t1", f"{SPLIT_FILE}', line 5: 2 fields, expected 5: image-id is-test class synset file-name."),
    (10, "9\t0\t0\tn01000000\tn01000000_279.JPEG\n99\t0\t0\ta\tb", f"{SPLIT_FILE}', line 11: '99' is not in"),
])
def test_a_bad_line_of_the_split_file(tmp_path: Path, line: int, text: str | None, expected: str) -> None:
    write_partimagenet_ood(tmp_path)
    edit_line(tmp_path / SPLIT_FILE, line, text)
    assert expected in fails(tmp_path)


def test_absent_images_and_images_of_another_size(tmp_path: Path) -> None:
    written = write_partimagenet_seg(tmp_path)
    name = next(iter(written.labels["test"]))
    path = tmp_path / "images" / "test" / name
    Image.new("RGB", (9, 8)).save(path, format="JPEG")
    message = fails(tmp_path, variant="seg")
    assert "test.json', images[0]: the masks are for " in message
    assert f"pixels but the image '{name}' has 9 x 8." in message
    path.unlink()
    assert f"images[0]: image '{name}' is not in" in fails(tmp_path, variant="seg")


def test_an_image_listed_twice(tmp_path: Path) -> None:
    write_partimagenet_seg(tmp_path)
    path = tmp_path / "annotations" / "test" / "test.json"
    content = json.loads(path.read_text())
    content["images"][1]["file_name"] = content["images"][0]["file_name"]
    path.write_text(json.dumps(content))
    message = fails(tmp_path, variant="seg")
    assert "test.json', images[1]: the image 'n02000000_20.JPEG' is listed a second time." in message


def test_label_maps_that_do_not_fit(tmp_path: Path) -> None:
    written = write_partimagenet_seg(tmp_path, polygons=False)
    name = next(iter(written.labels["test"]))
    path = tmp_path / "annotations" / "test" / name.replace(".JPEG", ".png")
    labels = np.asarray(Image.open(path)).copy()
    labels[0, 0] = 41
    Image.fromarray(labels).save(path)
    assert f"'{path}' has the label 41; expected 0 to 40." in fails(tmp_path, variant="seg")
    Image.fromarray(labels[1:]).save(path)
    height, width = labels.shape
    assert f"'{path}' has {width} x {height - 1} pixels but" in fails(tmp_path, variant="seg")
    Image.fromarray(np.stack([labels] * 3, 2)).save(path)
    assert f"'{path}' is no label map; expected one 8-bit channel." in fails(tmp_path, variant="seg")
    path.write_bytes(b"")
    assert f"Cannot read the label map '{path}'" in fails(tmp_path, variant="seg")
    path.unlink()
    assert f"its label map '{path.name}' is not in" in fails(tmp_path, variant="seg")
    for other in path.parent.glob("*.png"):
        other.unlink()
    assert fails(tmp_path, variant="seg").startswith("No polygons in ")


def test_a_split_without_annotated_images(tmp_path: Path) -> None:
    write_partimagenet_ood(tmp_path, images=1)
    assert fails(tmp_path) == f"No annotated image of partimagenet-ood's split 'test' in '{tmp_path}'."
