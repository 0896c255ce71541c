"""Time, memory and arithmetic of a piece of work, measured so that a busy machine does not decide."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from mpae.devices import peak_so_far

Work = Callable[[], object]
PEAK_SIDE = 2048  # of the square matrices whose product counts as the machine's peak


def alternate(works: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """Seconds of each work in each round, one after the other, after one round that does not count.

    The product of two large matrices runs along in every round, as "matmul": a neighbour on the machine slows
    all works of a round alike, so ratios are taken within rounds.
    """
    matrix = torch.randn(PEAK_SIDE, PEAK_SIDE)
    everything = {**works, "matmul": lambda: matrix @ matrix}
    seconds: dict[str, list[float]] = {name: [] for name in everything}
    for number in range(rounds + 1):
        for name, work in everything.items():
            start = time.perf_counter()
            work()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(numerator: list[float], denominator: list[float]) -> float:
    """Median over the rounds of the ratio within each."""
    return statistics.median(above / below for above, below in zip(numerator, denominator, strict=True))


def share_of_peak(operations: int, seconds: list[float], matmul: list[float]) -> float:
    """Operations a second, as a share of what the large matrix product reaches in the same round."""
    return operations / (2 * PEAK_SIDE**3) * ratio(matmul, seconds)


class _Counter(TorchDispatchMode):
    """Counts what torch has a formula for. FlopCounterMode does too, but forbids gradients inside of a step."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        formula = flop_registry.get(func.overloadpacket)
        if formula is None:  # in inference mode a linear layer comes whole
            with self:
                result = func.decompose(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        result = func(*args, **(kwargs or {}))
        if formula is not None:
            self.total += formula(*args, **(kwargs or {}), out_val=result)
        return result


def operations(work: Work) -> int:
    """Floating-point operations of matrix products and convolutions."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # what other threads do is not seen
    try:
        with sdpa_kernel(SDPBackend.MATH), _Counter() as counter:  # fused attention has no formula on CPUs
            work()
    finally:
        torch.set_num_threads(threads)
    return counter.total


def in_fresh_process(work: Callable[..., Any], *arguments: Any, fresh: bool = True) -> Any:
    """The result of a function of a module, run in a process of its own; without `fresh`, here and at once."""
    if not fresh:
        return work(*arguments)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def peak_memory(build: Callable[..., Work], *arguments: Any, fresh: bool = True) -> int:
    """Bytes that a fresh process needs at most, beyond its libraries: models, inputs and two runs of the work."""
    return in_fresh_process(_peak_memory, build, *arguments, fresh=fresh)


def _peak_memory(build: Callable[..., Work], *arguments: Any) -> int:
    before = peak_so_far() or 0
    work = build(*arguments)
    for _ in range(2):
        work()
    return max((peak_so_far() or 0) - before, 1)  # tiny work needs less than loading the libraries did
