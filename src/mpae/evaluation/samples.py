"""Annotated pictures as evaluation needs them, read ahead by other processes and in constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from mpae.data.augment import make_view
from mpae.data.geometry import resize_labels
from mpae.data.source import AnnotatedSource, Annotation, UnreadableImage
from mpae.errors import MPAEError

LABEL_SIZE = 128  # the side at which labels are compared (MPAE's protocol)


@dataclass(frozen=True)
class Sample:
    """One picture: what the model sees, and what people marked in it."""

    index: int
    pixels: np.ndarray  # (S, S, 3) uint8, the whole picture squashed
    size: tuple[int, int]  # width and height of the picture
    annotation: Annotation  # as the source gives it, but the part_mask squashed to (128, 128)


@dataclass(frozen=True)
class Unusable:
    index: int
    reason: str


@dataclass(frozen=True)
class Batch:
    images: Tensor  # (B, S, S, 3) uint8
    samples: list[Sample]  # B of them
    skipped: list[Unusable]


def read_batches(source: AnnotatedSource, indices: Sequence[int], image_size: int, batch_size: int,
                 workers: int) -> Iterator[Batch]:
    """The pictures with these indices in order; those that cannot be read are listed, not raised."""
    loader = DataLoader(
        _Samples(source, indices, image_size), batch_size, num_workers=workers, collate_fn=_collate,
        generator=torch.Generator())  # a loader without one draws from the global random state
    for batch in loader:
        if isinstance(batch, MPAEError):
            raise batch
        yield batch


def spread(total: int, limit: int | None) -> range | list[int]:
    """All indices, or `limit` of them at even distances: benchmarks are sorted by class."""
    if limit is None or limit >= total:
        return range(total)
    return [position * total // limit for position in range(limit)]


class _Samples(Dataset[Sample | Unusable | MPAEError]):
    def __init__(self, source: AnnotatedSource, indices: Sequence[int], image_size: int):
        self.source, self.indices, self.image_size = source, indices, image_size

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: int) -> Sample | Unusable | MPAEError:
        index = self.indices[position]
        try:
            picture, annotation = self.source[index], self.source.annotation(index)
        except UnreadableImage as error:
            return Unusable(index, str(error))
        except MPAEError as error:  # returned, for a worker that raises adds its traceback to the sentence
            return error
        pixels = make_view(picture, view=0, size=self.image_size)
        return Sample(index, pixels, picture.image.size, _squashed(annotation))


def _squashed(annotation: Annotation) -> Annotation:
    """Only what evaluation reads goes from process to process: a part mask at the size of the labels."""
    if annotation.part_mask is None:
        return annotation
    return replace(annotation, part_mask=resize_labels(annotation.part_mask, (LABEL_SIZE, LABEL_SIZE)))


def _collate(items: list[Sample | Unusable | MPAEError]) -> Batch | MPAEError:
    for item in items:
        if isinstance(item, MPAEError):
            return item
    samples = [item for item in items if isinstance(item, Sample)]
    skipped = [item for item in items if isinstance(item, Unusable)]
    images = torch.from_numpy(np.stack([sample.pixels for sample in samples])) if samples else torch.empty(0)
    return Batch(images, samples, skipped)
