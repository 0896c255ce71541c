"""`mpae` commands in processes of their own that do not import everything again.

This file is also the program that runs them: it imports once and forks for each command. A child is a process like
any other: it can be killed, counted and measured, and `prepare` can set a trap in it before the command starts.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Trap = tuple[Any, ...]  # module, function and its arguments; called in the child before the command


@dataclass(frozen=True)
class Ended:
    returncode: int  # negative: the signal that ended it
    output: str  # stdout and stderr, as a terminal would show them; stdout alone where `errors` has the other
    cpu: float  # seconds, of its own children too
    errors: str = ""


@dataclass
class Child:
    """A command that was started."""

    forked: Forked
    pid: int
    output: Path
    errors: Path | None = None

    def wait(self, timeout: float = 240) -> Ended:
        code, cpu = self.forked.ask(wait=self.pid, timeout=timeout)
        errors = self.errors.read_text(errors="replace") if self.errors else ""
        return Ended(code, self.output.read_text(errors="replace"), cpu, errors)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)


class Forked:
    """Runs commands until it is closed; outputs of children lie in `folder`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]):
        self.folder, self.count = folder, 0
        self.server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True, env=dict(environment))

    def start(self, *words: object, environment: Mapping[str, str] | None = None, prepare: Trap = (),
              apart: bool = False) -> Child:
        """Starts a command in the folder where we are now; with `apart`, stderr does not go where stdout goes."""
        self.count += 1
        output = self.folder / f"output-{self.count}.txt"
        errors = self.folder / f"errors-{self.count}.txt" if apart else None
        pid = self.ask(words=[str(word) for word in words], output=str(output), errors=str(errors or output),
                       folder=os.getcwd(), environment=dict(environment or {}), prepare=list(prepare))
        return Child(self, pid, output, errors)

    def run(self, *words: object, environment: Mapping[str, str] | None = None, prepare: Trap = ()) -> Ended:
        return self.start(*words, environment=environment, prepare=prepare).wait()

    def ask(self, **request: Any) -> Any:
        assert self.server.stdin
        assert self.server.stdout
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())

    def close(self) -> None:
        assert self.server.stdin
        self.server.stdin.close()
        self.server.wait(timeout=60)


# -- the program


def serve() -> None:
    """Each line of stdin asks to start a command, or to wait for one; the answer is a line too."""
    from mpae.cli import main

    for module in ("mpae.training.fit", "mpae.prediction.predictor", "mpae.evaluation.systems",
                   "mpae.evaluation.evaluate", "mpae.hub", "timm",
                   "lightning.fabric"):
        importlib.import_module(module)
    gc.freeze()  # children share these pages: collecting garbage would copy them
    requests, answers = sys.stdin, os.dup(1)
    while line := requests.readline():
        request = json.loads(line)
        if "wait" in request:
            answer: Any = wait_for(request["wait"], request["timeout"])
        else:
            answer = os.fork()
            if not answer:
                os.close(answers)
                become(request)
                return main()
        os.write(answers, json.dumps(answer).encode() + b"\n")


def become(request: dict[str, Any]) -> None:
    """This process is a command now: its own session, streams, words and random state."""
    import random

    import numpy as np
    import torch

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal, however the tests were started
    os.chdir(request.get("folder", "."))
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, request["output"], writing),
                                (2, request.get("errors", request["output"]), writing)):
        stream = os.open(path, flags)
        os.dup2(stream, number)
        os.close(stream)
    os.environ.update(request["environment"])
    sys.argv = ["mpae", *request["words"]]
    for seed in (random.seed, np.random.seed, torch.manual_seed):  # two processes have no state in common
        seed(os.getpid())
    if request["prepare"]:
        module, function, *arguments = request["prepare"]
        getattr(importlib.import_module(module), function)(*arguments)


def wait_for(pid: int, timeout: float) -> tuple[int, float]:
    """Its exit code and the seconds of CPU that it used; after `timeout` it is killed."""
    end = time.monotonic() + timeout
    while True:
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.005)


if __name__ == "__main__":
    serve()
