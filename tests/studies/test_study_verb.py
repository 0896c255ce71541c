"""`mpae study` as people call it: stopped and gone on with, two processes on one folder, mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "mpae.cli", "study", *map(str, words)]


def start(*words: object) -> subprocess.Popen:
    return subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            stdin=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"})


def steps_of(run: Path) -> list[int]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [record["step"] for record in records if "total" in record]


def test_stopped_gone_on_with_and_shared_by_two_processes(study_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = (study_file, "--preset", "laptop", "--limit", 4, "--out", out)
    stopped = start(*words)
    deadline = time.monotonic() + 240
    while not list(out.glob("runs/*/checkpoints/last.ckpt")) and time.monotonic() < deadline and stopped.poll() is None:
        time.sleep(0.02)
    stopped.send_signal(signal.SIGTERM)
    said, _ = stopped.communicate(timeout=240)
    assert stopped.returncode == 130, said
    assert "the same command goes on" in said
    assert (out / "index.html").is_file()

    both = [start(*words) for _ in range(2)]
    outputs = [each.communicate(timeout=240)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0], outputs
    runs = [path for path in (out / "runs").iterdir() if path.is_dir() and not path.name.startswith(".")]
    assert len(runs) == 2
    assert [steps_of(run) for run in runs] == [[1, 2, 3]] * 2  # each step once: nothing was done twice
    begun = [line for output in outputs for line in output.splitlines() if line.endswith(" ...")]
    assert len(begun) in (1, 2)  # the first run may have ended before it was stopped
    assert "2 of 2 runs are done" in (out / "index.html").read_text()


@pytest.mark.parametrize(("words", "said"), [
    (["tabel4"], "Unknown study 'tabel4'; did you mean 'table4'?"),
    (["table4"], "Dataset 'partimagenet-seg' needs --root DIR"),
    (["table4", "--dataset", "cub", "--root", "nowhere"], "nowhere"),
    (["table1", "--root", "x"], "write --root NAME=DIR for each"),
    (["table4", "--dataset", "synthetic", "--array", "5/4"], "expected I/N"),
    (["table4", "--dataset", "synthetic", "--parts", "many"], "--parts is 'many'"),
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
