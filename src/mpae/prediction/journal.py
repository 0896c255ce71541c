"""What is done of a prediction, so that a stopped one can go on.

Each process appends to two files of its own: a line of JSON for each image that is finished, and before it
its numbers, such as descriptors, as raw bytes. The tables that users want are put together from them at the end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from mpae.files import cannot_write

# name, file, width, height, parts; `kept`: plain data by output; `row` and `shapes` of its numbers, by output
Record = dict[str, Any]


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

    def append(self, record: Record, numbers: Mapping[str, np.ndarray]) -> None:
        """One image and its numbers, (K, n) for each output that keeps some; the shapes are those of every image."""
        if numbers:
            content = b"".join(array.astype("<f4").tobytes() for array in numbers.values())
            self.numbers.seek(self.row * len(content))
            _write(self.numbers, content, self.numbers_path)
            record = record | {"row": self.row, "shapes": {name: array.shape for name, array in numbers.items()}}
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
            size = _numbers_path(path).stat().st_size if _numbers_path(path).exists() else 0
            for start, _, record in _read_lines(path):
                index = index_of.get(record["name"])
                whole = "kept" in record and _row_bytes(record) * (record.get("row", -1) + 1) <= size
                if index is not None and record["file"] == files[index] and whole:
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

    def numbers(self, output: str) -> Iterator[np.ndarray]:
        """What an output keeps of each record, (K, n) float32, in the same order."""
        with ExitStack() as stack:
            files = [stack.enter_context(_numbers_path(path).open("rb")) for path in self.paths]
            for number, record in self._located():
                shapes, start = record["shapes"], _row_bytes(record) * record["row"]
                for other in list(shapes)[:list(shapes).index(output)]:
                    start += 4 * math.prod(shapes[other])
                files[number].seek(start)
                content = files[number].read(4 * math.prod(shapes[output]))
                yield np.frombuffer(content, dtype="<f4").reshape(shapes[output])

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
    return lines.with_name(lines.name.replace("images-", "numbers-").replace(".jsonl", ".f32"))


def _row_bytes(record: Record) -> int:
    """Bytes of the numbers of an image."""
    return 4 * sum(math.prod(shape) for shape in record.get("shapes", {}).values())


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
