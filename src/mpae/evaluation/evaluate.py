"""A model against a benchmark, by the protocol of the paper, in one pass and constant memory.

The whole image is squashed to the model's input; logits are interpolated to 128 x 128 pixels and the largest
is the label. Part masks are compared there pixel by pixel; where a dataset has keypoints only, each visible
one is a sample and its label is the one of the pixel it falls on. "Foreground" figures take the largest of
the K parts alone, the background left out. Foreground IoU is at the image's own size, of the masks that
prediction writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mpae.data.loading import Batch, PictureReader, Sample, in_batches, read_batches
from mpae.data.source import AnnotatedSource
from mpae.data.sources.subsets import spread
from mpae.distributed import gather_items, rank_and_size
from mpae.drawing.palette import part_name
from mpae.errors import MPAEError
from mpae.evaluation.label_maps import (
    LABEL_SIZE,
    annotated_samples,
    foreground_mask,
    keypoint_samples,
    part_labels,
)
from mpae.evaluation.result import Contingency, Evaluation, ImageRow, known
from mpae.metrics.clustering import PartClusteringMetric, contingency, nmi
from mpae.metrics.foreground import ForegroundIoU, foreground_iou, touches_border
from mpae.metrics.presence import PartPresence, part_areas
from mpae.metrics.regression import KeypointSample, KeypointSamples, keypoint_errors, nme, normaliser_of
from mpae.model.protocol import PartModel

Progress = Callable[[str, int, int], None]  # what is done, images done, images in all


def evaluate(model: PartModel, source: AnnotatedSource, *, fit_source: AnnotatedSource | None = None,
             batch_size: int = 32, workers: int = 0, limit: int | None = None, fit_limit: int | None = None,
             device: torch.device | str = "cpu", progress: Progress | None = None) -> Evaluation:
    """Every figure that the annotation of `source` allows.

    Args:
        fit_source: the split on which the keypoint regression of the NME is fitted; without it, no NME.
        workers: processes that read and decode ahead of the model.
        limit: take this many images, at even distances.
        fit_limit: take this many of `fit_source`.
        progress: called with "evaluate" or "fit keypoints", images done and images in all.

    Where torch.distributed runs, each process takes its share of the images and all return the same figures.
    """
    start = time.perf_counter()
    reader = _Reader(model, batch_size, workers, torch.device(device), progress or _silent)
    tally = Tally(model.num_parts, source)
    skipped = reader.read("evaluate", source, limit, tally.add)
    if fit_source is not None and source.keypoint_names:
        skipped += reader.read("fit keypoints", fit_source, fit_limit, tally.add_to_fit)
    return tally.result(skipped, reader.device, start, reader.model_seconds)


@dataclass
class _Reader:
    """Passes over the images of this process."""

    model: PartModel
    batch_size: int
    workers: int
    device: torch.device
    progress: Progress
    model_seconds: float = 0.0

    def read(self, task: str, source: AnnotatedSource, limit: int | None,
             use: Callable[[Batch, Tensor], None]) -> list[tuple[str, str]]:
        """Give each batch with its logits to `use`; returns name and reason of all processes' unreadable images."""
        rank, processes = rank_and_size()
        indices = spread(len(source), limit)[rank::processes]
        skipped: list[tuple[int, str]] = []
        done = 0
        self.progress(task, 0, len(indices))
        reader = PictureReader(source, self.model.image_size, label_size=LABEL_SIZE)
        for batch in read_batches(reader, in_batches(indices, self.batch_size), self.workers):
            skipped += [(each.index, each.reason) for each in batch.unreadable]
            if batch.samples:
                use(batch, self._logits(batch.images))
            done += len(batch)
            self.progress(task, done, len(indices))
        return [(source.names[index], reason) for index, reason in sorted(gather_items(skipped))]

    @torch.inference_mode()
    def _logits(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) uint8 -> (B, K+1, h, w) float32 on the CPU."""
        start = time.perf_counter()
        logits = self.model.part_logits(images.to(self.device).float().div_(255)).float().cpu()
        self.model_seconds += time.perf_counter() - start
        return logits


class Tally:
    """Everything that is counted while the images go by."""

    def __init__(self, num_parts: int, source: AnnotatedSource):
        self.num_parts, self.source = num_parts, source
        self.masks = bool(source.part_names)
        self.targets = [*source.part_names, "background"] if self.masks else list(source.keypoint_names)
        self.clusters = PartClusteringMetric(num_parts + 1, max(len(self.targets), 1))
        self.foreground_clusters = PartClusteringMetric(num_parts, max(len(self.targets), 1))
        self.presence = PartPresence(num_parts)
        self.iou = ForegroundIoU()
        self.normaliser = normaliser_of(source.keypoint_names)
        self.keypoints: list[KeypointSample] = []
        self.fit: list[KeypointSample] = []
        self.rows: list[ImageRow] = []

    @torch.inference_mode()
    def add(self, batch: Batch, logits: Tensor) -> None:
        """Count a batch: logits (B, K+1, h, w)."""
        labels, parts = part_labels(logits, LABEL_SIZE)
        areas = part_areas(labels, self.num_parts)
        self.presence.update(areas)
        self.keypoints += keypoint_samples(batch.samples, logits, self.normaliser)
        for image, sample in enumerate(batch.samples):
            self._add_image(sample, labels[image], parts[image], areas[image], logits[image])

    def add_to_fit(self, batch: Batch, logits: Tensor) -> None:
        """Use a batch of the split on which the keypoint regression is fitted."""
        self.fit += keypoint_samples(batch.samples, logits, self.normaliser)

    def _add_image(self, sample: Sample, labels: Tensor, parts: Tensor, areas: Tensor,
                   logits: Tensor) -> None:
        where, target = annotated_samples(sample, self.masks)
        self.clusters.update(labels[where], target)
        self.foreground_clusters.update(parts[where], target)
        iou, foreground = None, None
        if sample.annotation.foreground is not None:
            foreground = torch.tensor(sample.annotation.foreground)
            iou = foreground_iou(foreground_mask(logits, sample.size), foreground)
            self.iou.update(iou)
        self.rows.append(self._row(sample, labels[where], target, areas, iou, foreground))

    def _row(self, sample: Sample, labels: Tensor, target: Tensor, areas: Tensor, iou: float | None,
             foreground: Tensor | None) -> ImageRow:
        present = (areas[:-1].nonzero()[:, 0] + 1).tolist()
        on_keypoints = not self.masks and bool(self.targets)
        table = contingency(labels, target, self.num_parts + 1, len(self.targets)) if self.masks else None
        return ImageRow(
            number=sample.index, name=self.source.names[sample.index],
            width=sample.size[0], height=sample.size[1],
            num_parts=len(present), parts=" ".join(map(str, present)),
            foreground_share=100 * (1 - float(areas[-1] / areas.sum())),
            foreground_iou=None if iou is None else 100 * iou,
            object_share=None if foreground is None else 100 * float(foreground.double().mean()),
            touches_border=None if foreground is None else touches_border(foreground),
            nmi=None if table is None else 100 * nmi(table),
            keypoints=len(target) if on_keypoints else None,
            keypoints_on_background=int((labels == self.num_parts).sum()) if on_keypoints else None, nme=None)

    def result(self, skipped: list[tuple[str, str]], device: torch.device, start: float,
               model_seconds: float) -> Evaluation:
        rows = sorted(gather_items(self.rows))
        if not rows:
            raise MPAEError(
                f"None of the images can be read; the first: {skipped[0][1]}." if skipped
                else "The split has no images; expected one at least.")
        for metric in (self.clusters, self.foreground_clusters, self.iou, self.presence):
            metric.to(device)  # where the processes exchange what they counted
        error, rows = self._nme(rows)
        presence = self.presence.compute()
        figures = self._clustering() | {
            "nme": error,
            "foreground_iou": known(self.iou.compute()) if self.source.has_foreground else None,
            "parts_per_image": float(presence["parts_per_image"]),
            "images": len(rows),
        }
        return Evaluation(
            figures=figures, contingency=self._contingency(),
            frequency=(100 * presence["frequency"]).tolist(),
            rows=rows, skipped=skipped, seconds=time.perf_counter() - start, model_seconds=model_seconds)

    def _clustering(self) -> dict[str, float | None]:
        if not self.targets:
            return dict.fromkeys(("nmi", "ari", "foreground_nmi", "foreground_ari"))
        every, parts = self.clusters.compute(), self.foreground_clusters.compute()
        return {**every, "foreground_nmi": parts["nmi"], "foreground_ari": parts["ari"]}

    def _nme(self, rows: list[ImageRow]) -> tuple[float | None, list[ImageRow]]:
        """The figure, and the rows with each image's own."""
        fit, asked = gather_items(self.fit), gather_items(self.keypoints)
        if not fit or not asked:
            return None, rows
        test = KeypointSamples.of(asked)
        errors = keypoint_errors(KeypointSamples.of(fit), test, self.normaliser)  # (n, L)
        by_image = {int(image): known(nme(its)) for image, its in zip(test.image, errors, strict=True)}
        return known(nme(errors)), [row._replace(nme=by_image.get(row.number)) for row in rows]

    def _contingency(self) -> Contingency | None:
        if not self.targets:
            return None
        with self.clusters.sync_context():
            table = self.clusters.table.cpu().numpy().copy()
        return Contingency(table, self.targets, [*map(part_name, range(1, self.num_parts + 1)), "background"])


def _silent(task: str, done: int, total: int) -> None:
    pass
