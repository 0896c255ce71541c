"""`table.md` and `table.csv`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from statistics import fmean

from mpae.studies.study import Study
from mpae.studies.tabulate import Cell, Table, TableRow, verdict


def signed(value: float | None) -> str:
    """'+1.2', '−0.3', or nothing."""
    return "" if value is None else f"{value:+.1f}".replace("-", "−")


def mean_text(cell: Cell) -> str:
    """'61.2 ± 0.8', with one digit more for small numbers such as parts of an image."""
    if cell.mean is None:
        return "–"
    return f"{cell.mean:.1f}" + (f" ± {cell.deviation:.1f}" if cell.deviation is not None else "")


def costs(row: TableRow) -> dict[str, str]:
    """What a run of the row took, means over seeds: minutes of training, steps, gigabytes."""
    found: dict[str, tuple[Sequence[float], int]] = {
        "minutes": (row.minutes, 1), "steps": (row.steps, 0), "memory, GB": (row.memory, 1)}
    return {name: f"{fmean(values):.{digits}f}" if values else "–" for name, (values, digits) in found.items()}


def state_text(row: TableRow) -> str:
    """'2', '1 of 2', 'failed', 'not here' (a method of the paper that this package does not have)."""
    if not row.runs:
        return "not here"
    if row.done == len(row.runs):
        return str(row.done)
    return f"{row.done} of {len(row.runs)}" + (", failed" if row.failures else "")


def markdown(study: Study, tables: Sequence[Table]) -> str:
    """Every table, with the paper's figures and differences beside ours."""
    lines = [f"# {study.title}", ""]
    if study.conclusion:
        lines += [f"The paper ({study.source}): {study.conclusion}", ""]
    for table in tables:
        lines += [f"## {table.group.title}", ""]
        if table.paper and not table.same_task:
            lines += [f"The paper's figures are for another task: {table.paper.title}.", ""]
        lines += [*_rows(table), ""]
        lines += [sentence + "\n" for figure in table.figures if (sentence := verdict(table, figure.name))]
        lines += [f"- {row.row.name}, seed {seed}, failed: {reason}" for row in table.rows
                  for seed, reason in row.failures.items()]
    return "\n".join(lines).rstrip() + "\n"


def _rows(table: Table) -> list[str]:
    heading, printed = ["row"], [figure.name for figure in table.figures if in_paper(table, figure.name)]
    for figure in table.figures:
        heading += [figure.long_title, "change"]
        heading += ["paper", "difference" if table.same_task else "its change"] if figure.name in printed else []
    labelled = any(row.row.label for row in table.rows)
    heading += [*costs(table.rows[0]), "runs"]
    heading[1:1] = ["learns from"] if labelled else []
    words_first = 1 + labelled  # columns of words, before those of numbers
    lines = ["| " + " | ".join(heading) + " |",
             "|" + " --- |" * words_first + " ---: |" * (len(heading) - words_first)]
    for row in table.rows:
        words = [row.row.name.replace("|", "\\|"), *([row.row.label] if labelled else [])]
        for figure in table.figures:
            cell = row.cells[figure.name]
            words += [_bold(mean_text(cell), cell.best), signed(cell.change)]
            if figure.name in printed:
                words.append(_bold("" if cell.paper is None else f"{cell.paper:.2f}", cell.paper_best))
                words.append(signed(cell.difference if table.same_task else cell.paper_change))
        lines.append("| " + " | ".join([*words, *costs(row).values(), state_text(row)]) + " |")
    return lines


def in_paper(table: Table, name: str) -> bool:
    return any(row.cells[name].paper is not None for row in table.rows)


def _bold(text: str, bold: bool) -> str:
    return f"**{text}**" if bold and text else text


def csv_text(tables: Sequence[Table]) -> str:
    """One line a row of every table: means, deviations and the paper's figures as numbers."""
    names = list(dict.fromkeys(figure.name for table in tables for figure in table.figures))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["dataset", "parts", "row", "method", "learns_from", "runs", "minutes", "steps",
                     "memory_gb", *(f"{name}{kind}" for name in names for kind in ("", "_deviation", "_paper")),
                     "paper_dataset", "paper_parts"])
    for table in tables:
        place = table.paper or ("", "")
        for row in table.rows:
            cells = [row.cells.get(name, Cell([])) for name in names]
            numbers = [value for cell in cells for value in (cell.mean, cell.deviation, cell.paper)]
            means = (fmean(values) if values else None for values in (row.minutes, row.steps, row.memory))
            writer.writerow([*table.group, row.row.name, row.row.method, row.row.label, row.done,
                             *map(_number, means), *map(_number, numbers), *place])
    return out.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")
