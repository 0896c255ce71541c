"""The one reader of batches: in order, in constant memory, past bad images, with what was asked for."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from pictures import draw_photo
from PIL import Image

from mpae.data.augment import make_view
from mpae.data.images import digest_of
from mpae.data.loading import Batch, PictureReader, Place, Unreadable, first_readable, in_batches, read_batches
from mpae.data.source import Annotation, Picture, UnreadableImage
from mpae.errors import MPAEError


class Pictures:
    """A source of small pictures, some of which cannot be read."""

    def __init__(self, count: int, broken: Sequence[int] = ()):
        self.names = [f"{index}.png" for index in range(count)]
        self.broken = set(broken)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Picture:
        if index in self.broken:
            raise UnreadableImage(f"number {index} is torn")
        return Picture(self.names[index], draw_photo(index, (24 + index, 20)), digest_of(bytes([index])))

    def annotation(self, index: int) -> Annotation:
        labels = np.arange(20 * (24 + index)).reshape(20, 24 + index).astype(np.uint8)
        return Annotation(box=(index, 0, 1, 1), part_mask=labels)


PLACES: list[list[Place]] = [[(3, 0), (5, 1), (1, 0), (3, 2)], [(8, 1)], [(0, 1), (5, 0)]]


def loaded(source: Pictures, workers: int, places: list[list[Place]] = PLACES, **wanted: Any) -> list[Batch]:
    return list(read_batches(PictureReader(source, 28, **wanted), places, workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_hold_the_views_of_their_places(workers: int) -> None:
    source = Pictures(9)
    batches = loaded(source, workers)
    for batch, places in zip(batches, PLACES, strict=True):
        assert (batch.images.shape, batch.images.dtype) == ((len(places), 3, 28, 28), torch.uint8)
        for sample, image, (index, view) in zip(batch.samples, batch.images, places, strict=True):
            assert (sample.index, sample.name, sample.size) == (index, f"{index}.png", (24 + index, 20))
            assert sample.shown is None
            assert sample.annotation == Annotation()
            np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), make_view(source[index], view, 28))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_picture_is_listed_and_leaves_its_batch_smaller(workers: int) -> None:
    first, second, third = loaded(Pictures(9, broken=[8, 5]), workers)
    assert [sample.index for sample in first.samples] == [3, 1, 3]
    assert first.unreadable == [Unreadable(5, "5.png", "number 5 is torn")]
    assert (second.samples, len(second)) == ([], 1)
    assert len(third) == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_in_training_the_next_readable_picture_takes_its_place(workers: int) -> None:
    first, second, third = loaded(Pictures(9, broken=[5, 6, 8]), workers, substitute=True)
    assert [sample.index for sample in first.samples] == [3, 7, 1, 3]
    assert [each.name for each in first.unreadable] == ["5.png", "6.png"]
    assert [sample.index for sample in second.samples] == [0]
    assert [sample.index for sample in third.samples] == [0, 7]


def half(size: tuple[int, int]) -> tuple[int, int]:
    return size[0] // 2, size[1] // 2


def test_a_sample_carries_what_was_asked_for() -> None:
    source = Pictures(9)
    sample = loaded(source, 0, [[(2, 0)]], shown_size=half, label_size=10)[0].samples[0]
    expected = source[2].image.resize((13, 10), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(sample.shown, np.asarray(expected))
    assert sample.annotation.box == (2, 0, 1, 1)
    assert sample.annotation.part_mask is not None
    assert sample.annotation.part_mask.shape == (10, 10)


def test_indices_are_cut_into_batches_in_order() -> None:
    assert list(in_batches(range(5), 2)) == [[(0, 0), (1, 0)], [(2, 0), (3, 0)], [(4, 0)]]
    assert list(in_batches([], 2)) == []
    assert loaded(Pictures(3), 1, []) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_no_more_than_two_batches_wait(workers: int) -> None:
    asked: list[int] = []

    def endless() -> Iterator[list[Place]]:
        while True:
            asked.append(len(asked))
            yield [(0, 0), (1, 0), (2, 0), (0, 0)]

    batches = read_batches(PictureReader(Pictures(3), 28), endless(), workers)
    for _ in range(5):
        next(batches)
    assert len(asked) <= 5 + 2 + 1  # what is used, what waits, and what is being asked for


def test_the_next_readable_image_takes_the_place_of_a_broken_one() -> None:
    source = Pictures(5, broken=[3, 4])
    picture, index, unreadable = first_readable(source, 3)
    assert (picture.name, index) == ("0.png", 0)
    assert unreadable == [Unreadable(3, "3.png", "number 3 is torn"), Unreadable(4, "4.png", "number 4 is torn")]
    assert first_readable(source, 2)[1:] == (2, [])


def test_no_readable_image_is_one_sentence() -> None:
    with pytest.raises(MPAEError, match=r"^None of the 3 images can be read; the first, '1.png': number 1 is torn\.$"):
        first_readable(Pictures(3, broken=range(3)), 1)
    with pytest.raises(MPAEError, match="None of the 0 images"):
        first_readable(Pictures(0), 0)


@pytest.mark.parametrize("workers", [0, 1])
def test_images_that_all_vanish_while_training_are_told_in_one_sentence(workers: int) -> None:
    """A worker that raises would add its traceback to the message."""
    with pytest.raises(MPAEError) as caught:
        loaded(Pictures(9, broken=range(9)), workers, substitute=True)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("None of the 9 images can be read")


def test_the_loader_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    loaded(Pictures(9), workers=0)
    loaded(Pictures(9), workers=1)
    assert torch.equal(torch.get_rng_state(), before)


class Signals(Pictures):
    """Tells how its process treats signals, as the reason why no image can be read."""

    def __getitem__(self, index: int) -> Picture:
        if index == 0:
            raise UnreadableImage(f"{signal.getsignal(signal.SIGINT)!r} {signal.getsignal(signal.SIGTERM)!r}")
        return super().__getitem__(index)


def test_workers_do_not_inherit_the_handlers_of_their_parent() -> None:
    """With its parent's handler a worker would outlive the SIGTERM that is to end it, and its parent wait for it."""
    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        batch, = loaded(Signals(4), 1, [[(0, 0)]])
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert [each.reason for each in batch.unreadable] == [f"{signal.SIG_IGN!r} {signal.SIG_DFL!r}"]
