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


@pytest.mark.parametrize("initial_parts", [True, False])
@pytest.mark.parametrize(("side", "expected"), [(2, 32), (4, 64), (16, 64)])  # the run's images: 4 patches of 16 px
def test_images_that_tell_where_to_begin_are_small(initial_parts: bool, side: int, expected: int, photos: Path,
                                                   tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    look_at = assemble.look_at

    def spy(source: Any, features: Any, size: int, *rest: Any) -> Any:
        for images, frozen in look_at(source, features, size, *rest):
            seen.append(images.shape[-1])
            assert frozen.shape[-1] * 16 == images.shape[-1]
            yield images, frozen

    monkeypatch.setattr(assemble, "look_at", spy)
    monkeypatch.setattr(assemble, "FIRST_SIDE", side)
    settings = tiny_settings(tmp_path) | {
        "model.num_parts": 3, "training.initial_parts": initial_parts, "loss.initial_parts": float(initial_parts),
        "training.max_steps": 1, "loss.perceptual": [0, 0, 0, 0, 0], "cache.enabled": False}
    fit(resolve("laptop", None, settings), FolderImages(photos), tmp_path / "run")
    assert set(seen) == {expected}
    assert Run(tmp_path / "run").load_checkpoint()["step"] == 1
