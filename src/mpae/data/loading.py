"""The one reader of batches: for training, prediction, evaluation and report.

Other processes read ahead, single pictures in order, and at most two batches: what waits grows neither with the
number of images nor with that of the processes.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, tee
from typing import cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from mpae.data.augment import make_view
from mpae.data.beside import Beside
from mpae.data.geometry import Size, resize_labels
from mpae.data.source import AnnotatedSource, Annotation, ImageSource, Picture, UnreadableImage
from mpae.errors import MPAEError

Place = tuple[int, int]  # which image, which view of it
NOTHING = Annotation()


@dataclass(frozen=True)
class Sample:
    """One picture: what the model sees, and what was asked for beside it."""

    index: int
    name: str
    pixels: np.ndarray  # (S, S, 3) uint8
    size: Size  # width and height of the picture
    shown: np.ndarray | None = None  # (H, W, 3) uint8, the picture at a size to look at
    annotation: Annotation = NOTHING  # the part_mask squashed to the size of labels
    beside: dict[str, np.ndarray] = field(default_factory=dict)  # what a comparison system asked for


@dataclass(frozen=True)
class Unreadable:
    """A picture that cannot be read, and why."""

    index: int
    name: str
    reason: str


@dataclass(frozen=True)
class Batch:
    samples: list[Sample]
    unreadable: list[Unreadable]

    @property
    def images(self) -> Tensor:
        """(B, 3, S, S) uint8."""
        height, width, channels = self.samples[0].pixels.shape
        images = np.empty((len(self.samples), channels, height, width), dtype=np.uint8)
        for place, sample in enumerate(self.samples):  # a quarter of the time of torch's permute and contiguous
            images[place] = sample.pixels.transpose(2, 0, 1)
        return torch.from_numpy(images)

    @property
    def beside(self) -> dict[str, Tensor]:
        """What `PictureReader.beside` gives of each image, stacked: (B, ...)."""
        return {name: torch.from_numpy(np.stack([sample.beside[name] for sample in self.samples]))
                for name in self.samples[0].beside}

    def __len__(self) -> int:
        return len(self.samples) + len(self.unreadable)


@dataclass(frozen=True)
class PictureReader(Dataset[list[Sample | Unreadable] | MPAEError]):
    """Place -> the picture as a sample, after those that could not be read."""

    source: ImageSource
    image_size: int
    shown_size: Callable[[Size], Size] | None = None  # size of a picture -> size of `shown`
    label_size: int | None = None  # read the annotation too, its label maps at this side
    reading: str = "ours"  # how augmented views are made, ours or released
    seed: int = 0  # of the run; released views follow it
    beside: Beside | None = None  # for a comparison system
    substitute: bool = False  # the next readable picture takes the place of an unreadable one

    def __getitem__(self, place: Place) -> list[Sample | Unreadable] | MPAEError:
        index, view = place
        try:
            if not self.substitute:
                return [self._sample(index, self.source[index], view)]
            picture, current, unreadable = first_readable(self.source, index)
            return [*unreadable, self._sample(current, picture, view)]
        except UnreadableImage as error:
            return [Unreadable(index, self.source.names[index], str(error))]
        except MPAEError as error:  # returned, for a worker that raises adds its traceback to the sentence
            return error

    def _sample(self, index: int, picture: Picture, view: int) -> Sample:
        shown, annotation, image = None, NOTHING, picture.image
        if self.shown_size is not None:
            shown = np.asarray(image.resize(self.shown_size(image.size), Image.Resampling.BICUBIC))
        if self.label_size is not None:
            annotation = cast(AnnotatedSource, self.source).annotation(index)
            if annotation.part_mask is not None:  # only what evaluation reads goes from process to process
                labels = resize_labels(annotation.part_mask, (self.label_size, self.label_size))
                annotation = replace(annotation, part_mask=labels)
        pixels = make_view(picture, view, self.image_size, self.reading, self.seed)
        beside = self.beside(index, picture, view, self.image_size, self.reading, self.seed) if self.beside else {}
        return Sample(index, picture.name, pixels, image.size, shown, annotation, beside)


def read_batches(reader: PictureReader, batches: Iterable[Sequence[Place]], workers: int = 0) -> Iterator[Batch]:
    """A batch for each list of places, in order; `workers` processes read ahead, or none."""
    planned, wanted = tee(batches)
    first = next(wanted, [])
    loader = iter(DataLoader(
        reader, batch_size=None, sampler=chain.from_iterable(planned), num_workers=workers,
        prefetch_factor=max(1, -(-2 * len(first) // workers)) if workers else None, worker_init_fn=_default_signals,
        generator=torch.Generator()))  # a loader without one draws from the global random state
    for places in chain([first] if first else [], wanted):
        items: list[Sample | Unreadable] = []
        for found in islice(loader, len(places)):
            if isinstance(found, MPAEError):
                raise found
            items += found
        yield Batch([item for item in items if isinstance(item, Sample)],
                    [item for item in items if isinstance(item, Unreadable)])


def in_batches(indices: Sequence[int], batch_size: int) -> Iterator[list[Place]]:
    """Whole pictures (view 0), `batch_size` at once; the last batch may be smaller."""
    for start in range(0, len(indices), batch_size):
        yield [(index, 0) for index in indices[start : start + batch_size]]


def first_readable(source: ImageSource, index: int) -> tuple[Picture, int, list[Unreadable]]:
    """The picture at `index`, or the next one that can be read, where it is, and those that could not be read."""
    unreadable: list[Unreadable] = []
    for offset in range(len(source)):
        current = (index + offset) % len(source)
        try:
            return source[current], current, unreadable
        except UnreadableImage as error:
            unreadable.append(Unreadable(current, source.names[current], str(error)))
    first = f"the first, '{unreadable[0].name}': {unreadable[0].reason}" if unreadable else "there is none"
    raise MPAEError(f"None of the {len(source)} images can be read; {first}.")


def _default_signals(_: int) -> None:
    """A worker leaves Ctrl-C to its parent, whose handlers it inherited, and ends when it is told to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
