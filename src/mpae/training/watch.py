"""What the loop keeps an eye on: time, Ctrl-C, parts that collapse."""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

from mpae.distributed import rank_and_size

log = logging.getLogger("mpae")


class Clock:
    """Minutes spent on the run: before this session, and in it."""

    def __init__(self, before: float):
        self.before = before
        self.start = time.monotonic()

    @property
    def session(self) -> float:
        return (time.monotonic() - self.start) / 60

    @property
    def total(self) -> float:
        return self.before + self.session

    def left(self, max_minutes: float | None) -> float:
        """Minutes that the session may still take."""
        return math.inf if max_minutes is None else max_minutes - self.session


class Every:
    """Whether so many minutes have passed since it was last asked and said so."""

    def __init__(self, minutes: float):
        self.minutes, self.last = minutes, time.monotonic()

    def due(self) -> bool:
        if time.monotonic() - self.last < 60 * self.minutes:
            return False
        self.last = time.monotonic()
        return True


class Interruption:
    """The first Ctrl-C (or SIGTERM) asks to end after the present step; the second one ends at once."""

    def __init__(self) -> None:
        self.asked = False
        self.previous: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(130)  # at once: the last checkpoint stays
        self.asked = True


class CollapseWatch:
    """Says so while training still runs when every pixel becomes one part, or none is left as foreground."""

    patience = 50  # steps in a row; the first steps of a run look like that too

    def __init__(self) -> None:
        self.steps = 0
        self.told = rank_and_size()[0] != 0  # the first process tells

    def __call__(self, figures: Mapping[str, float], step: int) -> None:
        fault = collapse(figures["foreground_share"], figures["largest_share"])
        self.steps = self.steps + 1 if fault else 0
        if fault and self.steps >= self.patience and not self.told:
            self.told = True
            log.warning("Step %d: %s for %d steps in a row; the parts have collapsed. Try fewer parts, a lower "
                        "training.learning_rate, or another loss.border.", step, fault, self.steps)


def collapse(foreground_share: float, largest_share: float) -> str | None:
    """What is wrong with the use of the parts, if anything."""
    if foreground_share < 0.002:
        return "no pixel belongs to a part"
    if largest_share > 0.995:
        return "every pixel belongs to one part"
    return None
