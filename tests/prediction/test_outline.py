"""Outlines on pictures made on the spot."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from mpae.prediction.masks import segment
from mpae.prediction.outline import LONGEST, refine, smooth_columns, working_size


def disc(side: int, radius: float) -> np.ndarray:
    y, x = np.mgrid[:side, :side] + 0.5
    return (x - side / 2) ** 2 + (y - side / 2) ** 2 < radius**2


def picture_and_logits(side: int = 192, grid: int = 12) -> tuple[Image.Image, np.ndarray, np.ndarray]:
    """A red disc on green with some noise, its mask, and logits of patches: two parts, left and right."""
    inside = disc(side, side * 0.3)
    colours = np.where(inside[:, :, None], (200, 60, 40), (60, 150, 70)) + np.random.default_rng(0).normal(
        0, 3, (side, side, 3))
    coverage = inside.reshape(grid, side // grid, grid, side // grid).mean(axis=(1, 3))
    object_logit = 12 * (coverage - 0.2)  # patches that touch the disc count as disc: too large
    left = np.where(np.arange(grid) < grid // 2, 3.0, -3.0)[None].repeat(grid, 0)
    logits = np.stack([object_logit + left, object_logit - left, np.full_like(left, 3.0)])
    return Image.fromarray(colours.clip(0, 255).astype(np.uint8)), inside, logits.astype(np.float32)


def iou(first: np.ndarray, second: np.ndarray) -> float:
    return (first & second).sum() / (first | second).sum()


def test_outline_follows_the_edge() -> None:
    image, inside, logits = picture_and_logits()
    before, after = (segment(each, image.size)[0] > 0 for each in (logits, refine(logits, image)))
    assert iou(before, inside) < 0.93
    assert iou(after, inside) > 0.98


def test_parts_within_the_object_stay() -> None:
    image, _, logits = picture_and_logits()
    before, after = (segment(each, image.size)[0] for each in (logits, refine(logits, image)))
    both = (before > 0) & (after > 0)
    assert both.any()
    assert (before[both] == after[both]).mean() > 0.999


def test_without_edges_a_half_stays_a_half() -> None:
    """In a picture of one colour nothing tells where the outline is, so it stays in the middle."""
    logits = np.zeros((2, 8, 8), dtype=np.float32)
    logits[0, :, :4], logits[0, :, 4:] = 5, -5
    mask = refine(logits, Image.new("RGB", (64, 64), (90, 90, 90)))
    assert ((mask[0] > mask[1]) == (np.arange(64) < 32)).all()


def test_smooth_columns_solves_the_system() -> None:
    rng = np.random.default_rng(1)
    values, weights = rng.random((2, 6, 3)).astype(np.float32), 5 * rng.random((5, 3)).astype(np.float32)
    found = smooth_columns(values, weights)
    for column in range(3):
        system = np.eye(6)
        for row in range(5):
            system[row : row + 2, row : row + 2] += weights[row, column] * np.array([[1, -1], [-1, 1]])
        for field in range(2):
            assert np.allclose(system @ found[field, :, column], values[field, :, column], atol=1e-4)


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (50, 1), (3, 700)])
def test_narrow_pictures(size: tuple[int, int]) -> None:
    logits = np.random.default_rng(2).normal(size=(3, 4, 4)).astype(np.float32)
    found = refine(logits, Image.new("RGB", size))
    assert found.shape == (3, *working_size(size)[::-1])
    assert np.isfinite(found).all()


def test_work_does_not_grow_with_the_photo() -> None:
    assert working_size((8000, 6000)) == (LONGEST, LONGEST * 3 // 4)
    assert working_size((200, 100)) == (200, 100)
    assert working_size((100_000, 2)) == (LONGEST, 1)
    found = refine(np.zeros((2, 4, 4), dtype=np.float32), Image.new("RGB", (3000, 2000)))
    assert found.shape == (2, LONGEST * 2 // 3, LONGEST)


def test_the_same_every_time() -> None:
    image, _, logits = picture_and_logits()
    kept = logits.copy()
    assert np.array_equal(refine(logits, image), refine(logits, image))
    assert np.array_equal(logits, kept)


def test_extreme_logits_stay_finite() -> None:
    logits = np.full((2, 4, 4), 1e4, dtype=np.float32)
    logits[1, :2] = -1e4
    assert np.isfinite(refine(logits, Image.new("RGB", (32, 32)))).all()
