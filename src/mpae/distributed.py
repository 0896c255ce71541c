"""Work shared by several processes, where torch.distributed runs; without it, by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch.distributed as distributed

from mpae.errors import MPAEError

Item = TypeVar("Item")


@contextmanager
def process_group() -> Iterator[bool]:
    """Work together with the processes that torchrun has started, if it has; yields whether this is the first."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or not distributed.is_torchelastic_launched():
        yield True
        return
    # A process may wait long for another whose images are larger; one that fails is noticed by torchrun.
    distributed.init_process_group("gloo", timeout=timedelta(days=7))
    try:
        yield distributed.get_rank() == 0
    finally:
        distributed.destroy_process_group()


def is_first_process() -> bool:
    """Whether this is the one process of several that writes; known before they work together."""
    ranks = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID")
    return all(os.environ.get(name, "0") == "0" for name in ranks)


def rank_and_size() -> tuple[int, int]:
    """Number of this process, and how many there are."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def gather_items(items: list[Item]) -> list[Item]:
    """The items of all processes."""
    if rank_and_size()[1] == 1:
        return items
    everyones: list[list[Item]] = [[] for _ in range(rank_and_size()[1])]
    distributed.all_gather_object(everyones, items)
    return [item for ours in everyones for item in ours]


def on_first_process(make: Callable[[], Item]) -> Item:
    """What the first process makes, given to all of them; so is its MPAEError."""
    rank, processes = rank_and_size()
    if processes == 1:
        return make()
    outcome: list[Item | MPAEError | None] = [None]
    if rank == 0:
        try:
            outcome = [make()]
        except MPAEError as error:
            outcome = [error]
    distributed.broadcast_object_list(outcome, src=0)
    if isinstance(outcome[0], MPAEError):
        raise outcome[0]
    return outcome[0]  # type: ignore[return-value]
