"""NMI and ARI: scikit-learn's values to 1e-9, exact integers, one table as the only state."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from mpae.metrics.clustering import CHUNK, PartClusteringMetric, ari, contingency, nmi


def labels_of(size: int, num_labels: int, num_targets: int, agreement: float, seed: int):
    """Random targets, and labels that follow them in a share of the samples."""
    random = np.random.default_rng(seed)
    target = random.integers(num_targets, size=size)
    follows = random.random(size) < agreement
    labels = np.where(follows, target % num_labels, random.integers(num_labels, size=size))
    return torch.from_numpy(labels), torch.from_numpy(target)


def scores(labels: torch.Tensor, target: torch.Tensor, num_labels: int, num_targets: int) -> dict[str, float]:
    metric = PartClusteringMetric(num_labels, num_targets)
    metric.update(labels, target)
    return metric.compute()


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1_000, 30_000])
@pytest.mark.parametrize(("num_labels", "num_targets"), [(1, 1), (1, 5), (5, 1), (2, 2), (9, 15), (51, 41)])
@pytest.mark.parametrize("agreement", [0.0, 0.3, 1.0])
def test_equals_scikit_learn(size, num_labels, num_targets, agreement):
    labels, target = labels_of(size, num_labels, num_targets, agreement, seed=size)
    ours = scores(labels, target, num_labels, num_targets)
    assert ours["nmi"] / 100 == pytest.approx(normalized_mutual_info_score(target, labels), abs=1e-9)
    assert ours["ari"] / 100 == pytest.approx(adjusted_rand_score(target, labels), abs=1e-9)


@pytest.mark.parametrize(("labels", "target"), [
    ([], []),  # nothing
    ([0], [0]),  # one sample
    ([2, 2, 2], [1, 1, 1]),  # one cluster on both sides
    ([0, 0, 0, 0], [0, 1, 2, 3]),  # one cluster on one side
    ([0, 1, 2, 3], [0, 0, 0, 0]),
    ([0, 1, 2, 3], [3, 2, 1, 0]),  # all apart on both sides
    ([0, 1, 0, 1], [0, 0, 1, 1]),  # independent: no information at all
], ids=str)
def test_degenerate_cases_follow_scikit_learn(labels, target):
    ours = scores(torch.tensor(labels, dtype=torch.int64), torch.tensor(target, dtype=torch.int64), 4, 4)
    assert ours["nmi"] / 100 == pytest.approx(normalized_mutual_info_score(target, labels), abs=1e-12)
    assert ours["ari"] / 100 == pytest.approx(adjusted_rand_score(target, labels), abs=1e-12)


def test_ten_updates_equal_one_in_any_order():
    labels, target = labels_of(10_000, 9, 15, 0.5, seed=0)
    once, often = PartClusteringMetric(9, 15), PartClusteringMetric(9, 15)
    once.update(labels, target)
    pieces = list(zip(labels.chunk(10), target.chunk(10), strict=True))
    for piece in reversed(pieces):
        often.update(*piece)
    assert torch.equal(once.table, often.table)
    assert once.compute() == often.compute()


def test_names_of_labels_do_not_matter():
    labels, target = labels_of(5_000, 9, 15, 0.6, seed=1)
    renamed = torch.randperm(9)[labels], torch.randperm(15)[target]
    before, after = scores(labels, target, 9, 15), scores(*renamed, 9, 15)
    assert before == pytest.approx(after, abs=1e-12)
    assert 10 < before["ari"] < 90


def test_shapes_and_integer_types_do_not_matter():
    labels, target = labels_of(2 * 60 * 50, 9, 15, 0.5, seed=2)
    expected = contingency(labels, target, 9, 15)
    for dtype in (torch.uint8, torch.int16, torch.int32):
        image = contingency(labels.to(dtype).view(2, 60, 50), target.to(dtype).view(2, 60, 50), 9, 15)
        assert torch.equal(image, expected)


def test_more_samples_than_a_chunk():
    labels, target = labels_of(2 * CHUNK + 7, 4, 3, 0.5, seed=3)
    table = contingency(labels, target, 4, 3)
    assert int(table.sum()) == 2 * CHUNK + 7
    assert int(table[2, 1]) == int(((target == 2) & (labels == 1)).sum())


def exact_ari(table: list[list[int]]) -> Fraction:
    """Hubert and Arabie's formula on pair counts."""
    pairs = lambda count: Fraction(count * (count - 1), 2)  # noqa: E731
    rows, columns = [sum(row) for row in table], [sum(column) for column in zip(*table, strict=True)]
    index = sum(pairs(count) for row in table for count in row)
    row_pairs, column_pairs = sum(map(pairs, rows)), sum(map(pairs, columns))
    expected = row_pairs * column_pairs / pairs(sum(rows))
    return (index - expected) / ((row_pairs + column_pairs) / 2 - expected)


@pytest.mark.parametrize("scale", [1, 10**6, 10**9, 10**12])
def test_a_billion_pixels_and_more(scale):
    table = [[7 * scale, 2 * scale + 1, 0], [3, 5 * scale, 11 * scale]]
    assert ari(torch.tensor(table)) == pytest.approx(float(exact_ari(table)), rel=1e-14)
    total = sum(map(sum, table))
    row = [sum(counts) / total for counts in table]
    column = [sum(counts) / total for counts in zip(*table, strict=True)]
    information = sum(count / total * math.log(count / total / row[i] / column[j])
                      for i, counts in enumerate(table) for j, count in enumerate(counts) if count)
    entropy = [-sum(share * math.log(share) for share in shares) for shares in (row, column)]
    assert nmi(torch.tensor(table)) == pytest.approx(2 * information / sum(entropy), rel=1e-12)


def test_scores_of_a_table_do_not_depend_on_its_scale():
    table = np.array([[40, 3, 0], [5, 60, 9]])
    assert nmi(table * 10**9) == pytest.approx(nmi(table), rel=1e-12)


def test_processes_add_their_tables():
    labels, target = labels_of(5_000, 9, 15, 0.5, seed=4)
    one = PartClusteringMetric(9, 15)
    one.update(labels, target)
    shares = [PartClusteringMetric(9, 15) for _ in range(2)]
    for rank, metric in enumerate(shares):
        metric.update(labels[rank::2], target[rank::2])
    shares[0].merge_state(shares[1])
    assert torch.equal(shares[0].table, one.table)
    assert shares[0].compute() == one.compute()


def test_the_state_does_not_grow():
    metric = PartClusteringMetric(9, 15)
    for seed in range(3):
        metric.update(*labels_of(1_000, 9, 15, 0.5, seed))
    assert {name: value.shape for name, value in metric.metric_state.items()} == {"table": (15, 9)}


@pytest.mark.parametrize(("labels", "target", "message"), [
    ([0, 9], [0, 0], "labels run from 0 to 9; expected 0 to 8"),
    ([0, -1], [0, 0], "labels run from -1 to 0"),
    ([0, 0], [0, 15], "target run from 0 to 15"),
    ([0, 0], [0], "differ in shape"),
    ([0.0, 1.0], [0, 0], "expected integers"),
])
def test_bad_labels_are_refused(labels, target, message):
    with pytest.raises(ValueError, match=message):
        PartClusteringMetric(9, 15).update(torch.tensor(labels), torch.tensor(target))


@pytest.mark.parametrize("table", [[[1.5]], [[-1, 2]], [1, 2]])
def test_bad_tables_are_refused(table):
    with pytest.raises(ValueError, match="the table"):
        nmi(table)
