"""Several random starts, of which the one with the clearest parts goes on (ours, not the paper's).

Which parts come out of random weights is decided in the first steps, by the random seed, and later steps do not mend
it. How well a start went can be told without a label: where parts lie on things that features tell apart, every patch
soon knows its part, and L_e, the paper's entropy of the similarity maps, is small. The start with the least L_e is
taken, of those in which most parts are used. docs/studies/heart.md has what that gives, and other measures.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mpae.config import Config
from mpae.data.loading import Batch
from mpae.losses.distribution import entropy_loss
from mpae.model import MPAE
from mpae.training.loop import StepLosses, part_counts, set_learning_rate, step_mask

log = logging.getLogger("mpae")

STEPS = 75  # of each start, at most
SHARE = 1 / 4  # of the steps of the run, at most
MOST = 3 / 4  # of the parts; where fewer are used at all, a start has gone wrong
APART = 7919  # between the random seeds of starts
BATCH = 16  # images that are judged together

Progress = Callable[[str, int, int], None]  # what is done, how much of it, out of how much


class Start(NamedTuple):
    """Where training may go on."""

    weights: dict[str, Tensor]
    compress_rate: float
    quality: Quality


class Quality(NamedTuple):
    """How good a start is: the larger, the better."""

    has_parts: bool  # whether MOST of them are used
    clear: float  # - L_e


def steps_of_start(steps: int) -> int:
    """How many steps a start has where a run has so many.

    >>> steps_of_start(600), steps_of_start(160), steps_of_start(3)
    (75, 40, 0)
    """
    return min(STEPS, int(SHARE * steps))


def best_start(config: Config, steps: int, draw: Callable[[int], StepLosses],
               optimizer_of: Callable[[MPAE], torch.optim.Optimizer], batches: Callable[[], Iterator[Batch]],
               judged_on: tuple[Tensor, Tensor], device: torch.device, progress: Progress) -> Start:
    """Try `training.starts` random starts, and return the best.

    Args:
        steps: of each.
        draw: a random seed -> new weights, ready to learn from; the seed of the run is the first.
        batches: those that the run itself begins with; every start sees the same.
        judged_on: images (n, 3, S, S) in [0, 1] and their frozen features (n, E, h, w), the same for every start.
    """
    best, number = None, config.training.starts
    for start in range(number):
        losses = draw((config.training.seed + APART * start) % 2**32).to(device)
        optimizer = optimizer_of(losses.model)
        for step, batch in zip(range(steps), batches(), strict=False):
            progress("random starts", start * steps + step, number * steps)
            take_step(config, losses, optimizer, batch, step, device)
        found = quality_of(losses.model, *judged_on, device)
        log.info("Random start %d of %d: L_e %.4f%s.", start + 1, number, -found.clear,
                 "" if found.has_parts else ", but few parts are used")
        if best is None or found > best.quality:
            weights = {name: weight.detach().cpu().clone() for name, weight in losses.model.trainable_state().items()}
            best = Start(weights, losses.model.compress_rate, found)
    progress("random starts", number * steps, number * steps)
    assert best is not None  # there is one start at least
    return best


def take_step(config: Config, losses: StepLosses, optimizer: torch.optim.Optimizer, batch: Batch, step: int,
              device: torch.device) -> None:
    """One step of training in this process alone, at the learning rate that a run begins with."""
    set_learning_rate(optimizer, config, step, done=0.0, drops=0)
    pixels = batch.images.to(device)  # (B, 3, S, S)
    drawn = step_mask(config, losses.model, step, len(pixels), device, alone=True)
    with torch.autocast(device.type, torch.bfloat16, enabled=config.training.precision == "bf16-mixed"):
        terms, _ = losses(pixels, *drawn)
    optimizer.zero_grad()
    terms["total"].backward()
    torch.nn.utils.clip_grad_norm_(losses.model.parameters(), config.training.clip_norm)
    optimizer.step()
    if losses.places is not None:
        losses.model.forget(losses.places)


@torch.no_grad()
def quality_of(model: MPAE, images: Tensor, frozen: Tensor, device: torch.device) -> Quality:
    """Of a start whose weights are these; the worst there is where maps are no numbers."""
    maps = torch.cat([model.describe(some.to(device), features.to(device).float()).logits.softmax(dim=1).cpu()
                      for some, features in zip(images.split(BATCH), frozen.split(BATCH), strict=True)])
    if not maps.isfinite().all():
        return Quality(False, -math.inf)
    used = part_counts(maps)[:-1] > 0  # (K,)
    return Quality(int(used.sum()) >= MOST * len(used), -float(entropy_loss(maps)))
