"""What all verbs have in common: one file each, light to list, one sentence for a mistake."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from pictures import draw_photo
from tiny_run import make_tiny_run

from mpae import cli
from mpae.cli.app import VERBS
from mpae.cli.evaluate import evaluate
from mpae.cli.export import export
from mpae.cli.predict import predict
from mpae.cli.report import report
from mpae.cli.show import show
from mpae.config import all_settings
from mpae.errors import MPAEError

Command = Callable[..., subprocess.CompletedProcess]
HELPERS = {"__init__", "__main__", "app", "console", "flags", "progress", "settings_flags"}


def test_a_verb_is_one_file_and_one_line_of_the_registry() -> None:
    files = {path.stem for path in Path(cli.__file__).parent.glob("*.py")}
    assert files - HELPERS == {name if (name in files) else f"{name}_" for name in VERBS}


def test_help_imports_nothing_heavy() -> None:
    code = ("import sys; from mpae.cli import app; "
            "print(sorted({'torch', 'PIL', 'sklearn', 'timm', 'lightning'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_lists_every_verb_and_each_explains_itself(fresh_mpae: Command, mpae: Command) -> None:
    listed = fresh_mpae("--help")
    assert listed.returncode == 0
    for name in VERBS:
        assert f" {name} " in listed.stdout
    for words in (("fit", "--batch-size", "laptop: 16"), ("predict", "--write", "masks,overlays,parts,coco,")):
        helped = mpae(words[0], "--help")
        assert helped.returncode == 0
        for word in words[1:]:
            assert word in helped.stdout


@pytest.mark.parametrize(("words", "expected"), [
    (("fitt",), "No such command 'fitt'"), (("fit", "--nothing"), "No such option"),
    (("evaluate",), "Missing option '--dataset'")])
def test_a_mistake_on_the_command_line_is_one_sentence(mpae: Command, words: tuple[str, ...], expected: str) -> None:
    done = mpae(*words)
    assert done.returncode == 2
    assert expected in done.stderr
    assert done.stderr.startswith("mpae: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("verb", [
    lambda run, photo: predict(run, photo, photo.parent / "out", device="cuda"),
    lambda run, photo: evaluate(run, dataset="synthetic", device="cuda"),
    lambda run, photo: report(run, device="cuda"),
    lambda run, photo: show(run, photo, device="cuda"),
    lambda run, photo: export(run, photo.with_suffix(".onnx"), device="cuda"),
], ids=["predict", "evaluate", "report", "show", "export"])
def test_a_device_that_is_not_there_is_told_before_anything_is_done(
        tmp_path: Path, verb: Callable[[Path, Path], None]) -> None:
    run = make_tiny_run(tmp_path / "run")
    draw_photo(0).save(tmp_path / "photo.jpg")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(MPAEError, match="There is no device 'cuda' here that torch can use; choose auto"):
        verb(run.folder, tmp_path / "photo.jpg")
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_an_unknown_device_and_int8_away_from_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MPAEError, match="Unknown device 'tpu'; choose one of: auto, cpu, cuda, mps"):
        predict(tmp_path, tmp_path, tmp_path / "out", device="tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(MPAEError, match="--int8 is arithmetic for CPUs"):
        predict(tmp_path, tmp_path, tmp_path / "out", int8=True, device="cuda")


def test_settings_say_where_each_value_is_from(mpae: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("training:\n  decay: 0.5\n")
    done = mpae("settings", "--preset", "paper", "--dataset", "cub", "--config", tmp_path / "mine.yaml",
                "--set", "model.num_parts=5")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line and not line.startswith(" ")}
    assert {name for name, _ in all_settings()} <= set(rows)
    for name, value, origin in (("data.image_size", "448", "preset paper on cub"),
                                ("backbone.name", "dinov2-vitb14-reg", "preset paper"),
                                ("model.num_parts", "5", "command line"), ("model.dim", "256", "default"),
                                ("training.decay", "0.5", " mine.yaml ")):
        assert f" {value} " in rows[name]
        assert origin in rows[name]
    wrong = mpae("settings", "--preset", "papr")
    assert wrong.returncode == 2
    assert "Unknown preset 'papr'" in wrong.stderr


def test_a_dry_run_says_what_would_be_trained_and_writes_nothing(mpae: Command, photos: Path, tmp_path: Path) -> None:
    words = ("fit", photos, "--out", tmp_path / "run", "--preset", "laptop", "--epochs", "3", "--dry-run")
    done = mpae(*words)
    assert done.returncode == 0, done.stderr
    assert "12 images found, 3 steps of 8 images on cpu" in done.stdout
    rows = {line.split()[0]: " ".join(line.split()) for line in done.stdout.splitlines() if line.split()}
    assert rows["training.epochs"].startswith("training.epochs 3 command line")
    assert rows["loss.initial_parts"].startswith("loss.initial_parts 4.0 preset laptop")
    assert "there are 12 images" in rows["training.batch_size"]
    assert "model.dim" not in rows
    assert not (tmp_path / "run").exists()
    make_tiny_run(tmp_path / "run")
    assert "holds a run already" in mpae(*words).stderr
