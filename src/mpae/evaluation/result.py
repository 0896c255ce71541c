"""What an evaluation found: figures, the table behind them and a row for every image; and its files."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mpae.drawing.contingency import Contingency, draw_contingency
from mpae.files import write_atomically, write_skipped, write_text
from mpae.run import Run


@dataclass(frozen=True)
class Evaluation:
    """Figures are in percent but for `parts_per_image` and `images`, and None where the data allow none."""

    figures: dict[str, float | None]  # those of `metrics/registry.py`, and "images"
    contingency: Contingency | None  # None without keypoints and part masks
    frequency: list[float]  # (K,) share of images that show each part, in percent
    # One for every image, for the analysis of errors: number, name, width, height and the columns of the metrics.
    rows: list[dict[str, Any]] = field(repr=False)
    skipped: list[tuple[str, str]]  # name and reason of images that could not be read
    seconds: float
    model_seconds: float  # of them in the model's forward passes

    def with_names(self, names: Sequence[str]) -> Evaluation:
        """The same figures, with the K parts called as people call them."""
        if self.contingency is None:
            return self
        return replace(self, contingency=replace(self.contingency, parts=[*names, "background"]))

    def to_json(self) -> dict[str, Any]:
        """Plain data without the rows."""
        plain: dict[str, Any] = dict(self.figures)
        plain["part_frequency"] = [round(share, 4) for share in self.frequency]
        if self.contingency is not None:
            plain["contingency"] = {"targets": self.contingency.targets, "parts": self.contingency.parts,
                                    "table": self.contingency.table.tolist()}
        plain["skipped"] = [{"name": name, "reason": reason} for name, reason in self.skipped]
        plain["seconds"], plain["model_seconds"] = round(self.seconds, 3), round(self.model_seconds, 3)
        return plain

    def write_rows(self, path: Path) -> None:
        """One CSV line an image. The file appears when it is complete."""
        def write(temporary: Path) -> None:
            with temporary.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(self.rows[0])
                writer.writerows([_text(value) for value in row.values()] for row in self.rows)

        write_atomically(path, write)


def write_figures(file: Path, record: dict[str, Any], result: Evaluation) -> None:
    """What was evaluated and all figures, as JSON."""
    write_text(file, json.dumps(record | result.to_json(), indent=2) + "\n")


def keep_evaluation(run: Run, record: dict[str, Any], result: Evaluation) -> Path:
    """The figures go to metrics.jsonl; all there is to know goes to evaluations/NAME-SPLIT, which is returned."""
    folder = run.evaluation(record["evaluation"], record["split"], record["image_size"], record["outline"],
                            record["num_parts"] if record.get("joined_from") else None)
    result.write_rows(folder / "images.csv")
    write_figures(folder / "figures.json", record, result)
    write_skipped(folder / "skipped.txt", result.skipped)
    if result.contingency is not None:
        picture = draw_contingency(result.contingency)
        write_atomically(folder / "contingency.png", lambda path: picture.save(path, format="PNG"))
    run.log(record | result.figures)
    return folder


def final_evaluations(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each dataset, split, kind of outline and number of parts the one evaluation to quote: of the last weights,
    on most images, of most pixels."""
    last: dict[tuple[str, str | None], Any] = {}
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in reversed([record for record in records if "evaluation" in record]):
        where, weights = (record["evaluation"], record.get("split")), record.get("weights")
        if last.setdefault(where, weights) == weights:
            groups.setdefault((*where, record.get("outline", "patch"), record.get("num_parts")), []).append(record)
    return [max(group, key=lambda record: (record.get("images", 0), record.get("image_size", 0)))
            for group in reversed(groups.values())]


def title_of(record: dict[str, Any]) -> str:
    """What was evaluated, and how, where that is not as in the paper: 'cub test, pixel outlines'."""
    title = f"{record['evaluation']} {record.get('split', '')}".strip()
    joined = f", joined to {record.get('num_parts')} parts" if record.get("joined_from") else ""
    return title + joined + (", pixel outlines" if record.get("outline") == "pixel" else "")


def _text(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return round(value, 4) if isinstance(value, float) else value
