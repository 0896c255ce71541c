"""Where tensors live: the device that a name asks for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from mpae.errors import MPAEError

DEVICES = ("auto", "cpu", "cuda", "mps")
Item = TypeVar("Item")
Found = TypeVar("Found")


def choose_device(name: str = "auto") -> torch.device:
    """The device of this name; `auto` is a GPU by CUDA where there is one, else the CPU.

    An Apple GPU (`mps`) is taken where it is asked for by name: torch has not all operations for it.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name not in DEVICES:
        raise MPAEError(f"Unknown device '{name}'; choose one of: {', '.join(DEVICES)}.")
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device("cuda" if there["cuda"] else "cpu")
    if not there[name]:
        found = ", ".join(device for device, usable in there.items() if usable)
        raise MPAEError(f"There is no device '{name}' here that torch can use; choose auto or one of: {found}.")
    return torch.device(name)


def place_on(model: Any, device: torch.device | str | None) -> torch.device:
    """Move a model there; without a device, find out where it is. What has no weights is on the CPU."""
    if not isinstance(model, torch.nn.Module):
        return torch.device(device or "cpu")
    if device is not None:
        model.to(device)
    return next((parameter.device for parameter in model.parameters()), torch.device(device or "cpu"))


def map_on_cores(function: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    """What a function finds in each item, one item to a core of the CPU: `[function(item) for item in items]`.

    Cores that share one item wait for each other after every layer; with one each they do not. Items that are left
    over, fewer than there are cores, share them all.
    """
    cores = torch.get_num_threads()
    even = len(items) // cores * cores if cores > 1 else 0
    found: list[Found] = []
    if even:
        inference = torch.is_inference_mode_enabled()  # known to a thread alone, as are gradients

        def work(item: Item) -> Found:
            with torch.inference_mode(inference), torch.set_grad_enabled(False):
                return function(item)

        with one_thread(), ThreadPoolExecutor(cores) as pool:
            found = list(pool.map(work, items[:even]))
    return found + [function(item) for item in items[even:]]


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch uses one thread in here, as does every thread that begins in here.

    For many small operations: in several threads each waits for the slowest, long where other programs run too.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def peak_so_far() -> int | None:
    """The most bytes of memory that this process has ever held; None where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux's rusage starts with what the parent held
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
