from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_run import make_tiny_run

from mpae.cli.export import export
from mpae.errors import MPAEError
from mpae.run import Run

Command = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_tiny_run(tmp_path_factory.mktemp("export") / "run")


def test_writes_a_graph_that_other_programs_run(mpae: Command, run: Run, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra mpae[onnx] is not installed")
    file = tmp_path / "parts.onnx"
    done = mpae("export", run, file, "--int8")
    assert done.returncode == 0, done.stderr
    assert f"Wrote {file} (" in done.stdout
    assert "labels of mpae on 100.000% of pixels" in done.stdout
    assert "With int8, as written: on " in done.stdout
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["parts.onnx"]
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    assert session.run(None, {"images": np.zeros((2, 3, 64, 64), np.float32)})[0].shape == (2, 4, 4, 4)


MISTAKES = {
    "another format": ("run", "parts.pt", r"does not end in \.onnx"),
    "a folder": ("run", "folder.onnx", "is a folder"),
    "a file that is there": ("run", "there.onnx", "exists already; replace it with --overwrite"),
    "no run": ("nowhere", "parts.onnx", "No run folder"),
    "no place": ("run", "there.onnx/parts.onnx", "Cannot write"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_gets_one_sentence(run: Run, tmp_path: Path, case: str) -> None:
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "there.onnx").write_text("mine")
    folder, file, expected = MISTAKES[case]
    with pytest.raises(MPAEError, match=expected):
        export(run.folder if folder == "run" else tmp_path / folder, tmp_path / file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.onnx", "there.onnx"]
    assert (tmp_path / "there.onnx").read_text() == "mine"


def test_the_command_tells_it_on_stderr(mpae: Command, run: Run, tmp_path: Path) -> None:
    done = mpae("export", run, tmp_path / "parts.pt")
    assert done.returncode == 2
    assert done.stderr.startswith("mpae: '")
    assert done.stderr.count("\n") == 1
