"""The stream of batches: a pure function of seed and step, over any number of processes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mpae.training.batches import StepSampler, places, slow_steps
from mpae.training.schedule import steps_per_epoch

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


@settings(max_examples=50, deadline=None)
@given(batch_size=st.integers(1, 64), more=st.integers(0, 100), epoch=st.integers(0, 20), seed=st.integers(0, 99))
def test_with_partial_batches_an_epoch_shows_every_image_once(
        batch_size: int, more: int, epoch: int, seed: int) -> None:
    images = batch_size + more
    steps = steps_per_epoch(images, batch_size, partial=True)
    stream = {"images": images, "batch_size": batch_size, "views": None, "seed": seed, "partial": True}
    batches = [places(step, **stream) for step in range(epoch * steps, (epoch + 1) * steps)]
    assert sorted(index for batch in batches for index, _ in batch) == list(range(images))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (steps - 1)
    assert 1 <= len(batches[-1]) <= batch_size
    assert all(view == 1 + epoch for batch in batches for _, view in batch)


def test_processes_have_equal_shares_of_a_partial_batch() -> None:
    shares = [list(StepSampler(0, 6, rank, 2, images=23, batch_size=4, views=3, seed=5, partial=True))
              for rank in range(2)]
    assert [[len(share) for share in of_one] for of_one in shares] == [[2, 2, 2, 2, 2, 1]] * 2  # one of 23 is left out
    first, second = ({index for share in of_one for index, _ in share} for of_one in shares)
    assert not first & second


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


@pytest.mark.parametrize(("images", "batch_size", "reuse"), [(100, 8, 4), (9, 8, 2), (23, 6, 3), (5, 4, 4)])
def test_a_slow_epoch_shows_few_new_images_a_step_and_all_in_the_end(images: int, batch_size: int, reuse: int) -> None:
    stream = {"images": images, "batch_size": batch_size, "views": 2, "seed": 3, "reuse": reuse}
    steps, seen = slow_steps(images, batch_size, reuse), set()
    for step in range(steps):
        shown = places(step, **stream)
        assert len(shown) == batch_size
        assert len(set(shown) - seen) <= (batch_size if step == 0 else batch_size // reuse)
        seen |= set(shown)
    assert {index for index, _ in seen} == set(range(images))
    assert len(seen) == images  # one view of each
    epoch = range(steps, steps + steps_per_epoch(images, batch_size))
    after = {place for step in epoch for place in places(step, **stream)}
    assert not after & seen  # the next epoch has the other views


def test_without_reuse_there_is_no_slow_epoch() -> None:
    assert slow_steps(100, 8, 1) == 0
    assert slow_steps(100, 2, 4) == 0  # a batch too small to be divided
    assert [places(step, **STREAM, reuse=1) for step in range(20)] == [places(step, **STREAM) for step in range(20)]
