"""Every baseline is listed once; flags, errors and tables follow from the list."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from mpae.baselines import BASELINES
from mpae.cli.app import app
from mpae.config import DataSettings
from mpae.errors import MPAEError
from mpae.evaluation.systems import baseline_model


@pytest.mark.parametrize("name", BASELINES)
def test_each_can_be_loaded_and_says_what_it_learns_from(name: str) -> None:
    baseline = BASELINES[name]
    assert baseline.name == name
    assert baseline.title
    assert baseline.supervision
    assert callable(baseline.load().fit)


def test_the_flag_and_the_error_list_them() -> None:
    shown = CliRunner().invoke(app, ["evaluate", "--help"], env={"COLUMNS": "200"}).output
    assert all(name in shown for name in BASELINES)
    with pytest.raises(MPAEError, match=rf"Unknown baseline 'x'; choose one of: {', '.join(BASELINES)}"):
        baseline_model("x", 4, DataSettings(), 0, lambda *_: None)


def test_the_list_loads_no_network_library() -> None:
    done = subprocess.run([sys.executable, "-c", "import mpae.baselines, sys; print('torch' in sys.modules)"],
                          capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
