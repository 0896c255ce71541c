"""Where a run is, and what the learning rate is there: pure functions of step and time."""

from __future__ import annotations

from collections.abc import Sequence


def total_steps(images: int, batch_size: int, epochs: int, max_steps: int | None) -> int:
    """Steps of a whole run; an epoch leaves out the images that do not fill a batch."""
    steps = epochs * steps_per_epoch(images, batch_size)
    return steps if max_steps is None else min(steps, max_steps)


def steps_per_epoch(images: int, batch_size: int) -> int:
    return max(1, images // batch_size)


def progress(step: int, steps: int, minutes: float, max_minutes: float | None) -> float:
    """The share of the run that is done, by steps or by time, whichever is further: 0..1."""
    done = step / steps
    return min(1.0, done if max_minutes is None else max(done, minutes / max_minutes))


def learning_rate(base: float, step: int, done: float, warmup_steps: int, milestones: Sequence[float],
                  decay: float) -> float:
    """A linear rise over the warm-up, then one drop at each milestone, given as a share of the run."""
    rise = min(1.0, (step + 1) / (warmup_steps + 1))
    drops = sum(done >= milestone for milestone in milestones)
    return base * rise * decay**drops
