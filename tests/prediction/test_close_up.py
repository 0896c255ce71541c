"""A closer look: where it is taken, that it is put where it belongs, and that it finds what one look does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_run import make_run, tiny_settings
from torch import nn

from mpae.config import resolve
from mpae.data.source import Picture
from mpae.data.sources.folder import FolderImages
from mpae.data.sources.subsets import spread
from mpae.data.sources.synthetic import SyntheticImages
from mpae.evaluation.evaluate import evaluate
from mpae.metrics.foreground import foreground_iou
from mpae.model import MPAE
from mpae.model.load import load_model
from mpae.model.matching import PartMaps
from mpae.prediction import close_up
from mpae.prediction.close_up import CloseUp, can_look_closer, cut_out, find_close_up, look_closer, placed
from mpae.prediction.predictor import PartPredictor, predict_folder

PATCHES = 16


def logits_of(inside: np.ndarray) -> np.ndarray:
    """(2, h, w): one part inside, background elsewhere."""
    return np.stack([inside, ~inside]).astype(np.float32)


def box_of(close: CloseUp) -> tuple[float, float, float, float]:
    """Left, top, right, bottom in shares of the photo."""
    return (close.left / close.columns, close.top / close.rows, (close.left + close.width) / close.columns,
            (close.top + close.height) / close.rows)


@pytest.mark.parametrize("size", [(300, 300), (400, 200), (150, 600)])
def test_the_object_and_its_margin_are_in_the_close_up(size: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        inside = np.zeros((12, 12), dtype=bool)
        (top, left), (high, wide) = random.integers(0, 8, 2), random.integers(1, 5, 2)
        inside[top : top + high, left : left + wide] = True
        close = find_close_up(logits_of(inside), size, PATCHES)
        x0, y0, x1, y1 = box_of(close)
        step = 0.5 / PATCHES  # the first patch is a whole number
        assert x0 <= max(0, (left - close_up.MARGIN * wide) / 12) + step
        assert y0 <= max(0, (top - close_up.MARGIN * high) / 12) + step
        assert x1 >= min(1, (left + (1 + close_up.MARGIN) * wide) / 12) - step
        assert y1 >= min(1, (top + (1 + close_up.MARGIN) * high) / 12) - step
        assert 0 <= x0 < x1 <= 1
        assert 0 <= y0 < y1 <= 1
        width, height = (x1 - x0) * size[0], (y1 - y0) * size[1]
        if max(x1 - x0, y1 - y0) < 1 and max(close.rows, close.columns) < close_up.CLOSEST * PATCHES:
            assert max(width, height) / min(width, height) < close_up.SLENDER * (1 + 2 / PATCHES)
        assert PATCHES <= close.rows <= close_up.CLOSEST * PATCHES


def test_small_pieces_beside_a_large_one_need_not_be_in_it() -> None:
    inside = np.zeros((12, 12), dtype=bool)
    inside[4:8, 4:8] = True
    alone = find_close_up(logits_of(inside), (100, 100), PATCHES)
    inside[0, 0] = inside[11, 11] = True
    assert find_close_up(logits_of(inside), (100, 100), PATCHES) == alone
    inside[0:2, 0:2] = True  # a quarter of the large one
    assert find_close_up(logits_of(inside), (100, 100), PATCHES) != alone


@pytest.mark.parametrize("inside", [np.zeros((12, 12), dtype=bool), np.ones((12, 12), dtype=bool)])
def test_without_an_object_or_where_it_fills_the_photo_the_second_look_is_at_all_of_it(inside: np.ndarray) -> None:
    close = find_close_up(logits_of(inside), (120, 80), PATCHES)
    assert close == CloseUp(0, 0, PATCHES, PATCHES, PATCHES, PATCHES)


def test_a_close_up_is_that_piece_of_the_photo() -> None:
    x, y = np.meshgrid(np.arange(200), np.arange(100))
    photo = np.stack([x, y, 0 * x], axis=2).astype(np.uint8)
    pixels = cut_out(photo, CloseUp(top=8, left=4, height=16, width=16, rows=40, columns=20), 32)
    assert pixels.shape == (32, 32, 3)
    assert pixels[:, 0, 0].mean() == pytest.approx(200 * (4 + 0.25) / 20, abs=2.5)  # half a pixel of 32 into the box
    assert pixels[:, -1, 0].mean() == pytest.approx(200 * (20 - 0.25) / 20, abs=2.5)
    assert pixels[0, :, 1].mean() == pytest.approx(100 * 8.25 / 40, abs=1.5)
    assert pixels[-1, :, 1].mean() == pytest.approx(100 * 23.75 / 40, abs=1.5)


def test_what_the_close_up_says_is_put_there_as_it_is() -> None:
    close = CloseUp(top=3, left=10, height=16, width=16, rows=24, columns=32)
    closer, first = torch.randn(3, 16, 16), torch.randn(3, 12, 12)
    whole = placed(closer, first, close)
    assert whole.shape == (3, 24, 32)
    assert torch.equal(whole[:, 3:19, 10:26], closer)
    around = torch.nn.functional.interpolate(first[None], (24, 32), mode="bilinear")[0]
    around[:, 3:19, 10:26] = closer
    assert torch.equal(whole, around)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("run")
    run = make_run(folder / "run", resolve("laptop", None, tiny_settings(folder) | {"model.num_parts": 3}))
    patch = load_model(run.folder).backbone.patch_size
    return load_model(run.folder, PATCHES * patch).eval()


class RedParts(nn.Module):
    """The red of a patch tells the one part from the background, whatever the size of the image."""

    patch_size, dim = 4, 3

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.avg_pool2d(images, self.patch_size)


def red_logits(images: torch.Tensor) -> torch.Tensor:
    red = RedParts()(images)[:, :1]
    return torch.cat([red - 0.5, 0.5 - red], dim=1) * 40


def test_a_closer_look_finds_the_outline_of_a_small_object() -> None:
    photo = np.zeros((128, 128, 3), dtype=np.uint8)
    photo[40:59, 66:90, 0] = 255
    images = torch.from_numpy(photo).permute(2, 0, 1)[None].float() / 255

    class Model:
        backbone = RedParts()

    small = nn.functional.interpolate(images, (64, 64), mode="bilinear", antialias=True)
    close = look_closer(Model(), small, [photo], red_logits)
    assert close.images.shape == small.shape
    errors = []
    for logits in (red_logits(small)[0], close.placed(red_logits(close.images))[0]):
        large = nn.functional.interpolate(logits[None], (128, 128), mode="bilinear")[0]
        errors.append(int(((large[0] > large[1]).numpy() != (photo[..., 0] > 0)).sum()))
    assert errors[1] < errors[0] / 2


def test_which_models_look_closer(model: MPAE, monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_look_closer(model)
    assert PartPredictor(model).close_up
    assert not PartPredictor(model, exact=True).close_up
    assert not can_look_closer(object())
    monkeypatch.setattr(close_up, "LEAST", PATCHES + 1)
    assert not can_look_closer(model)


def test_prediction_looks_closer_and_exact_does_not(model: MPAE, monkeypatch: pytest.MonkeyPatch) -> None:
    side, seen = model.image_size, []
    part = {"inside": np.zeros((12, 12), dtype=bool)}
    part["inside"][4:7, 5:8] = True

    def first(images: torch.Tensor) -> torch.Tensor:
        found = torch.from_numpy(part["inside"]).float() * 20 - 10
        return torch.stack([found, found - 1, found - 2, torch.zeros_like(found)])[None].expand(len(images), -1, -1, -1)

    def describe(images: torch.Tensor, frozen: torch.Tensor | None = None) -> PartMaps:
        seen.append(images)
        return PartMaps(torch.zeros(len(images), 4, PATCHES, PATCHES), torch.zeros(len(images), 4, 8))

    monkeypatch.setattr(model, "part_logits", first)
    monkeypatch.setattr(model, "describe", describe)
    random = np.random.default_rng(0)
    picture = Picture("a", Image.fromarray(random.integers(0, 256, (600, 500, 3), np.uint8)), "0" * 32)
    (found,) = PartPredictor(model, outline="patch").predict([picture])
    close = find_close_up(first(torch.zeros(1))[0].numpy(), (500, 600), PATCHES)
    assert close.rows > 2 * PATCHES
    wanted = cut_out(np.asarray(picture.image), close, side)
    assert torch.equal((seen[0][0] * 255).round().byte(), torch.from_numpy(wanted.copy()).permute(2, 0, 1))
    assert found.mask.shape == (600, 500)
    assert (found.mask[: 600 * close.top // close.rows - 40] == 0).all()  # the first look's background
    seen.clear()
    list(PartPredictor(model, outline="patch", exact=True).predict([picture]))
    assert torch.equal((seen[0][0] * 255).round().byte(),
                       torch.from_numpy(np.array(picture.image.resize((side, side), Image.Resampling.BILINEAR)))
                       .permute(2, 0, 1))


def test_a_folder_gets_the_masks_that_the_library_gives(model: MPAE, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    random = np.random.default_rng(1)
    for name in ("a", "b", "c"):
        small = random.integers(0, 256, (6, 8, 3), np.uint8)
        Image.fromarray(small).resize((160, 120)).save(tmp_path / "photos" / f"{name}.png")
    source = FolderImages(tmp_path / "photos")
    done = predict_folder(model, source, tmp_path / "parts", run="tiny", write=["masks"], batch_size=2)
    assert done.images == 3
    for place, parts in enumerate(PartPredictor(model).predict(source[place] for place in range(3))):
        mask = np.asarray(Image.open(tmp_path / "parts" / "masks" / f"{source.names[place].removesuffix('.png')}.png"))
        assert np.array_equal(mask, parts.mask)


def test_evaluation_with_pixel_outlines_is_of_these_masks(model: MPAE) -> None:
    source = SyntheticImages(8, split="test")
    found = evaluate(model, source, outline="pixel", batch_size=2, limit=2)
    masks = [parts.mask for parts in PartPredictor(model).predict(source[place] for place in spread(len(source), 2))]
    inside = [torch.from_numpy(mask > 0) for mask in masks]
    wanted = [100 * foreground_iou(mask, torch.from_numpy(source.annotation(place).foreground))
              for mask, place in zip(inside, spread(len(source), 2), strict=True)]
    assert [row["foreground_iou"] for row in found.rows] == pytest.approx(wanted, abs=0.5)
