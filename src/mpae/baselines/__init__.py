"""Comparison systems behind the interface of a trained model (`mpae.model.protocol.PartModel`), each listed once."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from mpae.errors import MPAEError, short

UNSUPERVISED, CLASSES, MASKS = "unsupervised", "class labels", "masks"


class Method(NamedTuple):
    """A system that `mpae fit --method NAME` trains."""

    name: str
    title: str  # in tables
    supervision: str  # what it learns from, besides images
    place: str  # module and class, imported when it is used: the command line lists names and loads nothing
    from_pixels: bool = False  # it trains a network of its own, where others look at a frozen backbone

    @property
    def tag(self) -> str:
        """'scops (unsupervised)': a method is never named without what it learns from."""
        return f"{self.name} ({self.supervision})"

    def load(self) -> Any:
        """What builds it: `build_model` of MPAE, or a `mpae.baselines.method.PartMethod`."""
        return _load(self.place)


# To add a method: its file in this folder, and a line here.
METHODS = {method.name: method for method in (
    Method("mpae", "MPAE", UNSUPERVISED, "mpae.model:build_model"),
    Method("dino-clustering", "clustering of keys (Amir et al.)", UNSUPERVISED,
           "mpae.baselines.dino_clustering:DinoClustering"),
    Method("dino-clustering-crf", "clustering of keys, smoothed by a CRF (Amir et al.)", UNSUPERVISED,
           "mpae.baselines.dino_clustering:DinoClusteringCRF"),
    Method("dual-alignment", "dual alignment (Xia et al.)", UNSUPERVISED,
           "mpae.baselines.dual_alignment:DualAlignment"),
    Method("scops", "SCOPS (Hung et al.)", UNSUPERVISED, "mpae.baselines.scops:Scops"),
    Method("ganseg", "GANSeg (He et al.)", UNSUPERVISED, "mpae.baselines.ganseg:GANSeg", from_pixels=True),
    Method("contrastive-reconstruction", "contrastive reconstruction (Choudhury et al.)", MASKS,
           "mpae.baselines.contrastive_reconstruction:ContrastiveReconstruction"),
    Method("contrastive-reconstruction-votes", "contrastive reconstruction, foreground by our vote", UNSUPERVISED,
           "mpae.baselines.contrastive_reconstruction:ContrastiveReconstructionVotes"),
    Method("region-grouping", "region grouping (Huang and Li)", CLASSES,
           "mpae.baselines.region_grouping:RegionGrouping"),
    Method("pdiscoformer", "PDiscoFormer (Aniraj et al.)", CLASSES, "mpae.baselines.pdisco:PDiscoFormer"),
    Method("pdiscoformer-tuned", "PDiscoFormer, tokens and positions of the ViT tuned", CLASSES,
           "mpae.baselines.pdisco:PDiscoFormerTuned", from_pixels=True),
    Method("pdisconet-vit", "PDiscoNet on a frozen ViT", CLASSES, "mpae.baselines.pdisco:PDiscoNetViT"),
    Method("pdisconet", "PDiscoNet (van der Klis et al.)", CLASSES, "mpae.baselines.pdisco:PDiscoNet",
           from_pixels=True),
)}


def find_method(name: str) -> Method:
    """A method by its name; an unknown name is answered with all of them and what they learn from."""
    if name not in METHODS:
        raise MPAEError(f"Unknown method '{short(name)}'; choose one of: "
                        f"{', '.join(method.tag for method in METHODS.values())}.")
    return METHODS[name]


class Baseline(NamedTuple):
    """A system that `mpae evaluate --baseline NAME` fits to the training split and evaluates."""

    name: str
    title: str  # in tables
    supervision: str  # what it learns from, besides images
    place: str  # module and class, imported when it is used: the command line lists names and loads nothing

    def load(self) -> Any:
        """The class; its `fit(backbone, images, num_parts, image_size, *, workers, progress)` makes a `PartModel`."""
        return _load(self.place)


# To add a baseline: its file in this folder, and a line here.
BASELINES = {baseline.name: baseline for baseline in (
    Baseline("dino-kmeans", "clustering of frozen features", UNSUPERVISED, "mpae.baselines.dino_kmeans:DinoKMeans"),
)}


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
