"""Where a run is, and its learning rate there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpae.training.schedule import learning_rate, progress, steps_per_epoch, total_steps


@pytest.mark.parametrize(("images", "batch_size", "steps"), [(64, 64, 1), (127, 64, 1), (128, 64, 2), (3, 64, 1)])
def test_an_epoch_leaves_out_what_fills_no_batch(images: int, batch_size: int, steps: int) -> None:
    assert steps_per_epoch(images, batch_size) == steps


@pytest.mark.parametrize(("images", "processes", "steps"), [
    (128, 1, 2), (129, 1, 3), (127, 1, 2), (129, 2, 2), (130, 2, 3), (131, 4, 2), (3, 1, 1)])
def test_what_fills_no_batch_is_a_smaller_one_if_each_process_gets_an_image(
        images: int, processes: int, steps: int) -> None:
    assert steps_per_epoch(images, 64, partial=True, processes=processes) == steps


def test_a_run_ends_with_its_epochs_or_its_steps() -> None:
    per_epoch = steps_per_epoch(100, 10)
    assert total_steps(per_epoch, 3, None) == 30
    assert total_steps(per_epoch, 3, 12) == 12
    assert total_steps(per_epoch, 3, 99) == 30


def test_progress_is_by_steps_or_by_time_whichever_is_further() -> None:
    assert progress(0, 10, 0.0, None) == 0
    assert progress(5, 10, 99.0, None) == 0.5
    assert progress(5, 10, 1.0, 10.0) == 0.5
    assert progress(1, 10, 9.0, 10.0) == 0.9
    assert progress(1, 10, 20.0, 10.0) == 1


def rate(step: int, done: float, warmup: int = 0) -> float:
    return learning_rate(1.0, step, done, warmup, (0.8, 0.9), 0.2)


def test_it_drops_at_each_milestone() -> None:
    assert [rate(100, done) for done in (0.0, 0.79, 0.8, 0.89, 0.9, 1.0)] == pytest.approx(
        [1, 1, 0.2, 0.2, 0.04, 0.04])


def test_it_rises_over_the_warm_up() -> None:
    assert [rate(step, 0.0, warmup=4) for step in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1])
    assert rate(0, 0.0, warmup=0) == 1
    assert rate(1, 0.85, warmup=3) == pytest.approx(0.5 * 0.2)


def cosine(step: int, done: float, warmup: int = 0, drops: int = 0) -> float:
    return learning_rate(1.0, step, done, warmup, (0.8, 0.9), 0.2, drops, "cosine")


def test_along_a_cosine_it_falls_to_nothing() -> None:
    assert [cosine(100, done) for done in (0.0, 1 / 3, 0.5, 2 / 3, 1.0)] == pytest.approx([1, 0.75, 0.5, 0.25, 0])


def test_along_a_cosine_it_rises_first_and_drops_where_a_run_rests() -> None:
    assert cosine(1, 0.5, warmup=3) == pytest.approx(0.25)
    assert cosine(100, 0.5, drops=1) == pytest.approx(0.1)


@given(st.integers(0, 1000), st.floats(0, 1), st.integers(0, 50), st.lists(st.floats(0, 1), max_size=4),
       st.floats(0.01, 1))
def test_it_is_positive_and_never_above_its_base(step: int, done: float, warmup: int, milestones: list[float],
                                                 decay: float) -> None:
    found = learning_rate(3e-4, step, done, warmup, milestones, decay)
    assert 0 < found <= 3e-4
    assert learning_rate(3e-4, step, 1.0, warmup, milestones, decay) <= found


def test_parts_at_rest_make_the_rate_drop_before_its_milestone_but_never_twice() -> None:
    assert learning_rate(1.0, 9, 0.5, 0, (0.8, 0.9), 0.2, drops=1) == pytest.approx(0.2)
    assert learning_rate(1.0, 9, 0.85, 0, (0.8, 0.9), 0.2, drops=1) == pytest.approx(0.2)
    assert learning_rate(1.0, 9, 0.5, 0, (0.8, 0.9), 0.2, drops=3) == pytest.approx(0.04)
