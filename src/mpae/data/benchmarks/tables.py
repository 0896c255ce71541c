"""Annotation files of the benchmarks: checked when read, every mistake named with its file and line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from mpae.errors import MPAEError

Tree = Mapping[str, str]  # path below a dataset's folder -> what it holds

# Annotators slip: one point of the official CUB file lies 2 % below its image. Ten percent of the longer side
# is no slip any more, but a table that belongs to other images, or to the same at another size.
SLIP = 0.1


@dataclass(frozen=True)
class Table:
    """Rows of a text file: a key of one or more words, then numbers."""

    path: Path
    keys: list[str]
    values: np.ndarray  # (rows, columns) float64, finite
    first_line: int  # of row 0, counted from 1

    def where(self, row: int) -> str:
        return f"'{self.path}', line {self.first_line + row}"

    def row_of(self) -> dict[str, int]:
        """The row of each key; a key may stand there once."""
        row_of: dict[str, int] = {}
        for row, key in enumerate(self.keys):
            first = row_of.setdefault(key, row)
            if first != row:
                raise MPAEError(f"{self.where(row)}: '{key}' is listed a second time, first on line "
                                f"{self.first_line + first}; keep one of the two rows.")
        return row_of

    def rows(self, keys: Sequence[str], owner: Path) -> np.ndarray:
        """The row of each key; every key of ``owner`` has exactly one row, and no row is left over."""
        row_of = self.row_of()
        missing = next((key for key in keys if key not in row_of), None)
        if missing is not None:
            raise MPAEError(f"'{self.path}' has no row '{missing}', which '{owner}' asks for; the file is "
                            f"cut short or belongs to another copy.")
        if len(row_of) > len(keys):
            known = set(keys)
            extra = next(row for row, key in enumerate(self.keys) if key not in known)
            raise MPAEError(f"{self.where(extra)}: '{self.keys[extra]}' is not in '{owner}'; the two files "
                            f"belong to different copies.")
        return np.array([row_of[key] for key in keys], dtype=np.int64)


def read_lines(path: Path) -> list[str]:
    """Lines of a text file, empty ones at its end left out."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise MPAEError(f"'{path}' is not a text file.") from None
    except OSError as error:
        raise MPAEError(f"Cannot read '{path}': {error.strerror}.") from None
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def read_table(path: Path, columns: str, key_words: int = 1, header: bool = False,
               separator: str | None = None) -> Table:
    """A table of numbers; ``columns`` names its fields, the first ``key_words`` of them are the key.

    With ``header`` a line with the number of rows and a line of column names may come first.
    """
    lines = read_lines(path)
    start = _header_lines(lines, path) if header else 0
    width = len(columns.split())
    keys, numbers = [], []
    for number, line in enumerate(lines[start:], start + 1):
        fields = line.split(separator)
        if len(fields) != width:
            raise MPAEError(f"'{path}', line {number}: {len(fields)} fields, expected {width}: {columns}.")
        keys.append(" ".join(fields[:key_words]))
        numbers.append(fields[key_words:])
    try:
        values = np.array(numbers, dtype=np.float64).reshape(len(keys), width - key_words)
    except ValueError:
        values = np.array([[_number(text) for text in row] for row in numbers])
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise MPAEError(f"'{path}', line {start + 1 + row}: '{numbers[row][column]}' is not a number; "
                        f"expected {columns}.")
    return Table(path, keys, values, first_line=start + 1)


def _header_lines(lines: list[str], path: Path) -> int:
    """How many of the first lines are CelebA's header; its count must be that of the rows."""
    counted = bool(lines) and lines[0].strip().isdecimal() and len(lines[0]) < 20
    start = 1 if counted else 0
    if len(lines) > start and not np.isfinite(_number((lines[start].split() or [""])[-1])):
        start += 1
    if counted and int(lines[0]) != len(lines) - start:
        raise MPAEError(f"'{path}', line 1 announces {int(lines[0]):,} rows but {len(lines) - start:,} "
                        f"follow; get the file again.")
    return start


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def read_list(path: Path) -> Table:
    """A list of names, one a line."""
    return read_table(path, "name")


def one_of(table: Table, column: int, allowed: Sequence[int], meaning: str) -> np.ndarray:
    """A column of integers that may only take certain values."""
    values = table.values[:, column]
    bad = np.flatnonzero(~np.isin(values, allowed))
    if len(bad):
        choices = " or ".join(str(value) for value in allowed)
        raise MPAEError(f"{table.where(bad[0])}: {meaning} is {values[bad[0]]:g}, expected {choices}.")
    return values.astype(np.int64)


def safe_name(name: str, where: str) -> str:
    """A path below the dataset's folder with forward slashes; one that leads out of it is refused."""
    posix = name.replace("\\", "/")  # one public json was prepared on Windows
    parts = PurePosixPath(posix).parts
    if not parts or posix.startswith("/") or ".." in parts or ":" in parts[0] or not posix.isprintable():
        raise MPAEError(f"{where}: {name!r} is no path inside the dataset folder; refused.")
    return "/".join(parts)


def check_files(folder: Path, names: Sequence[str], where: Sequence[str], what: str = "image") -> None:
    """Every listed file is there: one listing for each folder instead of one look for each file."""
    present: dict[str, set[str]] = {}
    absent = []
    for index, name in enumerate(names):
        parent, _, file = name.rpartition("/")
        if parent not in present:
            present[parent] = _listing(folder / parent)
        if file not in present[parent]:
            absent.append(index)
    if absent:
        raise MPAEError(f"{where[absent[0]]}: {what} '{names[absent[0]]}' is not in '{folder}' "
                        f"({len(absent):,} of {len(names):,} are absent); unpack the archive again.")


def _listing(folder: Path) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries}
    except (OSError, ValueError):  # ValueError: a name that the file system cannot hold
        return set()


def check_points(points: np.ndarray, size: tuple[int, int], name: str, where: Sequence[str]) -> None:
    """Annotated points (n, 2) lie in an image of ``size`` (width, height), but for a slip."""
    slip = SLIP * max(size)
    bad = np.flatnonzero(((points < -slip) | (points > np.array(size) + slip)).any(axis=1))
    if len(bad):
        x, y = points[bad[0]]
        raise MPAEError(f"{where[bad[0]]}: point ({x:g}, {y:g}) lies outside '{name}' of {size[0]} x "
                        f"{size[1]} pixels; annotations and images belong to different copies.")


def find(root: Path, choices: Sequence[str], dataset: str, tree: Tree) -> Path:
    """The first of several places that exists, or the error that shows the tree."""
    if not root.is_dir():
        raise MPAEError(f"'{root}' is a file; {dataset} expects a folder." if root.exists()
                        else f"No such folder: '{root}'.")
    for choice in choices:
        if (root / choice).exists():
            return root / choice
    raise MPAEError(f"No '{choices[0]}' in '{root}'; {dataset} expects there: {', '.join(tree)}.")


def check_split(split: str, splits: Sequence[str], dataset: str) -> None:
    if split not in splits:
        raise MPAEError(f"{dataset} has no split '{split}'; choose one of: {', '.join(splits)}.")
