"""Begin where the initial_parts are: the first step's similarity maps are already those of the initial_parts, nearly.

1. The 1x1 convolution takes the principal directions of the frozen features.
2. Descriptors that tell the initial_parts apart in its output are found by logistic regression.
3. PartFormer's last projection is set, by least squares over images, to give these descriptors.

From there everything trains as always.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as nnf
from torch import Tensor

from mpae.devices import map_on_cores, one_thread
from mpae.model import MPAE

STEPS = 200  # of the logistic regression
RATE = 0.05  # its learning rate, for features of unit variance
PATCHES = 8192  # positions in each of its steps
RIDGE = 1e-3  # of the least squares, against the mean square of what goes in


def warm_start(model: MPAE, images: Tensor, frozen: Tensor, initial_parts: Tensor, seed: int,
               progress: Callable[[str, int, int], None] = lambda *_: None) -> None:
    """
    Args:
        images: (n, 3, S, S) in [0, 1].
        frozen: (n, E, h, w), their features.
        initial_parts: (n, K+1, h, w), probabilities, background last.
    """
    with one_thread():
        with torch.no_grad():
            directions = leading_directions(frozen, model.compress.out_channels)  # (<=C, E)
            model.compress.weight[: len(directions)] = directions[:, :, None, None]
            features = positions(model.compress(frozen))  # (n*N, C)
        descriptors = logistic_regression(features, positions(initial_parts), seed)  # (K+1, C)
    progress("model to begin with them", 1, 2)
    with torch.no_grad():
        outputs = torch.cat(map_on_cores(
            lambda part: model.partformer.outputs(model.normalise(model.for_partformer(part))), images.split(16)))
        model.partformer.project.weight.copy_(least_squares(outputs, descriptors))  # from (n, K+1, C)
    progress("model to begin with them", 2, 2)


def positions(maps: Tensor) -> Tensor:
    """(n, C, h, w) -> (n*N, C), each position's values side by side in memory: some are drawn in every step."""
    return maps.permute(0, 2, 3, 1).flatten(0, 2).contiguous()


def leading_directions(frozen: Tensor, number: int) -> Tensor:
    """(n, E, h, w) -> (number, E), or (E, E) if E is less, scaled so that features have a mean square of 1."""
    points = frozen.transpose(0, 1).flatten(1)  # (E, n*N)
    values, vectors = torch.linalg.eigh(points @ points.T / points.shape[1])  # rising
    chosen = vectors[:, -number:].T.flip(0)
    return chosen / values[-number:].mean().clamp_min(1e-12).sqrt()


def logistic_regression(features: Tensor, targets: Tensor, seed: int) -> Tensor:
    """features (m, C) and probabilities (m, K+1) -> weights (K+1, C) without a bias, which matching has not either."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.zeros(targets.shape[1], features.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=RATE)
    for step in range(STEPS):
        chosen = torch.randint(len(features), (min(PATCHES, len(features)),), generator=generator)
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        loss = nnf.cross_entropy(features[chosen] @ weight.T, targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weight.detach()


def least_squares(outputs: Tensor, descriptors: Tensor) -> Tensor:
    """The matrix (C, C) that takes outputs (n, K+1, C) to descriptors (K+1, C) in every image, nearly."""
    points = outputs.flatten(0, 1)  # (n*(K+1), C)
    wanted = descriptors.expand(len(outputs), -1, -1).flatten(0, 1)
    square = points.T @ points
    square += RIDGE * square.diagonal().mean() * torch.eye(len(square))
    return torch.linalg.solve(square, points.T @ wanted).T
