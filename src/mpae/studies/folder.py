"""The folder of a study: the one place that knows its layout.

DIR/
  study.yaml          the study and what was asked for
  runs/NAME/          ordinary run folders; --runs puts them where several studies share them
  runs/.progress/     of each run: what it was asked to do, its log, its lock, why it failed
  index.html  table.md  table.csv
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from mpae.errors import MPAEError
from mpae.files import TEMPORARY, read_yaml, write_text
from mpae.run import Run
from mpae.studies.expand import Request
from mpae.studies.study import Study, parse_study

PATIENCE = 2.0  # seconds


class StudyFolder:
    def __init__(self, folder: Path, runs: Path | None = None):
        self.folder = folder
        self.runs = runs or folder / "runs"
        self.study_file = folder / "study.yaml"
        self.page = folder / "index.html"

    def __str__(self) -> str:
        return str(self.folder)

    # -- what the folder is for

    def check(self, name: str) -> None:
        """A folder is free, or it is this study's."""
        if not os.path.lexists(self.folder):
            return
        if not self.folder.is_dir() or not self.study_file.is_file():
            if self.folder.is_dir() and all(TEMPORARY.fullmatch(path.name) for path in self.folder.iterdir()):
                return
            raise MPAEError(f"'{self}' exists and is not the folder of a study; choose another --out.")
        before = self.content()["name"]
        if before != name:
            raise MPAEError(f"'{self}' is the folder of study '{before}', not of '{name}'; choose another --out.")

    def begin(self, name: str, study: Study, request: Request) -> None:
        content = {"name": name, "runs": str(self.runs.resolve()) if self.runs != self.folder / "runs" else None,
                   "request": request.model_dump(mode="json"), "study": study.model_dump(mode="json")}
        write_text(self.study_file, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))

    @classmethod
    def open(cls, folder: Path) -> tuple[StudyFolder, str, Study, Request]:
        """A folder that is there, with its study and what was asked for."""
        found = cls(folder)
        if not found.study_file.is_file():
            raise MPAEError(f"'{folder}' is not the folder of a study: it has no study.yaml.")
        content = found.content()
        found = cls(folder, Path(content["runs"]) if content.get("runs") else None)
        study = parse_study(content["study"], f"'{found.study_file}'")
        return found, content["name"], study, Request.model_validate(content["request"])

    def content(self) -> dict[str, Any]:
        content = read_yaml(self.study_file)
        if not isinstance(content.get("name"), str) or not {"request", "study"} <= set(content):
            raise MPAEError(f"'{self.study_file}' is not mpae's: expected name, request and study.")
        return content

    # -- its runs

    def run(self, name: str) -> Run:
        return Run(self.runs / name)

    def pictures(self, name: str) -> Path:
        return self.runs / name / "pictures"

    def progress(self, name: str, kind: str) -> Path:
        """A file beside a run: task (what to do), log, claim and lock (who has it), failed (why)."""
        return self.runs / ".progress" / f"{name}.{kind}"

    def is_taken(self, name: str) -> bool:
        """Whether a process works on a run."""
        with taken(self.progress(name, "lock")) as ours:
            return not ours

    def failure(self, name: str) -> str | None:
        """Why a run failed when it was last tried."""
        try:
            return str(json.loads(self.progress(name, "failed").read_text(encoding="utf-8"))["reason"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def note_failure(self, name: str, reason: str | None) -> None:
        file = self.progress(name, "failed")
        if reason is None:
            file.unlink(missing_ok=True)
        else:
            write_text(file, json.dumps({"reason": reason}) + "\n")


@contextmanager
def taken(file: Path, patience: bool = False) -> Iterator[bool]:
    """Take a run for this process alone; yields whether that was possible.

    The system releases the lock when its process ends, however it ends: the file of a dead process bars nobody.

    Args:
        patience: wait for a moment, for another process may only look whether the run is free.
    """
    lock = FileLock(file, timeout=PATIENCE if patience else 0)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        yield False
        return
    except (OSError, NotImplementedError) as error:
        raise MPAEError(f"Cannot lock '{file}' ({error}); on a file system without locks give each process its own "
                        "runs with --array I/N and its own folder with --runs.") from None
    try:
        yield True
    finally:
        lock.release()
