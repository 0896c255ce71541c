"""Resizing moves points, boxes and masks as it moves the pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mpae.data.geometry import (
    move_points,
    resize_annotation,
    resize_labels,
    scale_box,
    scale_points,
    squash,
)
from mpae.data.source import Annotation

sides = st.integers(1, 300)
sizes = st.tuples(sides, sides)


@settings(max_examples=50, deadline=None)
@given(old=sizes, new=sizes, seed=st.integers(0, 99))
def test_points_and_boxes_come_back(old: tuple[int, int], new: tuple[int, int], seed: int) -> None:
    points = np.random.default_rng(seed).uniform(0, 300, (15, 2))
    np.testing.assert_allclose(scale_points(scale_points(points, old, new), new, old), points, rtol=1e-12)
    box = tuple(points[:2].ravel().tolist())
    assert scale_box(scale_box(box, old, new), new, old) == pytest.approx(box, rel=1e-9, abs=1e-9)


def test_a_point_moves_as_the_protocol_says() -> None:
    moved = scale_points(np.array([[30.0, 60.0]]), (300, 200), (448, 448))
    np.testing.assert_allclose(moved, [[44.8, 134.4]])
    assert scale_box((30.0, 60.0, 150.0, 20.0), (300, 200), (100, 100)) == pytest.approx((10, 30, 50, 10))


def test_any_affine_map_moves_points() -> None:
    flip = np.array([[-1.0, 0.0, 10.0], [0.0, 1.0, 0.0]])  # left and right exchanged, 10 pixels wide
    np.testing.assert_array_equal(move_points(np.array([[0.0, 3.0], [10.0, 4.0]]), flip), [[10, 3], [0, 4]])


@pytest.mark.parametrize("factor", [2, 3, 7])
def test_labels_come_back_from_a_larger_size(factor: int) -> None:
    labels = np.random.default_rng(0).integers(0, 41, (11, 17)).astype(np.uint8)
    large = resize_labels(labels, (17 * factor, 11 * factor))
    np.testing.assert_array_equal(large, np.kron(labels, np.ones((factor, factor), dtype=np.uint8)))
    np.testing.assert_array_equal(resize_labels(large, (17, 11)), labels)
    assert large.dtype == np.uint8


@settings(max_examples=50, deadline=None)
@given(old=sizes, new=sizes)
def test_each_new_pixel_takes_the_label_under_its_centre(old: tuple[int, int], new: tuple[int, int]) -> None:
    labels = np.tile(np.arange(old[0]), (old[1], 1))
    columns = resize_labels(labels, new)[0]
    np.testing.assert_array_equal(resize_labels(labels.T, new[::-1])[:, 0], columns)
    exact = [(i + 0.5) * old[0] / new[0] for i in range(new[0])]
    assert all(low <= x + 1e-9 and x - 1e-9 <= low + 1 for low, x in zip(columns, exact, strict=True))
    row = torch.arange(float(old[0]))[None, None]
    nearest = torch.nn.functional.interpolate(row, new[0], mode="nearest-exact")
    if all(abs(x - round(x)) > 1e-4 for x in exact):  # at an edge between pixels torch rounds in float32
        np.testing.assert_array_equal(columns, nearest[0, 0])


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize(("point", "size"), [((37, 12), 224), ((99, 90), 64), ((3, 99), 448), ((195, 9), 96)])
def test_a_dot_is_found_where_its_keypoint_goes(point: tuple[int, int], size: int, as_tensor: bool) -> None:
    pixels = np.zeros((120, 200, 3), dtype=np.uint8)
    x, y = point
    pixels[y, x] = 255
    image = Image.fromarray(pixels)
    squashed = squash(torch.from_numpy(pixels).permute(2, 0, 1) / 255 if as_tensor else image, size)
    assert squashed.shape == (3, size, size)
    assert squashed.dtype == torch.float32
    weight = squashed[0].double()
    centres = torch.arange(size) + 0.5  # of pixels
    found = [float((weight.sum(axis) * centres).sum() / weight.sum()) for axis in (0, 1)]
    expected = scale_points(np.array([[x + 0.5, y + 0.5]]), (200, 120), (size, size))[0]
    np.testing.assert_allclose(found, expected, atol=0.6)  # at the border the dot's blur is cut off


def test_squash_of_an_image_and_of_its_tensor_agree() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (90, 130, 3), dtype=np.uint8)
    from_image = squash(Image.fromarray(pixels), 56)
    from_tensor = squash(torch.from_numpy(pixels).permute(2, 0, 1) / 255, 56)
    assert (from_image - from_tensor).abs().max() < 1.5 / 255  # Pillow rounds to whole grey levels
    grey = squash(Image.new("L", (5, 9), 51), 4)
    torch.testing.assert_close(grey, torch.full((3, 4, 4), 0.2))


def test_a_whole_annotation_is_resized() -> None:
    mask = np.zeros((10, 20), dtype=np.uint8)
    mask[2:4, 10:20] = 3
    annotation = Annotation(keypoints=np.array([[15.0, 3.0]]), visible=np.array([True]),
                            box=(10.0, 2.0, 10.0, 2.0), part_mask=mask, foreground=mask > 0)
    resized = resize_annotation(annotation, (20, 10), (40, 40))
    np.testing.assert_allclose(resized.keypoints, [[30, 12]])
    assert resized.box == pytest.approx((20, 8, 20, 8))
    np.testing.assert_array_equal(np.argwhere(resized.part_mask == 3).min(0), [8, 20])
    np.testing.assert_array_equal(np.argwhere(resized.foreground).max(0), [15, 39])
    np.testing.assert_array_equal(resized.visible, [True])
    assert resize_annotation(Annotation(), (3, 4), (5, 6)) == Annotation()
