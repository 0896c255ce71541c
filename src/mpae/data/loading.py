"""Pictures as prediction needs them, read ahead by other processes and in constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from mpae.data.augment import make_view
from mpae.data.source import ImageSource, UnreadableImage
from mpae.drawing.overlay import viewing_size
from mpae.errors import MPAEError


@dataclass(frozen=True)
class Input:
    """One picture: what the model sees, and what its files need to know of it."""

    index: int
    pixels: np.ndarray  # (S, S, 3) uint8, the whole picture squashed
    size: tuple[int, int]  # width and height of the picture
    view: np.ndarray | None  # (H, W, 3) uint8, the picture at a size to look at, if overlays are made


@dataclass(frozen=True)
class Unreadable:
    index: int
    reason: str


def read_batches(source: ImageSource, indices: Sequence[int], image_size: int, batch_size: int, workers: int,
                 with_view: bool) -> Iterator[list[Input | Unreadable]]:
    """The pictures with these indices, in order and in batches, whatever their sizes."""
    workers = min(workers, len(indices))
    # Single pictures are fetched, two batches ahead: what waits does not grow with the number of workers.
    ahead = -(-2 * batch_size // workers) if workers else None
    loader = DataLoader(
        _Inputs(source, indices, image_size, with_view), batch_size=None, num_workers=workers,
        prefetch_factor=ahead, generator=torch.Generator())  # without one it draws from the global state
    batch: list[Input | Unreadable] = []
    for item in loader:
        if isinstance(item, MPAEError):
            raise item
        batch.append(item)
        if len(batch) == batch_size:
            yield batch
            batch = []
    if batch:
        yield batch


class _Inputs(Dataset[Input | Unreadable | MPAEError]):
    def __init__(self, source: ImageSource, indices: Sequence[int], image_size: int, with_view: bool):
        self.source, self.indices, self.image_size, self.with_view = source, indices, image_size, with_view

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: int) -> Input | Unreadable | MPAEError:
        index = self.indices[position]
        try:
            picture = self.source[index]
        except UnreadableImage as error:
            return Unreadable(index, str(error))
        except MPAEError as error:  # returned, for a worker that raises adds its traceback to the sentence
            return error
        view = None
        if self.with_view:
            view = np.asarray(picture.image.resize(viewing_size(picture.image.size), Image.Resampling.BICUBIC))
        return Input(index, make_view(picture, view=0, size=self.image_size), picture.image.size, view)
