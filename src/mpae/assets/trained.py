"""Trained runs that come with the package: run folders for prediction alone, each with a card, README.md.

`scripts/pack_run.py` makes one from any run. They are read, never written to.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

RUNS = Path(__file__).parent / "runs"


def trained_runs() -> dict[str, Path]:
    """Name -> folder of each run that comes with the package, by name; empty where its assets are missing."""
    return {file.parent.name: file.parent for file in sorted(RUNS.glob("*/config.yaml"))}


def comes_with_mpae(folder: str | os.PathLike[str]) -> bool:
    """Whether this is the folder of such a run."""
    return Path(folder).parent == RUNS


def is_name(text: str) -> bool:
    """Whether a run is meant by its name alone: birds, and not runs/birds."""
    return bool(text) and text == os.path.basename(text) and text not in (".", "..")


def unknown_name(name: str) -> str:
    """What to say of a name that no run has that comes with the package: the end of a sentence."""
    known = list(trained_runs())
    if not known:
        return "and the runs that come with mpae are missing here: install it again"
    near = difflib.get_close_matches(name, known, n=1)
    listed = ", ".join(known) + (f"; did you mean {near[0]}?" if near else "")
    return f"and no run of that name comes with mpae ({listed})"
