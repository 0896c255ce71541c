"""The page and the tables of a study, made from run folders: what they say, and how they look in a browser."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pictures import draw_photo

from mpae.run import Run
from mpae.studies.expand import PlannedRun, Request, expand
from mpae.studies.folder import StudyFolder
from mpae.studies.page import write_page
from mpae.studies.study import Study, parse_study
from mpae.studies.tabulate import paper_place, tabulate, verdict
from mpae.studies.task import wanted_evaluation

STUDY = parse_study({
    "title": "Half <b> of it", "source": "Table 4", "conclusion": "All help.", "datasets": {"cub": [8]},
    "figures": ["nmi", "nme", "parts_per_image"],
    "pictures": [{"title": "The same images", "show": "parts"}, {"title": "Kinds", "show": "categories"}],
    "rows": [{"name": "full model", "reference": True, "paper": {"cub": {8: {"nmi": 60.0, "nme": 5.0}}}},
             {"name": "without L_f", "settings": {"loss.foreground": 0},
              "label": "masks", "paper": {"cub": {8: {"nmi": 10.0, "nme": 9.0}}}},
             {"name": "without L_s", "settings": {"loss.semantic": 0}, "paper": {"cub": {8: {"nmi": 70.0}}}},
             {"name": "without L_v", "settings": {"loss.variation": 0}},
             {"name": "Nobody et al.", "method": "nobody", "paper": {"cub": {8: {"nmi": 99.0}}}}]}, "x")
NMI = {"full model": (60.0, 62.0), "without L_f": (20.0, 22.0), "without L_s": (55.0, 57.0)}  # of two seeds
REQUEST = Request(seeds=2, roots={"cub": "/nowhere"}, limit=10)


def pretend(folder: StudyFolder, planned: PlannedRun, nmi: float, request: Request = REQUEST) -> Run:
    """The run folder of a run that is done."""
    run = Run.create(folder.runs / planned.name, planned.config, {})
    for step in range(1, 4):
        run.log({"step": step, "minutes": step / 2, "total": nmi / step, "foreground_share": 0.1 * step,
                 "parts_used": 3.0})
    run.log({"step": 3, "minutes": 1.5, "ended": "finished"} | ({"memory_gb": nmi / 20} if planned.seed == 0 else {}))
    run.log(wanted_evaluation(planned, request) | {
        "weights": None, "nmi": nmi, "nme": 100 / nmi, "parts_per_image": 3.25, "images": 10})
    pictures = folder.pictures(planned.name)
    pictures.mkdir()
    shows = ("image", "parts", "categories")
    for show in shows:
        draw_photo(len(show)).save(pictures / f"{show}-00.jpg")
    listed = {show: [{"file": f"{show}-00.jpg", "caption": "a&b" + "_long" * 20, "width": 96, "height": 80}] * 3
              for show in shows}
    (pictures / "pictures.json").write_text(json.dumps(listed))
    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    folder = StudyFolder(tmp_path_factory.mktemp("study") / "study")
    folder.begin("mine", STUDY, REQUEST)
    for planned in expand(STUDY, REQUEST):
        if planned.row.name in NMI:
            pretend(folder, planned, NMI[planned.row.name][planned.seed])
        elif planned.seed == 0:
            folder.note_failure(planned.name, "Loss 'total' became nan <i> at step 3.")
    write_page(folder, STUDY, REQUEST)
    return folder


def test_means_deviations_and_changes(folder: StudyFolder) -> None:
    table, = tabulate(folder, STUDY, REQUEST)
    rows = {row.row.name: row for row in table.rows}
    full, without_s = rows["full model"].cells["nmi"], rows["without L_s"].cells["nmi"]
    assert (full.mean, full.paper, full.difference) == (61.0, 60.0, 1.0)
    assert full.deviation == pytest.approx(2**0.5)
    assert full.best
    assert not full.paper_best  # 99 is somebody else's
    assert (without_s.change, without_s.paper_change, without_s.agreement) == (-5.0, 10.0, "other way")
    assert rows["without L_f"].cells["nmi"].agreement == "same way"
    assert rows["full model"].cells["nme"].best  # less is better
    assert not any(row.cells["parts_per_image"].best for row in table.rows)  # neither is
    assert rows["full model"].minutes == [1.5, 1.5]
    assert rows["without L_v"].failures == {0: "Loss 'total' became nan <i> at step 3."}
    assert "1 of 2 changes in NMI against 'full model' go the same way" in verdict(table, "nmi")


def test_a_change_smaller_than_the_deviations_says_nothing(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "study")
    nmi = {"full model": (50.0, 60.0), "without L_f": (49.0, 59.0)}
    for planned in expand(STUDY, REQUEST):
        if planned.row.name in nmi:
            pretend(folder, planned, nmi[planned.row.name][planned.seed])
    table, = tabulate(folder, STUDY, REQUEST)
    assert [row.cells["nmi"].agreement for row in table.rows][:2] == ["", "within the spread"]


def test_one_seed_tells_no_way(folder: StudyFolder) -> None:
    table, = tabulate(folder, STUDY, REQUEST.model_copy(update={"seeds": 1}))
    assert [row.cells["nmi"].change for row in table.rows][1:3] == [-40.0, -5.0]
    assert {row.cells["nmi"].agreement for row in table.rows} == {""}
    assert verdict(table, "nmi") == ""


def test_pixel_outlines_do_not_count(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "study")
    planned = expand(STUDY, REQUEST)[0]
    run = pretend(folder, planned, 60.0)
    run.log(wanted_evaluation(planned, REQUEST) | {"outline": "pixel", "weights": None, "nmi": 10.0, "nme": 1.0})
    table, = tabulate(folder, STUDY, REQUEST)
    assert table.rows[0].cells["nmi"].values == [60.0]
    table, = tabulate(folder, STUDY, REQUEST.model_copy(update={"outline": "pixel"}))
    assert table.rows[0].cells["nmi"].values == [10.0]


def test_figures_of_another_evaluation_or_study_do_not_count(folder: StudyFolder) -> None:
    for other in ({"limit": 20}, {"nme_images": 5}, {"image_size": 448}, {"settings": {"loss.border": 0.5}}):
        table, = tabulate(folder, STUDY, REQUEST.model_copy(update=other))
        assert all(not row.done for row in table.rows)


@pytest.mark.parametrize(("dataset", "parts", "from_"), [
    ("cub", 8, ("cub", 8)), ("cub", 4, ("cub", 8)), ("pets", 8, ("cub", 8)), ("pets", 4, ("cub", 8))])
def test_where_the_papers_figures_are_from(dataset: str, parts: int, from_: tuple[str, int]) -> None:
    from mpae.studies.expand import Group

    assert paper_place(STUDY, Group(dataset, parts)) == from_


def test_tables_as_text(folder: StudyFolder) -> None:
    markdown = (folder.folder / "table.md").read_text()
    assert markdown.count("| minutes | steps | memory, GB | runs |") == 1
    assert "| full model |  | **61.0 ± 1.4** |  | 60.00 | +1.0 |" in markdown
    assert "| without L_s |  | 56.0 ± 1.4 | −5.0 | 70.00 | −14.0 |" in markdown
    assert "| without L_f | masks | 21.0 ± 1.4 |" in markdown
    assert "| 1.5 | 3 | 3.0 | 2 |" in markdown  # of the full model, whose first seed held 3 GB
    assert "| Nobody et al. |  | – |  | **99.00** |" in markdown
    rows = list(csv.DictReader((folder.folder / "table.csv").open()))
    assert [row["row"] for row in rows] == [row.name for row in STUDY.rows]
    assert (rows[0]["nmi"], rows[0]["nmi_paper"], rows[0]["minutes"], rows[3]["nmi"]) == ("61", "60", "1.5", "")
    assert (rows[1]["learns_from"], rows[0]["steps"], rows[0]["memory_gb"]) == ("masks", "3", "3")
    assert float(rows[0]["nmi_deviation"]) == pytest.approx(2**0.5, abs=1e-4)


def test_the_page_says_everything_and_needs_nothing(folder: StudyFolder) -> None:
    page = folder.page.read_text()
    for text in ("Half &lt;b&gt; of it", "Table 4 of the paper", "All help.", "6 of 8 runs are done", "61.0 ± 1.4",
                 "paper 60.00", "difference +1.0", "other way", "not here", "became nan &lt;i&gt;", "<polyline",
                 "The same images", "a&amp;b_long", "<td>3.0</td>", "masks"):
        assert text in page
    assert page.count("data:image/jpeg;base64,") == 3 * (4 + 3)  # images, and parts and kinds of three rows
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_is_made_anew_from_the_run_folders(folder: StudyFolder) -> None:
    again, name, study, request = StudyFolder.open(folder.folder)
    assert (name, study, request) == ("mine", STUDY, REQUEST)
    before = folder.page.read_text()
    folder.page.unlink()
    assert write_page(again, study, request).read_text() == before


def test_a_folder_of_its_own(folder: StudyFolder, tmp_path: Path) -> None:
    from mpae.errors import MPAEError

    folder.check("mine")
    with pytest.raises(MPAEError, match="is the folder of study 'mine', not of 'table4'"):
        folder.check("table4")
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(MPAEError, match="is not the folder of a study"):
        StudyFolder(tmp_path).check("table4")


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
def test_opens_in_a_browser(folder: StudyFolder, browser: Any, width: int, scheme: str) -> None:
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("requestfailed", lambda request: complaints.append(request.url))
    page.goto(folder.page.resolve().as_uri())
    page.evaluate("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
    page.wait_for_function("[...document.images].every(image => image.complete)")
    assert complaints == []
    assert page.evaluate("[...document.images].filter(image => image.naturalWidth === 0).length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out


def test_an_empty_study_has_a_page_too(tmp_path: Path) -> None:
    study: Study = parse_study({"title": "x", "datasets": {"synthetic": [2]}, "rows": [{"name": "a"}]}, "x")
    page = write_page(StudyFolder(tmp_path / "study"), study, Request())
    assert "0 of 1 runs are done" in page.read_text()
