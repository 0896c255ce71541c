"""Weights as 8-bit integers with one scale for each group of inputs: half the size of fp16 on disk.

The inputs of one output channel are cut into groups of `GROUP`, or a little less where only that divides them; a group
is stored as integers in -127..127 and one fp16 scale. One scale for a whole output channel would be simpler, and loses
two to three times as much.
"""

from __future__ import annotations

import torch
from torch import Tensor

GROUP = 32
SMALLEST = 16  # smaller groups than this are not worth their scales
LARGEST = 127
SCALE = ".scale"  # the scales of the tensor `name` are stored as `name.scale`


def quantise(weight: Tensor, group: int = GROUP) -> tuple[Tensor, Tensor]:
    """Integers and scales of a weight.

    Args:
        weight: (O, ...), output channel first; the product of the other sizes is a multiple of ``group``.
    Returns:
        int8 of the shape of ``weight``, and fp16 scales (O, groups).
    """
    grouped = weight.float().reshape(weight.shape[0], -1, group)  # (O, groups, group)
    scale = (grouped.abs().amax(dim=2) / LARGEST).half()  # (O, groups)
    # Rounding divides by the scale as stored, so that the error of storing it in fp16 is rounded away too.
    values = grouped / scale.float().clamp(min=2.0**-24).unsqueeze(2)  # the smallest fp16 above 0
    return values.round().clamp(-LARGEST, LARGEST).to(torch.int8).reshape(weight.shape), scale


def restore(values: Tensor, scale: Tensor) -> Tensor:
    """The float32 weight, of the shape of ``values``."""
    grouped = values.float().reshape(*scale.shape, -1)  # (O, groups, group)
    return (grouped * scale.float().unsqueeze(2)).reshape(values.shape)


def pack(weights: dict[str, Tensor], keep: tuple[str, ...] = ()) -> dict[str, Tensor]:
    """Matrices and kernels as int8 and scales, all else as fp16.

    Args:
        keep: beginnings of the names of weights that stay fp16.
    """
    packed: dict[str, Tensor] = {}
    for name, weight in weights.items():
        group = 0 if weight.ndim < 2 or name.startswith(keep) else group_of(weight[0].numel())
        if group:
            packed[name], packed[name + SCALE] = quantise(weight, group)
        else:
            packed[name] = weight.half()
    return packed


def group_of(inputs: int) -> int:
    """The largest group that divides the inputs of an output channel: 32 for 384, 28 for 588; 0 if all are small."""
    return next((group for group in range(GROUP, SMALLEST - 1, -1) if inputs % group == 0), 0)


def unpack(packed: dict[str, Tensor]) -> dict[str, Tensor]:
    """The float32 weights of `pack`, under their own names; weights that were never packed stay as they are."""
    return {
        name: restore(value, packed[name + SCALE]) if value.dtype == torch.int8
        else value.float() if value.dtype == torch.half else value
        for name, value in packed.items() if not name.endswith(SCALE)
    }
