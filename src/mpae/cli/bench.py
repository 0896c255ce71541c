"""`mpae bench`: speed and memory as ratios to a plain reading of the paper, in one run."""

from __future__ import annotations

import importlib
import json as json_format
import sys
from pathlib import Path
from types import ModuleType

from rich.console import Console

import mpae
from mpae.errors import MPAEError


def bench_verb(out: Path | None, json: Path | None, quick: bool, only: str, console: Console) -> None:
    """Measure, show the table, and keep it in files where asked.

    Args:
        out: a text file for the table.
        json: a file for every figure, raw times included.
        quick: tiny models, seconds: shows that the benchmarks run, not how fast anything is.
        only: what the names of measurements must have in them.
    """
    bench = load_benchmarks("bench")
    for file in (out, json):
        if file is not None and not file.parent.is_dir():
            raise MPAEError(f"There is no folder '{file.parent}' for '{file.name}'; make it first.")
    result = bench.run(quick, only, lambda task: console.print(f"measuring: {task}", style="dim"))
    table = bench.table(result)
    console.print(table)
    if out is not None:
        with out.open("w", encoding="utf-8") as stream:
            Console(file=stream, width=140).print(table)
    if json is not None:
        json.write_text(json_format.dumps(result, indent=2) + "\n", encoding="utf-8")


def load_benchmarks(name: str) -> ModuleType:
    """A module of the source tree's `benchmarks`, which are not part of the installed package."""
    root = Path(mpae.__file__).resolve().parents[2]
    if not (root / "benchmarks" / "bench.py").is_file():
        raise MPAEError("The benchmarks come with the source tree and not with the installed package; "
                        "clone the repository and install it with `pip install -e .`.")
    if str(root) not in sys.path:
        sys.path.append(str(root))  # also for the fresh processes in which memory is measured
    return importlib.import_module(f"benchmarks.{name}")
