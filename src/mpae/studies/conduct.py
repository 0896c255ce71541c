"""All runs of a study, one process each: what is done is left alone, what fails is told, and the others go on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mpae.errors import MPAEError
from mpae.studies.expand import PlannedRun, Request
from mpae.studies.folder import StudyFolder, taken
from mpae.studies.pictures import has_pictures
from mpae.studies.results import evaluation_of, is_trained, minutes_spent
from mpae.studies.study import Study
from mpae.studies.task import TAKEN, Task, make_task

Say = Callable[[str], None]
INTERRUPTED = (130, -signal.SIGINT, -signal.SIGTERM)
SECONDS_BETWEEN_LOOKS = 2.0


class Conductor:
    """Goes through runs in order, on every device at once.

    Args:
        say: told what begins and what has come to an end.
        after_each: called when a run has come to an end.
        show: told every few seconds what a run is doing, for whoever watches.
    """

    def __init__(self, folder: StudyFolder, study: Study, request: Request, say: Say, after_each: Callable[[], Any],
                 show: Say = lambda _: None):
        self.folder, self.study, self.request = folder, study, request
        self.say, self.after_each, self.show = say, after_each, show
        self.lock = threading.Lock()
        self.children: set[subprocess.Popen] = set()
        self.stopped = False
        self.failed: list[str] = []
        self.elsewhere = 0  # runs that other processes have

    def run(self, runs: Sequence[PlannedRun]) -> None:
        """Do every run that is not done; raises KeyboardInterrupt where it was asked to stop."""
        queue = enumerate(runs, 1)
        slots = device_slots(runs)
        with self._signals(), ThreadPoolExecutor(len(slots)) as pool:
            for working in [pool.submit(self._work_through, queue, len(runs), slot) for slot in slots]:
                working.result()
        if self.stopped:
            raise KeyboardInterrupt

    def _work_through(self, queue: Iterator[tuple[int, PlannedRun]], total: int, slot: dict[str, str]) -> None:
        while not self.stopped:
            with self.lock:
                number, planned = next(queue, (0, None))
            if planned is None:
                return
            outcome = self._do(planned, f"[{number}/{total}]", slot)
            with self.lock:
                if outcome == "elsewhere":
                    self.elsewhere += 1
                elif outcome == "failed":
                    self.failed.append(planned.name)
                if outcome in ("done", "failed"):
                    self.after_each()

    def _do(self, planned: PlannedRun, place: str, slot: dict[str, str]) -> str:
        task = make_task(self.folder, self.study, self.request, planned)
        if is_done(self.folder, task, planned.name):
            self.say(f"{place} {planned.title}: found in '{task.folder}'.")
            return "found"
        # This process claims the run until it ends; the process of the run has a lock too, for it may outlive this one.
        with taken(self.folder.progress(planned.name, "claim")) as ours:
            code = TAKEN
            if ours and not self.folder.is_taken(planned.name):
                self.say(f"{place} {planned.title} ...")
                task.write(self.folder.progress(planned.name, "task"))
                code = self._start(planned.name, slot)
        if code == TAKEN:
            self.say(f"{place} {planned.title}: another process has it.")
            return "elsewhere"
        if code in INTERRUPTED:
            self.stopped = True
            return "interrupted"
        reason = None if code == 0 else last_words(self.folder.progress(planned.name, "log"), code)
        self.folder.note_failure(planned.name, reason)
        if reason is not None:
            log = self.folder.progress(planned.name, "log")
            self.say(f"{place} {planned.title} failed: {reason} The others go on; its log is '{log}'.")
            return "failed"
        self.say(f"{place} {planned.title}: {self._figures(task, planned.name)}.")
        return "done"

    def _figures(self, task: Task, name: str) -> str:
        """'nmi 61.2, ari 40.1; 4.9 minutes'."""
        run = self.folder.run(name)
        record = evaluation_of(run, task.evaluation, task.nme) or {}
        found = [f"{figure} {record[figure]:.1f}" for figure in self.study.figures if record.get(figure) is not None]
        return f"{', '.join(found) or 'trained'}; {minutes_spent(run):.1f} minutes of training"

    def _start(self, name: str, slot: dict[str, str]) -> int:
        """Run the process of one run to its end; its exit code."""
        command = [sys.executable, "-m", "mpae.studies.work", str(self.folder.progress(name, "task"))]
        with self.folder.progress(name, "log").open("ab") as log:
            child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                     env=os.environ | slot, start_new_session=True)  # a signal reaches it once: from us
        self.children.add(child)
        if self.stopped:
            child.terminate()
        try:
            while True:
                try:
                    return child.wait(SECONDS_BETWEEN_LOOKS)
                except subprocess.TimeoutExpired:
                    self.show(last_line(self.folder.progress(name, "log")))
        finally:
            self.children.discard(child)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM reach every child, which saves and ends; then this process ends too."""
        def stop(number: int, _: object) -> None:
            self.stopped = True
            for child in list(self.children):
                with contextlib.suppress(OSError):
                    child.send_signal(signal.SIGTERM)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def is_done(folder: StudyFolder, task: Task, name: str) -> bool:
    run = folder.run(name)
    evaluated = is_trained(run) and evaluation_of(run, task.evaluation, task.nme) is not None
    return evaluated and has_pictures(run, task.possible_shows())


def device_slots(runs: Sequence[PlannedRun]) -> list[dict[str, str]]:
    """What each of the processes that run at once gets in its environment: one GPU each where a run takes one."""
    import torch

    training = runs[0].config.training if runs else None
    alone = training is not None and training.devices * training.nodes == 1
    if not alone or training is None or training.accelerator == "cpu" or torch.cuda.device_count() < 2:
        return [{}]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]
    return [{"CUDA_VISIBLE_DEVICES": name.strip()} for name in names]


def share(runs: Sequence[PlannedRun], array: str | None) -> list[PlannedRun]:
    """The runs of --array I/N: every Nth, beginning with the Ith; all without it."""
    if array is None:
        return list(runs)
    first, _, number = array.partition("/")
    if not (first.isdecimal() and number.isdecimal() and 1 <= int(first) <= int(number)):
        raise MPAEError(f"--array is '{array}', expected I/N with I from 1 to N, such as 1/4.")
    return list(runs[int(first) - 1 :: int(number)])


def last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else ""


def last_words(log: Path, code: int) -> str:
    """Why a process failed: the last line of its log."""
    said = last_line(log).removeprefix("mpae: ") or "it said nothing"
    return said if code > 0 else f"it was ended by signal {-code}; its last line: {said}"
