"""`mpae study` as people call it: stopped and gone on with, two processes on one folder, mistakes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
import yaml
from forked import Forked
from tiny_study import tiny_study


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny_study(tmp_path) | {"pictures": []}))
    return file


def steps_of(run: Path) -> list[int]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [record["step"] for record in records if "total" in record]


def test_stopped_gone_on_with_and_shared_by_two_processes(forked: Forked, study_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("study", study_file, "--preset", "laptop", "--limit", 4, "--out", out)
    stopped = forked.start(*words)
    deadline = time.monotonic() + 240
    while not list(out.glob("runs/*/checkpoints/last.ckpt")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(stopped.pid, signal.SIGTERM)
    ended = stopped.wait(480)
    assert ended.returncode == 130, ended.output
    assert "the same command goes on" in ended.output
    assert (out / "index.html").is_file()

    both = [each.wait(480) for each in [forked.start(*words), forked.start(*words)]]
    assert [each.returncode for each in both] == [0, 0], both
    runs = [path for path in (out / "runs").iterdir() if not path.name.startswith(".")]
    assert len(runs) == 2
    assert [steps_of(run) for run in runs] == [[1, 2, 3]] * 2  # each step once: nothing was done twice
    begun = [line for each in both for line in each.output.splitlines() if line.endswith(" ...")]
    assert len(begun) == 2  # neither was done when the study was stopped
    assert "2 of 2 runs are done" in (out / "index.html").read_text()


@pytest.mark.parametrize(("words", "said"), [
    (["tabel4"], "Unknown study 'tabel4'; did you mean 'table4'?"),
    (["table4"], "Dataset 'partimagenet-seg' needs --root DIR"),
    (["table4", "--dataset", "cub", "--root", "nowhere"], "nowhere"),
    (["table1", "--root", "x"], "write --root NAME=DIR for each"),
    (["table4", "--dataset", "synthetic", "--array", "5/4"], "expected I/N"),
    (["table4", "--dataset", "synthetic", "--parts", "many"], "--parts is 'many'"),
    (["table4", "--dataset", "synthetic", "--split", "exam"], "choose one of: train, test"),
    (["--only-page", "--out", "nowhere"], "is not the folder of a study"),
])
def test_mistakes_are_told_before_any_time_is_spent(words: list[str], said: str, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from mpae.cli.app import app
    from mpae.errors import MPAEError

    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["study", *words])
    assert isinstance(result.exception, MPAEError)
    assert said in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_what_there_is_and_what_it_takes(study_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from mpae.cli.app import app

    monkeypatch.setenv("COLUMNS", "200")
    listed = CliRunner().invoke(app, ["study"])
    assert "table14" in listed.output
    assert "One loss off at a time" in listed.output
    words = ["study", str(study_file), "--seeds", "2", "--dry-run", "--out", str(tmp_path / "out")]
    plan = CliRunner().invoke(app, words)
    assert plan.exception is None
    assert "model.mask_ratio=0.5" in plan.output
    assert "4 runs, preset " in plan.output
    assert not (tmp_path / "out").exists()
