"""Keys are read by hooks, which several threads would mix: a model that looks at them stays on one thread."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from miniatures import write_cub
from tiny_run import tiny_settings

from mpae.config import resolve
from mpae.data.catalogue import open_images
from mpae.model.load import load_model
from mpae.prediction.predictor import PartPredictor
from mpae.training.fit import fit


def test_many_images_at_once_have_the_parts_of_each_alone(tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path) | {
        "model.method": "dino-clustering", "data.dataset": "cub", "data.root": str(write_cub(tmp_path / "cub").root),
        "model.num_parts": 3, "cache.folder": str(tmp_path / "cache")}
    config = resolve("laptop", None, settings)
    fit(config, open_images(config.data, "train"), tmp_path / "run")
    predictor = PartPredictor(load_model(tmp_path / "run"), outline="patch")
    size = predictor.model.image_size
    pixels = np.random.default_rng(0).integers(0, 256, (32, size, size, 3), np.uint8)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        together = predictor.describe(pixels).logits
    finally:
        torch.set_num_threads(before)
    alone = np.concatenate([predictor.describe(each[None]).logits for each in pixels])
    assert together == pytest.approx(alone, abs=1e-3)
