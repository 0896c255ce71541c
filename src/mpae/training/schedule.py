"""Where a run is, and what the learning rate is there: pure functions of step and time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Plan(NamedTuple):
    """Which steps a session takes."""

    first: int  # steps that are done when it begins
    steps: int  # of the whole run
    epoch: int  # steps of an epoch


def total_steps(per_epoch: int, epochs: int, max_steps: int | None) -> int:
    """Steps of a whole run."""
    steps = epochs * per_epoch
    return steps if max_steps is None else min(steps, max_steps)


def steps_per_epoch(images: int, batch_size: int, partial: bool = False, processes: int = 1) -> int:
    """An epoch leaves out the images that do not fill a batch; with `partial` they are a smaller one.

    Each of several processes takes as many of them as the others, so there must be one for each.
    """
    rest = images % batch_size if partial else 0
    return max(1, images // batch_size + (rest >= processes))


def progress(step: int, steps: int, minutes: float, max_minutes: float | None) -> float:
    """The share of the run that is done, by steps or by time, whichever is further: 0..1."""
    done = step / steps
    return min(1.0, done if max_minutes is None else max(done, minutes / max_minutes))


def learning_rate(base: float, step: int, done: float, warmup_steps: int, milestones: Sequence[float],
                  decay: float, drops: int = 0, schedule: str = "steps") -> float:
    """A linear rise over the warm-up, then one drop at each milestone, given as a share of the run ("steps"), or half a
    cosine that ends at 0 ("cosine").

    Args:
        drops: those that came before their milestone, or on top of the cosine.
    """
    rise = min(1.0, (step + 1) / (warmup_steps + 1))
    reached = sum(done >= milestone for milestone in milestones) if schedule == "steps" else 0
    fall = (1 + math.cos(math.pi * done)) / 2 if schedule == "cosine" else 1.0
    return base * rise * fall * decay ** min(len(milestones), max(reached, drops))
