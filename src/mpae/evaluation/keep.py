"""The files of an evaluation: figures as JSON, a row for every image, parts against annotated parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mpae.drawing.contingency import draw_contingency
from mpae.evaluation.result import Evaluation
from mpae.files import write_atomically, write_text
from mpae.prediction.writers import write_skipped
from mpae.run import Run


def write_figures(file: Path, record: dict[str, Any], result: Evaluation) -> None:
    """What was evaluated and all figures, as JSON."""
    write_text(file, json.dumps(record | result.to_json(), indent=2) + "\n")


def keep_evaluation(run: Run, record: dict[str, Any], result: Evaluation) -> Path:
    """The figures go to metrics.jsonl; all there is to know goes to evaluations/NAME-SPLIT, which is returned."""
    folder = run.evaluation(record["evaluation"], record["split"], record["image_size"])
    result.write_rows(folder / "images.csv")
    write_figures(folder / "figures.json", record, result)
    write_skipped(folder / "skipped.txt", result.skipped)
    if result.contingency is not None:
        picture = draw_contingency(result.contingency)
        write_atomically(folder / "contingency.png", lambda path: picture.save(path, format="PNG"))
    run.log(record | result.figures)
    return folder
