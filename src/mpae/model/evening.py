"""A first 1x1 convolution that sees all differences between features alike (ours, not the paper's).

Frozen features differ most by what a picture shows, less by which part of it a patch is: on birds the first principal
direction has 20 times the variance of the 64th. Random weights cut along the large differences, and which of the small
ones a part gets hold of is left to luck. So the random weights W of the 1x1 convolution begin with features that are
evened out in their first q principal directions,

    W = W V S^(-1/2) V',    C = V S V' + rest,

where C is the covariance of the features F, V (E, q) and S the first q eigenvectors and eigenvalues. Training then goes
on with F as they are: features that stay even, W F with V S^(-1/2) V' F for F, lose the foreground.
"""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST = 1e-6  # variance that counts, as a share of the largest; few images have few directions


@torch.no_grad()
def evening(frozen: Tensor, number: int) -> Tensor:
    """V S^(-1/2) V', (E, E), of features (n, E, h, w), scaled so that their mean variance stays; features that do not
    differ at all are left as they are."""
    points = frozen.float().transpose(0, 1).flatten(1)  # (E, n*N)
    points = points - points.mean(dim=1, keepdim=True)
    values, vectors = torch.linalg.eigh(points @ points.T / points.shape[1])  # rising
    values, vectors = values[-number:], vectors[:, -number:]
    kept = values > SMALLEST * values[-1]
    if not kept.any():
        return torch.eye(len(points))
    values, vectors = values[kept], vectors[:, kept]
    return vectors * (values.mean() / values).sqrt() @ vectors.T
