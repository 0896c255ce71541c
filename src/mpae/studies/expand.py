"""From a study to its runs: `expand`, a pure function.

Settings of a run, weakest first: defaults < preset < the preset's values for the dataset < the study's own < --set and
--max-minutes < the row's. A run is known by its settings: rows with the same settings share one run, and a run that is
there already is found again.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import Field

from mpae.config import Config, ModelSettings, differences, resolve
from mpae.data.catalogue import find_dataset
from mpae.errors import MPAEError
from mpae.studies.study import Data, Row, Study, Values
from mpae.studies.systems import OURS, is_fitted, known_methods

# Settings that say where and how fast, not what is trained.
ELSEWHERE = {"data.root", "data.workers", "cache.folder", "cache.limit_gb", "training.accelerator",
             "training.checkpoint_minutes", "training.preview_minutes"}
# Settings that have a flag of `mpae study`.
FLAGS = {"data.dataset": "--dataset", "data.root": "--root", "model.num_parts": "--parts", "training.seed": "--seeds",
         "training.max_minutes": "--max-minutes"}


class Request(Data):
    """What was asked for, beside the study: kept in the study's folder."""

    dataset: str | None = None  # all of the study's, if none is named
    roots: dict[str, str] = Field(default_factory=dict)  # the folder of each dataset
    preset: str = "laptop"
    parts: tuple[int, ...] = ()  # the study's, if none is given
    seeds: int = 1
    max_minutes: float | None = None  # of each run
    settings: Values = Field(default_factory=dict)  # of --set
    split: str = "test"  # on which runs are evaluated
    limit: int | None = None  # images of an evaluation
    nme_images: int | None = None  # training images that the regression of the NME is fitted on, if not `limit`
    image_size: int | None = None  # of an evaluation
    outline: str = "patch"  # of its masks


class Group(NamedTuple):
    """A part of the table: all rows on one dataset with one number of parts."""

    dataset: str
    parts: int

    @property
    def title(self) -> str:
        return f"{self.dataset}, K = {self.parts}"


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study; `name` is that of its folder."""

    row: Row
    group: Group
    seed: int
    config: Config
    name: str

    @property
    def title(self) -> str:
        return f"{self.row.name}, {self.group.title}, seed {self.seed}"


def expand(study: Study, request: Request) -> list[PlannedRun]:
    """Every run of a study: group by group, row by row, seed by seed. Rows of methods that are not here have none."""
    check_settings(study, request)
    planned = [plan_run(study, request, group, row, seed)
               for group in groups_of(study, request)
               for row in rows_of(study, request, group)
               if row.method in known_methods()
               for seed in range(request.seeds)]
    if not planned:
        raise MPAEError(f"No row of this study is for dataset '{request.dataset}' and a method that is here; "
                        f"its datasets are: {', '.join(study.datasets)}.")
    return planned


def distinct(planned: list[PlannedRun]) -> list[PlannedRun]:
    """Each run once, under the first row that has it."""
    return list({run.name: run for run in reversed(planned)}.values())[::-1]


def groups_of(study: Study, request: Request) -> list[Group]:
    """Dataset by dataset, K by K; on a dataset that is not the study's, K is that of --parts, or the default."""
    datasets = [request.dataset] if request.dataset else list(study.datasets)
    if not datasets:
        raise MPAEError("The study names no dataset; add --dataset NAME --root DIR.")
    return [Group(find_dataset(name).name, parts) for name in datasets
            for parts in request.parts or study.datasets.get(name) or (ModelSettings().num_parts,)]


def rows_of(study: Study, request: Request, group: Group) -> list[Row]:
    largest = max(other.parts for other in groups_of(study, request) if other.dataset == group.dataset)
    return [row for row in study.rows
            if (not row.only_on or group.dataset in row.only_on) and (row.parts == "all" or group.parts == largest)]


def plan_run(study: Study, request: Request, group: Group, row: Row, seed: int) -> PlannedRun:
    where: Values = {"data.dataset": group.dataset, "data.root": request.roots.get(group.dataset),
                     "model.num_parts": group.parts, "training.seed": seed}
    base = where | study.settings | request.settings
    if request.max_minutes is not None:
        base["training.max_minutes"] = request.max_minutes
    changes = row.settings if is_fitted(row.method) else row.settings | {"model.method": row.method}
    try:
        plain, config = resolve(request.preset, None, where), resolve_whole_groups(request.preset, base, changes)
    except MPAEError as error:
        raise MPAEError(f"Row '{row.name}' on {group.title}: {error}") from None
    return PlannedRun(row, group, seed, config, run_name(row.method, plain, config))


def resolve_whole_groups(preset: str, base: Values, changes: Values) -> Config:
    """The settings of a row. A batch holds whole groups: for a larger group it grows, visibly, to the next multiple."""
    group = changes.get("training.group_size")
    if not isinstance(group, int) or "training.batch_size" in changes:
        return resolve(preset, None, base | changes)
    batch = resolve(preset, None, base).training.batch_size
    return resolve(preset, None, base | changes | {"training.batch_size": -(-batch // max(group, 1)) * group})


def run_name(method: str, plain: Config, config: Config) -> str:
    """For the eye what differs from the plain run of the preset; then a digest of the method and every setting that is
    no default. Whichever study asks, the same settings have the same name."""
    what = [f"{name.rpartition('.')[2]}-{value}" for name, _, value in differences(plain, config)
            if name not in ELSEWHERE]
    what += [method] if is_fitted(method) else []
    words = "-".join([config.data.dataset, f"k{config.model.num_parts}", *(what or ["plain"]),
                      f"seed{config.training.seed}"])
    return f"{re.sub(r'[^a-zA-Z0-9.]+', '-', words)[:80].strip('-.')}-{digest(method, config)}"


def digest(method: str, config: Config) -> str:
    values = {name: value for name, _, value in differences(Config(), config) if name not in ELSEWHERE}
    known = json.dumps([method if is_fitted(method) else OURS, values], sort_keys=True)
    return hashlib.blake2b(known.encode(), digest_size=4).hexdigest()


def check_settings(study: Study, request: Request) -> None:
    """What a study sets itself cannot be set for all of its runs."""
    for name in request.settings:
        if name in FLAGS:
            raise MPAEError(f"A study sets {name} itself; use {FLAGS[name]} instead of --set.")
        if name in study.varied():
            raise MPAEError(f"This study varies {name}; leave it out of --set.")


def settings_of(run: PlannedRun) -> dict[str, Any]:
    """What the run changes against the preset's values, for --dry-run: the row's own settings."""
    changed = dict(run.row.settings)
    return changed | ({"method": run.row.method} if run.row.method != OURS else {})
