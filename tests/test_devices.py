from __future__ import annotations

import pytest
import torch

from mpae.devices import choose_device, map_on_cores, one_thread, peak_so_far
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


@pytest.fixture
def cores():
    """Sets how many cores torch may use, and puts them back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("items", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_items_go_to_cores_and_come_back_in_order(cores, items: int, number: int) -> None:
    cores(number)
    seen: list[int] = []

    def square(value: int) -> int:
        seen.append(torch.get_num_threads())
        return value * value

    assert map_on_cores(square, range(items)) == [value * value for value in range(items)]
    assert torch.get_num_threads() == number
    alone = items // number * number if number > 1 and items > 1 else 0  # of these, each has one core for itself
    assert sorted(seen) == sorted([1] * alone + [number] * (items - alone))


def test_what_goes_wrong_on_a_core_is_raised_and_the_cores_come_back(cores) -> None:
    cores(2)
    with pytest.raises(ZeroDivisionError):
        map_on_cores(lambda value: 1 // value, [1, 0, 2, 3])
    assert torch.get_num_threads() == 2


def test_a_model_on_cores_is_in_the_mode_of_its_caller(cores) -> None:
    cores(2)
    with torch.inference_mode():
        assert map_on_cores(lambda _: torch.is_inference_mode_enabled(), range(4)) == [True] * 4
    assert map_on_cores(lambda _: torch.is_inference_mode_enabled(), range(4)) == [False] * 4


def test_what_a_process_held_at_most() -> None:
    held = torch.ones(50_000_000)  # 200 MB, touched
    assert (peak_so_far() or 0) >= held.numel() * 4


def test_one_thread_within_and_as_many_as_before_after() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with pytest.raises(ZeroDivisionError), one_thread():
            _ = 1 / 0
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
