"""What is told while a run goes on, and when."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from mpae.training import progress
from mpae.training.progress import Display, as_time, seconds_left


class Time:
    """A clock that moves when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 1000.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def said(console: Console) -> list[str]:
    return console.file.getvalue().splitlines()


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def test_the_time_left_does_not_count_what_came_before_the_steps(clock: Time, console: Console) -> None:
    with Display(console) as display:
        clock.passes(600)  # features, initial parts
        display("step", 0, 100)
        clock.passes(4)
        display("step", 1, 100, "loss 1")
        clock.passes(16)
        display("step", 5, 100, "loss 2")
    assert said(console) == ["step 1/100  6:36 left  loss 1", "step 5/100  6:20 left  loss 2"]  # 4 seconds a step


def test_a_run_that_goes_on_counts_its_own_steps(clock: Time, console: Console) -> None:
    with Display(console) as display:
        display("step", 90, 100)
        clock.passes(20)
        display("step", 92, 100, "loss 1")
    assert said(console) == ["step 92/100  1:20 left  loss 1"]


def test_a_limit_of_minutes_cuts_the_time_left(clock: Time, console: Console) -> None:
    with Display(console) as display:
        display("step", 0, 100)
        clock.passes(10)
        display("step", 1, 100, "loss 1", minutes_left=2.0)
    assert said(console) == ["step 1/100  2:00 left  loss 1"]


def test_short_waits_are_not_told_and_long_ones_now_and_then(clock: Time, console: Console) -> None:
    with Display(console) as display:
        for done in range(11):  # a wait of one second
            display("reading", done, 10)
            clock.passes(0.1)
        for done in range(41):  # one of forty
            display("features", done, 40)
            clock.passes(1)
    assert said(console) == ["features 2/40  0:38 left", "features 17/40  0:23 left", "features 32/40  0:08 left",
                             "features 40/40  0:00 left"]


def test_the_same_wait_again_starts_anew(clock: Time, console: Console) -> None:
    with Display(console) as display:
        for _ in range(2):
            display("features", 0, 2)
            clock.passes(30)
            display("features", 1, 2)
            clock.passes(30)
            display("features", 2, 2)
    assert said(console) == ["features 1/2  0:30 left", "features 2/2  0:00 left"] * 2


def test_a_terminal_has_a_bar_for_each_wait_with_its_time_left(clock: Time) -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    with Display(console) as display:
        display("clusters", 0, 4)  # ends early, as where there is no foreground
        clock.passes(1)
        display("step", 0, 10)
        clock.passes(5)
        display("step", 1, 10, "loss 3")
        assert display.bar is not None
    assert display.bar is None
    shown = console.file.getvalue()
    assert "clusters" in shown
    assert "0:45 left  loss 3" in shown


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK"])
def test_other_processes_and_quiet_consoles_say_nothing(
        clock: Time, console: Console, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    Display(Console(file=console.file, quiet=True))("step", 1, 2, "loss 1")
    monkeypatch.setenv(name, "1")
    Display(console)("step", 1, 2, "loss 1")
    assert said(console) == []


def test_times() -> None:
    assert [as_time(seconds) for seconds in (0, 59.6, 200, 3600 + 62, math.inf)] == [
        "0:00", "1:00", "3:20", "1:01:02", "?"]
    assert seconds_left(0, 5, 3.0) == math.inf
    assert seconds_left(2, 6, 3.0) == 9.0
    assert seconds_left(0, 0, 3.0) == 0.0
