"""Images set aside, which training never sees: do parts still change, and how well are hidden patches restored?

No label is looked at. Where parts have come to rest and hidden patches are restored no better the learning rate drops,
and after its last drop the run ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mpae.config import Config
from mpae.data.loading import PictureReader, in_batches, read_batches
from mpae.data.source import ImageSource
from mpae.data.sources.subsets import Pictures, spread
from mpae.losses.perceptual import PerceptualNetwork
from mpae.losses.restoration import perceptual_loss, pixel_loss
from mpae.model import MPAE
from mpae.model.masking import patchify, random_mask, unpatchify

EVERY = 50  # steps between two looks
BATCH = 16  # images that are looked at together
RESTORED = 2  # batches whose restoration is looked at too; VGG costs more than all the rest
STILL = 0.01  # share of the patches of parts that change from look to look; with less nothing changes any more
PATIENCE = 10  # looks in a row without a smaller change and without a smaller error, at least
SHARE = 1 / 2  # of all looks since the last rest that these are at least: what learns slowly is given time
BETTER = 0.995  # of the least error so far; what is not below that is no smaller error


def set_aside(source: ImageSource, number: int) -> tuple[ImageSource, ImageSource | None]:
    """Images to train on, and `number` of them at even distances, or a tenth, to look at; none where that is less
    than one."""
    number = min(number, len(source) // 10)
    if not number:
        return source, None
    held = set(spread(len(source), number))
    rest = [index for index in range(len(source)) if index not in held]
    return Pictures(source, rest), Pictures(source, sorted(held))


class Look(NamedTuple):
    """What one look at the images set aside told."""

    change: float  # share of the patches of parts that have another part than at the last look
    error: float  # of hidden patches: L1, and VGG distance where there is VGG


class Held:
    """Looks at the images set aside, and remembers what each look told.

    Args:
        state: of a checkpoint; a run that goes on compares with what was seen before.
    """

    def __init__(self, source: ImageSource, config: Config, perceptual: PerceptualNetwork | None,
                 state: dict[str, Tensor] | None = None):
        self.source, self.config, self.perceptual = source, config, perceptual
        state = state or {}
        self.labels = state.get("labels")  # (n, h, w) of the last look
        self.looks = [Look(*row) for row in state["looks"].tolist()] if "looks" in state else []

    def state_dict(self) -> dict[str, Tensor]:
        found = {"looks": torch.tensor(self.looks, dtype=torch.float64)}
        return found if self.labels is None else found | {"labels": self.labels}

    @property
    def drops(self) -> int:
        """How often the learning rate has dropped because the run had come to rest."""
        return rests(self.looks)

    @torch.no_grad()
    def look(self, model: MPAE) -> dict[str, float]:
        """Share of changed patches, where there was a look before, and errors of the restoration, means over images."""
        training, device = model.training, model.mean.device
        model.eval()
        labels, errors = [], []
        reader = PictureReader(self.source, model.image_size, substitute=True)
        for number, batch in enumerate(read_batches(reader, in_batches(range(len(self.source)), BATCH))):
            images = batch.images.to(device).float() / 255  # (B, 3, S, S)
            labels.append(model.part_logits(images).argmax(dim=1).to("cpu", torch.int16))  # (B, h, w)
            if number < RESTORED:
                errors.append(self._errors(model, images, self._mask(model, number, len(images)).to(device)))
        model.train(training)
        now, before = torch.cat(labels), self.labels
        self.labels = now
        pixel, perceptual = torch.cat(errors).mean(dim=0).tolist()
        figures = {"held_pixel": pixel} | ({"held_perceptual": perceptual} if self.perceptual else {})
        return figures if before is None else {"held_changed": changed(before, now, model.num_parts)} | figures

    def note(self, figures: dict[str, float]) -> None:
        """Remember a look; apart from `look`, which one process does for all."""
        if "held_changed" in figures:
            error = figures["held_pixel"] + figures.get("held_perceptual", 0.0)
            self.looks.append(Look(figures["held_changed"], error))

    def _mask(self, model: MPAE, number: int, images: int) -> Tensor:
        grid_h, grid_w = model.decoder.grid
        generator = torch.Generator().manual_seed(number)  # the same in every look
        return random_mask(images, grid_h * grid_w, self.config.model.mask_ratio, generator)

    def _errors(self, model: MPAE, images: Tensor, mask: Tensor) -> Tensor:
        """L1 and VGG distance of each image, (B, 2); visible patches are shown as they are, so that hidden ones alone
        count."""
        output = model(images, mask)
        shown = at_hidden(output.restored, output.target, mask, model.decoder.pixels_per_patch, model.decoder.grid)
        layers = min(5, min(shown.shape[-2:]).bit_length())  # of VGG, those that a small picture leaves room for
        errors = []
        for ours, theirs in zip(shown.split(1), output.target.split(1), strict=True):
            pixel = pixel_loss(ours, theirs) / mask.float().mean().clamp_min(1e-9)
            distance = torch.zeros_like(pixel)
            if self.perceptual:
                maps = [self.perceptual(image, layers) for image in (ours, theirs)]
                distance = perceptual_loss(maps[0], maps[1], [1 / layers] * layers)
            errors.append(torch.stack([pixel, distance]))
        return torch.stack(errors)


def changed(before: Tensor, now: Tensor, background: int) -> float:
    """Of the positions (n, h, w) that were or are of a part, the share whose part is another now."""
    parts = (before != background) | (now != background)
    return ((before != now) & parts).sum().item() / max(1, int(parts.sum()))


def rests(looks: Sequence[Look]) -> int:
    """How often a run came to rest: a change below STILL, or so many looks that saw neither a smaller change nor a
    smaller error than all since the last rest (PATIENCE, SHARE)."""
    found, seen, waited, least = 0, 0, 0, Look(float("inf"), float("inf"))
    for change, error in looks:
        seen += 1
        waited = 0 if change < least.change or error < BETTER * least.error else waited + 1
        least = Look(min(least.change, change), min(least.error, error))
        if change < STILL or waited >= max(PATIENCE, SHARE * seen):
            found, seen, waited, least = found + 1, 0, 0, Look(float("inf"), float("inf"))
    return found


def at_hidden(restored: Tensor, target: Tensor, mask: Tensor, pixels_per_patch: int, grid: tuple[int, int]) -> Tensor:
    """The target with its hidden patches (mask (B, N), True) as restored; images (B, 3, H', W')."""
    ours, theirs = patchify(restored, pixels_per_patch), patchify(target, pixels_per_patch)  # (B, N, 3p²)
    return unpatchify(torch.where(mask[:, :, None], ours, theirs), pixels_per_patch, grid)
