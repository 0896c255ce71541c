"""How many cores of the CPU there are to work with; torch is not needed to tell."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Of the CPU, for this process: a cluster or a container may lend it fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
