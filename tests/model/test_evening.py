"""Random weights that begin with features evened out in their principal directions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_run import tiny_settings

from mpae.config import resolve
from mpae.data.sources.folder import FolderImages
from mpae.model.evening import evening
from mpae.run import Run
from mpae.training.fit import fit


def uneven_features() -> torch.Tensor:
    """(40, 6, 4, 4), around a mean far from 0, whose directions differ by 1, 2, 4, ... 32; not along the axes."""
    turn = torch.linalg.qr(torch.randn(6, 6)).Q
    return torch.einsum("ef,nfhw->nehw", turn * 2.0 ** torch.arange(6), torch.randn(40, 6, 4, 4)) + 7


def variances(frozen: torch.Tensor) -> torch.Tensor:
    return torch.linalg.eigvalsh(torch.cov(frozen.transpose(0, 1).flatten(1), correction=0))


@pytest.mark.parametrize("number", [3, 6])
def test_first_directions_differ_alike_and_the_others_not_at_all(number: int) -> None:
    frozen = uneven_features()
    shown = torch.einsum("ef,nfhw->nehw", evening(frozen, number), frozen)
    mean = variances(frozen)[-number:].mean()
    expected = torch.cat([torch.zeros(6 - number), mean.expand(number)])
    torch.testing.assert_close(variances(shown), expected, rtol=1e-3, atol=1e-3 * float(mean))


def test_features_of_few_directions_are_evened_in_those_that_they_have() -> None:
    frozen = torch.zeros(5, 6, 4, 4)
    frozen[:, 2], frozen[:, 4] = torch.randn(2, 5, 4, 4)
    matrix = evening(frozen, 6)
    assert torch.isfinite(matrix).all()
    assert torch.linalg.matrix_rank(matrix) == 2


def test_features_that_do_not_differ_are_left_as_they_are() -> None:
    torch.testing.assert_close(evening(torch.full((2, 6, 4, 4), 3.0), 4), torch.eye(6))


def test_random_weights_begin_by_seeing_through_it(photos: Path, tmp_path: Path) -> None:
    ranks = {}
    for number in (0, 4):
        config = resolve("laptop", None, tiny_settings(tmp_path) | {
            "model.num_parts": 3, "training.initial_parts": False, "loss.initial_parts": 0, "model.first_logits": None,
            "model.place_directions": 0, "model.even_directions": number, "training.max_steps": 1,
            "training.learning_rate": 1e-12, "loss.perceptual": [0, 0, 0, 0, 0], "cache.enabled": False})
        fit(config, FolderImages(photos), tmp_path / str(number))
        weights = Run(tmp_path / str(number)).load_weights()["compress.weight"].flatten(1)
        ranks[number] = int(torch.linalg.matrix_rank(weights, rtol=1e-3))
    assert ranks[4] == 4 < ranks[0]
