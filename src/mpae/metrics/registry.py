"""Every figure of an evaluation, once. Tables, figures.json, report, model card and results page follow from it."""

from __future__ import annotations

from typing import NamedTuple

from mpae.metrics.clustering import LabelAgreement
from mpae.metrics.foreground import ForegroundIoU
from mpae.metrics.metric import EvaluationMetric, Task
from mpae.metrics.presence import PartPresence
from mpae.metrics.regression import KeypointRegression


class EvaluationFigure(NamedTuple):
    """One number that an evaluation ends in."""

    name: str  # in figures.json and metrics.jsonl
    title: str  # in tables
    metric: type[EvaluationMetric]  # whose `compute` gives it
    annotation: str  # from what it is made
    higher_is_better: bool | None = True  # None: neither
    unit: str = "%"
    headline: bool = False  # shown where there is room for the main figures alone

    @property
    def long_title(self) -> str:
        return self.title + (" (less is better)" if self.higher_is_better is False else "")


# To add a metric: its class in a file of this folder, and a line here for each of its figures.
FIGURES = (
    EvaluationFigure("nmi", "NMI", LabelAgreement, "part masks or keypoints", headline=True),
    EvaluationFigure("ari", "ARI", LabelAgreement, "part masks or keypoints", headline=True),
    EvaluationFigure("foreground_nmi", "NMI, foreground only", LabelAgreement, "part masks or keypoints"),
    EvaluationFigure("foreground_ari", "ARI, foreground only", LabelAgreement, "part masks or keypoints"),
    EvaluationFigure("nme", "NME", KeypointRegression, "keypoints, with a box or eyes",
                     higher_is_better=False, headline=True),
    EvaluationFigure("foreground_iou", "foreground IoU", ForegroundIoU, "foreground masks", headline=True),
    EvaluationFigure("parts_per_image", "parts per image", PartPresence, "nothing", higher_is_better=None, unit=""),
)
HEADLINE = {figure.name: figure.title for figure in FIGURES if figure.headline}


def metric_classes() -> list[type[EvaluationMetric]]:
    """Each class once, in the order of its first figure."""
    return list(dict.fromkeys(figure.metric for figure in FIGURES))


def make_metrics(task: Task) -> dict[type[EvaluationMetric], EvaluationMetric]:
    """The metrics that the benchmark's annotation allows."""
    return {metric: metric(task) for metric in metric_classes() if metric.applies(task)}
