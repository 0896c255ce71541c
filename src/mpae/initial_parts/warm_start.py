"""Begin where the initial_parts are: the first step's similarity maps are already those of the initial_parts, nearly.

1. The 1x1 convolution takes the principal directions of the frozen features.
2. Descriptors that tell the initial_parts apart in its output are found by logistic regression. They get a size of 1
   and the convolution what is left: the decoder, which hidden patches reach as descriptors, could not see smaller ones.
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
PLACES = 4096  # in each of its steps
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
            features = model.compress(frozen)  # (n, C, h, w)
        descriptors = logistic_regression(features, initial_parts, seed)  # (K+1, C)
        size = float(descriptors.square().mean().sqrt().clamp_min(1e-9))
        descriptors /= size
        model.scale_features(size)
    progress("model to begin with them", 1, 2)
    with torch.no_grad():
        outputs = torch.cat(map_on_cores(
            lambda part: model.partformer.outputs(model.normalise(model.for_partformer(part))), images.split(16)))
        model.partformer.project.weight.copy_(least_squares(outputs, descriptors))  # from (n, K+1, C)
    progress("model to begin with them", 2, 2)


def leading_directions(frozen: Tensor, number: int) -> Tensor:
    """(n, E, h, w) -> (number, E), or (E, E) if E is less, scaled so that features have a mean square of 1."""
    points = frozen.transpose(0, 1).flatten(1)  # (E, n*N)
    values, vectors = torch.linalg.eigh(points @ points.T / points.shape[1])  # rising
    chosen = vectors[:, -number:].T.flip(0)
    return chosen / values[-number:].mean().clamp_min(1e-12).sqrt()


def logistic_regression(features: Tensor, initial_parts: Tensor, seed: int) -> Tensor:
    """Maps (n, C, h, w) and probabilities (n, K+1, h, w) -> weights (K+1, C) without a bias, which matching has not
    either.

    Features and logits are interpolated to random places, as masks are made from them; `losses/initial_parts.py` says
    what that is good for.
    """
    generator = torch.Generator().manual_seed(seed)
    logits = initial_parts.clamp_min(torch.finfo(initial_parts.dtype).eps).log()
    both = torch.cat([features, logits], dim=1).permute(0, 2, 3, 1).contiguous()  # (n, h, w, C+K+1)
    weight = torch.zeros(logits.shape[1], features.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=RATE)
    for step in range(STEPS):
        given, wanted = at_random_places(both, PLACES, generator).split([features.shape[1], logits.shape[1]], dim=1)
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        loss = nnf.cross_entropy(given @ weight.T, wanted.softmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weight.detach()


def at_random_places(maps: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Maps (n, h, w, C), interpolated between their positions at so many places: (number, C)."""
    n, h, w, _ = maps.shape
    image = torch.randint(n, (number,), generator=generator)
    down, across = (torch.rand(2, number, generator=generator) * torch.tensor([[h - 1.0], [w - 1.0]])).unbind()
    top, left = down.long(), across.long()
    below, right = (down - top)[:, None], (across - left)[:, None]  # shares of the next row and column
    bottom, beyond = (top + 1).clamp_max(h - 1), (left + 1).clamp_max(w - 1)
    upper = torch.lerp(maps[image, top, left], maps[image, top, beyond], right)  # (number, C)
    return torch.lerp(upper, torch.lerp(maps[image, bottom, left], maps[image, bottom, beyond], right), below)


def least_squares(outputs: Tensor, descriptors: Tensor) -> Tensor:
    """The matrix (C, C) that takes outputs (n, K+1, C) to descriptors (K+1, C) in every image, nearly."""
    points = outputs.flatten(0, 1)  # (n*(K+1), C)
    wanted = descriptors.expand(len(outputs), -1, -1).flatten(0, 1)
    square = points.T @ points
    square += RIDGE * square.diagonal().mean() * torch.eye(len(square))
    return torch.linalg.solve(square, points.T @ wanted).T
