"""What is done of a prediction, so that a stopped one can go on.

Each process appends to files of its own: a line of JSON for each image that is finished, and its descriptors
as raw numbers, ``row`` by row. The tables that users want are put together from them at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

Record = dict[str, Any]  # name, file, width, height, parts; runs for COCO; row if descriptors are kept


class JournalWriter:
    """Appends records; opening it cuts off what a kill has left half-written."""

    def __init__(self, folder: Path, rank: int = 0):
        folder.mkdir(parents=True, exist_ok=True)
        self.lines_path, self.numbers_path = folder / f"images-{rank}.jsonl", folder / f"descriptors-{rank}.f32"
        self.row = 0
        end = 0
        if self.lines_path.exists():
            for end, record in _read_lines(self.lines_path):
                self.row = max(self.row, record.get("row", -1) + 1)
        self.lines, self.numbers = _open_at(self.lines_path, end), _open_at(self.numbers_path, None)

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.lines.close()
        self.numbers.close()

    def append(self, record: Record, descriptors: np.ndarray | None) -> None:
        """One image; descriptors (K, C) float32 are written first, so that no line lacks its row."""
        if descriptors is not None:
            numbers = np.ascontiguousarray(descriptors, dtype="<f4").tobytes()
            self.numbers.seek(self.row * len(numbers))
            _write(self.numbers, numbers, self.numbers_path)
            record = record | {"row": self.row}
            self.row += 1
        _write(self.lines, json.dumps(record).encode("ascii") + b"\n", self.lines_path)


class Journal:
    """The records of all processes, found by the name of their image."""

    def __init__(self, folder: Path, names: Sequence[str], files: Sequence[str]):
        """``files`` are the output names; what was written under another one does not count as done."""
        self.paths = sorted(folder.glob("images-*.jsonl"))
        position = {name: index for index, name in enumerate(names)}
        self.place = np.full((len(names), 2), -1, dtype=np.int64)  # journal file, and where in it; -1: not done
        for number, path in enumerate(self.paths):
            start = 0
            for end, record in _read_lines(path):
                index = position.get(record["name"])
                if index is not None and record["file"] == files[index]:
                    self.place[index] = number, start
                start = end

    def undone(self) -> list[int]:
        """Indices of the images that have no record."""
        return np.flatnonzero(self.place[:, 0] < 0).tolist()

    def __len__(self) -> int:
        return int((self.place[:, 0] >= 0).sum())

    def records(self) -> Iterator[Record]:
        """All records in the order of the images."""
        for record, _ in self._located():
            yield record

    def descriptors(self, shape: tuple[int, int]) -> Iterator[np.ndarray]:
        """(K, C) float32 of each record, in the same order."""
        size = shape[0] * shape[1] * 4
        paths = [path.with_name(path.name.replace("images-", "descriptors-")).with_suffix(".f32")
                 for path in self.paths]
        with _opened(paths) as files:
            for record, number in self._located():
                files[number].seek(record["row"] * size)
                yield np.frombuffer(files[number].read(size), dtype="<f4").reshape(shape)

    def _located(self) -> Iterator[tuple[Record, int]]:
        with _opened(self.paths) as files:
            for number, start in self.place[self.place[:, 0] >= 0].tolist():
                files[number].seek(start)
                yield json.loads(files[number].readline()), number
