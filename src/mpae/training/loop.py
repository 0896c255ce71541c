"""The training loop: draw, forward, loss, backward, step, log, preview, checkpoint.

Lightning Fabric moves the model to its device, casts to the chosen precision and averages gradients over processes; it
decides nothing. A step depends on the weights, the optimiser's state, the seed and its number, and on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor, nn

from mpae.baselines.method import PartMethod
from mpae.config import Config
from mpae.data.loading import Batch
from mpae.distributed import gather_items, on_first_process, rank_and_size
from mpae.errors import MPAEError
from mpae.initial_parts.find import InitialParts
from mpae.losses.objective import Objective
from mpae.losses.perceptual import PerceptualNetwork
from mpae.model import MPAE
from mpae.model.masking import random_mask, random_window
from mpae.training.begin import RunParts
from mpae.training.held import EVERY, Held
from mpae.training.progress import Display, figures_line
from mpae.training.record import Recorder
from mpae.training.schedule import Plan, learning_rate, progress
from mpae.training.watch import Clock, CollapseWatch, Every, Interruption

WHAT_WORKS = ("the last good checkpoint stays. Start a new run with another --out and a lower training.learning_rate, "
              "more training.warmup_steps or precision 32-true; --resume goes on from the checkpoint with the settings "
              "as they are.")


class StepLosses(nn.Module):
    """The forward pass of a step as one module, which several processes share: images and masks -> losses."""

    places: Tensor | None

    def __init__(self, model: MPAE, objective: Objective, initial_parts: InitialParts | RunParts | None,
                 places: Tensor | None = None):
        super().__init__()
        self.model, self.objective, self.initial_parts = model, objective, initial_parts
        self.register_buffer("places", places, persistent=False)  # (E, q), directions that the model does without

    def forward(self, pixels: Tensor, mask: Tensor,
                window: Tensor | None = None) -> tuple[dict[str, Tensor], Tensor]:
        """pixels (B, 3, S, S) uint8, mask (B, N), window (B, side²) of patches to restore, or all -> every loss term;
        at how many positions each part is, (K+1,)."""
        images = pixels.float() / 255  # (B, 3, S, S)
        frozen = self.model.backbone(images)  # (B, E, h, w)
        output = self.model(images, mask, frozen, window)
        initial_parts = self.initial_parts(frozen) if self.initial_parts else None  # (B, K+1, h, w)
        return self.objective(output, output.target, initial_parts), part_counts(output.similarity)


class MethodLosses(nn.Module):
    """The same for a comparison system: images, and what it asked for beside them -> losses."""

    initial_parts = places = None

    def __init__(self, model: PartMethod, vgg: PerceptualNetwork | None):
        super().__init__()
        self.model, self.vgg = model, vgg

    def forward(self, pixels: Tensor, beside: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        terms, similarity = self.model(pixels, beside, self.vgg)
        return terms, part_counts(similarity)


def train(fabric: Any, config: Config, plan: Plan, losses: Any, optimizer: Any, batches: Iterable[Batch],
          held: Held | None, clock: Clock, record: Recorder, display: Display) -> tuple[int, str]:
    """Step until the run is finished, parts no longer change, time is up or someone interrupts: the number of the last
    step, and which it was.

    Args:
        fabric: Lightning Fabric; `losses` (a StepLosses) and `optimizer` are wrapped by it.
        batches: this process's share of the batch of each step.
        held: images set aside, to see whether parts still change.
    """
    training, model, device, step = config.training, losses.model, fabric.device, plan.first
    previews, checkpoints, watch = Every(training.preview_minutes), Every(training.checkpoint_minutes), CollapseWatch()
    stop = None
    if step == 0:
        display("preview", 0, 1)
        record.preview(model, step)
        display("preview", 1, 1)
    display("step", step, plan.steps)
    with Interruption() as interruption:
        for batch in batches:
            done = progress(step, plan.steps, clock.session, training.max_minutes)
            rate = set_learning_rate(optimizer, config, step, done, held.drops if held else 0)
            pixels = batch.images.to(device)  # (B, 3, S, S)
            drawn = step_mask(config, model, step, len(pixels), device) if isinstance(model, MPAE) else \
                [step_beside(config, batch, step, device)]

            terms, counts = losses(pixels, *drawn)
            figures, skipped = of_all_processes(terms, counts, {each.name: each.reason for each in batch.unreadable})
            check_finite(figures, step + 1)
            optimizer.zero_grad()
            fabric.backward(terms["total"])
            norm = fabric.clip_gradients(losses, optimizer, max_norm=training.clip_norm, error_if_nonfinite=False)
            check_gradient(norm, training.precision, step + 1)
            optimizer.step()
            if losses.places is not None:
                model.forget(losses.places)
            step += 1

            record.log(step, figures | {"learning_rate": rate}, skipped)
            if held and step % EVERY == 0:
                record.note(step, look(held, model))
            if previews.due():
                record.preview(model, step)
            if step % plan.epoch == 0 and step < plan.steps:
                record.validate(model, step, display)
            if checkpoints.due():
                record.checkpoint(step)
            watch(figures, step)
            display("step", step, plan.steps, figures_line(figures), clock.left(training.max_minutes))
            settled = held is not None and held.drops > len(training.milestones)
            stop = reason_to_stop(interruption.asked, clock.left(training.max_minutes) <= 0, device) or (
                "settled" if settled else None)
            if stop and step < plan.steps:
                break
    record.checkpoint(step)
    record.preview(model, step)
    record.validate(model, step, display)
    return step, stop if stop and step < plan.steps else "finished"


def look(held: Held, model: MPAE) -> dict[str, float]:
    """What the first process sees in the images set aside, noted by all."""
    figures = on_first_process(lambda: held.look(model))
    held.note(figures)
    return figures


def set_learning_rate(optimizer: torch.optim.Optimizer, config: Config, step: int, done: float, drops: int) -> float:
    """The learning rate of this step, set and returned; `done` is the share of the run that is done, `drops` how often
    parts came to rest before."""
    training = config.training
    rate = learning_rate(config.learning_rate(), step, done, training.warmup_steps, training.milestones, training.decay,
                         drops, training.schedule)
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("scale", 1.0)
    return rate


def step_mask(config: Config, model: MPAE, step: int, batch: int, device: torch.device) -> list[Tensor]:
    """This process's share of the masks (batch, N) of this step and, if there are any, of the windows to restore
    (batch, side²), drawn from the seed and the step alone."""
    rank, processes = rank_and_size()
    generator = torch.Generator().manual_seed(config.training.seed * 1_000_003 + step)
    grid_h, grid_w = model.decoder.grid
    share = slice(rank * batch, (rank + 1) * batch)
    mask = random_mask(batch * processes, grid_h * grid_w, config.model.mask_ratio, generator)[share]
    side = config.model.window
    if side is None or side >= min(grid_h, grid_w):
        return [mask.to(device)]
    window = random_window(batch * processes, (grid_h, grid_w), side, generator)[share]
    return [mask.to(device), window.to(device)]


def step_beside(config: Config, batch: Batch, step: int, device: torch.device) -> dict[str, Tensor]:
    """What a comparison system is given beside the images of this step, and the seed of all that it draws."""
    seed = (config.training.seed * 1_000_003 + step) * 1009 + rank_and_size()[0]
    return {name: values.to(device) for name, values in batch.beside.items()} | {"seed": torch.tensor(seed)}


@torch.no_grad()
def of_all_processes(terms: Mapping[str, Tensor], counts: Tensor,
                     skipped: dict[str, str]) -> tuple[dict[str, float], dict[str, str]]:
    """Loss terms and use of the parts in the whole batch, and its unreadable images.

    All processes have the same, so that all stop at a loss that is no number: where one alone stops, the others wait.
    """
    values = torch.stack([term.float() for term in terms.values()])
    processes = rank_and_size()[1]
    if processes > 1:
        sums = torch.cat([values, counts, counts.new_tensor([len(skipped)])])
        distributed.all_reduce(sums)
        values, counts = sums[: len(values)] / processes, sums[len(values) : -1]
        skipped = dict(gather_items(list(skipped.items()))) if sums[-1] else skipped
    return dict(zip(terms, values.tolist(), strict=True)) | part_usage(counts), skipped


@torch.no_grad()
def part_counts(similarity: Tensor) -> Tensor:
    """(B, K+1, h, w) -> (K+1,): positions of a batch where each part is the most likely."""
    return torch.bincount(similarity.argmax(dim=1).flatten(), minlength=similarity.shape[1]).float()


def part_usage(counts: Tensor) -> dict[str, float]:
    """How the parts are used in a batch: share of foreground, parts found at all, share of the largest."""
    shares = counts / counts.sum()
    return {
        "foreground_share": 1 - shares[-1].item(),
        "parts_used": float((counts[:-1] > 0).sum()),
        "largest_share": shares.max().item(),
    }


def check_finite(figures: Mapping[str, float], step: int) -> None:
    """Stop at the first loss that is no number, by its name: the last good checkpoint stays."""
    bad = [name for name, value in figures.items() if not math.isfinite(value) and name != "total"]
    if bad or not math.isfinite(figures["total"]):
        name = bad[0] if bad else "total"
        raise MPAEError(f"Loss '{name}' became {figures[name]} at step {step}; {WHAT_WORKS}")


def check_gradient(norm: Tensor, precision: str, step: int) -> None:
    """Stop before a gradient that is no number reaches the weights; the scaling of 16-mixed leaves such steps out."""
    if not torch.isfinite(norm) and precision != "16-mixed":
        raise MPAEError(f"The gradient became {norm.item()} at step {step}; {WHAT_WORKS}")


def reason_to_stop(interrupted: bool, time_is_up: bool, device: torch.device) -> str | None:
    """Why all processes stop after this step, if any of them has a reason."""
    reason = torch.tensor(2 if interrupted else int(time_is_up), device=device)
    if rank_and_size()[1] > 1:
        distributed.all_reduce(reason, distributed.ReduceOp.MAX)
    return (None, "time", "interrupted")[int(reason)]
