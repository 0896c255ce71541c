"""What the process of one run is asked to do, as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mpae.config import Config, from_run
from mpae.errors import MPAEError
from mpae.files import write_text
from mpae.studies.expand import PlannedRun, Request
from mpae.studies.folder import StudyFolder
from mpae.studies.study import Data, Study, Values
from mpae.studies.systems import OURS

TAKEN = 75  # exit code of a process that found its run in the hands of another ("temporary failure" of sysexits.h)


class Task(Data):
    folder: str  # of the run
    lock: str
    method: str
    settings: dict[str, Values]
    evaluation: dict[str, Any]  # what `wanted_evaluation` says
    nme: bool  # whether the regression of the NME is wanted
    shows: tuple[str, ...]  # pictures to draw

    def config(self) -> Config:
        return from_run(self.settings, "the task")

    def possible_shows(self) -> list[str]:
        """Systems other than MPAE restore nothing and have no part tokens."""
        return [show for show in self.shows if self.method == OURS or show in ("parts", "categories")]

    @classmethod
    def read(cls, file: Path) -> Task:
        try:
            return cls.model_validate(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise MPAEError(f"'{file}' is not the task of a study's run: {error}.") from None

    def write(self, file: Path) -> None:
        write_text(file, self.model_dump_json(indent=1) + "\n")


def make_task(folder: StudyFolder, study: Study, request: Request, planned: PlannedRun) -> Task:
    return Task(folder=str(folder.runs / planned.name), lock=str(folder.progress(planned.name, "lock")),
                method=planned.row.method, settings=planned.config.model_dump(mode="json"),
                evaluation=wanted_evaluation(planned, request), nme="nme" in study.figures,
                shows=wanted_pictures(study, planned))


def wanted_evaluation(planned: PlannedRun, request: Request) -> dict[str, Any]:
    """The evaluation of a run that belongs in the table, as `mpae evaluate` records it."""
    config = planned.config
    return {"evaluation": config.data.dataset, "split": request.split, "num_parts": config.model.num_parts,
            "image_size": request.image_size or config.data.image_size, "outline": request.outline,
            "limit": request.limit, "nme_images": request.nme_images}


def wanted_pictures(study: Study, planned: PlannedRun) -> tuple[str, ...]:
    """Pictures of the first seed alone."""
    if planned.seed:
        return ()
    return tuple(dict.fromkeys(strip.show for strip in study.pictures
                               if not strip.rows or planned.row.name in strip.rows))
