"""Losses that are no numbers and parts that collapse, in real training: told while it runs, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import Forked
from pictures import draw_photo
from run_files import records_of, same_weights

from mpae.run import Run


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers") / "photos"
    folder.mkdir()
    for index in range(12):
        draw_photo(index).save(folder / f"{index}.jpg")
    return folder


def test_a_loss_that_becomes_nan_is_named_and_the_last_good_checkpoint_goes_on(
        forked: Forked, photos: Path, tiny: list[str], tmp_path: Path) -> None:
    run, unbroken = tmp_path / "run", tmp_path / "unbroken"
    ended = forked.run("fit", photos, "--out", run, *tiny, prepare=("traps", "poison", "semantic", 4))
    assert ended.returncode == 2
    assert "mpae: Loss 'semantic' became nan at step 4; the last good checkpoint stays." in ended.output
    assert "new run with another --out and a lower training.learning_rate" in ended.output  # what to change
    assert "--resume goes on from the checkpoint with the settings as they are" in ended.output
    assert "Traceback" not in ended.output
    assert not Run(run).weights_file.exists()
    assert Run(run).load_checkpoint()["step"] == 3
    assert forked.run("fit", "--resume", "--out", run).returncode == 0
    assert forked.run("fit", photos, "--out", unbroken, *tiny).returncode == 0
    assert same_weights(run, unbroken)


def test_a_learning_rate_that_is_far_too_high_stops_training(
        forked: Forked, photos: Path, tiny: list[str], tmp_path: Path) -> None:
    """Nothing is made up here: the weights blow up in the first step."""
    ended = forked.run("fit", photos, "--out", tmp_path / "run", *tiny, "--set", "training.learning_rate=1e30")
    assert ended.returncode == 2
    assert "at step 2; the last good checkpoint stays" in ended.output
    weights = Run(tmp_path / "run").load_checkpoint()["model"]
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_a_collapse_is_told_while_training_runs(forked: Forked, photos: Path, tiny: list[str], tmp_path: Path) -> None:
    """Nothing asks for foreground, and the border prior asks for none."""
    ended = forked.run(
        "fit", photos, "--out", tmp_path / "run", *tiny, "--set", "loss.presence=0", "--set", "loss.border=50",
        "--set", "loss.initial_parts=0", "--set", "training.initial_parts=false",
        "--set", "training.learning_rate=0.02", "--set", "training.max_steps=60",
        "--set", "training.checkpoint_minutes=9", prepare=("traps", "impatient", 8))
    assert ended.returncode == 0, ended.output
    assert "no pixel belongs to a part for 8 steps in a row; the parts have collapsed. Try" in ended.output
    assert ended.output.count("collapsed") == 1
    assert ended.output.index("collapsed") < ended.output.index("step 60/60")
    assert records_of(tmp_path / "run")[-1]["foreground_share"] < 0.002
