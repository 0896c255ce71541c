"""Clustering of frozen features (Amir et al.; "DINO" in the paper's tables), behind the interface of a model.

No training and no labels. Patches of training images are clustered; the class token's attention votes for the
clusters that are foreground; the patches of those are clustered once more into K parts. What differs from the
original: the features are the backbone's final tokens, the same that MPAE gets, not DINO's keys; saliency
averages all attention heads, not four that were picked for DINO ViT-S/8; centres are fitted on a sample of the
training split and then fixed, for all descriptors of a dataset do not fit into memory; no CRF smooths the masks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mpae.backbones.vit import FrozenViT
from mpae.baselines.clusters import elbow, foreground_clusters
from mpae.data.loading import PictureReader, in_batches, read_batches
from mpae.data.source import ImageSource
from mpae.data.sources.subsets import spread
from mpae.errors import MPAEError
from mpae.initial_parts.k_means import k_means, squared_distances
from mpae.model.protocol import PartMaps

IMAGES = 500  # training images whose patches are clustered
PATCHES = 100  # patches of each, at random


class DinoKMeans(nn.Module):
    """A `PartModel` whose descriptors are cluster centres, the same for every image."""

    parts: Tensor  # (K, E) centres of the second stage
    background: Tensor  # (M, E) centres of the first stage that are not foreground

    def __init__(self, backbone: FrozenViT, image_size: int, parts: Tensor, background: Tensor, variance: float):
        """
        Args:
            variance: of a descriptor around its centre, each coordinate. It scales the logits, so that their
                softmax is the posterior of the mixture of Gaussians that k-means fits; labels do not need it.
        """
        super().__init__()
        self.backbone = backbone
        self.image_size = image_size
        self.num_parts = len(parts)
        self.variance = variance
        self.register_buffer("parts", parts)
        self.register_buffer("background", background)

    @classmethod
    def fit(cls, backbone: FrozenViT, images: ImageSource, num_parts: int, image_size: int, *, seed: int = 0,
            max_images: int = IMAGES, batch_size: int = 16, workers: int = 0,
            progress: Callable[[str, int, int], None] | None = None) -> DinoKMeans:
        """Cluster the features of `max_images` images, taken at even distances."""
        descriptors, saliency = gather_patches(
            backbone, images, image_size, max_images=max_images, batch_size=batch_size, workers=workers, seed=seed,
            progress=progress)
        flat = descriptors.reshape(-1, descriptors.shape[-1])  # (images * patches, E)
        stage = elbow(flat, seed)
        labels = squared_distances(flat, stage.centres).argmin(1)
        foreground = foreground_clusters(labels.reshape(saliency.shape), saliency, len(stage.centres))
        chosen = flat[foreground[labels]]
        if len(chosen) < num_parts:
            raise MPAEError(f"The foreground of {len(descriptors)} images has {len(chosen)} patches, too few for "
                            f"{num_parts} parts; give more images or fewer parts.")
        parts = k_means(chosen, num_parts, seed)
        variance = max(parts.spread / flat.shape[1], 1e-12)
        model = cls(backbone, image_size, torch.from_numpy(parts.centres),
                    torch.from_numpy(stage.centres[~foreground]), variance)
        return model.to(backbone.mean.device)

    @torch.inference_mode()
    def part_logits(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) in [0, 1] -> (B, K+1, h, w); the background is as near as the nearest of its clusters."""
        features = F.normalize(self.backbone(images), dim=1)  # (B, E, h, w)
        parts = squared_distance_maps(features, self.parts)  # (B, K, h, w)
        background = squared_distance_maps(features, self.background).amin(1, keepdim=True)  # (B, 1, h, w)
        return -torch.cat([parts, background], dim=1) / (2 * self.variance)

    def describe(self, images: Tensor) -> PartMaps:
        """Logits, and the centres as descriptors (B, K+1, E); the background's is the mean of its clusters."""
        centres = torch.cat([self.parts, self.background.mean(0, keepdim=True)])
        return PartMaps(self.part_logits(images), centres.expand(len(images), -1, -1))


def squared_distance_maps(features: Tensor, centres: Tensor) -> Tensor:
    """(B, E, h, w) of unit length and (n, E) -> (B, n, h, w)."""
    products = torch.einsum("ne,behw->bnhw", centres, features)
    return 1 + centres.square().sum(1).view(1, -1, 1, 1) - 2 * products


def gather_patches(backbone: FrozenViT, images: ImageSource, image_size: int, *, max_images: int, batch_size: int,
                   workers: int, seed: int, progress: Callable[[str, int, int], None] | None
                   ) -> tuple[np.ndarray, np.ndarray]:
    """Unit descriptors (n, P, E) of P patches of each of n images, and their saliency (n, P)."""
    random = np.random.default_rng(seed)
    indices = spread(len(images), max_images)
    descriptors: list[np.ndarray] = []
    saliency: list[np.ndarray] = []
    done = 0
    for batch in read_batches(PictureReader(images, image_size), in_batches(indices, batch_size), workers):
        if batch.samples:
            inputs = batch.images.to(backbone.mean.device).float() / 255
            features, attention = features_and_attention(backbone, inputs)
            tokens = F.normalize(features.flatten(2), dim=1).transpose(1, 2)  # (B, N, E)
            for token, salient in zip(tokens.cpu().numpy(), _scaled(attention).cpu().numpy(), strict=True):
                patches = random.permutation(len(token))[:PATCHES]
                descriptors.append(token[patches])
                saliency.append(salient[patches])
        done += len(batch)
        if progress is not None:
            progress("cluster features", done, len(indices))
    if not descriptors:
        raise MPAEError(f"None of the {len(indices)} images to cluster can be read.")
    return np.stack(descriptors), np.stack(saliency)


@torch.inference_mode()
def features_and_attention(backbone: FrozenViT, images: Tensor) -> tuple[Tensor, Tensor]:
    """The feature map (B, E, h, w), and how much the class token attends to each patch (B, N), heads averaged."""
    model: Any = backbone.model
    attention: Any = getattr(model.blocks[-1], "attn", None)
    if getattr(model, "cls_token", None) is None or not hasattr(attention, "attn_drop"):
        raise MPAEError(f"The backbone '{backbone.name}' has no class token whose attention can be read; "
                        f"dino-kmeans needs one, as in bundled or dino-vits16.")
    seen: list[Tensor] = []
    fused = attention.fused_attn
    hook = attention.attn_drop.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][:, :, 0].mean(1)))
    attention.fused_attn = False  # the fused kernel does not show its weights
    try:
        features = backbone(images)
    finally:
        hook.remove()
        attention.fused_attn = fused
    return features, seen[0][:, model.num_prefix_tokens:]


def _scaled(attention: Tensor) -> Tensor:
    """(B, N), each image from 0 to 1."""
    low, high = attention.aminmax(dim=1, keepdim=True)
    return (attention - low) / (high - low).clamp_min(1e-12)
