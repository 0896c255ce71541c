"""Outlines enclose just the pixels of a part."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image, ImageDraw

from mpae.serve.outlines import outline_paths, reduced


def filled(path: str, shape: tuple[int, int]) -> np.ndarray:
    """Pixels whose centre lies inside a path, by the even-odd rule."""
    inside = np.zeros(shape, dtype=bool)
    for loop in re.findall(r"M([^Z]*)Z", path):
        points = [tuple(8 * float(number) for number in point.split()) for point in loop.split("L")]
        canvas = Image.new("1", (8 * shape[1], 8 * shape[0]))
        ImageDraw.Draw(canvas).polygon(points, fill=1)  # type: ignore[arg-type]
        inside ^= np.asarray(canvas)[4::8, 4::8]
    return inside


@pytest.mark.parametrize("seed", range(6))
def test_a_path_encloses_its_pixels(seed: int) -> None:
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 3, (5, 7), dtype=np.uint8)
    labels = np.kron(coarse, np.ones((4, 4), dtype=np.uint8))
    paths = outline_paths(labels)
    assert set(paths) == set(np.unique(labels).tolist()) - {0}
    for label, path in paths.items():
        assert np.array_equal(filled(path, labels.shape), labels == label)


def test_nothing_has_no_outline() -> None:
    assert outline_paths(np.zeros((4, 5), dtype=np.uint8)) == {}
    assert outline_paths(np.ones((2, 2), dtype=np.uint8)) == {1: "M0.5 0L1.5 0L2 0.5L2 1.5L1.5 2L0.5 2L0 1.5L0 0.5Z"}


def test_reduced_masks_have_the_parts_that_people_see() -> None:
    mask = Image.fromarray(np.array([[1, 2, 3, 0]] * 2, dtype=np.uint8))
    assert reduced(mask, 100, [0, 1, 1, 0]).tolist() == [[1, 1, 0, 0]] * 2
    assert reduced(Image.new("L", (400, 100), 1), 40, [0, 5]).shape == (10, 40)
