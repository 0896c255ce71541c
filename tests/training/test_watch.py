"""Time, Ctrl-C and collapse, as the loop asks for them."""

from __future__ import annotations

import math
import os
import signal

import pytest

from mpae.training import watch
from mpae.training.watch import Clock, Every, Interruption, collapse


def test_every_so_many_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [50.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: now[0])
    every = Every(2.0)
    due = []
    for now[0] in (50.0, 169.0, 170.0, 171.0, 290.0, 600.0, 601.0):
        due.append(every.due())
    assert due == [False, False, True, False, True, True, False]


def test_a_session_may_end_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: now[0])
    clock = Clock(before=7.0)
    now[0] = 90.0
    assert clock.session == 1.5
    assert clock.total == 8.5
    assert clock.left(None) == math.inf
    assert clock.left(1.0) == -0.5  # of this session, whatever was before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interruption() as interruption:
        assert not interruption.asked
        os.kill(os.getpid(), number)
        assert interruption.asked
    assert signal.getsignal(number) is before


def test_the_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(watch.os, "_exit", codes.append)
    with Interruption():
        os.kill(os.getpid(), signal.SIGINT)
        assert codes == []
        os.kill(os.getpid(), signal.SIGINT)
    assert codes == [130]


def test_collapses() -> None:
    assert collapse(0.5, 0.6) is None
    assert collapse(0.001, 0.9) == "no pixel belongs to a part"
    assert collapse(1.0, 0.999) == "every pixel belongs to one part"
