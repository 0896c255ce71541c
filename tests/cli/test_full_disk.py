"""Whatever finds no space left ends in a sentence that names the file, wherever that happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from forked import Forked
from miniatures import write_cub
from pictures import draw_photo
from tiny_run import make_tiny_run


@pytest.mark.parametrize(("event", "pattern", "named"), [
    ("mkdir", "*/evaluations*", "images.csv"),
    ("open", "*/.images.csv.*", "images.csv"),
    ("open", "*/.figures.json.*", "figures.json"),
    ("open", "*/.contingency.png.*", "contingency.png"),
    ("open", "*/metrics.jsonl", "metrics.jsonl"),
    ("open", "*/.all.json.*", "all.json"),
])
def test_evaluate(event: str, pattern: str, named: str, forked: Forked, tmp_path: Path) -> None:
    run = make_tiny_run(tmp_path / "run")
    write_cub(tmp_path / "cub")
    done = forked.run("evaluate", run, "--dataset", "cub", "--root", tmp_path / "cub", "--workers", "0",
                      "--json", tmp_path / "all.json", prepare=("traps", "fill_disk", event, pattern))
    assert done.returncode == 2
    assert done.output.count("The disk is full: '") == 1
    assert re.search(rf"{re.escape(named)}' could not be written; .*free some space", " ".join(done.output.split()))
    assert "Traceback" not in done.output
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(("event", "pattern"), [
    ("mkdir", "*/.report.part*"), ("open", "*/images/row-00-parts.jpg"), ("open", "*/.index.html.*")])
def test_report(event: str, pattern: str, forked: Forked, tmp_path: Path) -> None:
    run = make_tiny_run(tmp_path / "run")
    (tmp_path / "photos").mkdir()
    draw_photo(0).save(tmp_path / "photos" / "a.jpg")
    done = forked.run("report", run, "--images", tmp_path / "photos",
                      prepare=("traps", "fill_disk", event, pattern))
    assert done.returncode == 2
    assert "The disk is full: '" in done.output
    assert "Traceback" not in done.output
    assert not list((tmp_path / "run").glob(".report*"))
