"""Several random starts: all are tried alike, and the best one goes on."""

from __future__ import annotations

import logging
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_run import tiny_settings

from mpae.config import resolve
from mpae.data.sources.folder import FolderImages
from mpae.run import Run
from mpae.training import starts
from mpae.training.fit import fit

STEPS = 8  # of a run, two for each start
LINE = re.compile(r"Random start (\d) of (\d): L_e (\d\.\d+|inf)")


def train(photos: Path, out: Path, **values: Any) -> dict[str, torch.Tensor]:
    """The weights that a run from random weights ends with."""
    config = resolve("laptop", None, tiny_settings(photos.parent) | {
        "model.num_parts": 3, "training.initial_parts": False, "loss.initial_parts": 0.0, "training.max_steps": STEPS,
        "loss.perceptual": [0, 0, 0, 0, 0], "cache.enabled": False, "training.held": 0} | values)
    fit(config, FolderImages(photos), out)
    return Run(out).load_weights()


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_best_start_goes_on(photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are those that training begins with; where steps have no length they are those of the end, too."""
    seen: list[tuple[starts.Quality, dict[str, torch.Tensor]]] = []
    real = starts.quality_of

    def judged(model: Any, *rest: Any) -> starts.Quality:
        found = real(model, *rest)
        seen.append((found, {name: weight.clone() for name, weight in model.trainable_state().items()}))
        return found

    monkeypatch.setattr(starts, "quality_of", judged)
    monkeypatch.setattr(starts, "STEPS", 1)
    with caplog.at_level(logging.INFO, logger="mpae"):
        ended = train(photos, tmp_path / "run", **{"training.starts": 3, "training.learning_rate": 1e-20})
    told = LINE.findall(caplog.text)
    assert [(first, of) for first, of, _ in told] == [("1", "3"), ("2", "3"), ("3", "3")]
    assert [float(value) for _, _, value in told] == pytest.approx([-found.clear for found, _ in seen], abs=1e-4)
    assert len({found.clear for found, _ in seen}) == 3  # other weights each time
    best = max(seen, key=lambda each: (each[0].has_parts, each[0].clear))[1]
    for name, weight in ended.items():
        torch.testing.assert_close(weight, best[name], atol=1e-6, rtol=1e-5)


def test_starts_learn_and_are_the_same_each_time(photos: Path, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    real = starts.take_step
    monkeypatch.setattr(starts, "take_step", lambda config, losses, optimizer, batch, step, device: (
        steps.append(step), real(config, losses, optimizer, batch, step, device))[0])
    once = train(photos, tmp_path / "once", **{"training.starts": 2})
    assert steps == [0, 1, 0, 1]
    assert same(once, train(photos, tmp_path / "again", **{"training.starts": 2}))
    assert not same(once, train(photos, tmp_path / "alone", **{"training.starts": 1}))


def test_a_start_that_ends_in_nan_is_not_taken(photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    real = starts.take_step

    def broken(config: Any, losses: Any, optimizer: Any, batch: Any, step: int, device: Any) -> None:
        real(config, losses, optimizer, batch, step, device)
        if len(LINE.findall(caplog.text)) == 0:  # the first start
            losses.model.compress.weight.data.fill_(math.nan)

    monkeypatch.setattr(starts, "take_step", broken)
    with caplog.at_level(logging.INFO, logger="mpae"):
        ended = train(photos, tmp_path / "run", **{"training.starts": 2})
    assert LINE.findall(caplog.text)[0][2] == "inf"
    assert all(weight.isfinite().all() for weight in ended.values())


class Maps:
    """Stands for a model whose similarity maps are given, as logits (n, K+1, h, w)."""

    def __init__(self, logits: torch.Tensor):
        self.logits = logits

    def describe(self, images: torch.Tensor, features: torch.Tensor) -> Any:
        return SimpleNamespace(logits=self.logits[: len(images)])


def test_quality_asks_for_parts_first_and_then_for_clear_ones() -> None:
    def quality(labels: list[int], sharpness: float) -> starts.Quality:
        logits = sharpness * torch.nn.functional.one_hot(torch.tensor([labels]), 4).float().permute(2, 0, 1)[None]
        return starts.quality_of(Maps(logits), torch.zeros(1, 3, 2, 2), torch.zeros(1), torch.device("cpu"))  # type: ignore[arg-type]

    clear, vague, fewer = quality([0, 1, 2, 3], 9), quality([0, 1, 2, 3], 3), quality([0, 1, 3, 3], 50)
    assert (clear.has_parts, vague.has_parts, fewer.has_parts) == (True, True, False)  # the last is the background
    assert clear > vague > fewer
    shares = torch.tensor([3.0, 0, 0, 0]).softmax(0)
    assert -vague.clear == pytest.approx(-float((shares * shares.log()).sum()), rel=1e-4)


def test_a_run_of_few_steps_has_one_start(photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="mpae"):
        train(photos, tmp_path / "short", **{"training.starts": 4, "training.max_steps": 3})
    assert not LINE.findall(caplog.text)
