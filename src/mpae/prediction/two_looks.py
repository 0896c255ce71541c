"""Large images on a CPU: a first look at few pixels tells where nothing but background is; there the second is coarse.

At 448 px nearly all of the time goes to the backbone's 1,024 tokens, most of them far from any object. Where the first
look, at 5/16 of the size, is sure of the background all around, a square of 2 x 2 patches is one token of the second
(`FrozenViT.forward_merged`). Outlines of parts move by a little; where they follow the edges in the picture anyway
(`outline.py`), about one pixel in 200 gets another label. docs/studies/speed.md has the figures.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as nnf
from torch import Tensor

from mpae.backbones.vit import FrozenViT
from mpae.model import MPAE
from mpae.model.matching import PartMaps, part_logits

LEAST = 24  # patches along the side, below which all of them are looked at
FIRST = 5 / 16  # of the patches along the side: the size of the first look
SURE = 0.95  # probability of background
AROUND = 2  # patches in every direction that the first look must be sure of too
WORTH = 1 / 8  # of the squares that must be merged for it to pay


def can_take_two_looks(model: Any, device: str) -> bool:
    """Whether this is a model, and a size of images, that a second look can be coarse for."""
    if not isinstance(model, MPAE) or not isinstance(model.backbone, FrozenViT) or device != "cpu":
        return False
    side = model.image_size // model.backbone.patch_size
    return model.backbone.can_merge and side >= LEAST and side % 2 == 0


def describe_in_two_looks(model: MPAE, image: Tensor) -> tuple[PartMaps, Tensor]:
    """Logits and descriptors of one image (1, 3, H, W), and its frozen features (1, E, h, w)."""
    backbone: Any = model.backbone
    patches = image.shape[2] // backbone.patch_size, image.shape[3] // backbone.patch_size
    small = [backbone.patch_size * round(FIRST * side) for side in patches]
    first = model.describe(image, backbone(nnf.interpolate(image, small, mode="bilinear", antialias=True)))
    merged = sure_squares(nnf.interpolate(first.logits, patches, mode="bilinear"))
    frozen = backbone.forward_merged(image, merged) if merged.float().mean() >= WORTH else backbone(image)
    return PartMaps(part_logits(first.descriptors, model.compress(frozen)), first.descriptors), frozen


def sure_squares(logits: Tensor) -> Tensor:
    """Squares of 2 x 2 patches that are background for sure, with AROUND patches on every side: logits (1, K+1, h, w),
    background last -> (h/2, w/2) bool."""
    unsure = 1 - logits.softmax(dim=1)[:, -1:]  # (1, 1, h, w)
    window = 2 + 2 * AROUND  # of a square with what lies around it
    most = nnf.max_pool2d(nnf.pad(unsure, [AROUND] * 4), window, stride=2)  # (1, 1, h/2, w/2)
    return most[0, 0] < 1 - SURE
