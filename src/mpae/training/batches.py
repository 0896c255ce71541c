"""The stream of training batches: a pure function of the seed and the step.

Nothing about the stream is stored in a checkpoint. A run that goes on at step 120 asks for step 120.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mpae.data.loading import Place
from mpae.training.schedule import steps_per_epoch


def places(step: int, *, images: int, batch_size: int, views: int | None, seed: int, reuse: int = 1,
           partial: bool = False, processes: int = 1) -> list[Place]:
    """The images and views of one step. Each epoch is a new order; an image's view changes each epoch.

    Args:
        views: the views come round again after so many (their features are kept); without it they never do.
        reuse: before the epochs a slow one, in which one image of so many is new; the others were shown before.
        partial: the last batch of an epoch holds what is left, in equal shares for all processes.
    """
    slow = slow_steps(images, batch_size, reuse)
    if step < slow:
        return slow_places(step, images, batch_size, views or 1, seed, batch_size // reuse)
    epoch, within = divmod(step - slow, steps_per_epoch(images, batch_size, partial, processes))
    epoch += slow > 0
    order = np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(images)
    chosen = np.resize(order, max(batch_size, images))[within * batch_size : (within + 1) * batch_size]
    chosen = chosen[: len(chosen) // processes * processes]
    return [(int(index), (epoch + int(index)) % views if views else 1 + epoch) for index in chosen]


def slow_steps(images: int, batch_size: int, reuse: int) -> int:
    """Steps before each image was shown once, where one of `reuse` images of a step is new; none without reuse."""
    new = batch_size // reuse
    return -(-max(0, images - batch_size) // new) + 1 if reuse > 1 and new else 0


def slow_places(step: int, images: int, batch_size: int, views: int, seed: int, new: int) -> list[Place]:
    """The first step shows a whole batch; each later one `new` images more, and for the rest some that were shown."""
    order = np.random.Generator(np.random.Philox(key=[seed, 0])).permutation(images)
    shown = min(images, batch_size + max(0, step - 1) * new) if step else 0
    fresh = order[shown : shown + (new if step else batch_size)]
    again = np.random.Generator(np.random.Philox(key=[seed, 2**63 + step])).permutation(order[:shown])
    chosen = np.resize(np.concatenate([fresh, again]), batch_size)
    return [(int(index), int(index) % views) for index in chosen]


class StepSampler:
    """The places of every step from `start` to `steps`; a process of several takes its share of each step."""

    def __init__(self, start: int, steps: int, rank: int, world: int, **stream: Any):
        self.start, self.steps, self.rank, self.world, self.stream = start, steps, rank, world, stream

    def __iter__(self) -> Iterator[list[Place]]:
        for step in range(self.start, self.steps):
            whole = places(step, processes=self.world, **self.stream)
            share = len(whole) // self.world
            yield whole[self.rank * share : (self.rank + 1) * share]

    def __len__(self) -> int:
        return self.steps - self.start
