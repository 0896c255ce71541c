"""k-means in two stages: what is foreground, and which parts it has (Amir et al., "Deep ViT features")."""

from __future__ import annotations

import numpy as np

from mpae.initial_parts.k_means import Clusters, k_means

MAX_CLUSTERS = 14  # of the first stage
ELBOW = 0.975  # it stops at the number of clusters that improves on one less by under 2.5 %
SALIENT = 0.065  # mean saliency above which an image votes a cluster foreground
VOTES = 0.75  # share of the votes that makes it so


def elbow(descriptors: np.ndarray, seed: int) -> Clusters:
    """As many clusters as still pay: one more each time, up to the first that hardly improves on the last."""
    clusters = k_means(descriptors, 1, seed)
    for number in range(2, min(MAX_CLUSTERS, len(descriptors)) + 1):
        previous, clusters = clusters, k_means(descriptors, number, seed)
        if clusters.spread > ELBOW * previous.spread:
            break
    return clusters


def foreground_clusters(labels: np.ndarray, saliency: np.ndarray, number: int, everyone: bool = False) -> np.ndarray:
    """Which clusters are foreground, by the vote of the images that show them, or of all with `everyone`.

    In the original, images that do not show a cluster vote against it: with many kinds of objects no cluster is in
    all images. One cluster at least is foreground and one is not.

    Args:
        labels: (images, patches), the cluster of each patch.
        saliency: (images, patches) in 0..1.
    Returns:
        (number,) bool.
    """
    member = labels[..., None] == np.arange(number)  # (images, patches, number)
    size = member.sum(1)  # (images, number)
    mean = (member * saliency[..., None]).sum(1) / np.maximum(size, 1)
    shown = np.maximum((size > 0).sum(0), 1)
    votes = (mean > SALIENT).sum(0) / (len(labels) if everyone else shown)  # (number,)
    average = mean.sum(0) / shown
    chosen = votes >= VOTES
    chosen[average.argmax()] = True
    chosen[average.argmin()] = False
    return chosen
