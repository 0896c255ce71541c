"""The cores that a process may use, not those of the machine."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mpae.cores import available_cores


def test_as_many_as_the_process_is_given() -> None:
    assert 1 <= available_cores() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system lends all cores to every process")
def test_one_core_is_one() -> None:
    code = ("import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
            "from mpae.cores import available_cores; print(available_cores())")
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "1"
