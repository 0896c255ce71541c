"""Clustering of keys (Amir et al., "Deep ViT features as dense visual descriptors"): nothing is trained.

k-means twice: on all patches, where images vote by the attention of the class token which clusters are foreground;
and on the foreground, for the K parts. A pixel takes the nearest centre; `dino-clustering-crf` smooths the result by
a dense CRF.

What differs from the original: centres are fitted on a sample of the training images and then fixed, for the
descriptors of all do not fit into memory; saliency averages all heads, not four that were picked for DINO ViT-S/8;
tokens do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import Tensor

from mpae.baselines.clusters import MAX_CLUSTERS, elbow, foreground_clusters
from mpae.baselines.crf import dense_crf
from mpae.baselines.dino_kmeans import squared_distance_maps
from mpae.baselines.keys import KeyViT
from mpae.baselines.method import PartMethod, Progress
from mpae.config import Config
from mpae.data.loading import PictureReader, in_batches, read_batches
from mpae.data.source import ImageSource
from mpae.data.sources.subsets import spread
from mpae.errors import MPAEError
from mpae.initial_parts.k_means import k_means, squared_distances, subsample
from mpae.model.matching import PartMaps

IMAGES = 300  # training images whose patches are clustered
SAMPLE = 5000  # of their patches
FAR = 1e3  # coordinates of centres that are not in use


class DinoClustering(PartMethod):
    """Descriptors are the centres, the same for every image."""

    weights: ClassVar[Mapping[str, float]] = {}

    parts: Tensor  # (K, E) centres of the second stage
    background: Tensor  # (14, E) centres of the first stage that are not foreground
    variance: Tensor  # () of a descriptor around its centre, each coordinate: it scales the logits, not the labels

    def __init__(self, config: Config, backbone: Any, classes: int = 0):
        super().__init__(config, KeyViT(backbone), classes)
        self.register_buffer("parts", torch.zeros(self.num_parts, self.backbone.dim))
        self.register_buffer("background", torch.full((MAX_CLUSTERS, self.backbone.dim), FAR))
        self.register_buffer("variance", torch.ones(()))

    def begin(self, source: ImageSource, features: Callable[[Tensor], Tensor], seed: int, progress: Progress) -> None:
        keys, saliency = self.gather(source, progress)  # (n, N, E), (n, N)
        sample = subsample(keys.reshape(-1, keys.shape[2]), SAMPLE, seed)
        progress("clusters", 0, 2)
        stage = elbow(sample, seed)
        labels = squared_distances(keys.reshape(-1, keys.shape[2]), stage.centres).argmin(1)
        foreground = foreground_clusters(labels.reshape(saliency.shape), saliency, len(stage.centres), everyone=True)
        chosen = keys.reshape(-1, keys.shape[2])[foreground[labels]]
        if len(chosen) < self.num_parts:
            raise MPAEError(f"The foreground of {len(keys)} images has {len(chosen)} patches, too few for "
                            f"{self.num_parts} parts; give more images or fewer parts.")
        progress("clusters", 1, 2)
        found = k_means(subsample(chosen, SAMPLE, seed), self.num_parts, seed)
        rest = torch.from_numpy(stage.centres[~foreground])
        self.parts.copy_(torch.from_numpy(found.centres))
        self.background.fill_(FAR)[: len(rest)] = rest.to(self.background)
        self.variance.fill_(max(found.spread / keys.shape[2], 1e-12))
        progress("clusters", 2, 2)

    def gather(self, source: ImageSource, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
        """Unit keys (n, N, E) and saliency (n, N) of some images, at even distances."""
        vit: KeyViT = getattr(self.backbone, "backbone", self.backbone)  # without the cache, which has no attention
        indices, found = spread(len(source), IMAGES), []
        for batch in read_batches(PictureReader(source, self.image_size), in_batches(indices, 4)):
            if batch.samples:
                keys, saliency = vit.look(batch.images.to(vit.vit.mean.device).float() / 255, saliency=True)
                assert saliency is not None
                unit = nnf.normalize(keys, dim=1).flatten(2).transpose(1, 2)
                found.append((unit.cpu().numpy(), saliency.flatten(1).cpu().numpy()))
            progress("keys", min(len(indices), 4 * len(found)), len(indices))
        return np.concatenate([keys for keys, _ in found]), np.concatenate([saliency for _, saliency in found])

    def distances(self, features: Tensor) -> Tensor:
        """Squared distance to each part centre, and to the nearest centre that is not foreground: (B, K+1, h, w)."""
        unit = nnf.normalize(features, dim=1)
        background = squared_distance_maps(unit, self.background).amin(dim=1, keepdim=True)
        return torch.cat([squared_distance_maps(unit, self.parts), background], dim=1)

    def describe(self, images: Tensor, frozen: Tensor | None = None) -> PartMaps:
        features = self.frozen(images) if frozen is None else frozen
        return PartMaps(-self.distances(features) / (2 * self.variance), self.centres(len(images)))

    def centres(self, images: int) -> Tensor:
        """(B, K+1, E); the background's is the first of its clusters."""
        return torch.cat([self.parts, self.background[:1]]).expand(images, -1, -1)


class DinoClusteringCRF(DinoClustering):
    """The costs smoothed by a dense CRF at half the size of the image."""

    def describe(self, images: Tensor, frozen: Tensor | None = None) -> PartMaps:
        costs = self.distances(self.frozen(images) if frozen is None else frozen)  # (B, K+1, h, w)
        costs = costs - costs.amax(dim=1, keepdim=True)
        size = images.shape[2] // 2, images.shape[3] // 2
        costs = nnf.interpolate(costs, size, mode="nearest")
        small = 255 * nnf.interpolate(images, size, mode="bilinear", antialias=True)
        shares = torch.stack([dense_crf(cost, image, scale=0.5) for cost, image in zip(costs, small, strict=True)])
        return PartMaps(shares.clamp_min(1e-9).log(), self.centres(len(images)))
