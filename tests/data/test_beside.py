"""The second channel of a batch: pairs of views, class labels, masks; each only for a method that asks for it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from miniatures import write_cub, write_pets
from pictures import draw_photo
from PIL import Image, ImageFilter, ImageOps

from mpae.baselines.warp import warp
from mpae.config import DataSettings
from mpae.data.augment import make_view, view_to_picture
from mpae.data.beside import Beside, Masks, between, class_names, other_view
from mpae.data.catalogue import open_images
from mpae.data.images import digest_of
from mpae.data.loading import PictureReader, in_batches, read_batches
from mpae.data.source import Picture
from mpae.errors import MPAEError

SIZE = 64


def smooth_picture(index: int, size: tuple[int, int]) -> Picture:
    random = np.random.default_rng(index)
    noise = Image.fromarray(random.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    smooth = ImageOps.autocontrast(noise.filter(ImageFilter.GaussianBlur(min(size) / 12)))
    return Picture(f"{index}.png", smooth, digest_of(str(index).encode()))


@pytest.mark.parametrize("reading", ["ours", "released"])
@pytest.mark.parametrize(("view", "size"), [
    (1, (96, 80)), (2, (70, 130)), (3, (60, 150)), (5, (81, 64)), (8, (64, 64))])
def test_a_view_carried_into_another_is_that_view(reading: str, view: int, size: tuple[int, int]) -> None:
    picture = smooth_picture(view, size)
    other = other_view(view)
    matrix = between(*(view_to_picture(picture, its, SIZE, reading, seed=4) for its in (view, other)))
    ours, theirs = (torch.from_numpy(make_view(picture, its, SIZE, reading, 4).copy()).permute(2, 0, 1)[None].float()
                    for its in (view, other))
    carried, inside = warp(ours, torch.from_numpy(matrix)[None])
    kept = inside * torch.nn.functional.max_pool2d(-(carried.sum(1, keepdim=True) == 0).float(), 3, 1, 1).add(1)
    kept = -torch.nn.functional.max_pool2d(-kept, 5, 1, 2)  # away from black corners and the edge
    assert kept.mean() > 0.1
    error = ((carried - theirs).abs() * kept).sum() / (3 * kept.sum())
    spread = ((theirs - theirs.mean()).abs() * kept).sum() / (3 * kept.sum())
    assert error < 0.1 * spread


def test_the_whole_picture_is_view_0() -> None:
    assert np.array_equal(view_to_picture(smooth_picture(0, (90, 50)), 0, SIZE), np.eye(3))
    assert [other_view(view) for view in (0, 1, 7)] == [1, 0, 0]


def test_a_batch_has_what_was_asked_for_and_nothing_else(tmp_path: Path) -> None:
    write_cub(tmp_path / "cub")
    settings = DataSettings(dataset="cub", root=str(tmp_path / "cub"))
    source = open_images(settings)
    for beside, names in ((None, set()), (Beside(), set()), (Beside(classes=range(6)), {"class"}),
                          (Beside(pair=True), {"other", "other_to_view"}),
                          (Beside(pair=True, masks=Masks(settings, source)),
                           {"other", "other_to_view", "mask", "other_mask"})):
        reader = PictureReader(source, SIZE, beside=beside)
        batch = next(read_batches(reader, in_batches(range(3), 3)))
        assert set(batch.beside) == names
    assert batch.beside["mask"].shape == (3, 1, SIZE, SIZE)
    assert batch.beside["other"].dtype == torch.uint8


def test_masks_go_through_the_same_view_as_their_picture(tmp_path: Path) -> None:
    """A white figure on black is its own mask."""
    folder = tmp_path / "photos"
    for place in (folder / "a", tmp_path / "photos_masks" / "a"):
        place.mkdir(parents=True)
    figure = Image.new("L", (90, 70))
    figure.paste(255, (20, 10, 60, 50))
    figure.convert("RGB").save(folder / "a" / "1.bmp")
    figure.save(tmp_path / "photos_masks" / "a" / "1.png")
    settings = DataSettings(dataset="folder", root=str(folder))
    source = open_images(settings)
    reader = PictureReader(source, SIZE, beside=Beside(pair=True, masks=Masks(settings, source)))
    for view in (0, 1, 4):
        batch = next(read_batches(reader, [[(0, view)]]))
        assert torch.equal(batch.beside["mask"][0, 0], batch.images[0, 0] >= 128)
        assert torch.equal(batch.beside["other_mask"][0, 0], batch.beside["other"][0, 0] >= 128)


@pytest.mark.parametrize(("dataset", "name", "expected"), [
    ("folder", "heron/1.jpg", "heron"), ("folder", "birds/heron/1.jpg", "birds/heron"),
    ("cub", "001.Black_footed_Albatross/a.jpg", "001.Black_footed_Albatross"),
    ("pets", "great_pyrenees_12.jpg", "great_pyrenees"), ("synthetic", "train/000003-fish", "fish"),
    ("partimagenet-ood", "n01440764/n01440764_5.JPEG", "n01440764"), ("partimagenet-seg", "n0200_1.JPEG", "n0200")])
def test_where_classes_come_from(dataset: str, name: str, expected: str) -> None:
    assert class_names(DataSettings(dataset=dataset), [name, "n5/n5-other_1"])[0] == expected


def test_missing_labels_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MPAEError, match=r"'1\.jpg' and 1 other images of 'folder' have none; put each image"):
        class_names(DataSettings(), ["1.jpg", "a/2.jpg", "3.jpg"])
    with pytest.raises(MPAEError, match="All 2 images are of one class, 'a'"):
        class_names(DataSettings(), ["a/1.jpg", "a/2.jpg"])
    folder = tmp_path / "photos"
    folder.mkdir()
    draw_photo(0).save(folder / "1.jpg")
    settings = DataSettings(root=str(folder))
    with pytest.raises(MPAEError, match=r"expected '.*photos_masks/1\.png' for '1\.jpg'.* white where the object is"):
        Masks(settings, open_images(settings))


def test_masks_of_benchmarks(tmp_path: Path) -> None:
    written = write_pets(tmp_path / "pets")
    settings = DataSettings(dataset="pets", root=str(written.root))
    source = open_images(settings)
    mask = np.asarray(Masks(settings, source)(0, source[0]))
    assert np.array_equal(mask[:, :, 0] > 0, written.trimaps[source.names[0]] == 1)
    cub = write_cub(tmp_path / "cub")
    os.rename(cub.root / "segmentations", cub.root / "elsewhere")
    settings = DataSettings(dataset="cub", root=str(cub.root))
    with pytest.raises(MPAEError, match="'cub' here has no foreground masks; `mpae datasets` shows where"):
        Masks(settings, open_images(settings))
