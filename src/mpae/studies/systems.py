"""The rows of `rows: methods`: every system there is, with the paper's figures for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mpae.baselines import BASELINES, METHODS, Baseline, Method
from mpae.files import read_yaml

PAPER = Path(__file__).with_name("paper")  # the studies of the package
OURS = "mpae"
TABLES = ("table1", "table2", "table3")  # where the paper compares systems


def is_fitted(method: str) -> bool:
    """Whether a system is fitted when it is evaluated, and leaves no weights behind."""
    return method in BASELINES


def known_methods() -> list[str]:
    return [*METHODS, *BASELINES]


def method_rows() -> list[dict[str, Any]]:
    """One row for each method; its figures are those of the paper's tables of systems."""
    systems: list[Method | Baseline] = [*BASELINES.values(), *METHODS.values()]
    rows: dict[str, dict[str, Any]] = {
        method.name: {"name": method.title, "method": method.name, "label": method.supervision, "paper": {},
                      "reference": method.name == OURS}
        for method in systems}
    for table in TABLES:
        for printed in read_yaml(PAPER / f"{table}.yaml")["rows"]:
            row = rows.get(printed.get("method", OURS))
            if row is not None:
                row["paper"] |= printed["paper"]
                row |= {"note": printed["note"]} if "note" in printed else {}
    return list(rows.values())
