"""Tiny models and pictures made on the spot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
    np.random.seed(0)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data and weights beside the project, where there is one."""
    if not SHARED.is_dir():
        pytest.skip("the shared folder with data and weights is not here")
    return SHARED


def draw_photo(index: int, size: tuple[int, int] = (96, 80)) -> Image.Image:
    """A small picture with something in its middle."""
    random = np.random.default_rng(index)
    image = Image.fromarray(random.integers(90, 160, (size[1], size[0], 3), dtype=np.uint8))
    draw = ImageDraw.Draw(image)
    x, y = size[0] * random.uniform(0.35, 0.65), size[1] * random.uniform(0.35, 0.65)
    draw.ellipse((x - 20, y - 12, x + 20, y + 12), fill=(200, 60, 40))
    draw.ellipse((x + 14, y - 20, x + 30, y - 4), fill=(40, 60, 200))
    return image


@pytest.fixture()
def photos(tmp_path: Path) -> Path:
    """A folder of twelve small photos, some in a sub-folder."""
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for index in range(12):
        place = folder / "more" if index % 3 == 0 else folder
        draw_photo(index).save(place / f"photo-{index:02d}.jpg")
    return folder
