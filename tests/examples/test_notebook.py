"""The notebook runs from its first cell to its last: on a tiny run and photos made on the spot."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tiny_run import make_tiny_run

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "photos.ipynb"


def test_every_cell_runs(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)  # nothing of anybody's photos stays in it
    space: dict[str, Any] = {}
    shown = []
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        if "parameters" in cell["metadata"].get("tags", ()):
            space |= {"RUN": str(make_tiny_run(tmp_path / "run").folder), "PHOTOS": str(photos), "STEPS": 1}
        else:
            shown.append(run_cell("".join(cell["source"]), space))
    assert sum(isinstance(value, Image.Image) for value in shown) == 2
    told = capsys.readouterr().out
    assert "3 parts, 12 photos" in told
    assert told.count("is most like") == 12


def run_cell(code: str, space: dict[str, Any]) -> Any:
    """Run a cell; returns the value of a last line that is an expression, which a notebook shows."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), space) if last else None  # type: ignore[attr-defined]
