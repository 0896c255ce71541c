"""The pre-norm transformer layer that PartFormer, the encoder and the decoder are made of."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class QuickGELU(nn.Module):
    """x·σ(1.702 x), the activation of the released PartFormer; timm's keeps two tensors for backward, this one."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.silu(1.702 * x) / 1.702


class Layer(nn.Module):
    """Attention, then an MLP of four times the width, each on normalised input and added to it."""

    def __init__(self, dim: int, heads: int, activation: type[nn.Module] = nn.GELU):
        super().__init__()
        if dim % heads:
            raise ValueError(f"width {dim} is not a multiple of {heads} attention heads")
        self.heads = heads
        self.norm_attention = nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.project = nn.Linear(dim, dim)
        self.norm_mlp = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), activation(), nn.Linear(4 * dim, dim))

    def forward(self, tokens: Tensor, outputs: int | None = None) -> Tensor:
        """tokens (B, T, C) -> (B, T, C), or only the first `outputs` of them, computed alone."""
        query, key, value = self._heads(tokens, outputs)
        attended = functional.scaled_dot_product_attention(query, key, value)  # (B, heads, T, C/heads)
        tokens = tokens[:, :outputs] + self.project(attended.transpose(1, 2).flatten(2))  # (B, T, C)
        return tokens + self.mlp(self.norm_mlp(tokens))

    def attention(self, tokens: Tensor, outputs: int | None = None) -> Tensor:
        """How the first `outputs` tokens attend to all: (B, outputs, T), the mean over heads."""
        query, key, _ = self._heads(tokens, outputs)
        scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5  # (B, heads, outputs, T)
        return scores.softmax(dim=-1).mean(dim=1)

    def _heads(self, tokens: Tensor, outputs: int | None) -> tuple[Tensor, Tensor, Tensor]:
        B, T, C = tokens.shape
        normed = self.norm_attention(tokens)
        if outputs is None:
            split = self.query_key_value(normed).reshape(B, T, 3, self.heads, -1)
            query, key, value = split.permute(2, 0, 3, 1, 4)  # each (B, heads, T, C/heads)
            return query, key, value
        weight, bias = self.query_key_value.weight, self.query_key_value.bias
        query = functional.linear(normed[:, :outputs], weight[:C], bias[:C])
        pair = functional.linear(normed, weight[C:], bias[C:]).reshape(B, T, 2, self.heads, -1)
        key, value = pair.permute(2, 0, 3, 1, 4)
        return query.reshape(B, outputs, self.heads, -1).transpose(1, 2), key, value


def initialise(module: nn.Module) -> None:
    """Weights as the released program begins with: Xavier, biases 0; for `Module.apply`."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def sincos_positions(grid: tuple[int, int], dim: int) -> Tensor:
    """Fixed 2-D sine and cosine table: (N, C), half of C for the column, then half for the row, as released.

    timm's `build_sincos2d_pos_embed` has the same values in another order of channels.
    """
    if dim % 4:
        raise ValueError(f"width {dim} is not a multiple of 4, which 2-D sine and cosine positions need")
    h, w = grid
    frequency = 1.0 / 10000 ** (torch.arange(dim // 4, dtype=torch.float64) / (dim // 4))  # (C/4,)
    row = torch.arange(h, dtype=torch.float64)[:, None] * frequency  # (h, C/4)
    column = torch.arange(w, dtype=torch.float64)[:, None] * frequency  # (w, C/4)
    row = torch.cat([row.sin(), row.cos()], dim=1)[:, None].expand(h, w, -1)
    column = torch.cat([column.sin(), column.cos()], dim=1)[None].expand(h, w, -1)
    return torch.cat([column, row], dim=2).reshape(h * w, dim).float()
