"""The stream of training batches: a pure function of the seed and the step.

Nothing about the stream is stored in a checkpoint. A run that goes on at step 120 asks for step 120.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from mpae.data.augment import make_view
from mpae.data.source import ImageSource, Picture, UnreadableImage
from mpae.errors import MPAEError
from mpae.training.schedule import steps_per_epoch

Place = tuple[int, int]  # which image, which view
Item = tuple[np.ndarray, dict[str, str]]  # pixels (S, S, 3) uint8, and the images that could not be read


class Batch(NamedTuple):
    """What a step receives; nothing of it is a label."""

    images: Tensor  # (B, 3, S, S) uint8
    skipped: dict[str, str]  # names of images that could not be read -> why


def places(step: int, *, images: int, batch_size: int, views: int | None, seed: int) -> list[Place]:
    """The images and views of one step. Each epoch is a new order; an image's view changes each epoch.

    With `views` given the views come round again (their features are kept); otherwise they never do.
    """
    epoch, within = divmod(step, steps_per_epoch(images, batch_size))
    order = np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(images)
    chosen = np.resize(order, max(batch_size, images))[within * batch_size : (within + 1) * batch_size]
    return [(int(index), (epoch + int(index)) % views if views else 1 + epoch) for index in chosen]


class StepSampler:
    """The places of every step from `start` to `steps`; a process of several takes its share of each step."""

    def __init__(self, start: int, steps: int, rank: int, world: int, **stream: Any):
        self.start, self.steps, self.rank, self.world, self.stream = start, steps, rank, world, stream

    def __iter__(self) -> Iterator[list[Place]]:
        for step in range(self.start, self.steps):
            whole = places(step, **self.stream)
            share = len(whole) // self.world
            yield whole[self.rank * share : (self.rank + 1) * share]

    def __len__(self) -> int:
        return self.steps - self.start


class TrainingViews(Dataset):
    """Image and view -> pixels (S, S, 3) uint8, and the images that could not be read in its place."""

    def __init__(self, source: ImageSource, size: int):
        self.source, self.size = source, size

    def __getitem__(self, place: Place) -> Item | MPAEError:
        index, view = place
        try:
            picture, skipped = first_readable(self.source, index)
        except MPAEError as error:  # returned, for a worker that raises adds its traceback to the sentence
            return error
        return make_view(picture, view, self.size), skipped


def first_readable(source: ImageSource, index: int) -> tuple[Picture, dict[str, str]]:
    """The picture at `index`, or the next one that can be read; and those that could not, with the reason."""
    skipped: dict[str, str] = {}
    for offset in range(len(source)):
        current = (index + offset) % len(source)
        try:
            return source[current], skipped
        except UnreadableImage as error:
            skipped[source.names[current]] = str(error)
    first = next(iter(skipped.items()), ("", "there is none"))
    raise MPAEError(f"None of the {len(source)} images can be read; the first, '{first[0]}': {first[1]}.")


def collate(items: Sequence[Item | MPAEError]) -> Batch | MPAEError:
    good: list[Item] = []
    for item in items:
        if isinstance(item, MPAEError):
            return item
        good.append(item)
    images = torch.from_numpy(np.stack([pixels for pixels, _ in good])).permute(0, 3, 1, 2)  # (B, 3, S, S)
    return Batch(images.contiguous(), {name: why for _, skipped in good for name, why in skipped.items()})


class TrainingLoader(DataLoader):
    """Raises what a worker found wrong, here where it can be told in one sentence."""

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        for batch in super().__iter__():
            if isinstance(batch, MPAEError):
                raise batch
            yield batch


def default_signals(_: int) -> None:
    """A worker leaves Ctrl-C to its parent, whose handlers it inherited, and ends when it is told to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def training_loader(source: ImageSource, size: int, sampler: StepSampler, workers: int) -> DataLoader:
    return TrainingLoader(
        TrainingViews(source, size), batch_sampler=sampler, collate_fn=collate, num_workers=workers,
        pin_memory=torch.cuda.is_available(), worker_init_fn=default_signals,
        generator=torch.Generator())  # a loader without one draws from the global random state
