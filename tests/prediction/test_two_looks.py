"""Two looks at a large image: what may be coarse, and what stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_run import make_run, tiny_settings
from torch import Tensor

from mpae.config import resolve
from mpae.model import MPAE
from mpae.model.load import load_model
from mpae.prediction import two_looks
from mpae.prediction.predictor import PartPredictor
from mpae.prediction.two_looks import can_take_two_looks, describe_in_two_looks, sure_squares


def naive_sure_squares(background: Tensor) -> Tensor:
    """background (h, w), its probability."""
    height, width = background.shape
    found = torch.zeros(height // 2, width // 2, dtype=torch.bool)
    for row in range(height // 2):
        for column in range(width // 2):
            found[row, column] = all(
                background[i, j] > two_looks.SURE
                for i in range(2 * row - two_looks.AROUND, 2 * row + 2 + two_looks.AROUND)
                for j in range(2 * column - two_looks.AROUND, 2 * column + 2 + two_looks.AROUND)
                if 0 <= i < height and 0 <= j < width)
    return found


def test_squares_far_from_every_part_are_sure() -> None:
    logits = torch.zeros(1, 3, 12, 16)
    logits[:, -1] = 12
    logits[0, 1, 5, 4] = 30
    logits[0, 0, 0, 15] = 4
    found = sure_squares(logits)
    assert torch.equal(found, naive_sure_squares(logits.softmax(dim=1)[0, -1]))
    assert 0 < found.sum() < found.numel()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("run")
    settings = tiny_settings(folder) | {"model.num_parts": 3}
    run = make_run(folder / "run", resolve("laptop", None, settings))
    patch = load_model(run.folder).backbone.patch_size
    return load_model(run.folder, 24 * patch).eval()


def pixels(model: MPAE, number: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (number, model.image_size, model.image_size, 3), np.uint8)


def test_large_images_of_an_mpae_on_a_cpu_get_two_looks(model: MPAE, monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_take_two_looks(model, "cpu")
    assert PartPredictor(model).two_looks
    assert not PartPredictor(model, exact=True).two_looks
    assert not PartPredictor(model, outline="patch").two_looks
    assert not can_take_two_looks(model, "cuda")
    assert not can_take_two_looks(object(), "cpu")
    monkeypatch.setattr(two_looks, "LEAST", 26)
    assert not can_take_two_looks(model, "cpu")


def test_where_nothing_is_sure_the_second_look_is_exact(model: MPAE, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_looks, "SURE", 1.0)
    twice, once = (PartPredictor(model, exact=exact).describe(pixels(model, 3)) for exact in (False, True))
    for ours, exact in zip(twice, once, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=1e-5)


def test_the_second_look_merges_what_the_first_was_sure_of(model: MPAE, monkeypatch: pytest.MonkeyPatch) -> None:
    side = model.image_size // model.backbone.patch_size
    sure = torch.zeros(side // 2, side // 2, dtype=torch.bool)
    sure[2:9, :4] = True
    monkeypatch.setattr(two_looks, "sure_squares", lambda logits: sure)
    image = torch.rand(1, 3, model.image_size, model.image_size)
    with torch.inference_mode():
        (logits, descriptors), frozen = describe_in_two_looks(model, image)
        torch.testing.assert_close(frozen, model.backbone.forward_merged(image, sure))  # type: ignore[attr-defined]
        expected = model.describe(image, frozen)
    torch.testing.assert_close(logits, expected.logits)
    torch.testing.assert_close(descriptors, expected.descriptors)
