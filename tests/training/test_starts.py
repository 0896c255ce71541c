"""Short trainings from random weights: what they agree on, and a run that begins with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as nnf
from tiny_run import tiny_settings
from torch import Tensor

from mpae.config import resolve
from mpae.data.sources.folder import FolderImages
from mpae.devices import one_thread
from mpae.run import Run
from mpae.training import starts
from mpae.training.fit import fit

PARTS = 4


def truth() -> Tensor:
    """(n, h, w): four quarters of a square, PARTS around it."""
    labels = torch.full((12, 8, 8), PARTS)
    for part, (top, left) in enumerate(((2, 2), (2, 4), (4, 2), (4, 4))):
        labels[:, top : top + 2, left : left + 2] = part
    return labels


def opinion(seed: int, wrong: float) -> Tensor:
    """Similarity maps (n, K+1, h, w) of the truth with other numbers of the parts, and with some patches wrong."""
    random = torch.Generator().manual_seed(seed)
    renamed = torch.cat([torch.randperm(PARTS, generator=random), torch.tensor([PARTS])])
    labels = renamed[truth()]
    anything = torch.randint(PARTS + 1, labels.shape, generator=random)
    labels = torch.where(torch.rand(labels.shape, generator=random) < wrong, anything, labels)
    return nnf.one_hot(labels, PARTS + 1).permute(0, 3, 1, 2).float()


def right(found: Tensor) -> float:
    """Share of the patches that are right, each part under the number that most of its patches have."""
    labels, wanted = found.argmax(dim=1), truth()
    names = [int(labels[wanted == part].mode().values) for part in range(PARTS + 1)]
    assert sorted(names) == list(range(PARTS + 1)), "a part has no number of its own"
    return float((labels == torch.tensor(names)[wanted]).float().mean())


def test_what_most_say_is_found() -> None:
    found = starts.agreed([opinion(seed, wrong=0.3) for seed in range(7)], seed=0)
    assert found is not None
    assert found.shape == (12, PARTS + 1, 8, 8)
    assert found.sum(dim=1).allclose(torch.ones(12, 8, 8), atol=1e-5)
    assert right(found) > 0.97 > 0.9 > right(opinion(0, wrong=0.3))


def test_one_that_joins_two_parts_is_outvoted() -> None:
    joined = opinion(3, wrong=0.0)
    joined[:, 0], joined[:, 1] = joined[:, 0] + joined[:, 1], 0
    found = starts.agreed([joined, opinion(1, wrong=0.1), opinion(2, wrong=0.1)], seed=0)
    assert found is not None
    assert right(found) > 0.97


def test_maps_that_are_no_numbers_do_not_count() -> None:
    good = [opinion(seed, wrong=0.1) for seed in range(3)]
    with_nan = [*good, torch.full_like(good[0], torch.nan)]
    ours, theirs = starts.agreed(good, seed=0), starts.agreed(with_nan, seed=0)
    assert ours is not None
    assert theirs is not None
    assert torch.equal(ours, theirs)
    assert starts.agreed(with_nan[3:], seed=0) is None


def test_where_all_is_background_they_agree_on_nothing() -> None:
    nothing = torch.zeros(4, PARTS + 1, 8, 8)
    nothing[:, -1] = 1
    assert starts.agreed([nothing, nothing], seed=0) is None


def train(photos: Path, out: Path, **values: Any) -> dict[str, Tensor]:
    """The weights that a run from random weights ends with."""
    config = resolve("laptop", None, tiny_settings(photos.parent) | {
        "model.num_parts": 3, "training.initial_parts": False, "loss.initial_parts": 0.0, "training.max_steps": 2,
        "loss.perceptual": [0, 0, 0, 0, 0], "cache.enabled": False, "training.held": 0} | values)
    fit(config, FolderImages(photos), out)
    return Run(out).load_weights()


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_run_begins_with_what_they_agree_on(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "STEPS", 2)
    asked: list[list[Tensor]] = []
    real = starts.agreed
    monkeypatch.setattr(starts, "agreed", lambda maps, seed: (asked.append(list(maps)), real(maps, seed))[1])
    once = train(photos, tmp_path / "once", **{"training.starts": 3})
    assert len(asked[0]) == 3
    assert not torch.equal(asked[0][0], asked[0][1])  # other weights each time
    assert same(once, train(photos, tmp_path / "again", **{"training.starts": 3}))
    assert not same(once, train(photos, tmp_path / "alone", **{"training.starts": 1}))
    assert len(asked) == 2


def test_where_they_agree_on_nothing_random_weights_are_told(photos: Path, tmp_path: Path,
                                                             monkeypatch: pytest.MonkeyPatch,
                                                             caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(starts, "STEPS", 1)
    monkeypatch.setattr(starts, "agreed", lambda maps, seed: None)
    found = train(photos, tmp_path / "run", **{"training.starts": 2})
    assert "agree on no object; training begins with random weights" in caplog.text
    assert same(found, train(photos, tmp_path / "alone", **{"training.starts": 1}))


def test_a_short_training_learns(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its objective falls, and what restores images is left alone."""
    totals: list[float] = []
    before: dict[str, Tensor] = {}
    short, agreed = starts.short_training, starts.Objective.forward

    def watched(config: Any, model: Any, *rest: Any) -> None:
        before.update({name: weight.clone() for name, weight in model.trainable_state().items()})
        short(config, model, *rest)
        after = model.trainable_state()
        changed = {name.split(".")[0] for name, weight in after.items() if not torch.equal(weight, before[name])}
        assert changed == {"partformer", "compress"}

    def total(self: Any, output: Any, target: Tensor, initial_parts: Tensor | None = None) -> dict[str, Tensor]:
        terms = agreed(self, output, target, initial_parts)
        if "restoration" not in terms:
            totals.append(float(terms["total"].detach()))
        return terms

    monkeypatch.setattr(starts, "STEPS", 30)
    monkeypatch.setattr(starts, "short_training", watched)
    monkeypatch.setattr(starts.Objective, "forward", total)
    with one_thread():  # one training after the other
        train(photos, tmp_path / "run", **{"training.starts": 2})
    assert len(totals) == 60
    for each in (totals[:30], totals[30:]):
        assert sum(each[-5:]) < 0.8 * sum(each[:5])
