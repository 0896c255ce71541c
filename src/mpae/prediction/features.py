"""Frozen features of each part of an image: what search and outliers compare.

The mean of the backbone's features under a part tells species apart; the part's descriptor does not, for it is
trained to be the same wherever the part is seen. docs/studies/search.md has the figures.
"""

from __future__ import annotations

import torch
import torch.nn.functional as nnf
from torch import Tensor

from mpae.baselines.method import PartMethod
from mpae.model import MPAE
from mpae.model.protocol import PartMaps, PartModel
from mpae.prediction.two_looks import describe_in_two_looks


def part_features(similarity: Tensor, frozen: Tensor) -> Tensor:
    """Mean of the frozen features, weighted by how strongly each position belongs to the part.

    Args:
        similarity: P (B, K, h, w), without the background.
        frozen: (B, E, h, w).
    Returns:
        (B, K, E).
    """
    similarity = nnf.adaptive_avg_pool2d(similarity, (frozen.shape[2], frozen.shape[3]))  # masks may be finer
    weights = similarity / similarity.sum(dim=(2, 3), keepdim=True).clamp_min(1e-12)  # (B, K, h, w)
    return torch.einsum("bkhw,behw->bke", weights, frozen)


def describe_with_features(model: PartModel, images: Tensor, two_looks: bool = False) -> tuple[PartMaps, Tensor]:
    """Logits and descriptors, and the features of each part, (B, K, E); E is 0 where a model has no backbone.

    Args:
        two_looks: of one image of an MPAE, for which `can_take_two_looks`.
    """
    if not isinstance(model, (MPAE, PartMethod)):
        maps = model.describe(images)
        return maps, images.new_empty(len(images), model.num_parts, 0)
    if two_looks and isinstance(model, MPAE):
        maps, frozen = describe_in_two_looks(model, images)
    else:
        frozen = model.backbone(images)  # (B, E, h, w)
        maps = model.describe(images, frozen)
    return maps, part_features(maps.logits.softmax(dim=1)[:, :-1], frozen)
