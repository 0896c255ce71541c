"""A study whose runs take a second each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_run import tiny_settings

FAST = {"data.synthetic_images": 4, "model.partformer_layers": 1, "model.encoder_layers": 1, "model.decoder_layers": 1,
        "training.batch_size": 2, "training.max_steps": 3, "training.checkpoint_minutes": 1e-9,
        "training.initial_parts": False, "loss.initial_parts": 0, "loss.perceptual": [0, 0, 0, 0, 0]}


@pytest.fixture(scope="session")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"title": "Tiny", "datasets": {"synthetic": [2]}, "figures": ["nmi", "ari", "parts_per_image"],
            "settings": tiny_settings(tmp_path_factory.mktemp("weights")) | FAST,
            "rows": [{"name": "plain", "reference": True}, {"name": "half", "settings": {"model.mask_ratio": 0.5}}]}


@pytest.fixture
def study_file(content: dict[str, Any], tmp_path: Path) -> Path:
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(content))
    return file
