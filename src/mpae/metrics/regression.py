"""NME: how well keypoints can be read off the part centres by a linear regression.

The regression is fitted on the training split and judged on the test split. Two conventions:

- "box" (CUB; PDiscoNet, PDiscoFormer): one regression a landmark, in units of the object's box.
- "eyes" (CelebA; SCOPS, Xia et al.): one regression for all landmarks, in units of the squashed image;
  errors are divided by the distance of the eyes, landmarks 0 and 1.

Neither has an intercept: centres and targets are standardised on the fit split. The sizes that this
takes (n images, K parts, L landmarks) are small, so it is done in float64 at the end of an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mpae.data.geometry import scale_box
from mpae.data.loading import Sample
from mpae.distributed import gather_items
from mpae.metrics.metric import EvaluationMetric, FoundParts, Task, known, visible_keypoints

Normaliser = Literal["box", "eyes"]
ACTIVE = 0.5  # a part is there if it is more likely than all else at some position


class KeypointRegression(EvaluationMetric):
    """NME in percent: fitted on one split, judged on the other."""

    columns = ("nme",)
    is_fitted = True

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.normaliser = normaliser_of(task.keypoint_names)
        self.fitted_on: list[KeypointSample] = []
        self.judged_on: list[KeypointSample] = []

    @staticmethod
    def applies(task: Task) -> bool:
        return bool(task.keypoint_names)

    def update(self, found: FoundParts) -> None:
        self.judged_on += regression_samples(found, self.normaliser)

    def fit(self, found: FoundParts) -> None:
        self.fitted_on += regression_samples(found, self.normaliser)

    def compute(self) -> dict[str, float | None]:
        fit, asked = gather_items(self.fitted_on), gather_items(self.judged_on)
        if not fit or not asked:
            return {"nme": None}
        test = KeypointSamples.of(asked)
        errors = keypoint_errors(KeypointSamples.of(fit), test, self.normaliser)  # (n, L)
        self.rows = {int(image): (known(nme(its)),) for image, its in zip(test.image, errors, strict=True)}
        return {"nme": known(nme(errors))}


def regression_samples(found: FoundParts, normaliser: Normaliser) -> list[KeypointSample]:
    """Part centres and keypoints of a batch in the units of the regression.

    "box": shares of the object's box, centres on the grid of the similarity maps, as PDiscoNet has them; where outlines
    follow the picture, centres of the masks. "eyes": shares of the squashed image, centres at 128 x 128 pixels, as Xia
    et al. have them. Images without keypoints, or without the box, are left out.
    """
    maps = found.logits if normaliser == "box" else found.large_logits
    each = [part_centres(found.similarity(logits)[None]) for logits in maps]
    centres, active = (torch.cat(values).numpy() for values in zip(*each, strict=True))
    samples = (_regression_sample(*each, normaliser) for each in zip(found.samples, centres, active, strict=True))
    return [sample for sample in samples if sample is not None]


def _regression_sample(sample: Sample, centres: np.ndarray, active: np.ndarray,
                       normaliser: Normaliser) -> KeypointSample | None:
    points, visible = visible_keypoints(sample, (1, 1))
    corner, unit = np.zeros(2), np.ones(2)
    if normaliser == "box":
        if sample.annotation.box is None:
            return None
        box = scale_box(sample.annotation.box, sample.size, (1, 1))
        corner, unit = np.array(box[:2]), np.array(box[2:])
    if not len(points):
        return None
    return KeypointSample(sample.index, (centres - corner) / unit, active, (points - corner) / unit, visible)


def part_centres(similarity: Tensor) -> tuple[Tensor, Tensor]:
    """Centroid of each part's soft map, and whether the part is there at all.

    Coordinates are shares of the image, 0..1. A position counts as index / size, without the half that would
    put it into the middle of its cell: so do the systems whose figures stand beside ours.

    Args:
        similarity: (B, K+1, h, w), background last.
    Returns:
        centres (B, K, 2), x before y; the middle of the image for a part without any mass.
        active (B, K) bool.
    """
    parts = similarity[:, :-1].double()  # (B, K, h, w)
    height, width = parts.shape[-2:]
    x = torch.arange(width, dtype=parts.dtype, device=parts.device) / width
    y = torch.arange(height, dtype=parts.dtype, device=parts.device) / height
    mass = parts.sum((2, 3))  # (B, K)
    moments = torch.stack([parts.sum(2) @ x, parts.sum(3) @ y], dim=-1)  # (B, K, 2)
    centres = torch.where(mass[..., None] > 0, moments / mass[..., None], 0.5)
    return centres, parts.amax((2, 3)) > ACTIVE


class KeypointSample(NamedTuple):
    """One image: what the regression reads, and what it should say, in the same units."""

    image: int  # its number in the split: the order of the regression, whoever saw the image first
    centres: np.ndarray  # (K, 2)
    active: np.ndarray  # (K,) bool
    keypoints: np.ndarray  # (L, 2)
    visible: np.ndarray  # (L,) bool


@dataclass(frozen=True)
class KeypointSamples:
    """The images of a split."""

    image: np.ndarray  # (n,)
    centres: np.ndarray  # (n, K, 2)
    active: np.ndarray  # (n, K) bool
    keypoints: np.ndarray  # (n, L, 2)
    visible: np.ndarray  # (n, L) bool

    @classmethod
    def of(cls, samples: Iterable[KeypointSample]) -> KeypointSamples:
        """In the order of their numbers, so that sums do not depend on how processes shared the images."""
        ordered = sorted(samples, key=lambda sample: sample.image)
        return cls(*(np.array(column) for column in zip(*ordered, strict=True)))


def normaliser_of(keypoint_names: Sequence[str]) -> Normaliser:
    """By what a dataset's errors are divided: "eyes" if the first two keypoints are eyes, else "box"."""
    eyes = [name for name in keypoint_names[:2] if "eye" in name.lower()]
    return "eyes" if len(eyes) == 2 else "box"


def keypoint_errors(fit: KeypointSamples, test: KeypointSamples, normaliser: Normaliser) -> np.ndarray:
    """Normalised distance of each predicted to its annotated keypoint.

    Returns:
        (n, L) for the test images; NaN where the keypoint is not visible, or was never so in the fit split.
    """
    return _box_errors(fit, test) if normaliser == "box" else _eyes_errors(fit, test)


def nme(errors: np.ndarray) -> float:
    """Mean over all keypoints and images that have an error, in percent; NaN if there is none."""
    known = errors[np.isfinite(errors)]
    return 100 * float(known.mean()) if known.size else float("nan")


def _box_errors(fit: KeypointSamples, test: KeypointSamples) -> np.ndarray:
    """One regression a landmark on the images that show it; parts that are not active tell nothing."""
    errors = np.full(test.visible.shape, np.nan)
    for landmark in range(fit.visible.shape[1]):
        chosen, asked = fit.visible[:, landmark], test.visible[:, landmark]
        if not chosen.any() or not asked.any():
            continue
        predicted = _regress(
            fit.centres[chosen], fit.keypoints[chosen, landmark], test.centres[asked],
            fit.active[chosen], test.active[asked])
        errors[asked, landmark] = np.linalg.norm(predicted - test.keypoints[asked, landmark], axis=-1)
    return errors


def _eyes_errors(fit: KeypointSamples, test: KeypointSamples) -> np.ndarray:
    """One regression for all landmarks, every part used whether active or not."""
    complete = fit.visible.all(1)
    if not complete.any():
        return np.full(test.visible.shape, np.nan)
    targets = fit.keypoints[complete]
    predicted = _regress(fit.centres[complete], targets.reshape(len(targets), -1), test.centres)
    distance = np.linalg.norm(predicted.reshape(test.keypoints.shape) - test.keypoints, axis=-1)  # (n, L)
    eyes = np.linalg.norm(test.keypoints[:, 0] - test.keypoints[:, 1], axis=-1)  # (n,)
    known = test.visible & test.visible[:, :2].all(1, keepdims=True) & (eyes > 0)[:, None]
    return np.where(known, distance / np.where(eyes > 0, eyes, 1)[:, None], np.nan)


def _regress(centres: np.ndarray, targets: np.ndarray, asked: np.ndarray,
             active: np.ndarray | None = None, asked_active: np.ndarray | None = None) -> np.ndarray:
    """Least squares without intercept from standardised (n, K, 2) centres to standardised (n, m) targets.

    Mean and deviation are those of the fit split, taken before parts that are not active are set to 0.
    """
    mean, deviation = _standard(centres)
    target_mean, target_deviation = _standard(targets)
    source = _switched((centres - mean) / deviation, active).reshape(len(centres), -1)
    weights = np.linalg.lstsq(source, (targets - target_mean) / target_deviation, rcond=None)[0]
    questions = _switched((asked - mean) / deviation, asked_active).reshape(len(asked), -1)
    return questions @ weights * target_deviation + target_mean


def _standard(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    deviation = values.std(0)
    return values.mean(0), np.where(deviation > 0, deviation, 1)


def _switched(centres: np.ndarray, active: np.ndarray | None) -> np.ndarray:
    return centres if active is None else centres * active[..., None]
