"""Studies as data: those of the paper are what the paper prints, and a mistake in one's own gets one sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mpae.config import all_settings
from mpae.errors import MPAEError
from mpae.evaluation.paper import PAPER
from mpae.studies.study import Study, find_study, parse_study, study_names

TABLES = [f"table{number}" for number in range(1, 15)]


def test_every_table_has_a_study() -> None:
    assert study_names() == [*TABLES, "figures", "systems"]


@pytest.mark.parametrize("name", study_names())
def test_sets_only_settings_that_exist(name: str) -> None:
    _, study = find_study(name)
    assert set(study.varied()) <= {setting for setting, _ in all_settings()}
    assert len({row.name for row in study.rows}) == len(study.rows)
    for strip in study.pictures:
        assert set(strip.rows) <= {row.name for row in study.rows}


LYING = (5, 7, 8, 9, 10, 12, 13, 14)  # tables with a column for each of our rows, and a line for each figure


def printed_figures(tex: str, number: int) -> list[str]:
    """Every number with two digits behind the point in the cells of a table of the paper, as one reads."""
    table = tex[: tex.index(f"\\label{{Table{number}}}")]
    cells = table[table.rindex("\\begin{table") : table.rindex("\\caption")]
    body = re.sub(r"m\{[^}]*\}|\\resizebox\{[^}]*\}", "", cells)  # widths of columns
    rows = [line for line in body.splitlines() if "lambda" not in line]  # the weights of Table 10
    return re.findall(r"-?\d+\.\d\d(?!\d)", "\n".join(rows))


def our_figures(study: Study, lying: bool) -> list[str]:
    """The same of a study, in the same order."""
    found = [((row.block, place, dataset, number) if lying else (number, str(parts).zfill(3), dataset, place), value)
             for number, row in enumerate(study.rows) for dataset, printed in row.paper.items()
             for parts, figures in printed.items() for place, value in enumerate(figures.values())]
    order = {block: number for number, block in enumerate(dict.fromkeys(row.block for row in study.rows))}
    found.sort(key=lambda each: (order[each[0][0]], *each[0][1:]) if lying else each[0])
    return [f"{value:.2f}" for _, value in found]


@pytest.mark.parametrize("number", range(1, 15))
def test_has_the_figures_of_the_paper(number: int, shared: Path) -> None:
    """All of them and no other, each in its place."""
    _, study = find_study(f"table{number}")
    printed = printed_figures((shared / "paper" / "paper.tex").read_text(encoding="utf-8"), number)
    assert our_figures(study, number in LYING) == printed


def test_agrees_with_what_an_evaluation_prints_beside_its_figures() -> None:
    names = {"MPAE": "mpae", "DINO": "dino-clustering"}
    for table in TABLES[:3]:
        rows = {row.method: row for row in find_study(table)[1].rows}
        for dataset in find_study(table)[1].datasets:
            for parts, systems in PAPER[dataset].items():
                for system, figures in systems.items():
                    assert rows[names[system]].paper[dataset][parts] == figures


def test_systems_are_those_that_are_here() -> None:
    from mpae.studies.systems import known_methods

    _, study = find_study("systems")
    assert [row.method for row in study.rows if row.reference] == ["mpae"]
    assert {row.method for row in study.rows} == set(known_methods())
    ours = next(row for row in study.rows if row.reference)
    assert set(ours.paper) == {"partimagenet-ood", "partimagenet-seg", "cub", "celeba"}


@pytest.mark.parametrize(("content", "said"), [
    ({"row": []}, "Unknown key 'row' in 'mine.yaml'; did you mean 'rows'?"),
    ({"title": "x", "rows": [{"name": "a", "setings": {}}]}, "Unknown key 'setings'"),
    ({"title": "x"}, "has no 'rows'"),
    ({"title": "x", "rows": []}, "expected a list of rows"),
    ({"title": "x", "rows": "all"}, "expected a list of rows"),
    ({"title": "x", "rows": [{"name": "a"}], "figures": ["nim"]}, "figures is ['nim'], expected some of: nmi"),
    ({"title": "x", "rows": [{"name": "a"}, {"name": "a"}]}, "rows with a name of their own"),
    ({"title": "x", "rows": [{"name": "a", "parts": "few"}]}, "row 1.parts is 'few'"),
])
def test_a_wrong_file_gets_one_sentence(content: dict[str, Any], said: str) -> None:
    with pytest.raises(MPAEError) as error:
        parse_study(content, "'mine.yaml'")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "said"), [
    ("tabel4", "did you mean 'table4'? All: table1, "), ("nothing", "one of: table1, "), ("no.yaml", "No file 'no")])
def test_an_unknown_study_is_answered_with_those_there_are(name: str, said: str) -> None:
    with pytest.raises(MPAEError) as error:
        find_study(name)
    assert said in str(error.value)
