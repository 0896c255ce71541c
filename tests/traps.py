"""What tests set in a process before its command starts (see `forked.py`): death, NaN, losses, a full disk."""

from __future__ import annotations

import errno
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any


def on_file(event: str, pattern: str, number: int, act: Callable[[str], None]) -> None:
    """Call `act` just before a file like `pattern` is opened for writing ("open") or renamed, or a folder is made
    ("mkdir"), for the n-th time."""
    seen = 0

    def listen(happened: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if happened != {"rename": "os.rename", "mkdir": "os.mkdir", "open": "open"}[event]:
            return
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        path = "" if isinstance(arguments[0], int) else os.fsdecode(arguments[0])
        if fnmatch(path, pattern):
            seen += 1
            if seen == number:
                act(path)

    sys.addaudithook(listen)  # Python tells of every file, whoever opens it and however


def kill(event: str, pattern: str, number: int) -> None:
    """SIGKILL when a file is opened, renamed, or ("torn") has been written to its half."""
    def die(path: str) -> None:
        if event == "torn":
            os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)

    on_file("rename" if event == "torn" else event, pattern, number, die)


def agreeing(trap: str = "", *arguments: Any) -> None:
    """Initial parts whatever the images: a dozen of noise with a random backbone agree on nothing."""
    from mpae.initial_parts import find

    find.AGREED, find.MAJORITY, find.FEWEST = -math.inf, 0.3, 2
    if trap:
        globals()[trap](*arguments)


def kill_after(seconds: float) -> None:
    """SIGKILL when this process has used so much of the CPU: a moment that does not depend on what else runs."""
    end = time.process_time() + seconds

    def watch() -> None:
        while time.process_time() < end:
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def lose(event: str, pattern: str, number: int, files: list[str]) -> None:
    """Files that vanish at that moment."""
    on_file(event, pattern, number, lambda _: [Path(file).unlink() for file in files] and None)


def poison(term: str, step: int, rank: int = 0) -> None:
    """A loss that becomes NaN in one step of one process."""
    from mpae.losses.objective import Objective

    forward, calls = Objective.forward, 0

    def poisoned(self: Objective, *arguments: Any) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        terms = forward(self, *arguments)
        if calls == step and int(os.environ.get("RANK", "0")) == rank:
            terms[term] = terms[term] * float("nan")
            terms["total"] = terms["total"] + terms[term]
        return terms

    Objective.forward = poisoned  # type: ignore[method-assign]


def impatient(steps: int) -> None:
    """A collapse is told after so many steps."""
    from mpae.training.watch import CollapseWatch

    CollapseWatch.patience = steps


def fill_disk(event: str, pattern: str) -> None:
    """No space is left when a file like `pattern` is opened for writing ("open") or a folder is made ("mkdir")."""
    def full(path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    on_file(event, pattern, 1, full)
