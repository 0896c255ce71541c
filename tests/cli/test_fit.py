from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from forked import Child, Forked
from miniatures import edit_line, write_cub
from pictures import draw_photo
from run_files import files_in, records_of, same_weights
from safetensors.torch import load_file

from mpae.run import Run

Command = Callable[..., subprocess.CompletedProcess]


def logged_steps(run: Path) -> int:
    file = run / "metrics.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


def wait_until(reached: Callable[[], bool], child: Child, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, child.output.read_text()
        time.sleep(0.02)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, mpae: Command, small: list[str]) -> Path:
    """A finished run of eight steps on twelve photos, one of them torn."""
    folder = tmp_path_factory.mktemp("trained")
    photos = folder / "photos"
    (photos / "more").mkdir(parents=True)
    for index in range(12):
        draw_photo(index).save(photos / ("more" if index % 3 else "") / f"{index}.jpg")
    (photos / "torn.jpg").write_bytes((photos / "0.jpg").read_bytes()[:400])
    done = mpae("fit", photos, "--out", folder / "run", *small, "--set", "training.max_steps=8",
                "--set", "training.preview_minutes=60")
    assert done.returncode == 0, done.stderr
    assert "1 images could not be read" in done.stderr
    assert "mpae predict" in done.stderr
    return folder


def test_leaves_the_run_folder_of_the_design(trained: Path) -> None:
    run = trained / "run"
    events = {name for name in files_in(run) if name.startswith("tensorboard/")}
    assert len(events) >= 1
    assert files_in(run) - events == {
        "config.yaml", "model.safetensors", "checkpoints/last.ckpt", "metrics.jsonl", "skipped.txt", "hierarchy.yaml",
        "previews/step-000000.png", "previews/step-000008.png"}  # at the start and at the end
    assert (run / "skipped.txt").read_text().startswith("torn.jpg\t")
    content = yaml.safe_load((run / "config.yaml").read_text())
    assert content["seed"] == 0
    assert content["settings"]["model"]["num_parts"] == 3
    records = records_of(run)
    assert [record["step"] for record in records] == list(range(1, 9))
    assert {"total", "restoration", "foreground", "background", "semantic", "variation", "entropy",
            "learning_rate", "minutes", "foreground_share", "parts_used"} <= set(records[0])
    assert not any(name.startswith("backbone") for name in load_file(run / "model.safetensors"))


def test_a_killed_run_goes_on_and_ends_with_identical_weights(
        trained: Path, forked: Forked, mpae: Command, small: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    child = forked.start("fit", trained / "photos", "--out", run, *small, "--set", "training.max_steps=8",
                         "--set", "training.checkpoint_minutes=0.0000001")
    wait_until(lambda: logged_steps(run) >= 3, child)
    child.signal(signal.SIGKILL)
    assert child.wait().returncode == -signal.SIGKILL
    assert not (run / "model.safetensors").exists()
    unfinished = mpae("predict", run, trained / "photos", "--out", tmp_path / "out")
    assert unfinished.returncode == 2
    assert "unfinished" in unfinished.stderr
    resumed = mpae("fit", "--resume", "--out", run)
    assert resumed.returncode == 0, resumed.stderr
    assert [record["step"] for record in records_of(run)] == list(range(1, 9))
    assert same_weights(trained / "run", run)


def test_ctrl_c_saves_and_says_how_to_go_on(
        trained: Path, forked: Forked, small: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    child = forked.start("fit", trained / "photos", "--out", run, *small, "--set", "training.max_steps=400")
    wait_until(lambda: logged_steps(run) >= 2, child)
    child.signal(signal.SIGINT)
    ended = child.wait(timeout=60)
    assert ended.returncode == 130
    assert f"mpae fit --resume --out {run}" in ended.output
    assert "Traceback" not in ended.output
    assert (run / "model.safetensors").exists()
    assert (run / "checkpoints" / "last.ckpt").exists()


def test_a_time_limit_stops_and_a_later_run_with_other_settings_is_refused(
        trained: Path, mpae: Command, small: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    stopped = mpae("fit", trained / "photos", "--out", run, *small, "--max-minutes", "0.0001")
    assert stopped.returncode == 0, stopped.stderr
    assert "Time is up after 1 steps" in stopped.stderr
    other = mpae("fit", "--resume", "--out", run, "--parts", "5")
    assert other.returncode == 2
    assert "model.num_parts was 3, now 5" in other.stderr
    taken = mpae("fit", trained / "photos", "--out", run, *small)
    assert taken.returncode == 2
    assert "holds a run already" in taken.stderr


def test_synthetic_needs_no_files(mpae: Command, small: list[str], tmp_path: Path) -> None:
    done = mpae("fit", "--dataset", "synthetic", "--out", tmp_path / "run", *small,
                "--set", "data.synthetic_images=8", "--epochs", "1")
    assert done.returncode == 0, done.stderr


def test_a_share_of_the_images_is_validated_after_each_epoch(forked: Forked, tiny: list[str], tmp_path: Path) -> None:
    ended = forked.run("fit", "--dataset", "synthetic", "--out", tmp_path / "run", *tiny,
                       "--set", "data.validation=0.5", "--set", "data.synthetic_images=8",
                       "--set", "training.max_steps=3")
    assert ended.returncode == 0, ended.output
    records = records_of(tmp_path / "run")
    assert [(record["step"], record.get("evaluation")) for record in records] == [
        (1, None), (2, None), (2, "validation"), (3, None), (3, "validation")]
    assert records[2]["images"] == 4
    assert "Step 2, validation: " in ended.output


def test_a_folder_smaller_than_a_batch_is_no_mistake(
        trained: Path, mpae: Command, small: list[str], tmp_path: Path) -> None:
    done = mpae("fit", trained / "photos", "--out", tmp_path / "run", *small, "--batch-size", "32",
                "--group-size", "8", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert "batch_size is now 8 and group_size 8" in done.stderr
    assert Run.open(tmp_path / "run").config().training.batch_size == 8


MISTAKES = {
    "no such folder": (["nowhere"], "No such folder"),
    "no images": (["empty"], "No images in 'empty'"),
    "one image": (["single"], "training needs at least 2"),
    "nothing readable": (["unreadable"], "can be read"),
    "K of zero": (["photos", "--parts", "0"], "model.num_parts is 0"),
    "K absurd": (["photos", "--parts", "100000"], "model.num_parts is 100000"),
    "image size": (["photos", "--image-size", "70"], "use 64 or 80"),
    "batch": (["photos", "--batch-size", "5"], "batch_size 5 is not a multiple of group_size 2; use 4 or 6"),
    "unknown settings": (["photos", "--set", "model.mask_ration=1", "--set", "lose.border=1"],
                         "did you mean 'model.mask_ratio'"),
    "unknown backbone": (["photos", "--backbone", "dinov9"], "dinov2-vitb14-reg"),
    "unknown dataset": (["--dataset", "cubs", "--root", "photos"], "did you mean 'cub'"),
    "not CUB": (["--dataset", "cub", "--root", "photos"], "No 'images.txt' in 'photos'; cub expects there: images/"),
    "CUB without a list": (["--dataset", "cub", "--root", "listless"], "No 'bounding_boxes.txt' in 'listless'"),
    "CUB without an image": (["--dataset", "cub", "--root", "imageless"], "(1 of 6 are absent)"),
    "CUB, half a line": (["--dataset", "cub", "--root", "torn"], "train_test_split.txt', line 5: 1 fields"),
    "no root": (["--dataset", "cub"], "'cub' needs --root DIR"),
    "nothing to resume": (["photos", "--resume"], "No run folder"),
    "preset": (["photos", "--preset", "phone"], "Unknown preset 'phone'"),
    "foreign folder": (["photos", "--out", "photos"], "is not a run folder"),
    "no flag": (["photos", "--partz", "3"], "No such option"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_gets_one_sentence_and_changes_nothing(
        case: str, mpae: Command, small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, count in {"empty": 0, "single": 1, "photos": 4}.items():
        Path(folder).mkdir()
        for index in range(count):
            draw_photo(index).save(f"{folder}/{index}.jpg")
    Path("unreadable").mkdir()
    Path("unreadable/a.jpg").write_bytes(b"")
    Path("unreadable/b.png").write_text("<html>")
    for folder in ("listless", "imageless", "torn"):
        copy = write_cub(Path(folder))
    Path("listless/bounding_boxes.txt").unlink()
    Path("imageless/images", copy.names("train")[2]).unlink()
    edit_line(Path("torn/train_test_split.txt"), 5, "5")
    before = files_in(tmp_path)
    words, expected = MISTAKES[case]
    out = [] if "--out" in words else ["--out", "run"]
    done = mpae("fit", *small, *words, *out)
    assert done.returncode == 2, done.stderr
    assert expected in done.stderr
    assert done.stderr.startswith("mpae: ")
    assert done.stderr.count("\n") == 1
    assert files_in(tmp_path) == before
