"""The images that can be read: all are opened once before training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from mpae.data.source import ImageSource, Picture, UnreadableImage
from mpae.errors import MPAEError
from mpae.training.progress import Progress


class Readable:
    """A source without the images that cannot be read."""

    def __init__(self, source: ImageSource, indices: Sequence[int]):
        self.source, self.indices = source, indices
        self.names = [source.names[index] for index in indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Picture:
        return self.source[self.indices[index]]


def find_readable(source: ImageSource, progress: Progress) -> tuple[list[int], dict[str, str]]:
    """Indices of the images that can be opened and read to the end, and the names of the others with the reason."""
    def problem(index: int) -> str | None:
        try:
            source[index]
        except UnreadableImage as error:
            return str(error)
        return None

    good: list[int] = []
    skipped: dict[str, str] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # decoding leaves Python's lock
        for index, reason in enumerate(pool.map(problem, range(len(source)))):
            if reason is None:
                good.append(index)
            else:
                skipped[source.names[index]] = reason
            progress("reading all images once", index + 1, len(source))
    if len(good) < 2:
        first = f" (the first: '{next(iter(skipped))}', {next(iter(skipped.values()))})" if skipped else ""
        found = "no image" if not good else "one image"
        raise MPAEError(f"Of {len(source)} images {found} can be read{first}; training needs at least 2.")
    return good, skipped
