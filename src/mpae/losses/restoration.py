"""L_r: the restored image should look like the input, in pixels and to a frozen VGG-19 (Eq. 3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mpae.losses.perceptual import PerceptualNetwork
from mpae.losses.precision import at_least_float32


def restoration_loss(
    restored: Tensor,
    target: Tensor,
    network: PerceptualNetwork | None,
    pixel: float = 0.1,
    perceptual: Sequence[float] = (0.5, 0.5, 0.5, 0.5, 0.5),
) -> dict[str, Tensor]:
    """Eq. 3: pixel |I - I'| + sum_l perceptual_l |Phi_l(I) - Phi_l(I')|.

    Means, over visible and hidden patches alike. The paper prints 1/2 and 1/2. The defaults are the
    released weights for a VGG whose layers all have a mean activation of about 1, as the bundled one has.

    Args:
        restored: (B, 3, H', W'), normalised with ImageNet's mean and deviation.
        target: (B, 3, H', W'), the input in the same space.
        network: Phi; may be None if no layer has a weight.
        pixel: weight of the pixels.
        perceptual: a weight for each layer of Phi.
    Returns:
        "restoration", the sum, and "pixel" (not weighted) and "perceptual" (layers weighted) where their
        weight is not 0.
    """
    if restored.shape != target.shape:
        raise ValueError(f"restored is {tuple(restored.shape)} and target {tuple(target.shape)}; "
                         "resize the target to the restored size.")
    terms: dict[str, Tensor] = {}
    weighted: list[Tensor] = []
    if pixel:
        terms["pixel"] = pixel_loss(restored, target)
        weighted.append(pixel * terms["pixel"])
    if any(perceptual):
        if network is None:
            raise ValueError("a VGG layer has a weight but there is no network; pass one, or weights of 0.")
        layers = max(index for index, weight in enumerate(perceptual) if weight) + 1
        with torch.no_grad():
            target_maps = network(target, layers)
        terms["perceptual"] = perceptual_loss(network(restored, layers), target_maps, perceptual[:layers])
        weighted.append(terms["perceptual"])
    total = sum(weighted, start=torch.zeros((), device=restored.device))
    return terms | {"restoration": total}


def pixel_loss(restored: Tensor, target: Tensor) -> Tensor:
    """First half of Eq. 3, the mean of |I - I'|; both (B, 3, H', W')."""
    return (at_least_float32(restored) - at_least_float32(target)).abs().mean()


def perceptual_loss(
    restored_maps: Sequence[Tensor], target_maps: Sequence[Tensor], weights: Sequence[float]
) -> Tensor:
    """Second half of Eq. 3: the weighted sum over layers of the mean of |Phi_l(I) - Phi_l(I')|."""
    layers = zip(weights, restored_maps, target_maps, strict=True)
    losses = [weight * pixel_loss(restored, target) for weight, restored, target in layers if weight]
    return torch.stack(losses).sum()

