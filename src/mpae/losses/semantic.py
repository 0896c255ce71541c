"""L_s: a descriptor is near the features of its own part and far from those of the others (Eq. 7-9)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as nnf
from torch import Tensor

from mpae.config import Reading

LEAST_AREA = 1e-3  # a part whose similarity sums to no more than this is absent from the image
LEAST_SINE_SQUARED = 1e-6  # the slope of sqrt is infinite at 0, where descriptor and part mean are parallel


def semantic_loss(
    similarity: Tensor,
    descriptors: Tensor,
    features: Tensor,
    scale: float = 20.0,
    margin: float = 0.5,
    reading: Reading = "released",
) -> Tensor:
    """Eq. 7: for each part present, the cross-entropy of its own pair (part mean, descriptor), with a margin.

    Paper: descriptor k is fixed and the means of the parts present compete; an absent part has no say and
    gets no gradient. Released: the mean of part t is fixed and all K descriptors compete, also those of
    absent parts. In both, the sum over the parts present is divided by K.

    Args:
        similarity: (B, K+1, h, w), background last.
        descriptors: (B, K+1, C), background last.
        features: (B, C, h, w).
        scale: s.
        margin: m, in radians.
    """
    means = nnf.normalize(part_means(similarity, features), dim=2)  # (B, K, C)
    own = nnf.normalize(descriptors[:, :-1], dim=2)  # (B, K, C)
    cosine = torch.einsum("btc,bkc->btk", means, own)  # (B, K, K), Eq. 9: part mean t, descriptor k
    pairs = with_margin(cosine.diagonal(dim1=1, dim2=2), margin, reading)  # (B, K), finite also where absent
    present = similarity[:, :-1].detach().sum(dim=(2, 3)) > LEAST_AREA  # (B, K)
    if reading == "paper":
        cosine = cosine.masked_fill(~present[:, :, None], -torch.inf)
    logits = scale * cosine.diagonal_scatter(pairs, dim1=1, dim2=2)  # (B, K, K)
    log_share = logits.log_softmax(dim=1 if reading == "paper" else 2).diagonal(dim1=1, dim2=2)  # (B, K)
    return -log_share.masked_fill(~present, 0).mean()


def part_means(similarity: Tensor, features: Tensor) -> Tensor:
    """Eq. 8: mean feature of each foreground part, (B, K, C); of an absent part, something finite.

    A matrix product over positions: the (B, C, K, h, w) tensor of the formula is never made.
    """
    foreground = similarity[:, :-1]  # (B, K, h, w)
    sums = torch.einsum("bkhw,bchw->bkc", foreground, features)  # (B, K, C)
    return sums / foreground.sum(dim=(2, 3)).clamp_min(LEAST_AREA)[:, :, None]


def with_margin(cosine: Tensor, margin: float, reading: Reading = "released") -> Tensor:
    """cos(theta + m) of Eq. 7.

    Past theta = pi - m it would rise again; from there on the released reading goes down in a straight line.
    """
    sine = (1 - cosine.square()).clamp(LEAST_SINE_SQUARED, 1).sqrt()
    shifted = cosine * math.cos(margin) - sine * math.sin(margin)
    if reading == "paper":
        return shifted
    turn = math.pi - margin
    return torch.where(cosine > math.cos(turn), shifted, cosine - margin * math.sin(turn))
