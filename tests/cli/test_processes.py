"""Two processes on one CPU, through the real command."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pictures import draw_photo
from safetensors.torch import load_file

Command = Callable[..., subprocess.CompletedProcess]


def test_two_processes_learn_what_one_learns(fresh_mpae: Command, small: list[str], tmp_path: Path) -> None:
    """Batches, views and masks are those of one process, and gradients are averaged: so weights agree."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for index in range(12):
        draw_photo(index).save(photos / f"{index}.jpg")
    for devices in (1, 2):
        done = fresh_mpae("fit", photos, "--out", tmp_path / f"run-{devices}", *small, "--set", "training.max_steps=4",
                          "--devices", devices)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("Trained 4 steps") == 1  # said once, by the first process
    one, two = (load_file(tmp_path / f"run-{devices}" / "model.safetensors") for devices in (1, 2))
    assert one.keys() == two.keys()
    for name in one:
        assert one[name].numpy() == pytest.approx(two[name].numpy(), abs=2e-5), name


def test_a_share_that_is_no_multiple_of_the_group_is_refused(mpae: Command, small: list[str], tmp_path: Path) -> None:
    done = mpae("fit", tmp_path, "--out", tmp_path / "run", *small, "--batch-size", "6", "--devices", "2")
    assert done.returncode == 2
    assert "use 4 or 8" in done.stderr
