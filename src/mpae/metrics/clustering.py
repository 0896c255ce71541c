"""NMI and ARI between discovered and annotated parts, exact and from a table of counts alone.

Both scores ask which part label falls on which annotation over all samples of a split pooled together,
never image by image, and ignore the names of the labels. All they need is how often each pair of labels
occurs, so memory does not grow with the number of pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from mpae.data.loading import Sample
from mpae.drawing.contingency import Contingency
from mpae.drawing.palette import part_name
from mpae.metrics.metric import LABEL_SIZE, EvaluationMetric, FoundParts, Task, visible_keypoints

Table = Tensor | np.ndarray | Sequence[Sequence[int]]
CHUNK = 1 << 18  # samples counted at a time: their pair numbers stay in the processor's cache


def contingency(labels: Tensor, target: Tensor, num_labels: int, num_targets: int) -> Tensor:
    """How often each label meets each target.

    Args:
        labels: integers in 0..num_labels-1, any shape.
        target: integers in 0..num_targets-1, the same shape.
    Returns:
        (num_targets, num_labels) int64.
    """
    if labels.shape != target.shape:
        raise ValueError(f"labels {tuple(labels.shape)} and target {tuple(target.shape)} differ in shape.")
    _check_range(labels, num_labels, "labels")
    _check_range(target, num_targets, "target")
    table = torch.zeros(num_targets * num_labels, dtype=torch.int64, device=labels.device)
    for chunk, of in zip(labels.flatten().split(CHUNK), target.flatten().split(CHUNK), strict=True):
        pairs = of.to(torch.int32).mul_(num_labels).add_(chunk)  # int32: half the traffic of int64
        table += torch.bincount(pairs, minlength=len(table))
    return table.view(num_targets, num_labels)


def nmi(table: Table) -> float:
    """Normalised mutual information, I(T; L) / mean(H(T), H(L)), of a (targets, labels) table of counts.

    scikit-learn's conventions: 1 if both sides have one cluster at most, else 0 without information.
    """
    cells, rows, columns, total = _counts(table)
    if len(rows) <= 1 and len(columns) <= 1:
        return 1.0
    # The ratio is a quotient of exact integers: independent labels give log 1 = 0 and no rounding noise.
    information = math.fsum(count * math.log(count * total / (rows[row] * columns[column]))
                            for row, column, count in cells) / total
    if information <= np.finfo(np.float64).eps:
        return 0.0
    return information / ((_entropy(rows.values(), total) + _entropy(columns.values(), total)) / 2)


def ari(table: Table) -> float:
    """Adjusted Rand index of a (targets, labels) table of counts, in exact integers up to one division.

    scikit-learn's conventions: 1 where no pair of samples is judged differently, an empty table included.
    """
    cells, rows, columns, total = _counts(table)
    # Ordered pairs of samples; a billion samples give products of 1e36, far beyond 64 bits.
    in_both = sum(count * count for _, _, count in cells)
    in_target = sum(count * count for count in rows.values())
    in_labels = sum(count * count for count in columns.values())
    together = in_both - total
    apart_in_labels, apart_in_target = in_target - in_both, in_labels - in_both
    apart = total * total - in_target - in_labels + in_both
    if apart_in_labels == 0 and apart_in_target == 0:
        return 1.0
    return 2 * (together * apart - apart_in_labels * apart_in_target) / (
        (together + apart_in_labels) * (apart_in_labels + apart)
        + (together + apart_in_target) * (apart_in_target + apart))


class PartClusteringMetric(Metric):
    """NMI and ARI in percent; the only state is the (targets, labels) table, summed across processes."""

    full_state_update = False
    higher_is_better = True
    table: Tensor

    def __init__(self, num_labels: int, num_targets: int) -> None:
        super().__init__()
        self.num_labels, self.num_targets = num_labels, num_targets
        self.add_state("table", torch.zeros(num_targets, num_labels, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, labels: Tensor, target: Tensor) -> None:
        """Count samples: labels in 0..num_labels-1, target in 0..num_targets-1, of any but the same shape."""
        self.table += contingency(labels, target, self.num_labels, self.num_targets)

    def compute(self) -> dict[str, float]:
        return {"nmi": 100 * nmi(self.table), "ari": 100 * ari(self.table)}


class LabelAgreement(EvaluationMetric):
    """NMI and ARI against part masks, pixel by pixel, or where there are none, against visible keypoints.

    Once of the largest of all K+1 similarities, and once ("foreground") of the largest of the K parts.
    """

    columns = ("nmi", "keypoints", "keypoints_on_background")

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.masks = bool(task.part_names)
        self.targets = [*task.part_names, "background"] if self.masks else list(task.keypoint_names)
        self.clusters = PartClusteringMetric(task.num_parts + 1, len(self.targets))
        self.foreground_clusters = PartClusteringMetric(task.num_parts, len(self.targets))

    @staticmethod
    def applies(task: Task) -> bool:
        return bool(task.part_names or task.keypoint_names)

    def update(self, found: FoundParts) -> None:
        background = self.task.num_parts
        for sample, every, parts in zip(found.samples, found.labels, found.part_labels, strict=True):
            if self.masks:
                labels, part_labels, target = labels_of_pixels(sample, every, parts)
                table = contingency(labels, target, background + 1, len(self.targets))
                self.rows[sample.index] = (100 * nmi(table), None, None)
            else:
                labels, part_labels, target = labels_at_keypoints(sample, every, parts)
                self.rows[sample.index] = (None, len(target), int((labels == background).sum()))
            self.clusters.update(labels, target)
            self.foreground_clusters.update(part_labels, target)

    def compute(self) -> dict[str, float | None]:
        every, parts = self.clusters.compute(), self.foreground_clusters.compute()
        return {**every, "foreground_nmi": parts["nmi"], "foreground_ari": parts["ari"]}

    def contingency(self) -> Contingency:
        """How often each part falls on each annotated one, over all processes."""
        with self.clusters.sync_context():
            table = self.clusters.table.cpu().numpy().copy()
        parts = map(part_name, range(1, self.task.num_parts + 1))
        return Contingency(table, self.targets, [*parts, "background"])


Labels = tuple[Tensor, Tensor, Tensor]  # (n,) or (128, 128): labels, labels without background, annotated parts


def labels_of_pixels(sample: Sample, labels: Tensor, part_labels: Tensor) -> Labels:
    """Every pixel of the part mask; none where the image has no mask."""
    mask = sample.annotation.part_mask
    if mask is None:
        return labels[:0], part_labels[:0], labels[:0]
    return labels, part_labels, torch.from_numpy(mask)


def labels_at_keypoints(sample: Sample, labels: Tensor, part_labels: Tensor) -> Labels:
    """Every visible keypoint.

    Nearest sampling with pixel centres at half pixels. The released program reads probabilities of 0 beyond the edge,
    of which the largest is the first: a keypoint out there has label 0.
    """
    points, visible = visible_keypoints(sample, (LABEL_SIZE, LABEL_SIZE))
    pixels = np.rint(points[visible] - 0.5)
    inside = torch.from_numpy(((pixels >= 0) & (pixels < LABEL_SIZE)).all(1))
    column, row = torch.from_numpy(pixels.clip(0, LABEL_SIZE - 1).astype(np.int64)).T
    return (labels[row, column].where(inside, 0), part_labels[row, column].where(inside, 0),
            torch.from_numpy(np.flatnonzero(visible)))


def _check_range(values: Tensor, size: int, name: str) -> None:
    if values.is_floating_point():
        raise ValueError(f"{name} are {values.dtype}; expected integers.")
    if values.numel():
        low, high = (int(value) for value in values.aminmax())
        if low < 0 or high >= size:
            raise ValueError(f"{name} run from {low} to {high}; expected 0 to {size - 1}.")


def _counts(table: Table) -> tuple[list[tuple[int, int, int]], dict[int, int], dict[int, int], int]:
    """Cells above 0 as (row, column, count), sums of their rows and columns, the total: Python integers."""
    array = np.asarray(table.cpu() if isinstance(table, Tensor) else table)
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"the table has shape {array.shape} and type {array.dtype}; expected integers in "
                         f"two dimensions.")
    if (array < 0).any():
        raise ValueError("the table has negative counts.")
    cells = [(int(row), int(column), int(array[row, column])) for row, column in np.argwhere(array)]
    rows: dict[int, int] = {}
    columns: dict[int, int] = {}
    for row, column, count in cells:
        rows[row] = rows.get(row, 0) + count
        columns[column] = columns.get(column, 0) + count
    return cells, rows, columns, sum(rows.values())


def _entropy(counts: Iterable[int], total: int) -> float:
    return math.fsum(count * math.log(total / count) for count in counts) / total
