"""The rows of `rows: methods`: every system there is, with the paper's figures for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mpae.baselines import BASELINES
from mpae.files import read_yaml

PAPER = Path(__file__).with_name("paper")  # the studies of the package
OURS = "mpae"
TABLES = ("table1", "table2", "table3")  # where the paper compares systems


def known_methods() -> list[str]:
    return [OURS, *BASELINES]


def method_rows() -> list[dict[str, Any]]:
    """One row for each method; its figures are those of the paper's tables of systems."""
    rows: dict[str, dict[str, Any]] = {
        baseline.name: {"name": baseline.title, "method": baseline.name, "paper": {},
                        "label": "" if baseline.supervision == "none" else baseline.supervision}
        for baseline in BASELINES.values()}
    rows[OURS] = {"name": "MPAE", "reference": True, "paper": {}}
    for table in TABLES:
        for printed in read_yaml(PAPER / f"{table}.yaml")["rows"]:
            row = rows.get(printed.get("method", OURS))
            if row is not None:
                row["paper"] |= printed["paper"]
                row |= {"note": printed["note"]} if "note" in printed else {}
    return list(rows.values())
