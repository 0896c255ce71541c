"""Resizing moves points, boxes and masks as it moves the pixels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpae.data.geometry import resize_annotation, resize_labels, scale_box, scale_points
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


@pytest.mark.parametrize("factor", [2, 3, 7])
def test_labels_come_back_from_a_larger_size(factor: int) -> None:
    labels = np.random.default_rng(0).integers(0, 41, (11, 17)).astype(np.uint8)
    large = resize_labels(labels, (17 * factor, 11 * factor))
    np.testing.assert_array_equal(large, np.kron(labels, np.ones((factor, factor), dtype=np.uint8)))
    np.testing.assert_array_equal(resize_labels(large, (17, 11)), labels)
    assert large.dtype == np.uint8


@settings(max_examples=50, deadline=None)
@given(old=sizes, new=sizes)
def test_each_new_pixel_takes_the_label_at_its_corner(old: tuple[int, int], new: tuple[int, int]) -> None:
    """floor(i * old / new), where that is no whole number: at one, OpenCV's rounding of the factor decides."""
    labels = np.tile(np.arange(old[0]), (old[1], 1))
    columns = resize_labels(labels, new)[0]
    np.testing.assert_array_equal(resize_labels(labels.T, new[::-1])[:, 0], columns)
    for i, column in enumerate(columns):
        whole, rest = divmod(i * old[0], new[0])
        assert column == whole if rest else column in (whole, whole - 1)


def test_labels_are_those_of_opencv() -> None:
    """Recorded from cv2.resize(..., interpolation=cv2.INTER_NEAREST), OpenCV 4.14 and 5.0."""
    assert resize_labels(np.arange(7)[None], (3, 1)).tolist() == [[0, 2, 4]]
    assert resize_labels(np.arange(3)[None], (7, 1)).tolist() == [[0, 0, 0, 1, 1, 2, 2]]
    assert resize_labels(np.arange(500)[None], (128, 1))[0, [1, 2, 64, 127]].tolist() == [3, 7, 250, 496]
    assert resize_labels(np.arange(186)[None], (128, 1))[0, 64] == 92  # not 93: the factor is rounded


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
