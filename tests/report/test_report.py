"""The report as a person gets it: files, words, and a real browser."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import draw_photo
from tiny_run import make_tiny_run

from mpae.data.sources.folder import FolderImages
from mpae.report.charts import bar_chart, heat_map, line_chart
from mpae.report.collect import curves
from mpae.report.write import chart_titles, write_report
from mpae.run import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("report")
    photos = folder / "photos <b>"
    photos.mkdir()
    for index in range(9):
        draw_photo(index, (120, 90) if index % 2 else (80, 120)).save(photos / f"a&b {index}.jpg")
    (photos / "torn.jpg").write_bytes(b"no image")
    run = make_tiny_run(folder / "run")
    for step in range(1, 6):
        run.log({"step": step, "epoch": step, "minutes": 0.1 * step, "total": 5.0 - step, "restoration": 1.0 / step})
    run.log({"evaluation": "cub", "split": "test", "nmi": 61.5, "ari": 40.25, "nme": None})
    other = make_tiny_run(folder / "other", parts=5)
    write_report(run, FolderImages(photos), against=other, limit=20)
    return run


class Pictures(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.others: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "img":
            self.found.append(values["src"] or "")
        self.others += [value or "" for name, value in attrs if name in ("src", "href") and tag != "img"]


def test_is_one_folder_that_needs_nothing_else(run: Run) -> None:
    page = run.report.read_text()
    pictures = Pictures()
    pictures.feed(page)
    assert len(pictures.found) > 20
    assert all((run.report.parent / name).is_file() for name in pictures.found)
    assert all(link.startswith(("images/", "data:")) for link in pictures.others)
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_says_what_was_found(run: Run) -> None:
    page = run.report.read_text()
    for text in ("parts in use", "parts per image", "NMI, cub test", "61.5", "part-01", "part-03", "other:",
                 "total loss", "Where the part tokens look"):
        assert text in page
    assert "a&amp;b 0.jpg" in page  # names are data, never HTML
    assert "a&b 0.jpg" not in page


def test_leaves_no_half_written_report(run: Run) -> None:
    assert [path.name for path in run.folder.glob(".report*")] == []


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
def test_opens_in_a_browser(run: Run, browser: Any, width: int, scheme: str, tmp_path: Path) -> None:
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("requestfailed", lambda request: complaints.append(request.url))
    page.goto(run.report.resolve().as_uri())
    page.evaluate("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
    page.wait_for_function("[...document.images].every(image => image.complete)")
    assert complaints == []
    assert page.evaluate("[...document.images].filter(image => image.naturalWidth === 0).length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out
    brightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)[0]")
    assert brightness > 200 if scheme == "light" else brightness < 60
    picture = tmp_path / "page.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 20_000


def test_charts_show_their_numbers() -> None:
    chart = line_chart([(1, 5.0), (2, 2.5), (3, 3.0)], "loss <x>")
    assert "5" in chart
    assert "2.5" in chart
    assert "&lt;x&gt;" in chart
    assert chart.count("<polyline") == 1
    flat = line_chart([(1, 2.0), (2, 2.0)], "flat")
    assert "nan" not in flat
    assert bar_chart([1, 0, 3], ["a", "b", "c"], "bars").count("<rect") == 3
    assert heat_map(np.eye(4), list("1234"), "table").count("<rect") == 16


def test_long_curves_are_thinned() -> None:
    chart = line_chart([(step, 1.0 / step) for step in range(1, 5000)], "long")
    assert chart.count(",") < 800


def test_curves_leave_evaluations_out() -> None:
    found = curves([{"step": 1, "total": 2.0, "epoch": 1}, {"step": 1, "evaluation": "validation", "nmi": 3}])
    assert found == {"total": [(1, 2.0)]}


def test_losses_of_earlier_versions_are_shown_under_their_names_of_today() -> None:
    assert curves([{"step": 1, "seed": 2.0}]) == {"initial_parts": [(1, 2.0)]}


def test_nothing_that_was_logged_is_left_out() -> None:
    titles = chart_titles(["learning_rate", "my_own_term", "border", "total"])
    assert titles == {"total": "total loss", "border": "border prior", "learning_rate": "learning rate",
                      "my_own_term": "my own term"}
    assert list(titles) == ["total", "border", "learning_rate", "my_own_term"]
