"""Bars of verbs that go through images: done, images per second, time left; lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

SECONDS_BETWEEN_LINES = 15.0


class ImageProgress:
    """Call it with (task, done, total) as images go by."""

    def __init__(self, console: Console):
        self.console = console
        self.bar: Progress | None = None
        self.tasks: dict[str, object] = {}
        self.started: dict[str, float] = {}
        self.spoke_at = self.idle_since = time.monotonic()

    def __call__(self, task: str, done: int, total: int) -> None:
        start = self.started.setdefault(task, self.idle_since)  # the first call may come after the first batch
        seconds = time.monotonic() - start
        self.idle_since = time.monotonic()
        rate = f"{done / seconds:.1f} images/s" if done and seconds > 0 else ""
        if self.bar is not None:
            if task not in self.tasks:
                self.tasks[task] = self.bar.add_task(task, total=total, rate="")
            self.bar.update(self.tasks[task], completed=done, rate=rate)  # type: ignore[arg-type]
        elif done == total or time.monotonic() - self.spoke_at > SECONDS_BETWEEN_LINES:
            self.spoke_at = time.monotonic()
            self.console.print(f"{task}: {done}/{total} {rate}", highlight=False)


@contextmanager
def image_progress(console: Console) -> Iterator[ImageProgress]:
    shown = ImageProgress(console)
    if not console.is_terminal or console.quiet:
        yield shown
        return
    with Progress(TextColumn("[bold]{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(),
                  TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), console=console) as shown.bar:
        yield shown


@contextmanager
def busy(console: Console, task: str) -> Iterator[None]:
    """Shows what is being done and for how long, where nobody knows how long it takes; nothing without a terminal."""
    if not console.is_terminal or console.quiet:
        yield
        return
    with Progress(SpinnerColumn(), TextColumn("[bold]{task.description}"), TimeElapsedColumn(), console=console,
                  transient=True) as bar:
        bar.add_task(task, total=None)
        yield
