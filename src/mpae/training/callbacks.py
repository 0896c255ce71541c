"""What happens around the steps: learning rate, run folder, previews, collapse, time, Ctrl-C."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import lightning
import torch

from mpae.config import Config
from mpae.run import Run
from mpae.training.module import TrainingModule
from mpae.training.preview import Previewer
from mpae.training.schedule import learning_rate, progress

log = logging.getLogger("mpae")

Validator = Callable[[torch.nn.Module], Mapping[str, Any]]


class Clock:
    """Minutes spent on the run: before this session, and in it."""

    def __init__(self, before: float):
        self.before = before
        self.start = time.monotonic()

    @property
    def session(self) -> float:
        return (time.monotonic() - self.start) / 60

    @property
    def total(self) -> float:
        return self.before + self.session


class Schedule(lightning.Callback):
    """Sets the learning rate before each step, counts the step after it, and stops when time is up."""

    def __init__(self, config: Config, steps: int, clock: Clock):
        self.settings, self.base, self.steps, self.clock = config.training, config.learning_rate(), steps, clock
        self.reason = "finished"

    def on_train_batch_start(self, trainer: Any, module: TrainingModule, *_: Any) -> None:  # type: ignore[override]
        done = progress(module.step, self.steps, self.clock.session, self.settings.max_minutes)
        rate = learning_rate(self.base, module.step, done, self.settings.warmup_steps, self.settings.milestones,
                             self.settings.decay)
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = rate
        module.rate = rate

    def on_train_batch_end(self, trainer: Any, module: TrainingModule, *_: Any) -> None:  # type: ignore[override]
        module.step += 1
        limit = self.settings.max_minutes
        up = limit is not None and self.clock.session >= limit
        if trainer.strategy.reduce_boolean_decision(up, all=False) and module.step < self.steps:
            self.reason, trainer.should_stop = "time", True


class Interruption(lightning.Callback):
    """The first Ctrl-C (or SIGTERM) ends training after the present step; the second one ends it at once."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.asked = False
        self.previous: dict[int, Any] = {}

    def on_train_start(self, trainer: Any, module: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, self._ask)

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        asked = trainer.strategy.reduce_boolean_decision(self.asked, all=False)
        if asked and module.step < self.schedule.steps:
            self.schedule.reason, trainer.should_stop = "interrupted", True

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self.restore()

    def restore(self) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)
        self.previous.clear()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(130)  # at once: the last checkpoint stays
        self.asked = True


class Recorder(lightning.Callback):
    """Writes the run folder as training goes on: metrics, skipped images, checkpoints, previews."""

    def __init__(self, run: Run, config: Config, steps: int, epoch_steps: int, clock: Clock, previewer: Previewer,
                 validate: Validator | None):
        self.run, self.steps, self.epoch_steps, self.clock = run, steps, epoch_steps, clock
        self.previewer, self.validate = previewer, validate
        self.log_every = max(1, steps // 1000)
        self.checkpoint_minutes = config.training.checkpoint_minutes
        self.saved_at = clock.session
        self.skipped: dict[str, str] = {}

    def on_train_batch_end(  # type: ignore[override]
        self, trainer: Any, module: TrainingModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = module.step
        if trainer.is_global_zero:
            self._note_skipped(module.skipped)
            self._log(trainer, module)
        if step % self.epoch_steps == 0 and step != self.steps:
            self._milestone(trainer, module)
        if trainer.is_global_zero and self.clock.session - self.saved_at >= self.checkpoint_minutes:
            self.save(trainer, module)

    def on_train_end(self, trainer: Any, module: TrainingModule) -> None:  # type: ignore[override]
        if trainer.is_global_zero:
            self.save(trainer, module)
        self._milestone(trainer, module)

    def _log(self, trainer: Any, module: TrainingModule) -> None:
        step = module.step
        if step % self.log_every == 0 or step == self.steps:
            figures = module.figures | {"learning_rate": module.rate}
            self.run.log({"step": step, "epoch": step / self.epoch_steps, "minutes": round(self.clock.total, 3)}
                         | {name: round(value, 6) for name, value in figures.items()})
            for name, value in figures.items():
                trainer.logger.experiment.add_scalar(name, value, step)

    def save(self, trainer: Any, module: TrainingModule) -> None:
        """The whole state of training; everything random derives from the seed and the step."""
        self.run.save_checkpoint({
            "step": module.step,
            "minutes": self.clock.total,
            "model": module.model.trainable_state(),
            "optimizer": trainer.optimizers[0].state_dict(),
            "precision": trainer.precision_plugin.state_dict(),
            "initial_parts": module.initial_parts.state_dict() if module.initial_parts else {},
        })
        self.saved_at = self.clock.session

    def _milestone(self, trainer: Any, module: TrainingModule) -> None:
        """A preview by the first process; a validation by all, who share its images."""
        module.model.eval()
        if trainer.is_global_zero:
            self.previewer.save(module.model, self.run.previews / f"step-{module.step:06d}.png")
        figures = self.validate(module.model) if self.validate else None
        if figures is not None and trainer.is_global_zero:
            self.run.log({"step": module.step, "evaluation": "validation", **figures})
            log.info("Step %d, validation: %s.", module.step, ", ".join(
                f"{name} {value:.1f}" for name, value in figures.items() if value is not None))
        module.model.train()

    def _note_skipped(self, skipped: Mapping[str, str]) -> None:
        new = {name: reason for name, reason in skipped.items() if name not in self.skipped}
        if new:
            self.skipped |= new
            self.run.note_skipped(new)


class CollapseWatch(lightning.Callback):
    """Says so while training still runs when every pixel becomes one part, or none is left as foreground."""

    patience = 50  # steps in a row; the first steps of a run look like that too

    def __init__(self) -> None:
        self.steps = 0
        self.told = False

    def on_train_batch_end(self, trainer: Any, module: TrainingModule, *_: Any) -> None:  # type: ignore[override]
        figures = module.figures
        fault = collapse(figures["foreground_share"], figures["largest_share"])
        self.steps = self.steps + 1 if fault else 0
        if fault and self.steps >= self.patience and not self.told and trainer.is_global_zero:
            self.told = True
            log.warning("Step %d: %s for %d steps in a row; the parts have collapsed. Try fewer parts, a lower "
                        "training.learning_rate, or another loss.border.", module.step, fault, self.steps)


def collapse(foreground_share: float, largest_share: float) -> str | None:
    """What is wrong with the use of the parts, if anything."""
    if foreground_share < 0.002:
        return "no pixel belongs to a part"
    if largest_share > 0.995:
        return "every pixel belongs to one part"
    return None
