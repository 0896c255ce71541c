"""What a person sees while a run goes on: a bar for every wait, then one for the steps; or a line now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from mpae.distributed import is_first_process
from mpae.losses.objective import SHORT_TITLES

Progress = Callable[[str, int, int], None]  # what is done, how much of it, out of how much

SECONDS_BETWEEN_LINES = 15.0
UNTITLED = ("total", "pixel", "perceptual", "foreground_share", "parts_used", "largest_share", "learning_rate")
SECONDS_BEFORE_A_LINE = 2.0  # a wait that is over by then is none


class Display:
    """Call it with (task, done, total) as a task goes on; the first process alone shows anything."""

    def __init__(self, console: Console):
        self.console = console
        self.shows = is_first_process() and not console.quiet
        self.bar: Bar | None = None
        self.task, self.row = "", TaskID(0)  # of the bar
        self.first: dict[str, tuple[int, float]] = {}  # of each task: what was done when it was first seen, and when
        self.spoke_at = -math.inf

    def __call__(self, task: str, done: int, total: int, figures: str = "", minutes_left: float = math.inf) -> None:
        """
        Args:
            figures: what else there is to tell.
            minutes_left: after which it ends in any case.
        """
        if not self.shows:
            return
        now = time.monotonic()
        first, since = self.first.setdefault(task, (done, now))
        left = min(seconds_left(done - first, total - done, now - since), max(0.0, 60 * minutes_left))
        text = f"{as_time(left)} left  {figures}".rstrip()
        if self.console.is_terminal:
            self._draw(task, done, total, text)
        elif self._may_speak(now, since, done == total, bool(figures)):
            self.spoke_at = now
            self.console.print(Text(f"{task} {done}/{total}  {text}"), soft_wrap=True)
        if done == total:
            self.first.pop(task)
            self.close()  # what is said next has its own line

    def _may_speak(self, now: float, since: float, ended: bool, at_once: bool) -> bool:
        long_wait = at_once or now - since >= SECONDS_BEFORE_A_LINE
        return long_wait and (ended or now - self.spoke_at >= SECONDS_BETWEEN_LINES)

    def _draw(self, task: str, done: int, total: int, text: str) -> None:
        if task != self.task:  # one before it may have ended early
            self.close()
        if self.bar is None:
            self.bar = Bar(TextColumn("[bold]{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(),
                           TimeElapsedColumn(), TextColumn("{task.fields[text]}", markup=False), console=self.console)
            self.bar.start()
            self.task, self.row = task, self.bar.add_task(task, total=total, text="")
        self.bar.update(self.row, completed=done, text=text)

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        if self.bar:
            self.bar.stop()
            self.bar = None


def seconds_left(done: int, remaining: int, seconds: float) -> float:
    """What the rest takes, from how long took what was done since the first look; infinite where that was nothing."""
    if not remaining:
        return 0.0
    return seconds * remaining / done if done else math.inf


def as_time(seconds: float) -> str:
    """'3:20', '1:03:20', or '?' where nobody knows."""
    if not math.isfinite(seconds):
        return "?"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def figures_line(figures: Mapping[str, float]) -> str:
    """Every loss term and how the parts are used, short enough for one line."""
    shown = {name: short for name, short in SHORT_TITLES.items() if name in figures}
    shown |= {name: name[:5] for name in figures if name not in (*SHORT_TITLES, *UNTITLED)}  # of comparison systems
    terms = " ".join(f"{short} {figures[name]:.3g}" for name, short in shown.items())
    used, share = figures["parts_used"], figures["foreground_share"]
    return f"loss {figures['total']:.3f}  {terms}  parts {used:.0f}  fg {100 * share:.0f}%"
