"""The frozen backbone in 8-bit integers, for prediction on CPUs."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

from mpae.backbones.vit import FrozenViT
from mpae.errors import MPAEError

STEPS = 127  # of an input. Without special instructions a CPU adds products of full bytes in 16 bits: they overflow
Model = TypeVar("Model", bound=nn.Module)


class Int8Linear(nn.Module):
    """A linear layer with int8 weights, a scale for each output, and 7-bit inputs, a scale for each token.

    DINOv2 has a few tokens that are many times larger than the others: with one scale for all, the others
    would lose most of their digits.
    """

    weight: Tensor  # (outputs, inputs) int8, in the layout that oneDNN likes best
    scale: Tensor  # (outputs,)
    zero: Tensor  # (outputs,) all 0
    bias: Tensor  # (outputs,)

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / 127
        rounded = (weight / scale[:, None]).round().to(torch.int8)
        bias = torch.zeros(len(scale)) if linear.bias is None else linear.bias.detach().float()
        self.register_buffer("weight", torch.ops.onednn.qlinear_prepack(rounded, None), persistent=False)
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("zero", torch.zeros(len(scale), dtype=torch.int32), persistent=False)
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., inputs) -> (..., outputs), float32."""
        lowest, highest = inputs.amin(-1, keepdim=True), inputs.amax(-1, keepdim=True)  # far faster than aminmax
        size = torch.maximum(highest, -lowest).clamp_min(torch.finfo(torch.float32).tiny)  # (..., 1)
        # In units of its size each token lies in [low, 1]; after a GELU, low is near 0 and not near -1.
        low = min(0.0, (lowest / size).min().item())
        step = (1 - low) / STEPS
        zero_point = round(-low / step)
        rounded = (inputs * (1 / (step * size))).add_(zero_point + 0.5).to(torch.uint8)  # in 0..127
        products = torch.ops.onednn.qlinear_pointwise(
            rounded, step, zero_point, self.weight, self.scale, self.zero, None, 1.0, 0, torch.float32, "none", [], "")
        return products.mul_(size).add_(self.bias)


def quantised(model: Model) -> Model:
    """A copy of a model whose frozen backbone computes its linear layers in int8; all else is shared with it."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.onednn, "qlinear_pointwise"):
        raise MPAEError("PyTorch has no int8 arithmetic on this machine; leave out --int8.")
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    model = copy.deepcopy(model, shared)
    backbone = model.get_submodule("backbone")
    if isinstance(backbone, FrozenViT):
        backbone.precision = "float32"  # of what is left; Int8Linear takes nothing else
    for module in list(backbone.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))
    return model
