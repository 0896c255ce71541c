"""`mpae bench`: speed and memory as ratios to a plain reading of the paper, in one run."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console

import mpae
from mpae.cli.console import results
from mpae.errors import MPAEError


def bench(
    out_file: Annotated[Path | None, typer.Option("--out", "-o", help="a text file for the table")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="a file for every figure")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="tiny models, seconds: only shows that it runs")] = False,
    only: Annotated[str, typer.Option(help="only measurements with this in their name, such as training")] = "",
) -> None:
    """Speed and memory as ratios to a plain reading of the paper, in one run."""
    benchmarks, console = load_benchmarks("bench"), results()
    for file in (out_file, json_file):
        if file is not None and not file.parent.is_dir():
            raise MPAEError(f"There is no folder '{file.parent}' for '{file.name}'; make it first.")
    result = benchmarks.run(quick, only, lambda task: console.print(f"measuring: {task}", style="dim"))
    table = benchmarks.table(result)
    console.print(table)
    if out_file is not None:
        with out_file.open("w", encoding="utf-8") as stream:
            Console(file=stream, width=140).print(table)
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def load_benchmarks(name: str) -> ModuleType:
    """A module of the source tree's `benchmarks`, which are not part of the installed package."""
    root = Path(mpae.__file__).resolve().parents[2]
    if not (root / "benchmarks" / "bench.py").is_file():
        raise MPAEError("The benchmarks come with the source tree and not with the installed package; "
                        "clone the repository and install it with `pip install -e .`.")
    if str(root) not in sys.path:
        sys.path.append(str(root))  # also for the fresh processes in which memory is measured
    return importlib.import_module(f"benchmarks.{name}")
