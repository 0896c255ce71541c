import json

import pytest

from mpae.errors import MPAEError
from mpae.prediction.folder import PredictionFolder

SETTINGS = {"run": "abc", "origin": "photos", "write": ["masks", "coco"], "flip": False}
NAMES = ["a.jpg", "b.jpg"]


def finished(folder):
    folder.prepare(SETTINGS, NAMES, overwrite=False)
    folder.finish(SETTINGS, NAMES, images=1, skipped=[("b.jpg", "empty")])


def test_a_new_folder_a_stopped_one_and_a_finished_one(tmp_path):
    folder = PredictionFolder(tmp_path / "deep" / "out")
    assert folder.prepare(SETTINGS, NAMES, overwrite=False) is None
    assert folder.prepare(SETTINGS, NAMES, overwrite=False) is None
    folder.finish(SETTINGS, NAMES, images=1, skipped=[("b.jpg", "empty")])
    found = folder.prepare(SETTINGS, NAMES, overwrite=False)
    assert found is not None
    assert (found["images"], found["skipped"]) == (1, [["b.jpg", "empty"]])


@pytest.mark.parametrize(("change", "sentence"), [
    ({"run": "xyz"}, "holds the predictions of another run"),
    ({"origin": "pictures"}, "holds predictions with origin = photos, not pictures"),
    ({"write": ["masks"]}, "holds predictions with write = masks,coco, not masks"),
    ({"flip": True}, "holds predictions with flip = False, not True"),
])
def test_other_predictions_are_refused_and_left_alone(tmp_path, change, sentence):
    folder = PredictionFolder(tmp_path)
    finished(folder)
    before = folder.manifest.read_bytes()
    with pytest.raises(MPAEError, match=f"{sentence}; choose another folder or overwrite it with --overwrite"):
        folder.prepare(SETTINGS | change, NAMES, overwrite=False)
    assert folder.manifest.read_bytes() == before
    assert folder.prepare(SETTINGS | change, NAMES, overwrite=True) is None


def test_finished_predictions_of_other_images_are_refused(tmp_path):
    folder = PredictionFolder(tmp_path)
    finished(folder)
    with pytest.raises(MPAEError, match="finished predictions of other images"):
        folder.prepare(SETTINGS, [*NAMES, "c.jpg"], overwrite=False)


def test_a_foreign_folder_is_refused_and_overwriting_deletes_nothing_of_it(tmp_path):
    folder = PredictionFolder(tmp_path)
    (tmp_path / "masks").mkdir()
    mine = [tmp_path / "thesis.tex", tmp_path / "masks" / "drawn by hand.png", tmp_path / "coco.json"]
    for path in mine:
        path.write_text("mine")
    with pytest.raises(MPAEError, match="is not empty and holds no predictions of mpae"):
        folder.prepare(SETTINGS, NAMES, overwrite=False)
    assert folder.prepare(SETTINGS, NAMES, overwrite=True) is None
    assert [path.read_text() for path in mine] == ["mine"] * 3


def test_overwriting_removes_all_that_was_predicted_before(tmp_path):
    folder = PredictionFolder(tmp_path)
    finished(folder)
    (folder.output("masks") / "sub").mkdir(parents=True)
    (folder.output("masks") / "sub" / "a.png").write_text("old")
    folder.output("coco").write_text("old")
    (tmp_path / "notes.txt").write_text("mine")
    folder.prepare(SETTINGS, NAMES, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "predictions.json"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"settings": 3}', "\x00"])
def test_a_foreign_manifest_is_refused(tmp_path, content):
    (tmp_path / "predictions.json").write_text(content)
    with pytest.raises(MPAEError, match=r"predictions.json' was not written by mpae"):
        PredictionFolder(tmp_path).prepare(SETTINGS, NAMES, overwrite=False)


def test_another_format_is_refused(tmp_path):
    folder = PredictionFolder(tmp_path)
    finished(folder)
    content = json.loads(folder.manifest.read_text())
    folder.manifest.write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(MPAEError, match="another version of mpae"):
        folder.prepare(SETTINGS, NAMES, overwrite=False)


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(MPAEError, match="is a file; give a folder"):
            PredictionFolder(out).prepare(SETTINGS, NAMES, overwrite=False)


def test_leftovers_of_a_kill_are_swept(tmp_path):
    folder = PredictionFolder(tmp_path)
    folder.prepare(SETTINGS, NAMES, overwrite=False)
    leftover = folder.output("masks") / "sub" / ".a.png.4711.part"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("half")
    folder.prepare(SETTINGS, NAMES, overwrite=False)
    assert not leftover.exists()
