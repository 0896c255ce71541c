"""The table of a study from its run folders: means and deviations, the paper's figures, and how the two compare."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from mpae.metrics.registry import FIGURES, EvaluationFigure
from mpae.studies.expand import Group, PlannedRun, Request, expand, groups_of, rows_of
from mpae.studies.folder import StudyFolder
from mpae.studies.results import end_of, evaluation_of, is_trained, minutes_spent
from mpae.studies.study import ANY, Figures, Row, Study
from mpae.studies.task import wanted_evaluation


@dataclass
class Cell:
    """One figure of one row."""

    values: list[float]  # one for each seed
    paper: float | None = None
    best: bool = False
    paper_best: bool = False
    change: float | None = None  # against the reference row
    paper_change: float | None = None
    spread: float | None = None  # deviations of the two rows between which the change is; unknown with one seed

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper

    @property
    def agreement(self) -> str:
        """How a change compares with the paper's: 'same way', 'other way', or 'within the spread' of the seeds.

        Nothing with one seed, of which nobody knows what chance would do.
        """
        if self.change is None or not self.paper_change or self.spread is None:
            return ""
        if abs(self.change) <= self.spread:
            return "within the spread"
        return "same way" if self.change * self.paper_change > 0 else "other way"


@dataclass
class TableRow:
    row: Row
    runs: list[PlannedRun]
    minutes: list[float] = field(default_factory=list)  # of training, one for each seed that is done
    steps: list[int] = field(default_factory=list)  # likewise
    memory: list[float] = field(default_factory=list)  # gigabytes at most, for each seed where it was noted
    cells: dict[str, Cell] = field(default_factory=dict)  # by figure
    failures: dict[int, str] = field(default_factory=dict)  # seed -> why

    @property
    def done(self) -> int:
        return len(self.minutes)


@dataclass
class Table:
    """All rows on one dataset with one K."""

    group: Group
    rows: list[TableRow]
    figures: list[EvaluationFigure]  # those that the data allow
    paper: Group | None  # where the paper's figures are from

    @property
    def same_task(self) -> bool:
        """Whether the paper's figures are for the same dataset and K."""
        return self.paper == self.group

    @property
    def reference(self) -> str:
        names = [each.row.name for each in self.rows if each.row.reference]
        return " or ".join(names)


def tabulate(folder: StudyFolder, study: Study, request: Request) -> list[Table]:
    """One table for each dataset and K."""
    planned = expand(study, request)
    return [make_table(folder, study, request, group, [run for run in planned if run.group == group])
            for group in groups_of(study, request)]


def make_table(folder: StudyFolder, study: Study, request: Request, group: Group, planned: list[PlannedRun]) -> Table:
    place = paper_place(study, group)
    rows = []
    for row in rows_of(study, request, group):
        rows.append(read_row(folder, request, row, [run for run in planned if run.row.name == row.name],
                             "nme" in study.figures))
        printed = paper_figures(row, place)
        for name in study.figures:
            rows[-1].cells.setdefault(name, Cell([])).paper = printed.get(name)
    wanted = [figure for name in study.figures for figure in FIGURES if figure.name == name]
    figures = [figure for figure in wanted
               if any(row.cells[figure.name].values or row.cells[figure.name].paper is not None for row in rows)]
    for figure in figures:
        mark_best(rows, figure)
        compare(rows, figure.name)
    return Table(group, rows, figures, place)


def read_row(folder: StudyFolder, request: Request, row: Row, runs: list[PlannedRun], nme: bool) -> TableRow:
    """What the run folders of a row say."""
    found = TableRow(row, runs)
    for planned in runs:
        run = folder.run(planned.name)
        record = evaluation_of(run, wanted_evaluation(planned, request), nme) if is_trained(run) else None
        if record is None:
            reason = folder.failure(planned.name)
            found.failures |= {planned.seed: reason} if reason else {}
            continue
        end = end_of(run)
        found.minutes.append(minutes_spent(run))
        found.steps.append(int(end["step"]))
        found.memory += [float(end["memory_gb"])] if "memory_gb" in end else []
        for figure in FIGURES:
            if record.get(figure.name) is not None:
                found.cells.setdefault(figure.name, Cell([])).values.append(float(record[figure.name]))
    return found


def paper_place(study: Study, group: Group) -> Group | None:
    """Where the paper's figures are taken from: the same dataset and K, or else the same K, or else its last K."""
    places = list(dict.fromkeys(Group(dataset, parts) for row in study.rows for dataset, printed in row.paper.items()
                                for parts in printed if isinstance(parts, int)))
    if group in places or not places:
        return group if places else None
    return next((place for place in places if place.parts == group.parts), places[-1])


def paper_figures(row: Row, place: Group | None) -> Figures:
    if place is None:
        return {}
    printed = row.paper.get(place.dataset, {})
    return printed.get(place.parts) or printed.get(ANY) or {}


def mark_best(rows: Iterable[TableRow], figure: EvaluationFigure) -> None:
    """The best mean of each block, and the paper's best; nothing where neither more nor less is better."""
    if figure.higher_is_better is None:
        return
    choose = max if figure.higher_is_better else min
    blocks: dict[str, list[Cell]] = {}
    for row in rows:
        blocks.setdefault(row.row.block, []).append(row.cells[figure.name])
    for cells in blocks.values():
        means = [cell.mean for cell in cells if cell.mean is not None]
        papers = [cell.paper for cell in cells if cell.paper is not None]
        for cell in cells:
            cell.best = len(means) > 1 and cell.mean == choose(means)
            cell.paper_best = len(papers) > 1 and cell.paper == choose(papers)


def compare(rows: Iterable[TableRow], name: str) -> None:
    """The change of every row against the reference row of its block, here and in the paper."""
    references = {row.row.block: row.cells[name] for row in rows if row.row.reference}
    for row in rows:
        cell, reference = row.cells[name], references.get(row.row.block)
        if reference is None or cell is reference:
            continue
        if cell.mean is not None and reference.mean is not None:
            cell.change = cell.mean - reference.mean
            both = (cell.deviation, reference.deviation)
            cell.spread = None if None in both else sum(each or 0.0 for each in both)
        if cell.paper is not None and reference.paper is not None:
            cell.paper_change = cell.paper - reference.paper


def verdict(table: Table, name: str) -> str:
    """'4 of 6 changes in NMI go the same way as in the paper, 1 the other way, 1 is within the spread of the seeds.'"""
    said = [row.cells[name].agreement for row in table.rows if row.cells[name].agreement]
    if not said:
        return ""
    title = next(figure.title for figure in FIGURES if figure.name == name)
    same, other, spread = (said.count(kind) for kind in ("same way", "other way", "within the spread"))
    return (f"{same} of {len(said)} changes in {title} against '{table.reference}' go the same way as in the paper, "
            f"{other} the other way; {spread} within the spread of the seeds.")
