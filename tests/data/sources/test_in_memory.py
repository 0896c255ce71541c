from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from pictures import draw_photo
from PIL import Image

from mpae.data.source import UnreadableImage
from mpae.data.sources.in_memory import InMemoryImages, is_one_image, iterate_pictures, to_picture
from mpae.errors import MPAEError

PHOTO = draw_photo(0)
PIXELS = np.asarray(PHOTO)  # (80, 96, 3)

SAME = {
    "Pillow": PHOTO,
    "uint8": PIXELS,
    "floats": PIXELS / 255,
    "float32": (PIXELS / 255).astype(np.float32),
    "tensor of floats": torch.from_numpy(PIXELS.copy()).permute(2, 0, 1) / 255,
    "tensor of bytes": torch.from_numpy(PIXELS.copy()).permute(2, 0, 1),
    "half, with a gradient": (torch.from_numpy(PIXELS.copy()).permute(2, 0, 1) / 255).half().requires_grad_(),
    "opaque alpha": PHOTO.convert("RGBA"),
}


@pytest.mark.parametrize("kind", SAME)
def test_the_same_image_of_any_kind_is_the_same_picture(kind: str) -> None:
    picture = to_picture(SAME[kind], "photo")
    assert picture.image.mode == "RGB"
    assert np.array_equal(np.asarray(picture.image), PIXELS)
    assert picture.digest == to_picture(PHOTO, "other name").digest


@pytest.mark.parametrize("grey", [PIXELS[:, :, 0], PIXELS[:, :, :1], torch.from_numpy(PIXELS[:, :, 0].copy())[None],
                                  Image.fromarray(PIXELS[:, :, 0])], ids=["HW", "HW1", "1HW", "L"])
def test_grey_becomes_colour(grey: object) -> None:
    image = np.asarray(to_picture(grey, "grey").image)  # type: ignore[arg-type]
    assert np.array_equal(image, np.repeat(PIXELS[:, :, :1], 3, axis=2))


def test_a_file_is_turned_upright_and_a_pillow_image_keeps_its_size(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    PHOTO.save(tmp_path / "turned.jpg", exif=exif)
    assert to_picture(tmp_path / "turned.jpg", "a").image.size == (80, 96)
    assert to_picture(Image.open(tmp_path / "turned.jpg"), "a").image.size == (96, 80)


WRONG = {
    "colours first": (np.zeros((3, 64, 60)), ValueError, r"array of shape \(3, 64, 60\); expected \(H, W, 3\)"),
    "colours last": (torch.zeros(64, 60, 3), ValueError, r"tensor of shape \(64, 60, 3\); expected \(3, H, W\)"),
    "empty": (np.zeros((0, 5, 3)), ValueError, r"shape \(0, 5, 3\)"),
    "normalised": (np.full((4, 4, 3), -2.0), ValueError, "values from -2 to -2; expected floats in"),
    "0..255 as floats": (torch.full((3, 4, 4), 200.0), ValueError, "values from 200 to 200"),
    "not a number": (np.full((4, 4), np.nan), ValueError, "values from nan to nan"),
    "int64": (np.zeros((4, 4, 3), dtype=int), ValueError, "of type int64; expected uint8"),
    "dict": ({"image": 1}, TypeError, "'x' is of type dict; expected a path"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_image_is_told_in_a_sentence(case: str) -> None:
    given, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        to_picture(given, "x")  # type: ignore[arg-type]


def test_a_file_that_was_opened_and_is_torn_is_unreadable(tmp_path: Path) -> None:
    PHOTO.save(tmp_path / "whole.png")
    (tmp_path / "torn.png").write_bytes((tmp_path / "whole.png").read_bytes()[:3000])
    with pytest.raises(UnreadableImage):
        to_picture(Image.open(tmp_path / "torn.png"), "torn")


def test_one_or_several(tmp_path: Path) -> None:
    assert all(is_one_image(image) for image in SAME.values())
    assert is_one_image("nowhere.jpg")
    assert not is_one_image(tmp_path)
    assert not is_one_image([PHOTO])
    assert not is_one_image(PIXELS[None])
    assert not is_one_image(np.array(["a.jpg", "b.jpg"]))


def test_iterates_over_whatever_holds_images(photos: Path) -> None:
    assert [picture.name for picture in iterate_pictures(photos)] == [
        (photos / name).as_posix() for name in sorted(path.relative_to(photos).as_posix()
                                                      for path in photos.rglob("*.jpg"))]
    assert [picture.name for picture in iterate_pictures(np.stack([PIXELS, PIXELS]))] == [
        "image-000000", "image-000001"]
    paths = np.array([str(path) for path in photos.glob("*.jpg")])
    assert len(list(iterate_pictures(paths))) == 8
    endless = (PHOTO for _ in iter(int, 1))
    assert next(iterate_pictures(endless)).image.size == PHOTO.size
    with pytest.raises(TypeError, match="Images came as int; expected a path"):
        next(iterate_pictures(3))
    with pytest.raises(MPAEError, match=r"Cannot read the image 'nowhere\.jpg': No such file"):
        next(iterate_pictures("nowhere.jpg"))


def test_images_at_hand_are_a_source(photos: Path) -> None:
    path = photos / "photo-01.jpg"
    source = InMemoryImages(image for image in (path, PHOTO, PIXELS))
    assert len(source) == 3
    assert source.names == [path.as_posix(), "image-000001", "image-000002"]
    assert source[1].digest == source[2].digest != source[0].digest
    assert len(set(InMemoryImages([path, path]).names)) == 2
