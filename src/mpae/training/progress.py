"""What a person sees while training runs: a bar with time left and every loss, or a line now and then."""

from __future__ import annotations

import time
from typing import Any

import lightning
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from mpae.losses.objective import SHORT_TITLES
from mpae.training.callbacks import Clock
from mpae.training.module import TrainingModule
from mpae.training.schedule import progress as share_done

SECONDS_BETWEEN_LINES = 15.0


class ShowProgress(lightning.Callback):
    def __init__(self, console: Console, steps: int, clock: Clock, max_minutes: float | None):
        self.console, self.steps, self.clock, self.max_minutes = console, steps, clock, max_minutes
        self.bar: Progress | None = None
        self.spoke_at = 0.0
        self.first_step = 0

    def on_train_start(self, trainer: Any, module: TrainingModule) -> None:  # type: ignore[override]
        self.first_step = module.step
        if trainer.is_global_zero and self.console.is_terminal:
            self.bar = Progress(TextColumn("[bold]training"), BarColumn(bar_width=24), MofNCompleteColumn(),
                                TimeElapsedColumn(), TextColumn("{task.fields[figures]}"), console=self.console)
            self.task = self.bar.add_task("fit", total=self.steps, completed=module.step, figures="")
            self.bar.start()

    def on_train_batch_end(self, trainer: Any, module: TrainingModule, *_: Any) -> None:  # type: ignore[override]
        if not trainer.is_global_zero:
            return
        text = f"{time_left(self._done(module), self.clock.session)} left  {figures_line(module.figures)}"
        if self.bar:
            self.bar.update(self.task, completed=module.step, figures=text)
        elif time.monotonic() - self.spoke_at >= SECONDS_BETWEEN_LINES or module.step == self.steps:
            self.spoke_at = time.monotonic()
            self.console.print(Text(f"step {module.step}/{self.steps}  {text}"), soft_wrap=True)

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self.stop()

    def stop(self) -> None:
        if self.bar:
            self.bar.stop()
            self.bar = None

    def _done(self, module: TrainingModule) -> float:
        """Share of what this session has to do."""
        steps = self.steps - self.first_step
        return share_done(module.step - self.first_step, steps, self.clock.session, self.max_minutes)


def time_left(done: float, minutes: float) -> str:
    """'3:20' from the share that is done and the minutes that it took."""
    if done <= 0:
        return "?"
    seconds = round(minutes * 60 * (1 - done) / done)
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def figures_line(figures: dict[str, float]) -> str:
    """Every loss term and how the parts are used, short enough for one line."""
    terms = " ".join(f"{short} {figures[name]:.3g}" for name, short in SHORT_TITLES.items() if name in figures)
    used, share = figures["parts_used"], figures["foreground_share"]
    return f"loss {figures['total']:.3f}  {terms}  parts {used:.0f}  fg {100 * share:.0f}%"
