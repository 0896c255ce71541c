"""What people say of parts: names, joins, colours, hidden ones, and the file that keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.mask import decode
from tiny_run import make_tiny_run

from mpae.data.sources.folder import FolderImages
from mpae.errors import MPAEError
from mpae.model.load import load_model
from mpae.prediction.part_names import MAX_UNDO, ChangedMeanwhile, PartNames, parse_changes
from mpae.prediction.predictor import PartPredictor, predict_folder


def members(names: PartNames) -> dict[str, tuple[int, ...]]:
    return {part.name: part.members for part in names.parts()}


def test_without_a_file_parts_have_numbers(tmp_path: Path) -> None:
    names = PartNames.load(tmp_path, 3)
    assert members(names) == {"part-01": (1,), "part-02": (2,), "part-03": (3,)}
    assert names.lookup() == [0, 1, 2, 3]
    assert names.revision == 0


def test_the_same_name_joins() -> None:
    names = parse_changes(PartNames(8), ["3=head", "5=head", "7-"])
    assert members(names)["head"] == (3, 5)
    assert names.lookup() == [0, 1, 2, 3, 4, 3, 6, 0, 8]
    assert names.labels()[2:5] == ["head (3)", "part-04", "head (5)"]
    assert [part.name for part in names.shown()] == ["part-01", "part-02", "head", "part-04", "part-06", "part-08"]


def test_the_first_member_renames_all_and_another_one_leaves() -> None:
    names = parse_changes(PartNames(5), ["2=head", "4=head"])
    assert members(parse_changes(names, ["2=beak"]))["beak"] == (2, 4)
    assert members(parse_changes(names, ["head=beak"]))["beak"] == (2, 4)
    assert members(parse_changes(names, ["4=beak"])) == {"part-01": (1,), "head": (2,), "part-03": (3,),
                                                         "beak": (4,), "part-05": (5,)}
    assert members(parse_changes(names, ["4="]))["part-04"] == (4,)


def test_joining_takes_name_and_colour_of_the_second() -> None:
    names = PartNames(4).rename(3, "head").recolour(3, "#3CB44B").hide(1).join(1, 3)
    part = names.find("head")
    assert (part.index, part.members, part.hex_colour, part.hidden) == (1, (1, 3), "#3cb44b", False)
    assert members(names.split(1)) == {"head": (1,), "part-02": (2,), "part-03": (3,), "part-04": (4,)}
    with pytest.raises(MPAEError, match="itself"):
        names.join(1, 3)


def test_parts_without_a_name_join_and_split() -> None:
    names = PartNames(4).join(1, 4)
    assert members(names)["part-04"] == (1, 4)
    assert members(names.split(4)) == members(PartNames(4))
    assert members(names.rename(1, "tail"))["tail"] == (1, 4)
    with pytest.raises(MPAEError, match="nothing to split"):
        names.split(2)


@pytest.mark.parametrize(("word", "sentence"), [
    ("9=head", "no part '9'"), ("0=head", "no part '0'"), ("3", "no change"), ("", "no change"), ("-", "no change"),
    ("3=part-04", "number of a part"), ("3=4", "number of a part"), ("3=Background", "no part; choose"),
    ("3=" + "x" * 41, "at most 40"), ("3=a\x07b", "printable"), ("3=#12", "no colour"), ("wing=head", "no part 'wing'"),
    ("3=TAIL", "clashes with 'tail'")])
def test_bad_changes_get_a_sentence(word: str, sentence: str) -> None:
    with pytest.raises(MPAEError, match=sentence):
        parse_changes(PartNames(8).rename(1, "tail"), [word])


def test_capitals_of_its_own_name_can_change() -> None:
    assert members(PartNames(2).rename(1, "head").rename(1, "Head"))["Head"] == (1,)


def test_the_file_is_read_back_and_undone(tmp_path: Path) -> None:
    first = PartNames.load(tmp_path, 4).rename(1, "tête").save(tmp_path)
    second = first.rename(2, "wing").recolour(2, "#010203").hide(3).save(tmp_path, expected=1)
    assert PartNames.load(tmp_path, 4) == second
    assert second.revision == 2
    back = second.undo().save(tmp_path)
    assert members(back)["tête"] == (1,)
    assert back.revision == 3  # an undo is a change too, that other windows are told of
    again = back.undo().save(tmp_path)
    assert members(again) == members(PartNames(4))
    with pytest.raises(MPAEError, match="no change"):
        again.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["parts.yaml"]


def test_saving_nothing_new_adds_nothing_to_undo(tmp_path: Path) -> None:
    names = PartNames(4).rename(1, "head").save(tmp_path)
    assert names.rename(1, "head").save(tmp_path).before == names.before


def test_the_later_of_two_editors_is_told(tmp_path: Path) -> None:
    mine = theirs = PartNames.load(tmp_path, 4)
    theirs.rename(1, "wing").save(tmp_path, expected=theirs.revision)
    with pytest.raises(ChangedMeanwhile, match="meanwhile"):
        mine.rename(1, "head").save(tmp_path, expected=mine.revision)
    assert members(PartNames.load(tmp_path, 4))["wing"] == (1,)


def test_undo_does_not_grow_without_bound(tmp_path: Path) -> None:
    names = PartNames(2)
    for number in range(MAX_UNDO + 5):
        names = names.rename(1, f"name {number}x").save(tmp_path)
    assert len(PartNames.load(tmp_path, 2).before) == MAX_UNDO


@pytest.mark.parametrize("text", [
    "format: 9\nparts: {}", "parts: {1: {name: a}}", "format: 1\nparts: [1]", "format: 1\nparts: {7: {name: a}}",
    "format: 1\nparts: {1: {name: 3}}", "format: 1\nparts: {1: {name: ' '}}", "format: 1\nparts: {1: {colour: red}}",
    "format: 1\nparts: {1: {hidden: maybe}}", "format: 1\nrevision: x", "format: 1\nbefore: [3]",
    "format: 1\nbefore: 3", "format: 1\nparts: {1: {size: 3}}", "- 1", "format: [", "format: 1\nparts: {1: name}"])
def test_a_damaged_file_is_a_sentence_and_stays_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "parts.yaml"
    file.write_text(text)
    with pytest.raises(MPAEError, match=r"parts\.yaml"):
        PartNames.load(tmp_path, 4)
    with pytest.raises(MPAEError, match=r"parts\.yaml"):
        PartNames(4).rename(1, "head").save(tmp_path)
    assert file.read_text() == text


def test_a_full_disk_keeps_the_last_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PartNames(4).rename(1, "head").save(tmp_path)
    before = (tmp_path / "parts.yaml").read_bytes()

    def full(self: Path, *_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(MPAEError, match="disk is full"):
        PartNames.load(tmp_path, 4).rename(1, "wing").save(tmp_path)
    assert (tmp_path / "parts.yaml").read_bytes() == before


def test_predictions_have_the_names(tmp_path: Path, photos: Path) -> None:
    run = make_tiny_run(tmp_path / "run")
    model = load_model(run.folder)
    plain = next(PartPredictor(model).predict([FolderImages(photos)[0]]))
    parts = [part.index for part in plain.present]
    names = PartNames(3).rename(1, "head").join(2, 1).hide(3)
    named = next(PartPredictor(model, names=names).predict([FolderImages(photos)[0]]))
    assert [part.name for part in named.present] == [names.name(index) for index in parts]
    assert np.array_equal(named["head"], np.isin(plain.mask, (1, 2)))
    assert np.array_equal(named[3], plain.mask == 3)
    with pytest.raises(MPAEError, match="no part 'wing'"):
        named["wing"]
    write = ["masks", "coco", "parts"]
    predict_folder(model, FolderImages(photos), tmp_path / "out", run="x", write=write, names=names)
    coco = json.loads((tmp_path / "out" / "coco.json").read_text())
    assert [category["name"] for category in coco["categories"]] == ["head"]
    for annotation in coco["annotations"]:
        rle = annotation["segmentation"] | {"counts": annotation["segmentation"]["counts"].encode()}
        inside = decode(rle).astype(bool)
        assert annotation["area"] == inside.sum()
        columns, rows = np.flatnonzero(inside.any(0)), np.flatnonzero(inside.any(1))
        x, y, width, height = annotation["bbox"]
        assert (x, y, x + width, y + height) == (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    with pytest.raises(MPAEError, match="names ="):  # other names: not gone on with
        predict_folder(model, FolderImages(photos), tmp_path / "out", run="x", write=write,
                       names=names.rename(1, "beak"))
