"""Images in the pixel order of their files, and label maps that must fit them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from mpae.data.source import UnreadableImage
from mpae.data.sources.benchmark import BenchmarkImages, image_size, read_labels
from mpae.errors import MPAEError


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pixels_come_as_stored_whatever_the_orientation(tmp_path: Path, orientation: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as image:
        upright = np.asarray(ImageOps.exif_transpose(image))
    assert np.array_equal(upright, pixels) == (orientation == 1)  # the file does ask for a turn
    source = BenchmarkImages(tmp_path, ["a.png"])
    np.testing.assert_array_equal(np.asarray(source[0].image), pixels)
    assert source.size(0) == (9, 6)


def test_squashed_pictures_are_bilinear_between_four_pixels(tmp_path: Path) -> None:
    """As the released program reads CelebA; pixel by pixel, in a loop."""
    pixels = np.random.default_rng(0).integers(0, 256, (31, 47, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = np.asarray(BenchmarkImages(tmp_path, ["a.png"], square=14)[0].image)
    assert found.shape == (14, 14, 3)
    for row in range(14):
        for column in range(14):
            y, x = (row + 0.5) * 31 / 14 - 0.5, (column + 0.5) * 47 / 14 - 0.5
            top, left = int(y), int(x)
            down, right = y - top, x - left
            expected = ((1 - down) * (1 - right) * pixels[top, left] + (1 - down) * right * pixels[top, left + 1]
                        + down * (1 - right) * pixels[top + 1, left] + down * right * pixels[top + 1, left + 1])
            np.testing.assert_allclose(found[row, column], expected, atol=0.501)


def test_what_is_no_image_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"text")
    with pytest.raises(UnreadableImage):
        image_size(tmp_path / "a.png")
    with pytest.raises(UnreadableImage):
        BenchmarkImages(tmp_path, ["a.png"])[0]


def test_palette_indices_are_labels(tmp_path: Path) -> None:
    labels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    image = Image.fromarray(labels).convert("P")
    image.putdata(labels.ravel().tolist())
    image.putpalette([255 - i // 3 for i in range(768)])
    image.save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_labels(tmp_path / "a.png", (4, 3), "a.jpg"), labels)
    with pytest.raises(MPAEError, match=r"has 4 x 3 pixels but its image 'a.jpg' has 3 x 4; masks"):
        read_labels(tmp_path / "a.png", (3, 4), "a.jpg")
