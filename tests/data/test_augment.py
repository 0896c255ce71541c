"""Views of a picture: the same in any process, within their ranges, and where the geometry says."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import draw_photo
from PIL import Image

from mpae.data.augment import (
    ViewGeometry,
    augment,
    augment_as_released,
    cut_to_aspect,
    draw_geometry,
    make_view,
)
from mpae.data.images import digest_of
from mpae.data.source import Picture

STILL = ViewGeometry(flip=False, angle=0.0, shift=(0.0, 0.0), scale=1.0, crop=(0.5, 0.5))


def picture(width: int = 96, height: int = 80, index: int = 0) -> Picture:
    return Picture(f"{index}.png", draw_photo(index, (width, height)), digest_of(str(index).encode()))


def test_view_0_is_the_squashed_picture() -> None:
    """Each new pixel is the mean of the old ones around its place, weighted by a triangle as wide as it shrinks."""
    pixels = np.asarray(picture().image, float)  # (80, 96, 3)
    rows, columns = (np.array([[max(0.0, 1 - abs((old + 0.5) * 56 / side - (new + 0.5))) for old in range(side)]
                               for new in range(56)]) for side in (80, 96))
    rows, columns = rows / rows.sum(1, keepdims=True), columns / columns.sum(1, keepdims=True)
    expected = np.einsum("ij,jkc,lk->ilc", rows, pixels, columns)
    for reading in ("ours", "released"):
        view = make_view(picture(), 0, 56, reading, seed=3)
        np.testing.assert_allclose(view, expected, atol=1.1)  # Pillow rounds after each of its two passes


def test_views_differ_from_each_other_and_between_pictures() -> None:
    views = [make_view(picture(index=index), view, 56).tobytes() for index in (0, 1) for view in range(6)]
    assert len(set(views)) == 12


def test_the_same_view_in_another_process() -> None:
    script = """
from pictures import draw_photo
from mpae.data.images import digest_of
from mpae.data.source import Picture
from mpae.data.augment import make_view
picture = Picture("0.png", draw_photo(0), digest_of(b"0"))
print(*(digest_of(make_view(picture, view, 56).tobytes()) for view in range(4)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"})
    assert done.stdout.split() == [digest_of(make_view(picture(), view, 56).tobytes()) for view in range(4)]


def test_no_two_digests_share_their_views() -> None:
    """As a list the key became float64, which forgets the last bits of a digest."""
    digests = [f"{value:016x}{0:016x}" for value in (2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2, 5, 6)]
    assert len({draw_geometry(digest, 1) for digest in digests}) == len(digests)


def test_what_is_drawn_stays_as_it_is() -> None:
    """Another drawing would be another training set for the same seed; then this test has to change too."""
    drawn = draw_geometry("f" * 32, 3)
    assert drawn.flip
    assert drawn.angle == pytest.approx(-0.0326288)
    assert drawn.shift == pytest.approx((-0.0193020, -0.0339208), abs=1e-6)
    assert drawn.scale == pytest.approx(1.0252600)
    assert drawn.crop == pytest.approx((0.7248310, 0.5202064))


@pytest.mark.parametrize("seed", [None, 5])
def test_ranges_are_the_papers_and_are_used_to_the_full(seed: int | None) -> None:
    """15 degrees, 5 % of the side, scale 0.95 to 1.05, half of the pictures mirrored."""
    drawn = [draw_geometry(digest_of(bytes([index, view])), view, seed) for index in range(60) for view in range(1, 11)]
    angles = np.degrees([view.angle for view in drawn])
    shifts = np.array([view.shift for view in drawn])
    scales = np.array([view.scale for view in drawn])
    crops = np.array([view.crop for view in drawn])
    for values, low, high in ((angles, -15, 15), (shifts, -0.05, 0.05), (scales, 0.95, 1.05), (crops, 0, 1)):
        margin = 0.02 * (high - low)
        assert low <= values.min() < low + margin
        assert high - margin < values.max() <= high
        assert values.mean() == pytest.approx((low + high) / 2, abs=0.05 * (high - low))
    assert np.mean([view.flip for view in drawn]) == pytest.approx(0.5, abs=0.07)


def where_it_goes(point: tuple[float, float], width: int, height: int, geometry: ViewGeometry,
                  size: int) -> tuple[float, float]:
    """One step after the other, as the paper lists them: resize, rotate, scale, shift, crop, flip."""
    factor = size / min(width, height)
    x, y = point[0] * factor, point[1] * factor
    wide, high = width * factor, height * factor
    x, y = x - wide / 2, y - high / 2
    cos, sin = math.cos(geometry.angle), math.sin(geometry.angle)
    x, y = cos * x - sin * y, sin * x + cos * y
    x, y = x * geometry.scale, y * geometry.scale
    x, y = x + wide / 2 + geometry.shift[0] * wide, y + high / 2 + geometry.shift[1] * high
    x, y = x - geometry.crop[0] * (wide - size), y - geometry.crop[1] * (high - size)
    return (size - x, y) if geometry.flip else (x, y)


def dot_at(point: tuple[float, float], width: int, height: int) -> Image.Image:
    """A smooth bright dot on black."""
    rows, columns = np.mgrid[:height, :width] + 0.5
    brightness = np.exp(-((columns - point[0]) ** 2 + (rows - point[1]) ** 2) / (2 * 4.0**2))
    return Image.fromarray((255 * brightness).round().astype(np.uint8)).convert("RGB")


def centre_of(image: Image.Image) -> tuple[float, float]:
    weights = np.asarray(image, float)[:, :, 0]
    rows, columns = np.mgrid[: image.height, : image.width] + 0.5
    return (weights * columns).sum() / weights.sum(), (weights * rows).sum() / weights.sum()


@pytest.mark.parametrize("size_of_picture", [(200, 120), (120, 200), (160, 160), (100, 380)])
@pytest.mark.parametrize("view", range(1, 9))
def test_a_dot_lands_where_the_geometry_sends_it(size_of_picture: tuple[int, int], view: int) -> None:
    width, height = size_of_picture
    geometry = draw_geometry(digest_of(bytes(size_of_picture[0:1])), view)
    side = min(width, height)
    left, top = geometry.crop[0] * (width - side), geometry.crop[1] * (height - side)
    seen = 0
    for share in ((0.5, 0.5), (0.35, 0.4), (0.7, 0.6)):
        point = left + share[0] * side, top + share[1] * side
        expected = where_it_goes(point, width, height, geometry, 112)
        if not all(16 < value < 96 for value in expected):
            continue  # too near to the border: part of the dot is cut off
        found = centre_of(augment(dot_at(point, width, height), geometry, 112))
        assert found == pytest.approx(expected, abs=0.35)
        seen += 1
    assert seen or max(width, height) > 3 * side


def test_a_still_view_of_a_square_is_the_resized_picture() -> None:
    image = draw_photo(0, (90, 90))
    expected = np.asarray(image.resize((56, 56), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(np.asarray(augment(image, STILL, 56)), expected)
    flipped = ViewGeometry(True, 0.0, (0.0, 0.0), 1.0, (0.5, 0.5))
    np.testing.assert_array_equal(np.asarray(augment(image, flipped, 56)), expected[:, ::-1])


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 5000), (5000, 1), (3, 3000), (16000, 2), (5, 7)])
def test_odd_sizes_give_the_right_size_and_no_giant(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []
    real = Image.Image.resize

    def resize(self: Image.Image, size: tuple[int, int], resample: Image.Resampling) -> Image.Image:
        made.append(size)
        return real(self, size, resample)

    monkeypatch.setattr(Image.Image, "resize", resize)
    odd = Picture("odd", Image.new("RGB", shape, (200, 30, 30)), digest_of(repr(shape).encode()))
    for view, reading in itertools.product(range(5), ("ours", "released")):
        pixels = make_view(odd, view, 224, reading)
        assert (pixels.shape, pixels.dtype) == ((224, 224, 3), np.uint8)
        assert pixels.max() >= 199  # the picture is in sight
    assert max(width * height for width, height in made) <= 4 * 224 * 224


def test_the_cut_keeps_ordinary_pictures_and_reaches_both_ends_of_long_ones() -> None:
    ordinary = Image.new("RGB", (400, 100))
    assert cut_to_aspect(ordinary, (0.3, 0.9)) is ordinary
    columns = Image.fromarray(np.arange(250, dtype=np.uint8)[None].repeat(10, 0)).convert("RGB")  # 250 x 10
    first, last = cut_to_aspect(columns, (0.0, 0.5)), cut_to_aspect(columns, (1.0, 0.5))
    assert first.size == last.size == (40, 10)
    assert first.getpixel((0, 0)) == (0, 0, 0)
    assert last.getpixel((39, 9)) == (249, 249, 249)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(14, 64), st.integers(0, 5), st.binary(max_size=4))
def test_a_view_always_has_the_size_asked_for(width: int, height: int, size: int, view: int, seed: bytes) -> None:
    to_picture = Picture("x", Image.new("RGB", (width, height), (255, 255, 255)), digest_of(seed))
    assert make_view(to_picture, view, size).shape == (size, size, 3)


def test_released_views_follow_the_seed_and_ours_do_not() -> None:
    views = [make_view(picture(), 1, 56, "released", seed).tobytes() for seed in (0, 1, 2, 0)]
    assert len(set(views)) == 3
    assert views[0] == views[3]
    assert len({make_view(picture(), 1, 56, "ours", seed).tobytes() for seed in (0, 1, 2)}) == 1


def released_pixel(resized: np.ndarray, geometry: ViewGeometry, size: int, row: int, column: int
                   ) -> tuple[np.ndarray, float]:
    """What the released program shows there, and how far it is from showing a neighbour, in pixels.

    Its steps are taken back one after the other: crop, shift, scale, rotation about the centre, flip.
    """
    height, width = resized.shape[:2]
    x = column + 0.5 + int(geometry.crop[0] * (width - size + 1))
    y = row + 0.5 + int(geometry.crop[1] * (height - size + 1))
    x, y = x - round(geometry.shift[0] * width) - width / 2, y - round(geometry.shift[1] * height) - height / 2
    x, y = x / geometry.scale, y / geometry.scale
    cos, sin = math.cos(-geometry.angle), math.sin(-geometry.angle)
    x, y = cos * x - sin * y + width / 2, sin * x + cos * y + height / 2
    margin = min(abs(x - round(x)), abs(y - round(y)))
    if not (0 <= x < width and 0 <= y < height):
        return np.zeros(3), margin  # black outside
    if geometry.flip:
        x = width - x
    return resized[int(y), int(x)], margin


@pytest.mark.parametrize("shape", [(60, 44), (44, 60), (50, 50)])
@pytest.mark.parametrize("view", range(1, 5))
def test_a_released_view_is_flipped_warped_to_the_nearest_pixel_and_cropped(shape: tuple[int, int], view: int) -> None:
    image = Image.fromarray(np.random.default_rng(1).integers(1, 256, (shape[1], shape[0], 3), dtype=np.uint8))
    geometry = draw_geometry(digest_of(bytes(shape)), view, seed=4)
    found = np.asarray(augment_as_released(image, geometry, 28))
    shorter, longer = min(shape), max(shape)
    resized = image.resize(tuple(28 if side == shorter else 28 * longer // shorter for side in shape),  # type: ignore
                           Image.Resampling.BILINEAR)
    sure = black = 0
    for row in range(28):
        for column in range(28):
            expected, margin = released_pixel(np.asarray(resized), geometry, 28, row, column)
            if margin > 0.01:  # nearer to an edge between two pixels, rounding decides
                np.testing.assert_array_equal(found[row, column], expected)
                sure += 1
                black += not expected.any()
    assert sure > 0.9 * 28 * 28
    assert black or shape != (50, 50)  # a square that is turned shows what lies outside


def test_squashed_pictures_are_not_cropped_in_the_released_reading() -> None:
    """CelebA: the picture is a square already, so resize and crop leave it as it is."""
    image = draw_photo(0, (56, 56))
    np.testing.assert_array_equal(np.asarray(augment_as_released(image, STILL, 56)), np.asarray(image))
