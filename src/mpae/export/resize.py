"""Resizing with antialiasing as products with matrices: exact, and of any size in a graph.

ONNX has such a resize from opset 18 on, PyTorch's exporter has none. A row of the matrix holds the weights with which
one output pixel sees the input: a triangle (bilinear) or Keys' cubic (bicubic), as wide as the output's pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

KEYS = -0.5  # a of the cubic; PyTorch has -0.75 without antialiasing


def triangle(x: Tensor) -> Tensor:
    return (1 - x.abs()).relu()


def cubic(x: Tensor) -> Tensor:
    """Keys' cubic convolution: two pieces, zero from 2 on."""
    x = x.abs()
    near = ((KEYS + 2) * x - (KEYS + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * KEYS - 4 * KEYS
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def resizing_matrix(length: Any, target: Any, kernel: Callable[[Tensor], Tensor]) -> Tensor:
    """(target, length): takes `length` pixels in a row to `target`; both may be sizes that a tracer follows."""
    ratio = torch.as_tensor(length, dtype=torch.float32) / torch.as_tensor(target, dtype=torch.float32)
    centres = (torch.arange(target) + 0.5) * ratio  # (target,)
    distances = torch.arange(length) + 0.5 - centres[:, None]  # (target, length)
    weights = kernel(distances / ratio.clamp(min=1))
    return weights / weights.sum(dim=1, keepdim=True)


def resize(images: Tensor, size: Any, kernel: Callable[[Tensor], Tensor] = triangle) -> Tensor:
    """(..., H, W) -> (..., *size), as `interpolate(..., antialias=True)`."""
    rows = resizing_matrix(images.shape[-2], size[0], kernel).to(images.device)
    columns = resizing_matrix(images.shape[-1], size[1], kernel).to(images.device)
    return rows @ images @ columns.transpose(0, 1)
