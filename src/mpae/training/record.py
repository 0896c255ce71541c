"""The run folder as training goes on: figures, skipped images, checkpoints, previews, validation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from torch.utils.tensorboard.writer import SummaryWriter

from mpae.distributed import rank_and_size
from mpae.run import Run
from mpae.training.preview import Previewer
from mpae.training.progress import Progress
from mpae.training.schedule import Plan
from mpae.training.watch import Clock

log = logging.getLogger("mpae")

Validator = Callable[[Any, Progress], Mapping[str, Any]]  # of a model
LOGGED = 1000  # about so many steps of a run are logged


class Recorder:
    """Only the first process writes; all take part in a validation, for they share its images.

    Args:
        state: gives what a checkpoint holds beside step and time.
        skipped: images that could not be read when the run began.
    """

    def __init__(self, run: Run, plan: Plan, clock: Clock, state: Callable[[], dict[str, Any]], previewer: Previewer,
                 validator: Validator | None, skipped: Mapping[str, str]):
        self.run, self.plan, self.clock, self.state = run, plan, clock, state
        self.previewer, self.validator, self.skipped = previewer, validator, dict(skipped)
        self.writes = rank_and_size()[0] == 0
        self.tensorboard = SummaryWriter(run.tensorboard, purge_step=plan.first or None) if self.writes else None

    def log(self, step: int, figures: Mapping[str, float], skipped: Mapping[str, str]) -> None:
        """The figures of a step, and the images that could not be read in it."""
        new = {name: reason for name, reason in skipped.items() if name not in self.skipped}
        self.skipped |= new
        if not self.tensorboard:
            return
        if new:
            self.run.note_skipped(new)
        if step % max(1, self.plan.steps // LOGGED) == 0 or step == self.plan.steps:
            self.run.log({"step": step, "epoch": step / self.plan.epoch, "minutes": round(self.clock.total, 3)}
                         | {name: round(value, 6) for name, value in figures.items()})
            for name, value in figures.items():
                self.tensorboard.add_scalar(name, value, step)

    def note(self, step: int, figures: Mapping[str, float]) -> None:
        """Figures that are not of a step of training, in a line of their own."""
        if self.tensorboard:
            self.run.log({"step": step, "minutes": round(self.clock.total, 3)}
                         | {name: round(value, 6) for name, value in figures.items()})
            for name, value in figures.items():
                self.tensorboard.add_scalar(name, value, step)

    def checkpoint(self, step: int) -> None:
        """The whole state of training; everything random derives from the seed and the step."""
        if self.writes:
            self.run.save_checkpoint({"step": step, "minutes": self.clock.total} | self.state())

    def preview(self, model: Any, step: int) -> None:
        if self.writes:
            self.previewer.save(model, self.run.previews / f"step-{step:06d}.png")

    def validate(self, model: Any, step: int, progress: Progress) -> None:
        if self.validator is None:
            return
        model.eval()
        figures = self.validator(model, progress)
        model.train()
        if self.writes:
            self.run.log({"step": step, "evaluation": "validation", **figures})
            log.info("Step %d, validation: %s.", step, ", ".join(
                f"{name} {value:.1f}" for name, value in figures.items() if value is not None))

    def close(self, model: Any, step: int) -> None:
        """The trained weights, at the end of a session."""
        if self.tensorboard:
            self.tensorboard.close()
            self.run.save_weights(model.trainable_state(), {"step": str(step)})
