"""What looks wrong: planted parts are found, and nothing is said where nothing is usual."""

from __future__ import annotations

import numpy as np
import pytest

from mpae.prediction.outliers import FAR, find_outliers, robust_z, unusualness
from mpae.prediction.search import PartIndex


@pytest.fixture
def index() -> PartIndex:
    """Sixty images of three parts, each with features of its own; the parts of images 7 and 8 were tampered with."""
    random = np.random.default_rng(0)
    features = np.eye(3, 12)[None] * 5 + random.normal(scale=0.5, size=(60, 3, 12))  # (n, K, E)
    features[7, 1] = -features[7, 1]
    present = np.ones((60, 3), dtype=bool)
    present[8, 2] = False
    present[::2, 0] = False  # half of the images: not worth a word
    return PartIndex(features, present)


def test_planted_outliers_come_first(index: PartIndex) -> None:
    scores = unusualness(index)
    assert scores.shape == (60, 3)
    assert scores[8, 2] == 0
    found = find_outliers(scores, index.present, [[1], [2], [3]])
    assert (found[0].image, found[0].part, found[0].why) == (7, 2, "unlike")
    assert (8, 3, "missing") in [(outlier.image, outlier.part, outlier.why) for outlier in found]
    assert not any(outlier.why == "missing" and outlier.part == 1 for outlier in found)
    assert all(outlier.score >= FAR for outlier in found)
    assert [outlier.score for outlier in found] == sorted((outlier.score for outlier in found), reverse=True)


def test_a_joined_part_is_missing_where_all_its_members_are(index: PartIndex) -> None:
    found = find_outliers(unusualness(index), index.present, [[1], [2, 3]])
    assert not any(outlier.why == "missing" for outlier in found)
    assert (found[0].image, found[0].part) == (7, 2)


def test_few_images_have_no_outliers() -> None:
    index = PartIndex(np.random.default_rng(0).normal(size=(5, 2, 4)), np.eye(5, 2, dtype=bool))
    assert not unusualness(index).any()
    assert find_outliers(unusualness(index), index.present, [[1], [2]]) == []
    empty = PartIndex(np.empty((0, 2, 4)), np.empty((0, 2), dtype=bool))
    assert find_outliers(unusualness(empty), empty.present, [[1], [2]]) == []


def test_equal_values_are_not_unusual() -> None:
    assert robust_z(np.ones(9)).tolist() == [0] * 9
