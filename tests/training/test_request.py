"""What can be wrong with a request to train."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mpae.cli.fit import validator
from mpae.config import resolve
from mpae.errors import MPAEError
from mpae.training.request import check_devices


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch):
    def there_are(number: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: number > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: number)

    return there_are


def device_for(**training: object) -> str:
    return check_devices(resolve("laptop", None, {f"training.{key}": value for key, value in training.items()})).type


@pytest.mark.parametrize(("number", "name", "chosen"), [
    (0, "auto", "cpu"), (0, "cpu", "cpu"), (2, "auto", "cuda"), (2, "cpu", "cpu"), (2, "cuda", "cuda"),
    (1, "gpu", "cuda")])
def test_where_to_train(gpus, number: int, name: str, chosen: str) -> None:
    gpus(number)
    assert device_for(accelerator=name) == chosen


def test_devices_that_are_not_there(gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(0)
    for name in ("cuda", "gpu"):
        with pytest.raises(MPAEError, match="no device 'cuda' here that torch can use"):
            device_for(accelerator=name)
    gpus(2)
    with pytest.raises(MPAEError, match="--devices 4 asks for more GPUs than the 2 of this machine"):
        device_for(devices=4, batch_size=32)
    assert device_for(devices=2, batch_size=32) == "cuda"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(MPAEError, match="more than the one device that mps has"):
        device_for(accelerator="mps", devices=2, batch_size=32)


def test_torchrun_with_another_number_of_processes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(MPAEError, match=r"torchrun has started 2 processes, and --devices 1 times training\.nodes 1"):
        device_for(accelerator="cpu")
    assert device_for(accelerator="cpu", devices=2, batch_size=32) == "cpu"


def test_validation_reads_images_to_where_the_model_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Training moves the model to its device; a "meta" model stands in for one on a GPU."""
    seen: list[torch.device] = []
    waits: list[tuple[str, int, int]] = []

    def evaluate(model: object, source: object, *, device: torch.device | str,
                 progress: Callable[[str, int, int], None]) -> SimpleNamespace:
        progress("evaluate", 2, 2)
        seen.append(torch.device(device))
        return SimpleNamespace(figures={"nmi": 1.0})

    monkeypatch.setattr("mpae.evaluation.evaluate.evaluate", evaluate)
    config = resolve("laptop", None, {"data.dataset": "synthetic", "data.validation": 0.25,
                                      "data.synthetic_images": 8})
    validate = validator(config)
    model = torch.nn.Module()
    for device in ("meta", "cpu"):
        model.register_buffer("mean", torch.zeros(1, device=device))
        assert validate(model, lambda *told: waits.append(told)) == {"nmi": 1.0}
    assert seen == [torch.device("meta"), torch.device("cpu")]
    assert waits == [("evaluate", 2, 2)] * 2
