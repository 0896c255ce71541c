"""Run folders and evaluations of baselines as the page needs them: every figure comes from their files."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpae.baselines import BASELINES
from mpae.config import Config
from mpae.errors import MPAEError
from mpae.evaluation.result import Contingency
from mpae.metrics.registry import FIGURES
from mpae.run import Run

DATASET, SPLIT = "cub", "test"
NEEDED = {"images", "foreground_iou", "evaluation", "split", "image_size", "contingency"}


@dataclass(frozen=True)
class Row:
    """One image of the split; a figure that the evaluation did not make is NaN."""

    number: int  # its index in the split
    name: str
    iou: float
    object_share: float  # percent of the image that people marked
    foreground_share: float  # percent of the image that the parts cover
    touches_border: bool
    keypoints: int
    keypoints_on_background: int


@dataclass(frozen=True)
class Measured:
    """An evaluation: its figures as stored, the table behind them and a row for every image."""

    system: str  # mpae or the name of a baseline
    num_parts: int
    image_size: int  # side at which the backbone saw the images
    limit: int | None  # None: the whole split
    nme_images: int | None  # that the regression of the NME was fitted on; None: all of the training split
    figures: dict[str, float | None]
    frequency: list[float]  # percent of the images that show each part
    contingency: Contingency
    rows: list[Row]


@dataclass(frozen=True)
class Study:
    """One run folder."""

    name: str
    run: Run
    config: Config
    steps: int
    minutes: float
    evaluations: list[Measured]  # one for each size of the images, the largest first

    @property
    def measured(self) -> Measured:
        """The evaluation that its section of the page is about."""
        return self.evaluations[0]


def read_studies(folders: Sequence[Path]) -> list[Study]:
    """All runs, by K and name; those that were not evaluated are named together."""
    runs = [Run.open(folder) for folder in folders]
    names = [run.folder.resolve().name for run in runs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise MPAEError(f"Two runs are called '{twice[0]}'; the page needs a name of its own for each.")
    missing = [str(run) for run in runs if not _evaluations(run)]
    if missing:
        raise MPAEError(f"No evaluation on the {SPLIT} split of {DATASET} in {', '.join(missing)}; make it with "
                        f"`mpae evaluate {missing[0]} --dataset {DATASET} --root ROOT`.")
    studies = [_read_study(run, name) for run, name in zip(runs, names, strict=True)]
    return sorted(studies, key=lambda study: (study.measured.num_parts, study.name))


def _evaluations(run: Run) -> list[Path]:
    """Its evaluations with images of the size of training, and of others."""
    folder = run.evaluation(DATASET, SPLIT)
    return sorted(file.parent for file in folder.parent.glob(f"{folder.name}*/figures.json"))


def _read_study(run: Run, name: str) -> Study:
    evaluations = []
    for folder in _evaluations(run):
        content = _read_json(folder / "figures.json")
        if content.get("weights") != run.weights_digest():
            raise MPAEError(f"'{run}' was trained on after its evaluation; evaluate it again with "
                            f"`mpae evaluate {run} --dataset {DATASET} --root ROOT`.")
        evaluations.append(_measured(content, folder / "images.csv", str(folder)))
    evaluations.sort(key=lambda each: -each.image_size)
    trained = [record for record in run.records() if "total" in record]
    if not trained:
        raise MPAEError(f"'{run.metrics_file}' has no step of training; the page needs minutes and steps.")
    return Study(name, run, run.config(), trained[-1]["step"], trained[-1]["minutes"], evaluations)


def read_baseline(file: Path) -> Measured:
    """What `mpae evaluate --baseline NAME --json FILE` wrote: FILE, and its rows beside it."""
    content = _read_json(file)
    if content.get("system", "mpae") == "mpae" or (content["evaluation"], content["split"]) != (DATASET, SPLIT):
        raise MPAEError(f"'{file}' is no evaluation of a baseline on the {SPLIT} split of {DATASET}; make it with "
                        f"`mpae evaluate --baseline {next(iter(BASELINES))} --parts K --dataset {DATASET} --root ROOT "
                        f"--json {file}`.")
    return _measured(content, file.with_suffix(".csv"), str(file))


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MPAEError(f"Cannot read '{file}' ({getattr(error, 'strerror', None) or error}); expected the JSON "
                        "of `mpae evaluate`.") from None
    if not isinstance(content, dict) or not content.keys() >= NEEDED:
        raise MPAEError(f"'{file}' is not the JSON of `mpae evaluate`.")
    return content


def _measured(content: dict[str, Any], rows: Path, source: str) -> Measured:
    figures = {name: content.get(name) for name in (*(figure.name for figure in FIGURES), "images")}
    if figures["foreground_iou"] is None:
        raise MPAEError(f"'{source}' has no foreground IoU, without which no figure is quoted; put the dataset's "
                        "segmentations/ in its place and evaluate again.")
    table = content["contingency"]
    return Measured(content["system"], content["num_parts"], content["image_size"], content["limit"],
                    content.get("nme_images"), figures, content["part_frequency"],
                    Contingency(np.array(table["table"]), table["targets"], table["parts"]), _read_rows(rows))


def _read_rows(file: Path) -> list[Row]:
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            return [Row(int(row["number"]), row["name"], _number(row["foreground_iou"]), _number(row["object_share"]),
                        _number(row["foreground_share"]), row["touches_border"] == "1", int(row["keypoints"]),
                        int(row["keypoints_on_background"])) for row in csv.DictReader(stream)]
    except (OSError, KeyError, ValueError) as error:
        raise MPAEError(f"'{file}' does not hold the rows of an evaluation ({error!r}); evaluate again.") from None


def _number(text: str) -> float:
    return float(text) if text else math.nan
