"""A study is data: what varies, on which dataset and K, which figures are wanted, what the paper has there.

Those of the paper are the YAML files of `paper/`; anyone's own is a file of the same form:

    title: How much of the image is hidden
    datasets: {cub: [8]}              # each with its numbers of parts K
    settings: {training.epochs: 20}   # of all runs, as in --set
    figures: [nmi, ari]
    rows:
      - {name: half, settings: {model.mask_ratio: 0.5}}
      - {name: most, settings: {model.mask_ratio: 0.9}, reference: true}
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from mpae.errors import MPAEError, bad_values, short
from mpae.files import read_yaml
from mpae.studies.systems import PAPER, method_rows

ANY: Literal["any"] = "any"  # in place of a K: the paper's figures for whatever K
METHODS = "methods"  # in place of rows: one for every method there is

Figures = dict[str, float]  # by their names in metrics/registry.py
Values = dict[str, Any]  # settings by dotted names
Which = Literal["all", "largest"]


class Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Row(Data):
    """One row of the table: what is changed, and what the paper has for it."""

    name: str
    settings: Values = {}
    method: str = "mpae"
    label: str = ""  # what a system learns from besides images
    block: str = ""  # rows of one block are compared with each other
    only_on: tuple[str, ...] = ()  # the datasets on which this row is run; all, if none is named
    parts: Which = "all"  # the numbers of parts with which it is run
    reference: bool = False  # the row (of its block and dataset) that the others are compared with
    note: str = ""
    paper: dict[str, dict[int | Literal["any"], Figures]] = {}  # dataset -> K -> figures


class Strip(Data):
    """Pictures that the page shows: the same images for every row."""

    title: str
    show: Literal["parts", "restored", "attention", "categories"]
    rows: tuple[str, ...] = ()  # all, if none is named
    parts: Which = "all"


class Study(Data):
    """See the text of this file."""

    title: str
    source: str = ""  # of the paper's figures: "Table 4"
    conclusion: str = ""  # the paper's
    datasets: dict[str, tuple[int, ...]] = {}  # each with its numbers of parts K
    settings: Values = {}
    figures: tuple[str, ...] = ("nmi", "ari", "foreground_iou", "parts_per_image")
    rows: tuple[Row, ...]
    pictures: tuple[Strip, ...] = (Strip(title="The same images for every row", show="parts"),)

    @field_validator("figures")
    @classmethod
    def _are_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        from mpae.metrics.registry import FIGURES

        known = [figure.name for figure in FIGURES]
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise ValueError(f"some of: {', '.join(known)}")
        return names

    @field_validator("rows", mode="before")
    @classmethod
    def _is_a_list(cls, rows: Any) -> Any:
        if not isinstance(rows, (list, tuple)) or not rows:
            raise ValueError(f"a list of rows, or the word {METHODS}")
        return rows

    @field_validator("rows")
    @classmethod
    def _have_names_of_their_own(cls, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        names = [row.name for row in rows]
        if len(set(names)) < len(names):
            raise ValueError("rows with a name of their own each")
        return rows

    def varied(self) -> list[str]:
        """The settings that rows set, each once."""
        return list(dict.fromkeys(name for row in self.rows for name in row.settings))


def study_names() -> list[str]:
    """Those that come with the package, tables in their order, then the others."""
    names = [path.stem for path in PAPER.glob("*.yaml")]
    return sorted(names, key=lambda name: (not name.startswith("table"), len(name), name))


def find_study(name_or_file: str) -> tuple[str, Study]:
    """A study of the package by its name, or one's own from a YAML file; and what it is called."""
    if name_or_file in study_names():
        return name_or_file, read_study(PAPER / f"{name_or_file}.yaml")
    file = Path(name_or_file)
    if file.suffix in (".yaml", ".yml") or file.is_file():
        if not file.is_file():
            raise MPAEError(f"No file '{short(file)}'; give the YAML file of a study, or one of: "
                            f"{', '.join(study_names())}.")
        return file.stem, read_study(file)
    near = difflib.get_close_matches(name_or_file.lower(), study_names(), n=1)
    hint = f"did you mean '{near[0]}'? All: " if near else "choose a YAML file, or one of: "
    raise MPAEError(f"Unknown study '{short(name_or_file)}'; {hint}{', '.join(study_names())}.")


def read_study(file: Path) -> Study:
    return parse_study(read_yaml(file), f"'{file}'")


def parse_study(content: dict[str, Any], source: str) -> Study:
    """A study from plain data, checked; ``source`` is named in errors."""
    if content.get("rows") == METHODS:
        content = content | {"rows": method_rows()}
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        details = [detail | {"loc": _place(detail["loc"])} for detail in error.errors(include_url=False)]
    unknown = [str(detail["loc"][-1]) for detail in details if detail["type"] == "extra_forbidden"]
    if unknown:
        raise MPAEError(_unknown_keys(unknown, source))
    missing = [detail["loc"][-1] for detail in details if detail["type"] == "missing"]
    if missing:
        raise MPAEError(f"{source} has no '{missing[0]}'; expected {', '.join(Study.model_fields)}.")
    raise MPAEError(f"In {source}: {bad_values(details)}.")


def _place(loc: tuple[Any, ...]) -> tuple[str, ...]:
    """Where in the file: ('rows', 2, 'settings') -> ('row 3', 'settings')."""
    first, *rest = loc
    if first in ("rows", "pictures") and rest:
        return (f"{first[:-1]} {rest[0] + 1}", *(str(each) for each in rest[1:]))
    return tuple(str(each) for each in loc)


def _unknown_keys(names: list[str], source: str) -> str:
    known = [*Study.model_fields, *Row.model_fields, *Strip.model_fields]
    near = difflib.get_close_matches(names[0], known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"expected {', '.join(Study.model_fields)}."
    return f"Unknown key{'s' if len(names) > 1 else ''} {', '.join(map(repr, map(short, names)))} in {source}; {hint}"
