"""A model against a benchmark, by the protocol of the paper, in one pass and constant memory.

The whole image is squashed to the model's input; logits are interpolated to 128 x 128 pixels and the largest
is the label. Part masks are compared there pixel by pixel; where a dataset has keypoints only, each visible
one is a sample and its label is the one of the pixel it falls on. `metrics/registry.py` lists the figures.

That is with outlines of patches. With `outline="pixel"` the model takes a closer look and the logits are refined as
prediction does it: all figures are then of the masks that `mpae predict` writes, and not the paper's protocol.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mpae.backbones.vit import at_once, one_to_a_core
from mpae.cores import available_cores
from mpae.data.loading import Batch, PictureReader, Sample, in_batches, read_batches
from mpae.data.source import AnnotatedSource
from mpae.data.sources.subsets import spread
from mpae.devices import map_on_cores, place_on
from mpae.distributed import gather_items, rank_and_size
from mpae.drawing.overlay import viewing_size
from mpae.errors import MPAEError
from mpae.evaluation.result import Evaluation
from mpae.metrics.clustering import LabelAgreement
from mpae.metrics.metric import LABEL_SIZE, EvaluationMetric, FoundParts, Task
from mpae.metrics.presence import PartPresence
from mpae.metrics.registry import FIGURES, make_metrics, metric_classes
from mpae.model.protocol import PartModel
from mpae.prediction.close_up import can_look_closer, look_closer
from mpae.prediction.masks import interpolation_axis
from mpae.prediction.outline import checked_outline, refine

REFINED = 8  # images with refined outlines at once: their logits are large

Progress = Callable[[str, int, int], None]  # what is done, images done, images in all


def evaluate(model: PartModel, source: AnnotatedSource, *, fit_source: AnnotatedSource | None = None,
             batch_size: int = 32, workers: int = 0, limit: int | None = None, fit_limit: int | None = None,
             outline: str = "patch", part_of: Sequence[int] | None = None, device: torch.device | str | None = None,
             progress: Progress | None = None) -> Evaluation:
    """Every figure that the annotation of `source` allows.

    Args:
        fit_source: the split on which the keypoint regression of the NME is fitted; without it, no NME.
        workers: processes that read and decode ahead of the model.
        limit: take this many images, at even distances.
        fit_limit: take this many of `fit_source`.
        outline: "patch" or "pixel", as for prediction.
        part_of: (K,), the part of fewer that each of the model's is counted as; `Hierarchy.part_of` gives it.
        device: where the model is moved and runs; where it is, if not given.
        progress: called with "evaluate" or "fit keypoints", images done and images in all.

    Where torch.distributed runs, each process takes its share of the images and all return the same figures.
    """
    start = time.perf_counter()
    reader = _Reader(model, batch_size, workers, checked_outline(outline), part_of, place_on(model, device),
                     progress or _silent)
    num_parts = model.num_parts if part_of is None else max(part_of) + 1
    metrics = make_metrics(Task(num_parts, source.keypoint_names, source.part_names, source.has_foreground))
    images: list[tuple[int, str, int, int]] = []

    def count(found: FoundParts) -> None:
        images.extend((sample.index, sample.name, *sample.size) for sample in found.samples)
        for metric in metrics.values():
            metric.update(found)

    def fit(found: FoundParts) -> None:
        for metric in metrics.values():
            metric.fit(found)

    skipped = reader.read("evaluate", source, limit, count)
    if fit_source is not None and any(metric.is_fitted for metric in metrics):
        skipped += reader.read("fit keypoints", fit_source, fit_limit, fit)
    everything = sorted(gather_items(images))
    if not everything:
        raise MPAEError(f"None of the images can be read; the first: {skipped[0][1]}." if skipped
                        else "The split has no images; expected one at least.")
    figures: dict[str, float | None] = dict.fromkeys(figure.name for figure in FIGURES)
    for metric in metrics.values():
        figures |= metric.to(reader.device).compute()  # where the processes exchange what they counted
    agreement, presence = metrics.get(LabelAgreement), metrics[PartPresence]
    return Evaluation(
        figures=figures | {"images": len(everything)},
        contingency=agreement.contingency() if isinstance(agreement, LabelAgreement) else None,
        frequency=presence.frequency if isinstance(presence, PartPresence) else [],
        rows=image_rows(everything, metrics), skipped=skipped,
        seconds=time.perf_counter() - start, model_seconds=reader.model_seconds)


@dataclass
class _Reader:
    """Passes over the images of this process."""

    model: PartModel
    batch_size: int
    workers: int
    outline: str
    part_of: Sequence[int] | None
    device: torch.device
    progress: Progress
    model_seconds: float = 0.0

    @torch.inference_mode()
    def read(self, task: str, source: AnnotatedSource, limit: int | None,
             use: Callable[[FoundParts], None]) -> list[tuple[str, str]]:
        """Give what the model finds in each batch to `use`; returns name and reason of all processes' unreadable
        images."""
        rank, processes = rank_and_size()
        indices = spread(len(source), limit)[rank::processes]
        skipped: list[tuple[int, str]] = []
        done = 0
        self.progress(task, 0, len(indices))
        reader = PictureReader(source, self.model.image_size, label_size=LABEL_SIZE,
                               shown_size=viewing_size if self.outline == "pixel" else None)
        for batch in read_batches(reader, in_batches(indices, self.batch_size), self.workers):
            skipped += [(each.index, each.reason) for each in batch.unreadable]
            if batch.samples:
                for found in self._find(batch):
                    use(found)
            done += len(batch)
            self.progress(task, done, len(indices))
        return [(source.names[index], reason) for index, reason in sorted(gather_items(skipped))]

    def _find(self, batch: Batch) -> Iterator[FoundParts]:
        start = time.perf_counter()
        inputs = batch.images.to(self.device).float().div_(255)  # (B, 3, S, S)
        if self.outline == "pixel" and can_look_closer(self.model):
            close = look_closer(self.model, inputs, [shown(sample) for sample in batch.samples], self._part_logits)
            logits: Sequence[Tensor] = close.placed(self._part_logits(close.images))  # (K+1, h, w) each
        else:
            logits = list(self._part_logits(inputs))
        self.model_seconds += time.perf_counter() - start
        if self.outline == "patch":
            yield found_parts(batch.samples, logits, self.part_of)
            return
        with ThreadPoolExecutor(max_workers=min(4, available_cores())) as pool:
            for place in range(0, len(logits), REFINED):
                samples = batch.samples[place : place + REFINED]
                fine = list(pool.map(refined, samples, logits[place : place + REFINED]))
                yield found_parts(samples, fine, self.part_of, are_masks=True)

    def _part_logits(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) in [0, 1] -> (B, K+1, h, w) on the CPU."""
        if not one_to_a_core(getattr(self.model, "backbone", None), self.device):
            return self.model.part_logits(images).float().cpu()
        return torch.cat(map_on_cores(self.model.part_logits, images.split(at_once(images.shape[-1])))).float()


def found_parts(samples: Sequence[Sample], logits: Sequence[Tensor], part_of: Sequence[int] | None,
                are_masks: bool = False) -> FoundParts:
    """Of images whose foreground is that of the masks that prediction writes from these logits (K+1, h, w)."""
    return FoundParts(samples, logits, lambda place: foreground_mask(logits[place], samples[place].size), part_of,
                      are_masks)


def refined(sample: Sample, logits: Tensor) -> Tensor:
    """As prediction refines them: (K+1, h, w) -> (K+1, H', W')."""
    return torch.from_numpy(refine(logits.numpy(), Image.fromarray(shown(sample)), sample.size))


def shown(sample: Sample) -> np.ndarray:
    """The picture at a size to look at, (H, W, 3) uint8."""
    assert sample.shown is not None  # the reader was asked for it
    return sample.shown


def foreground_mask(logits: Tensor, size: tuple[int, int]) -> Tensor:
    """Where any part beats the background: logits (K+1, h, w) -> (H, W) bool; `size` is width, height."""
    # Two small matrix products, a third of the time of F.interpolate.
    columns, rows = (torch.from_numpy(interpolation_axis(pixels, grid).weights)
                     for pixels, grid in zip(size, (logits.shape[2], logits.shape[1]), strict=True))
    large = rows @ (logits @ columns.T)  # (K+1, H, W)
    return large[:-1].amax(0) >= large[-1]


def image_rows(images: Iterable[tuple[int, str, int, int]],
               metrics: dict[type[EvaluationMetric], EvaluationMetric]) -> list[dict[str, Any]]:
    """Number, name and size of each image, and what each metric says of it; None where it says nothing."""
    rows = {image[0]: dict(zip(("number", "name", "width", "height"), image, strict=True)) for image in images}
    for each in metric_classes():
        values = dict(gather_items(list(metrics[each].rows.items()))) if each in metrics else {}
        for number, row in rows.items():
            row.update(zip(each.columns, values.get(number, (None,) * len(each.columns)), strict=True))
    return list(rows.values())


def _silent(task: str, done: int, total: int) -> None:
    pass
