"""Comparison systems behind the interface of a trained model (`mpae.model.protocol.PartModel`), each listed once."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple


class Baseline(NamedTuple):
    """A system that `mpae evaluate --baseline NAME` fits to the training split and evaluates."""

    name: str
    title: str  # in tables
    supervision: str  # what it learns from, besides images: "none", "foreground masks", "class labels", ...
    place: str  # module and class, imported when it is used: the command line lists names and loads nothing

    def load(self) -> Any:
        """The class; its `fit(backbone, images, num_parts, image_size, *, workers, progress)` makes a `PartModel`."""
        module, _, name = self.place.partition(":")
        return getattr(import_module(module), name)


# To add a baseline: its file in this folder, and a line here.
BASELINES = {baseline.name: baseline for baseline in (
    Baseline("dino-kmeans", "clustering of frozen features", "none", "mpae.baselines.dino_kmeans:DinoKMeans"),
)}
