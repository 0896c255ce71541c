"""L_r: the restored image should look like the input, in pixels and to a frozen VGG-19 (Eq. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mpae.config import LossSettings
from mpae.losses.perceptual import BUNDLED, PerceptualNetwork
from mpae.losses.precision import at_least_float32

# Weights of the pixels and of the VGG layers. The paper prints 1/2 and 1/2, the latter spread over the layers here.
# Released: 0.1, and layer by layer more. All layers of the bundled VGG have a mean activation of about 1: it has
# equal weights. docs/released.md has each layer's share of L_r in both.
PIXEL = {"released": 0.1, "paper": 0.5}
LAYERS = {"released": (5 / 32, 5 / 16, 5 / 8, 5 / 4, 5.0), "paper": (0.1,) * 5}
LAYERS_OF_BUNDLED = {"released": (0.5,) * 5, "paper": (0.1,) * 5}

FEW = 4 * 64**2  # pixels that VGG sees together on a CPU


def restoration_weights(settings: LossSettings) -> tuple[float, tuple[float, ...]]:
    """Weights of the pixels and of each layer of VGG in L_r, by reading and VGG where the settings give none."""
    layers = LAYERS_OF_BUNDLED if settings.vgg == BUNDLED else LAYERS
    return (PIXEL[settings.reading] if settings.pixel is None else settings.pixel,
            layers[settings.reading] if settings.perceptual is None else settings.perceptual)


def restoration_loss(
    restored: Tensor,
    target: Tensor,
    network: PerceptualNetwork | None,
    pixel: float = 0.1,
    perceptual: Sequence[float] = (0.5, 0.5, 0.5, 0.5, 0.5),
) -> dict[str, Tensor]:
    """Eq. 3: pixel |I - I'| + sum_l perceptual_l |Phi_l(I) - Phi_l(I')|.

    Means, over visible and hidden patches alike. The defaults are the released weights for the bundled VGG.

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
        terms["perceptual"] = perceptual_term(restored, target, network, perceptual)
        weighted.append(terms["perceptual"])
    total = sum(weighted, start=torch.zeros((), device=restored.device))
    return terms | {"restoration": total}


def perceptual_term(restored: Tensor, target: Tensor, network: PerceptualNetwork, weights: Sequence[float]) -> Tensor:
    """Second half of Eq. 3, from images (B, 3, H', W').

    On a CPU a few images at a time, each with its gradient at once: what VGG keeps on the way back is for those few
    then, not for the batch. The loss is a mean over images, so nothing else changes.
    """
    weights = weights[: max(index for index, weight in enumerate(weights) if weight) + 1]
    if restored.device.type == "cpu" and restored.requires_grad:
        loss: Tensor = _FewAtATime.apply(restored, target, network, weights)
        return loss
    return _look(restored, target, network, weights)


def _look(restored: Tensor, target: Tensor, network: PerceptualNetwork, weights: Sequence[float]) -> Tensor:
    with torch.no_grad():
        target_maps = network(target, len(weights))
    return perceptual_loss(network(restored, len(weights)), target_maps, weights)


class _FewAtATime(torch.autograd.Function):
    """`_look` at FEW pixels at a time. The way there also finds the gradient by the restored image, which is small."""

    @staticmethod
    def forward(ctx: Any, restored: Tensor, target: Tensor, network: PerceptualNetwork,
                weights: Sequence[float]) -> Tensor:
        losses, gradients = [], []
        few = max(1, FEW // restored[0, 0].numel())  # images
        for ours, theirs in zip(restored.split(few), target.split(few), strict=True):
            with torch.enable_grad():
                leaf = ours.detach().requires_grad_()
                loss = _look(leaf, theirs, network, weights) * (len(leaf) / len(restored))
                gradients += torch.autograd.grad(loss, leaf)
            losses.append(loss.detach())
        ctx.save_for_backward(torch.cat(gradients))
        return torch.stack(losses).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return gradient * ctx.saved_tensors[0], None, None, None


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

