"""Block (b): PartFormer, the ViT whose class token is replaced by K+1 part tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mpae.model.masking import patchify
from mpae.model.transformer import Layer, QuickGELU, initialise, sincos_positions


class PartFormer(nn.Module):
    """Reads the whole image and gives one descriptor for each part, and one for the background, last.

    Each of the K+1 learned tokens gathers, through attention, what belongs to its part in this image.
    """

    def __init__(self, num_parts: int, patch_size: int, grid: tuple[int, int], dim: int = 256,
                 layers: int = 6, heads: int = 8):
        super().__init__()
        self.num_parts = num_parts
        self.patch_size = patch_size
        self.grid = grid  # of the patches that it looks at
        self.embed = nn.Linear(3 * patch_size**2, dim, bias=False)
        self.part_tokens = nn.Parameter(torch.randn(num_parts + 1, dim) * 0.02)
        self.part_positions = nn.Parameter(torch.zeros(num_parts + 1, dim))
        self.patch_positions = nn.Parameter(sincos_positions(grid, dim))
        self.norm_input = nn.LayerNorm(dim)
        self.layers = nn.ModuleList(Layer(dim, heads, QuickGELU) for _ in range(layers))
        self.norm_output = nn.LayerNorm(dim)
        self.project = nn.Linear(dim, dim, bias=False)
        self.apply(initialise)
        nn.init.xavier_uniform_(self.embed.weight.view(dim, 3, patch_size, patch_size))  # as a convolution, as released

    def forward(self, images: Tensor) -> Tensor:
        """images (B, 3, H, W), normalised -> descriptors D (B, K+1, C)."""
        return self.project(self.outputs(images))

    def outputs(self, images: Tensor) -> Tensor:
        """The part tokens after the last layer, before their projection: (B, K+1, C)."""
        tokens = self._before_last(images)  # (B, K+1+N, C)
        # The last layer's patch outputs would be thrown away: only the part tokens go through it.
        return self.norm_output(self.layers[-1](tokens, outputs=self.num_parts + 1))

    def attention(self, images: Tensor) -> Tensor:
        """Where each part token looks (Fig. 8): (B, K+1, N), attention of the last layer to the patches."""
        parts = self.num_parts + 1
        last: Layer = self.layers[-1]  # type: ignore[assignment]
        return last.attention(self._before_last(images), outputs=parts)[:, :, parts:]

    def _before_last(self, images: Tensor) -> Tensor:
        patches = self.embed(patchify(images, self.patch_size)) + self.patch_positions  # (B, N, C)
        parts = (self.part_tokens + self.part_positions).expand(images.shape[0], -1, -1)  # (B, K+1, C)
        tokens = self.norm_input(torch.cat([parts, patches], dim=1))  # (B, K+1+N, C)
        for layer in self.layers[:-1]:
            tokens = layer(tokens)
        return tokens
