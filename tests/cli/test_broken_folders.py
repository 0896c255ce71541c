"""fit, predict and evaluate over hundreds of broken and odd files: every good one counts, every bad one is listed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from broken_images import Manifest, make_broken_images, whole_files
from forked import Ended, Forked
from miniatures import write_cub
from pictures import draw_photo
from PIL import Image
from tiny_run import make_tiny_run

from mpae.files import one_line
from mpae.run import Run


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return make_broken_images(tmp_path_factory.mktemp("broken") / "images")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_tiny_run(tmp_path_factory.mktemp("runs") / "tiny")


def listed(file: Path) -> dict[str, str]:
    """skipped.txt: names as they are written there, and why; one line each."""
    lines = file.read_text(encoding="utf-8").splitlines()
    found = dict(line.split("\t", 1) for line in lines)
    assert len(found) == len(lines)
    assert all(found.values())
    return found


def check_no_traceback(ended: Ended) -> None:
    assert ended.returncode == 0, ended.output
    assert "Traceback" not in ended.output
    assert "Error" not in ended.output


def test_fit_leaves_out_the_broken_and_lists_them(
        files: Manifest, forked: Forked, tiny: list[str], tmp_path: Path) -> None:
    ended = forked.run("fit", files.folder, "--out", tmp_path / "run", *tiny, "--batch-size", "8",
                       "--set", "training.max_steps=40", "--set", "training.checkpoint_minutes=9")
    check_no_traceback(ended)  # forty steps of eight: every good file, and those of an epoch twice
    assert set(listed(tmp_path / "run" / "skipped.txt")) == {one_line(name) for name in files.broken}
    assert Run.open(tmp_path / "run").content()["images"] == len(files.sound) + len(files.broken)
    assert f"{len(files.broken)} images could not be read" in ended.output


def test_predict_gives_every_good_image_its_result_and_every_bad_one_its_line(
        files: Manifest, run: Run, forked: Forked, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = forked.run("predict", run, files.folder, "--out", out, "--workers", "0")
    check_no_traceback(ended)
    assert set(listed(out / "skipped.txt")) == {one_line(name) for name in files.broken}
    records = {record["name"]: record for record in map(json.loads, (out / "parts.jsonl").read_text().splitlines())}
    assert set(records) == set(files.sound)
    for name, sound in files.sound.items():
        with Image.open(out / "masks" / f"{records[name]['file']}.png") as mask:
            assert mask.size == sound.size, name
    assert len({record["file"] for record in records.values()}) == len(records)  # none overwrote another
    assert f"{len(files.sound)} images in" in ended.output


def test_evaluate_counts_the_good_images_and_lists_the_bad_ones(run: Run, forked: Forked, tmp_path: Path) -> None:
    cub = write_cub(tmp_path / "cub", images=24)
    wholes = [*whole_files().values()]
    contents = [b"", b"<html>404</html>", *(content[: len(content) // 2] for content in wholes[:3])]
    bad = {split: cub.names(split)[:count] for split, count in (("test", 3), ("train", 2))}
    for name, content in zip([*bad["test"], *bad["train"]], contents, strict=True):
        (cub.root / "images" / name).write_bytes(content)
    ended = forked.run("evaluate", run, "--dataset", "cub", "--root", cub.root, "--json", tmp_path / "figures.json",
                       "--workers", "0")
    check_no_traceback(ended)
    figures, folder = json.loads((tmp_path / "figures.json").read_text()), run.folder / "evaluations" / "cub-test"
    assert figures["images"] == len(cub.names("test")) - 3
    assert figures["nme"] is not None
    assert [entry["name"] for entry in figures["skipped"]] == [*bad["test"], *bad["train"]]
    assert list(listed(folder / "skipped.txt")) == [*bad["test"], *bad["train"]]
    with (folder / "images.csv").open() as file:
        assert {row["name"] for row in csv.DictReader(file)} == set(cub.names("test")) - set(bad["test"])


def test_files_that_vanish_while_training_are_left_out_and_listed(
        forked: Forked, tiny: list[str], tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for index in range(12):
        draw_photo(index).save(photos / f"{index:02d}.jpg")
    gone = [str(photos / f"{index:02d}.jpg") for index in (1, 2, 3, 7)]
    ended = forked.run("fit", photos, "--out", tmp_path / "run", *tiny, "--set", "training.max_steps=40",
                       prepare=("traps", "lose", "open", "*/metrics.jsonl", 2, gone))
    check_no_traceback(ended)
    assert "Trained 40 steps" in ended.output
    assert set(listed(tmp_path / "run" / "skipped.txt")) == {Path(file).name for file in gone}
    resumed = forked.run("fit", "--resume", "--out", tmp_path / "run")
    assert resumed.returncode == 2
    assert "there were 12, now there are 8" in resumed.output
