"""Runs of a study without processes of their own: what is done, found again, gone on with, and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_study import tiny_study

from mpae.errors import MPAEError
from mpae.run import Run
from mpae.studies import work
from mpae.studies.conduct import Conductor, last_words
from mpae.studies.expand import PlannedRun, Request, distinct, expand
from mpae.studies.folder import StudyFolder, taken
from mpae.studies.pictures import listing, one_of_each
from mpae.studies.results import is_trained
from mpae.studies.study import Study, parse_study
from mpae.studies.task import TAKEN, Task, make_task

REQUEST = Request(limit=4)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tiny_study(tmp_path_factory.mktemp("weights"))


class Here(Conductor):
    """Does in this process what others do in one for each run; `tried` are the runs that were begun."""

    def __init__(self, folder: StudyFolder, study: Study, request: Request = REQUEST):
        self.said: list[str] = []
        self.tried: list[str] = []
        super().__init__(folder, study, request, self.said.append, lambda: None)

    def _start(self, name: str, slot: dict[str, str]) -> int:
        self.tried.append(name)
        try:
            return work.work(Task.read(self.folder.progress(name, "task")))
        except MPAEError as error:
            self.folder.progress(name, "log").write_text(f"mpae: {error}\n")
            return 2


def planned(study: Study, request: Request = REQUEST) -> list[PlannedRun]:
    return distinct(expand(study, request))


@pytest.fixture(scope="module")
def study(content: dict[str, Any]) -> Study:
    shows = [{"title": show, "show": show} for show in ("parts", "restored", "attention", "categories")]
    return parse_study(content | {"pictures": shows}, "x")


@pytest.fixture(scope="module")
def done(study: Study, tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    folder = StudyFolder(tmp_path_factory.mktemp("done") / "study")
    conductor = Here(folder, study)
    conductor.run(planned(study))
    assert conductor.failed == []
    assert len(conductor.tried) == 2
    return folder


def test_a_run_is_an_ordinary_run_folder(done: StudyFolder, study: Study) -> None:
    for each in planned(study):
        run = Run.open(done.runs / each.name)
        assert is_trained(run)
        assert run.weights_file.is_file()
        assert (run.evaluation("synthetic", "test") / "figures.json").is_file()
        assert run.config().model.mask_ratio == (0.9 if each.row.name == "plain" else 0.5)


def test_every_kind_of_picture_is_drawn(done: StudyFolder, study: Study) -> None:
    first = planned(study)[0]
    listed = listing(done.run(first.name))
    assert {show: len(pictures) for show, pictures in listed.items() if show != "attention"} == {
        "image": 8, "parts": 8, "restored": 8, "categories": 12}
    assert len(listed["attention"]) >= 3
    assert all((done.pictures(first.name) / each["file"]).is_file() for found in listed.values() for each in found)


def test_finished_runs_are_found_again(done: StudyFolder, study: Study) -> None:
    again = Here(done, study)
    again.run(planned(study))
    assert again.tried == []
    assert all("found in" in said for said in again.said)
    more = Here(done, study, REQUEST.model_copy(update={"limit": 5}))  # another evaluation of the same weights
    before = {each.name: done.run(each.name).weights_digest() for each in planned(study)}
    more.run(planned(study))
    assert sorted(more.tried) == sorted(before)
    assert {name: done.run(name).weights_digest() for name in before} == before


def test_a_stopped_run_is_gone_on_with(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mpae.training import loop

    folder = StudyFolder(tmp_path / "study")
    monkeypatch.setattr(loop, "reason_to_stop", lambda *_: "interrupted")
    stopped = Here(folder, study)
    with pytest.raises(KeyboardInterrupt):
        stopped.run(planned(study))
    assert len(stopped.tried) == 1  # the others are not begun
    run = folder.run(planned(study)[0].name)
    assert [record["step"] for record in run.records()] == [1]
    assert not is_trained(run)
    monkeypatch.undo()
    again = Here(folder, study)
    again.run(planned(study)[:1])
    assert [record["step"] for record in run.records() if "total" in record] == [1, 2, 3]
    assert is_trained(run)


def test_a_failing_run_is_told_and_the_others_go_on(content: dict[str, Any], tmp_path: Path) -> None:
    rows = [{"name": "broken", "settings": {"backbone.name": str(tmp_path / "no.safetensors")}}, {"name": "plain"}]
    study = parse_study(content | {"rows": rows}, "x")
    folder = StudyFolder(tmp_path / "study")
    conductor = Here(folder, study)
    conductor.run(planned(study))
    broken, plain = planned(study)
    assert conductor.failed == [broken.name]
    assert "does not exist" in str(folder.failure(broken.name))
    assert any("broken, synthetic, K = 2, seed 0 failed" in said for said in conductor.said)
    assert is_trained(folder.run(plain.name))
    folder.note_failure(broken.name, None)
    assert folder.failure(broken.name) is None


def test_a_run_of_another_process_is_left_to_it(study: Study, tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "study")
    first = planned(study)[0]
    task = make_task(folder, study, REQUEST, first)
    with taken(Path(task.lock)) as ours:
        assert ours
        assert folder.is_taken(first.name)
        conductor = Here(folder, study)
        conductor.run([first])
        assert (conductor.tried, conductor.elsewhere) == ([], 1)
        assert work.work(task) == TAKEN
    assert not folder.is_taken(first.name)
    assert not folder.run(first.name).exists()


def test_the_lock_of_a_dead_process_bars_nobody(study: Study, tmp_path: Path) -> None:
    import subprocess
    import sys

    folder = StudyFolder(tmp_path / "study")
    lock = folder.progress("one", "lock")
    lock.parent.mkdir(parents=True)
    code = ("import os, signal, sys, filelock; filelock.FileLock(sys.argv[1]).acquire(); "
            "os.kill(os.getpid(), signal.SIGKILL)")
    assert subprocess.run([sys.executable, "-c", code, str(lock)], check=False).returncode < 0
    assert lock.is_file()
    assert not folder.is_taken("one")


def test_systems_without_training_have_a_run_folder_too(content: dict[str, Any], tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    study = parse_study(content | {"rows": [{"name": "clusters", "method": "dino-kmeans"}]}, "x")
    folder = StudyFolder(tmp_path / "study")
    conductor = Here(folder, study)
    conductor.run(planned(study))
    assert conductor.failed == []
    run = folder.run(planned(study)[0].name)
    assert run.content()["method"] == "dino-kmeans"
    assert any(record.get("system") == "dino-kmeans" for record in run.records())


def test_one_image_of_each_category() -> None:
    names = [f"{kind:02d}/{number}.jpg" for kind in range(24) for number in range(3)]
    assert one_of_each(names) == [6 * place for place in range(12)]
    assert len(one_of_each([f"{number}.jpg" for number in range(30)])) == 12


def test_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_words(log, 2) == "it said nothing"
    log.write_text("step 1\nmpae: The disk is full.\n")
    assert last_words(log, 2) == "The disk is full."
    assert last_words(log, -9) == "it was ended by signal 9; its last line: The disk is full."


def test_a_task_is_a_file(study: Study, tmp_path: Path) -> None:
    task = make_task(StudyFolder(tmp_path), study, REQUEST, planned(study)[0])
    task.write(tmp_path / "task")
    assert Task.read(tmp_path / "task") == task
    (tmp_path / "task").write_text(json.dumps({"folder": 3}))
    with pytest.raises(MPAEError, match="is not the task"):
        Task.read(tmp_path / "task")
