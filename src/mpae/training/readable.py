"""A first look at the files: a folder without pictures is told before training begins, at the cost of seconds."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from mpae.cores import available_cores
from mpae.data.source import ImageSource, UnreadableImage
from mpae.errors import MPAEError
from mpae.training.progress import Progress

SECONDS = 2.0  # after which training begins; what it meets later and cannot read is noted then
CHUNK = 32  # images between two looks at the clock


def find_unreadable(source: ImageSource, progress: Progress, seconds: float = SECONDS) -> dict[str, str]:
    """Images that cannot be opened and read to the end, with the reason: of all, or of those that `seconds` allow."""
    def problem(index: int) -> str | None:
        try:
            source[index]
        except UnreadableImage as error:
            return str(error)
        return None

    skipped: dict[str, str] = {}
    start, done, good = time.monotonic(), 0, 0
    with ThreadPoolExecutor(available_cores()) as pool:  # decoding leaves Python's lock
        while done < len(source) and (good < 2 or time.monotonic() - start < seconds):
            chunk = range(done, min(done + CHUNK, len(source)))
            reasons = dict(zip(chunk, pool.map(problem, chunk), strict=True))
            skipped |= {source.names[index]: reason for index, reason in reasons.items() if reason is not None}
            done = chunk.stop
            good = done - len(skipped)
            progress("reading images", done, len(source))
    if good < 2:
        first = f" (the first: '{next(iter(skipped))}', {next(iter(skipped.values()))})" if skipped else ""
        found = "no image" if not good else "one image"
        raise MPAEError(f"Of {len(source)} images {found} can be read{first}; training needs at least 2.")
    return skipped
