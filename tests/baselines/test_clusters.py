"""The two stages of the clustering baseline."""

from __future__ import annotations

import numpy as np
import pytest

from mpae.baselines.clusters import elbow, foreground_clusters
from mpae.initial_parts.k_means import k_means, squared_distances, subsample


def blobs(centres: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    points = np.repeat(centres, count, axis=0) + 0.05 * random.normal(size=(len(centres) * count, centres.shape[1]))
    return random.permutation(points).astype(np.float32)


def test_k_means_finds_the_centres_and_their_spread():
    centres = np.array([[0, 0, 1], [0, 2, 0], [3, 0, 0]])
    found = k_means(blobs(centres, 500), 3, seed=1)
    assert squared_distances(centres, found.centres).min(1).max() < 0.001
    assert found.spread == pytest.approx(3 * 0.05 ** 2, rel=0.1)


def test_the_same_seed_gives_the_same_centres():
    points = np.random.default_rng(0).normal(size=(3_000, 6)).astype(np.float32)
    assert np.array_equal(k_means(points, 5, seed=3).centres, k_means(points, 5, seed=3).centres)


def test_the_elbow_comes_after_the_last_useful_cluster():
    # A sixth cluster splits one of five round ones in 40 dimensions, which gains less than 2.5 %.
    found = elbow(blobs(20 * np.eye(5, 40), 200), seed=0)
    assert len(found.centres) == 6


def test_the_elbow_ends_with_the_descriptors():
    assert len(elbow(np.eye(3, dtype=np.float32), seed=0).centres) == 3


def test_subsample_draws_without_repetition():
    rows = np.arange(100)[:, None]
    drawn = subsample(rows, 30, seed=0)
    assert len(np.unique(drawn)) == 30
    assert subsample(rows, 100, seed=0) is rows


def test_squared_distances_by_loops():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(4, 3)), random.normal(size=(5, 3))
    expected = [[sum((x - y) ** 2 for x, y in zip(p, q, strict=True)) for q in b] for p in a]
    assert squared_distances(a, b) == pytest.approx(np.array(expected))


def test_images_that_show_a_cluster_vote():
    labels = np.array([[0, 0, 1], [0, 1, 1], [2, 2, 1], [0, 2, 2]])
    saliency = np.array([[0.9, 0.5, 0.0], [0.8, 0.1, 0.0], [0.3, 0.3, 0.0], [0.2, 0.0, 0.04]])
    # Cluster 0: salient in 3 of 3 images. 1: in 0 of 3 (a mean of 0.05 is too little). 2: in 1 of 2.
    assert foreground_clusters(labels, saliency, 3).tolist() == [True, False, False]


@pytest.mark.parametrize(("saliency", "expected"), [
    ([[0.0, 0.01, 0.02]], [False, False, True]),  # none is salient: the most salient is the foreground
    ([[0.9, 0.5, 0.7]], [True, False, True]),  # all are: the least salient is the background
])
def test_there_is_always_a_foreground_and_a_background(saliency, expected):
    assert foreground_clusters(np.array([[0, 1, 2]]), np.array(saliency), 3).tolist() == expected
