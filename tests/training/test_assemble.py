"""What a run begins with: found in images that are no larger than it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_run import tiny_settings

from mpae.config import resolve
from mpae.data.sources.folder import FolderImages
from mpae.run import Run
from mpae.training import assemble
from mpae.training.fit import fit


@pytest.mark.parametrize(("side", "expected"), [(2, 32), (4, 64), (16, 64)])  # the run's images: 4 patches of 16 px
def test_images_that_tell_where_to_begin_are_small(side: int, expected: int, photos: Path, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[int]] = {"initial parts": set(), "places": set(), "random weights": set()}
    look_at, place_directions = assemble.look_at, assemble.place_directions

    def looked(source: Any, features: Any, size: int, number: int, progress: Any) -> Any:
        for images, frozen in look_at(source, features, size, number, progress):
            seen["initial parts" if number == assemble.IMAGES else "random weights"].add(images.shape[-1])
            assert frozen.shape[-1] * 16 == images.shape[-1]
            yield images, frozen

    def rolled(features: Any, images: Any, *rest: Any) -> Any:
        seen["places"].add(images.shape[-1])
        return place_directions(features, images, *rest)

    monkeypatch.setattr(assemble, "look_at", looked)
    monkeypatch.setattr(assemble, "place_directions", rolled)
    monkeypatch.setattr(assemble, "FIRST_SIDE", side)
    settings = tiny_settings(tmp_path) | {
        "model.num_parts": 3, "training.initial_parts": False, "loss.initial_parts": 1.0, "training.max_steps": 1,
        "loss.perceptual": [0, 0, 0, 0, 0], "cache.enabled": False}
    fit(resolve("laptop", None, settings), FolderImages(photos), tmp_path / "run")
    assert seen == {"initial parts": {expected}, "places": {expected}, "random weights": {64}}
    assert Run(tmp_path / "run").load_checkpoint()["step"] == 1
