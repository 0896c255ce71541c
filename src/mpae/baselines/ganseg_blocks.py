"""The convolutional blocks of GANSeg: SPADE and AdaIN generators, a residual discriminator, a small segmenter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as nnf
from torch import Tensor, nn


def mlp(inputs: int, outputs: int, width: int = 256, layers: int = 4) -> nn.Sequential:
    """Four layers of 256 with LeakyReLU 0.2, and one to the outputs."""
    blocks: list[nn.Module] = []
    for number in range(layers):
        blocks += [nn.Linear(inputs if number == 0 else width, width), nn.LeakyReLU(0.2)]
    return nn.Sequential(*blocks, nn.Linear(width, outputs))


def positions(side: int, like: Tensor) -> Tensor:
    """x and y of the centres of pixels, in [-1, 1]: (side, side, 2)."""
    line = (torch.arange(side, device=like.device, dtype=like.dtype) + 0.5) * 2 / side - 1
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([columns, rows], dim=2)


class Spade(nn.Module):
    """Normalisation whose scale and shift are drawn from a map (Park et al., 2019)."""

    def __init__(self, width: int, condition: int):
        super().__init__()
        self.scale = nn.Conv2d(condition, width, 3, padding=1)
        self.shift = nn.Conv2d(condition, width, 3, padding=1)

    def forward(self, maps: Tensor, condition: Tensor) -> Tensor:
        small = nnf.interpolate(condition, maps.shape[2:], mode="bilinear", antialias=True)
        return nnf.instance_norm(maps) * (1 + self.scale(small)) + self.shift(small)


class SpadeStack(nn.Module):
    """Residual SPADE blocks, one for each size: (B, C, h, w) and a condition (B, D, s, s) -> (B, C, s, s)."""

    def __init__(self, width: int, condition: int, sizes: Sequence[int]):
        super().__init__()
        self.sizes = tuple(sizes)
        self.norms = nn.ModuleList(Spade(width, condition) for _ in sizes)
        self.layers = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in sizes)

    def forward(self, maps: Tensor, condition: Tensor) -> Tensor:
        for size, norm, layer in zip(self.sizes, self.norms, self.layers, strict=True):
            if maps.shape[2] != size:
                maps = nnf.interpolate(maps, (size, size), mode="bilinear")
            maps = maps + layer(nnf.leaky_relu(norm(maps, condition), 0.2))
        return maps


class Background(nn.Module):
    """AdaIN blocks: noise (B, n) sets the scale and shift of each channel of a learned map, -> (B, C, s, s)."""

    def __init__(self, width: int, noise: int, sizes: Sequence[int]):
        super().__init__()
        self.sizes = tuple(sizes)
        self.begin = nn.Parameter(torch.randn(1, width, sizes[0], sizes[0]))
        self.styles = nn.ModuleList(nn.Linear(noise, 2 * width) for _ in sizes)
        self.layers = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in sizes)

    def forward(self, noise: Tensor) -> Tensor:
        offset = int((noise[0, 0].detach().abs() * 1000) % self.sizes[0])  # one shift to the side for each batch
        maps = self.begin.expand(len(noise), -1, -1, -1).roll(offset, dims=3)
        for size, style, layer in zip(self.sizes, self.styles, self.layers, strict=True):
            if maps.shape[2] != size:
                maps = nnf.interpolate(maps, (size, size), mode="bilinear")
            scale, shift = style(noise)[:, :, None, None].chunk(2, dim=1)
            maps = maps + layer(nnf.leaky_relu(nnf.instance_norm(maps) * (1 + scale) + shift, 0.2))
        return maps


class Discriminator(nn.Module):
    """Residual blocks that halve the size, then two linear layers: (B, 3, s, s) -> (B, 1), higher for real."""

    def __init__(self, width: int, side: int, blocks: int = 4):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(blocks))
        self.judge = nn.Sequential(nn.Linear(width * (side // 2**blocks) ** 2, 4 * width), nn.LeakyReLU(0.2),
                                   nn.Linear(4 * width, 1))

    def forward(self, images: Tensor) -> Tensor:
        maps = self.first(images)
        for layer in self.layers:
            maps = nnf.avg_pool2d(maps + layer(nnf.leaky_relu(maps, 0.2)), 2)
        judged: Tensor = self.judge(maps.flatten(1))
        return judged


class Segmenter(nn.Module):
    """Three scales down and up again, with ways across: (B, 3, s, s) -> logits (B, k, s, s)."""

    def __init__(self, width: int, outputs: int):
        super().__init__()
        self.down = nn.ModuleList((_block(3, width), _block(width, 2 * width), _block(2 * width, 4 * width)))
        self.up = nn.ModuleList((_block(6 * width, 2 * width), _block(3 * width, width)))
        self.label = nn.Conv2d(width, outputs, 1)

    def forward(self, images: Tensor) -> Tensor:
        kept: list[Tensor] = []
        maps = images
        for block in self.down:
            maps = block(nnf.avg_pool2d(maps, 2) if kept else maps)
            kept.append(maps)
        for block, across in zip(self.up, (kept[1], kept[0]), strict=True):
            maps = block(torch.cat([nnf.interpolate(maps, across.shape[2:], mode="bilinear"), across], dim=1))
        labels: Tensor = self.label(maps)
        return labels


def _block(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
