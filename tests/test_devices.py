from __future__ import annotations

import pytest
import torch

from mpae.devices import choose_device
from mpae.errors import MPAEError


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """Sets which kinds of GPU torch finds."""
    def has(cuda: bool, mps: bool) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return has


@pytest.mark.parametrize(("cuda", "mps", "chosen"), [
    (False, False, "cpu"), (True, False, "cuda"), (False, True, "cpu"), (True, True, "cuda")])
def test_auto_follows_the_machine(machine, cuda: bool, mps: bool, chosen: str) -> None:
    machine(cuda, mps)
    assert choose_device("auto").type == chosen
    assert choose_device().type == chosen


@pytest.mark.parametrize("name", ["cpu", "cuda", "mps"])
def test_what_is_there_is_taken_by_name(machine, name: str) -> None:
    machine(cuda=True, mps=True)
    assert choose_device(name) == torch.device(name)


def test_what_is_not_there_is_told_with_what_is(machine) -> None:
    machine(cuda=False, mps=True)
    with pytest.raises(MPAEError, match=r"no device 'cuda' here that torch can use; choose auto or one of: cpu, mps"):
        choose_device("cuda")


def test_unknown_names_are_told_with_the_known(machine) -> None:
    with pytest.raises(MPAEError, match=r"Unknown device 'tpu'; choose one of: auto, cpu, cuda, mps\."):
        choose_device("tpu")
