"""What is done of a prediction, so that a stopped one can go on.

Each process appends to two files of its own: a line of JSON for each image that is finished, and before it
the image's descriptors and features as raw numbers. The tables that users want are put together from them at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from mpae.files import cannot_write

Record = dict[str, Any]  # name, file, width, height, parts; runs if for COCO; row, shape and columns of numbers


class JournalWriter:
    """Appends records; opening it cuts off what a kill has left half-written."""

    def __init__(self, folder: Path, rank: int = 0):
        self.lines_path = folder / f"images-{rank}.jsonl"
        self.numbers_path = _numbers_path(self.lines_path)
        self.numbers, self.lines = _unbuffered(self.numbers_path), _unbuffered(self.lines_path)
        self.row = length = 0
        for _, end, record in _read_lines(self.lines_path):
            self.row, length = max(self.row, record.get("row", -1) + 1), end
        self.lines.truncate(length)
        self.lines.seek(length)

    def append(self, record: Record, descriptors: np.ndarray | None, features: np.ndarray | None = None) -> None:
        """One image with its descriptors (K, C) and features (K, E), if they are kept."""
        kept = [array for array in (descriptors, features) if array is not None]
        if kept:
            numbers = np.concatenate(kept, axis=1)  # (K, C+E)
            content = numbers.astype("<f4").tobytes()
            self.numbers.seek(self.row * len(content))
            _write(self.numbers, content, self.numbers_path)
            columns = 0 if descriptors is None else descriptors.shape[1]
            record = record | {"row": self.row, "shape": numbers.shape, "columns": columns}
            self.row += 1
        _write(self.lines, json.dumps(record).encode("ascii") + b"\n", self.lines_path)

    def close(self) -> None:
        self.lines.close()
        self.numbers.close()


class Journal:
    """The records of all processes that belong to a list of images."""

    def __init__(self, folder: Path, names: Sequence[str], files: Sequence[str]):
        """``files`` are the output names; what was written under another one counts as not done."""
        self.paths = sorted(folder.glob("images-*.jsonl"))
        self.place = np.full((len(names), 2), -1, dtype=np.int64)  # journal file and where in it; -1: not done
        index_of = {name: index for index, name in enumerate(names)}
        for number, path in enumerate(self.paths):
            size = _numbers_path(path).stat().st_size
            for start, _, record in _read_lines(path):
                index = index_of.get(record["name"])
                if index is not None and record["file"] == files[index] and _numbers_end(record) <= size:
                    self.place[index] = number, start

    def __len__(self) -> int:
        return int((self.place[:, 0] >= 0).sum())

    def undone(self) -> list[int]:
        """Indices of the images that have no record."""
        return np.flatnonzero(self.place[:, 0] < 0).tolist()

    def records(self) -> Iterator[Record]:
        """All records in the order of the images."""
        for _, record in self._located():
            yield record

    def descriptors(self) -> Iterator[np.ndarray]:
        """(K, C) float32 of each record, in the same order."""
        for record, numbers in self._numbers():
            yield numbers[:, :record["columns"]]

    def features(self) -> Iterator[np.ndarray]:
        """(K, E) float32 of each record, in the same order."""
        for record, numbers in self._numbers():
            yield numbers[:, record["columns"]:]

    def _numbers(self) -> Iterator[tuple[Record, np.ndarray]]:
        with ExitStack() as stack:
            files = [stack.enter_context(_numbers_path(path).open("rb")) for path in self.paths]
            for number, record in self._located():
                end = _numbers_end(record)
                start = end // (record["row"] + 1) * record["row"]
                files[number].seek(start)
                found = np.frombuffer(files[number].read(end - start), dtype="<f4")
                yield record, found.reshape(record["shape"])

    def _located(self) -> Iterator[tuple[int, Record]]:
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("rb")) for path in self.paths]
            for number, start in self.place[self.place[:, 0] >= 0].tolist():
                files[number].seek(start)
                yield number, json.loads(files[number].readline())


def _read_lines(path: Path) -> Iterator[tuple[int, int, Record]]:
    """Start, end and record of each whole line; a torn one ends the journal."""
    start = 0
    with path.open("rb") as file:
        for line in file:
            try:
                record = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                return
            if not isinstance(record, dict):
                return
            yield start, start + len(line), record
            start += len(line)


def _numbers_path(lines: Path) -> Path:
    return lines.with_name(lines.name.replace("images-", "descriptors-").replace(".jsonl", ".f32"))


def _numbers_end(record: Record) -> int:
    """Where the descriptors of a record end in their file, in bytes."""
    if "row" not in record:
        return 0
    return (record["row"] + 1) * record["shape"][0] * record["shape"][1] * 4


def _unbuffered(path: Path) -> IO[bytes]:
    # Unbuffered: what is appended has left the process, and a failed write is not tried again on closing.
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "r+b" if path.exists() else "x+b", buffering=0)
    except OSError as error:
        raise cannot_write(path, error) from None


def _write(file: IO[bytes], content: bytes, path: Path) -> None:
    try:
        while content:
            content = content[file.write(content):]
    except OSError as error:
        raise cannot_write(path, error) from None
