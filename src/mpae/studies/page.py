"""`DIR/index.html`, `table.md` and `table.csv`, made from the run folders: one page that needs nothing else."""

from __future__ import annotations

import base64
import threading
from pathlib import Path
from typing import Any

from mpae import __version__
from mpae.files import write_text
from mpae.report.charts import lines_chart
from mpae.report.collect import curves
from mpae.report.pictures import swatch
from mpae.report.write import TITLES, render
from mpae.run import Run
from mpae.studies.expand import Request
from mpae.studies.folder import StudyFolder
from mpae.studies.pictures import listing
from mpae.studies.study import Strip, Study
from mpae.studies.tabulate import Table, TableRow, tabulate, verdict
from mpae.studies.write import costs, csv_text, markdown, mean_text, signed, state_text

CURVES = ("total", "foreground_share", "parts_used")  # logged figures that the page shows
one_at_a_time = threading.Lock()


def write_page(folder: StudyFolder, study: Study, request: Request) -> Path:
    """Make page and tables anew; where several processes do so, each writes whole files."""
    with one_at_a_time:
        tables = tabulate(folder, study, request)
        write_text(folder.folder / "table.md", markdown(study, tables))
        write_text(folder.folder / "table.csv", csv_text(tables))
        write_text(folder.page, render(page_content(folder, study, request, tables), "studies/page.html"))
    return folder.page


def page_content(folder: StudyFolder, study: Study, request: Request, tables: list[Table]) -> dict[str, Any]:
    """What the template shows."""
    rows = [row for table in tables for row in table.rows]
    done, runs = sum(row.done for row in rows), sum(len(row.runs) for row in rows)
    return {
        "title": study.title,
        "source": study.source,
        "conclusion": study.conclusion,
        "lead": f"{done} of {runs} runs are done. {evaluation_text(request)}",
        "tables": [table_content(folder, table) for table in tables],
        "strips": [strip_content(folder, strip, tables) for strip in study.pictures],
        "failures": [{"name": f"{row.row.name}, {table.group.title}, seed {seed}", "reason": reason}
                     for table in tables for row in table.rows for seed, reason in row.failures.items()],
        "settings": settings_text(study, request),
        "version": __version__,
    }


def evaluation_text(request: Request) -> str:
    images = f"{request.limit} images of the" if request.limit else "The whole"
    size = f" at {request.image_size} px" if request.image_size else ""
    size += ", pixel outlines" if request.outline == "pixel" else ""
    seeds = f"means over {request.seeds} seeds, ± the deviation between them" if request.seeds > 1 else "one seed"
    return f"{images} {request.split} split{size}; {seeds}; preset {request.preset}."


def settings_text(study: Study, request: Request) -> str:
    import yaml

    return yaml.safe_dump({"request": request.model_dump(mode="json"), "study": study.model_dump(mode="json")},
                          sort_keys=False, allow_unicode=True)


def table_content(folder: StudyFolder, table: Table) -> dict[str, Any]:
    return {
        "title": table.group.title,
        "paper": table.paper.title if table.paper else "",
        "same_task": table.same_task,
        "figures": [figure.long_title for figure in table.figures],
        "costs": list(costs(table.rows[0])),
        "rows": [row_content(table, row, number) for number, row in enumerate(table.rows, 1)],
        "verdicts": [sentence for figure in table.figures if (sentence := verdict(table, figure.name))],
        "charts": charts(folder, table),
    }


def row_content(table: Table, row: TableRow, number: int) -> dict[str, Any]:
    cells = [row.cells[figure.name] for figure in table.figures]
    return {
        "name": row.row.name, "colour": swatch(number), "note": ", ".join(filter(None, (row.row.label, row.row.note))),
        "block": row.row.block, "reference": row.row.reference, "costs": list(costs(row).values()),
        "state": state_text(row),
        "cells": [{"text": mean_text(cell), "best": cell.best, "change": signed(cell.change),
                   "paper": "" if cell.paper is None else f"{cell.paper:.2f}", "paper_best": cell.paper_best,
                   "difference": signed(cell.difference) if table.same_task else "",
                   "paper_change": signed(cell.paper_change), "agreement": cell.agreement} for cell in cells],
    }


def charts(folder: StudyFolder, table: Table) -> list[dict[str, Any]]:
    """Each logged figure of all rows on one axis, the first seed of each."""
    from markupsafe import Markup

    logged = {number: curves(list(folder.run(row.runs[0].name).records()))
              for number, row in enumerate(table.rows, 1) if row.runs}
    made = []
    for name in CURVES:
        lines = {number: found[name] for number, found in logged.items() if len(found.get(name, ())) > 1}
        if lines:
            svg = lines_chart(list(lines.values()), TITLES[name], [swatch(number) for number in lines])
            made.append({"name": TITLES[name], "svg": Markup(svg)})
    return made


def strip_content(folder: StudyFolder, strip: Strip, tables: list[Table]) -> dict[str, Any]:
    """The pictures of a strip, group by group: first the images themselves, then those of every row."""
    largest: dict[str, int] = {}
    for table in tables:
        largest[table.group.dataset] = max(table.group.parts, largest.get(table.group.dataset, 0))
    groups = []
    for table in tables:
        if strip.parts == "largest" and table.group.parts < largest[table.group.dataset]:
            continue
        firsts = {number: folder.run(row.runs[0].name) for number, row in enumerate(table.rows, 1) if row.runs}
        rows = [{"name": row.row.name, "colour": swatch(number), "pictures": album(firsts[number], strip.show)}
                for number, row in enumerate(table.rows, 1)
                if row.runs and (not strip.rows or row.row.name in strip.rows)]
        rows = [row for row in rows if row["pictures"]]
        originals = next(filter(None, (album(run, "image") for run in firsts.values())), None)
        if rows and originals and strip.show in ("parts", "restored"):
            rows.insert(0, {"name": "image", "colour": "", "pictures": originals})
        if rows:
            groups.append({"title": table.group.title, "rows": rows})
    return {"title": strip.title, "show": strip.show, "groups": groups}


def album(run: Run, show: str) -> list[dict[str, Any]]:
    """The pictures of one kind, each as a data URL: the page is one file."""
    found = []
    for picture in listing(run).get(show, []):
        try:
            content = (run.folder / "pictures" / Path(picture["file"]).name).read_bytes()
        except OSError:
            continue
        found.append({"url": "data:image/jpeg;base64," + base64.b64encode(content).decode(),
                      "caption": picture["caption"], "width": picture["width"], "height": picture["height"]})
    return found
