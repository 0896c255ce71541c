"""What looks wrong: planted parts are found, few others are, and nothing is said where nothing is usual."""

from __future__ import annotations

import numpy as np
import pytest

from mpae.prediction.outliers import FALSE_ALARMS, far_for, find_outliers, robust_z, unusualness
from mpae.prediction.search import PartIndex


@pytest.fixture
def index() -> PartIndex:
    """Sixty images of three parts, each with features of its own; those of images 7, 8 and 10 were tampered with."""
    random = np.random.default_rng(0)
    features = np.eye(3, 12)[None] * 5 + random.normal(scale=0.5, size=(60, 3, 12))  # (n, K, E)
    features[7, 1] = -features[7, 1]
    present = np.ones((60, 3), dtype=bool)
    features[8, 2], present[8, 2] = -features[8, 2], False
    present[10, 2] = False  # missing, but there is a place that looks just like it
    features[::2, 0], present[::2, 0] = -features[::2, 0], False  # half of the images: not worth a word
    return PartIndex(features, present)


def test_planted_outliers_come_first(index: PartIndex) -> None:
    scores = unusualness(index)
    assert scores.shape == (60, 3)
    found = find_outliers(scores, index.present, [[1], [2], [3]])
    assert {(each.image, each.part, each.why) for each in found[:2]} == {(7, 2, "unlike"), (8, 3, "missing")}
    assert not any(each.why == "missing" and each.part == 1 for each in found)
    assert not any(each.image == 10 for each in found)
    assert all(each.score >= round(far_for(3), 2) for each in found)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_few_ordinary_images_are_listed() -> None:
    random = np.random.default_rng(3)
    features = np.eye(4, 40)[None] * 5 + random.normal(size=(2000, 4, 40))
    index = PartIndex(features, np.ones((2000, 4), dtype=bool))
    found = {each.image for each in find_outliers(unusualness(index), index.present, [[1], [2], [3], [4]])}
    assert 0.2 * FALSE_ALARMS < len(found) / 2000 < 2 * FALSE_ALARMS


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
    assert robust_z(np.ones(9), np.ones(9, dtype=bool)).tolist() == [0] * 9
