"""The stream of batches: a pure function of seed and step, over any number of processes, past bad images."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import draw_photo

from mpae.data.augment import make_view
from mpae.data.images import digest_of
from mpae.data.source import Picture, UnreadableImage
from mpae.errors import MPAEError
from mpae.training.batches import Batch, StepSampler, first_readable, places, training_loader
from mpae.training.schedule import steps_per_epoch


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
        return Picture(self.names[index], draw_photo(index, (24, 20)), digest_of(bytes([index])))


STREAM = {"images": 22, "batch_size": 4, "views": 3, "seed": 5}


@settings(max_examples=50, deadline=None)
@given(images=st.integers(1, 200), batch_size=st.integers(1, 64), epoch=st.integers(0, 50),
       views=st.none() | st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_an_epoch_shows_no_image_twice(images: int, batch_size: int, epoch: int, views: int | None,
                                       seed: int) -> None:
    steps = steps_per_epoch(images, batch_size)
    stream = {"images": images, "batch_size": batch_size, "views": views, "seed": seed}
    shown = [place for step in range(epoch * steps, (epoch + 1) * steps) for place in places(step, **stream)]
    assert len(shown) == steps * batch_size
    counts = Counter(index for index, _ in shown)
    if images >= batch_size:
        assert set(counts.values()) == {1}
        assert images - len(counts) < batch_size  # only those that do not fill a batch are left out
    else:  # fewer images than a batch: each as often as any other, give or take one
        assert set(counts) == set(range(images))
        assert max(counts.values()) - min(counts.values()) <= 1
    assert all(0 <= view < views if views else view == 1 + epoch for _, view in shown)


def test_the_stream_depends_on_seed_and_step_alone() -> None:
    forward = [places(step, **STREAM) for step in range(20)]
    np.random.seed(1)
    torch.manual_seed(1)
    backward = [places(step, **STREAM) for step in reversed(range(20))]
    assert forward == backward[::-1]
    assert forward != [places(step, **{**STREAM, "seed": 6}) for step in range(20)]
    assert len({tuple(places(step, **STREAM)) for step in range(20)}) == 20


def test_kept_views_come_round_and_fresh_ones_never() -> None:
    seen: dict[int, list[int]] = {index: [] for index in range(8)}
    fresh: dict[int, list[int]] = {index: [] for index in range(8)}
    for step in range(2 * 6):
        for index, view in places(step, images=8, batch_size=4, views=3, seed=0):
            seen[index].append(view)
        for index, view in places(step, images=8, batch_size=4, views=None, seed=0):
            fresh[index].append(view)
    assert all(sorted(views) == [0, 0, 1, 1, 2, 2] and views[:3] == views[3:] for views in seen.values())
    assert all(views == [1, 2, 3, 4, 5, 6] for views in fresh.values())
    first = [view for step in range(2) for _, view in places(step, images=8, batch_size=4, views=3, seed=0)]
    assert set(first) == {0, 1, 2}  # an epoch has views of every number


@pytest.mark.parametrize("world", [1, 2, 4])
def test_the_shares_of_the_processes_make_the_whole(world: int) -> None:
    shares = [list(StepSampler(3, 12, rank, world, **STREAM)) for rank in range(world)]
    for step, parts in enumerate(zip(*shares, strict=True), start=3):
        assert [place for part in parts for place in part] == places(step, **STREAM)
        assert len({len(part) for part in parts}) == 1


def test_a_run_that_goes_on_sees_the_rest_of_the_stream() -> None:
    whole = list(StepSampler(0, 12, 0, 1, **STREAM))
    assert list(StepSampler(7, 12, 0, 1, **STREAM)) == whole[7:]
    assert len(StepSampler(7, 12, 0, 1, **STREAM)) == 5


def test_the_next_readable_image_takes_the_place_of_a_broken_one() -> None:
    source = Pictures(5, broken=[3, 4])
    picture, skipped = first_readable(source, 3)
    assert picture.name == "0.png"
    assert skipped == {"3.png": "number 3 is torn", "4.png": "number 4 is torn"}
    assert first_readable(source, 2)[1] == {}


def test_no_readable_image_is_one_sentence() -> None:
    with pytest.raises(MPAEError, match=r"^None of the 3 images can be read; the first, '1.png': number 1 is torn\.$"):
        first_readable(Pictures(3, broken=range(3)), 1)
    with pytest.raises(MPAEError, match="None of the 0 images"):
        first_readable(Pictures(0), 0)


def loaded(source: Pictures, workers: int, start: int = 0) -> list[Batch]:
    sampler = StepSampler(start, 3, 0, 1, images=len(source), batch_size=4, views=2, seed=0)
    return list(training_loader(source, 28, sampler, workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_hold_the_views_of_their_places(workers: int) -> None:
    source = Pictures(9, broken=[5])
    batches = loaded(source, workers)
    assert len(batches) == 3
    for step, batch in enumerate(batches):
        assert (batch.images.shape, batch.images.dtype) == ((4, 3, 28, 28), torch.uint8)
        for image, (index, view) in zip(batch.images, places(step, images=9, batch_size=4, views=2, seed=0),
                                        strict=True):
            expected = make_view(first_readable(source, index)[0], view, 28)
            np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), expected)
    assert {name for batch in batches for name in batch.skipped} <= {"5.png"}
    assert any(batch.skipped for batch in batches)


def test_the_loader_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    loaded(Pictures(9), workers=0)
    assert torch.equal(torch.get_rng_state(), before)


class Signals(Pictures):
    """Tells how its process treats signals, as the reason why no image can be read."""

    def __getitem__(self, index: int) -> Picture:
        if index == 0:
            raise UnreadableImage(f"{signal.getsignal(signal.SIGINT)!r} {signal.getsignal(signal.SIGTERM)!r}")
        return super().__getitem__(index)


def test_workers_do_not_inherit_the_handlers_of_training() -> None:
    """With its parent's handler a worker would outlive the SIGTERM that is to end it, and its parent wait for it."""
    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        skipped = {name: why for batch in loaded(Signals(4), workers=1) for name, why in batch.skipped.items()}
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert skipped == {"0.png": f"{signal.SIG_IGN!r} {signal.SIG_DFL!r}"}


@pytest.mark.parametrize("workers", [0, 1])
def test_images_that_all_vanish_while_training_are_told_in_one_sentence(workers: int) -> None:
    """A worker that raises would add its traceback to the message."""
    with pytest.raises(MPAEError) as caught:
        loaded(Pictures(6, broken=range(6)), workers)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("None of the 6 images can be read")
