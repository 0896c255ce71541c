"""Comparison systems behind the interface of a trained model (`mpae.model.protocol.PartModel`)."""

from mpae.baselines.dino_kmeans import DinoKMeans

BASELINES = {"dino-kmeans": DinoKMeans}

__all__ = ["BASELINES", "DinoKMeans"]
