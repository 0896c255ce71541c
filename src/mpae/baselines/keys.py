"""Keys of the last block of a frozen ViT as its features, and where its class token looks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mpae.backbones.vit import FrozenViT
from mpae.errors import MPAEError


class KeyViT(nn.Module):
    """A frozen backbone that gives keys, all heads side by side, in place of the final tokens."""

    def __init__(self, vit: FrozenViT):
        super().__init__()
        self.vit = vit
        self.attention: Any = getattr(vit.model.blocks[-1], "attn", None)
        projection = getattr(self.attention, "qkv", None)
        if not isinstance(projection, nn.Linear) or not hasattr(self.attention, "attn_drop") or \
                getattr(vit.model, "cls_token", None) is None:
            raise MPAEError(f"The backbone '{vit.name}' has no class token and keys that can be read; dino-clustering "
                            "needs them, as in bundled or dino-vits16.")
        self.name, self.patch_size, self.dim = vit.name, vit.patch_size, projection.in_features
        self.fingerprint = f"{vit.fingerprint}-keys"  # what is kept of them is not mixed with the final tokens

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, E, h, w)."""
        return self.look(images)[0]

    def train(self, mode: bool = True) -> KeyViT:
        return super().train(False)

    @torch.no_grad()
    def look(self, images: Tensor, saliency: bool = False) -> tuple[Tensor, Tensor | None]:
        """Keys (B, E, h, w), and if asked for the attention of the class token, heads averaged, from 0 to 1 in each
        image (B, h, w)."""
        grid = images.shape[2] // self.patch_size, images.shape[3] // self.patch_size
        skipped, projected, seen = self.vit.model.num_prefix_tokens, [], []
        hooks = [self.attention.qkv.register_forward_hook(lambda _, __, output: projected.append(output))]
        fused = self.attention.fused_attn
        if saliency:
            hooks.append(self.attention.attn_drop.register_forward_pre_hook(
                lambda _, inputs: seen.append(inputs[0][:, :, 0].mean(1))))
            self.attention.fused_attn = False  # the fused kernel does not show its weights
        try:
            self.vit(images)
        finally:
            for hook in hooks:
                hook.remove()
            self.attention.fused_attn = fused
        keys = projected[0][:, skipped:, self.dim : 2 * self.dim].float().transpose(1, 2).unflatten(2, grid)
        return keys, scaled(seen[0][:, skipped:].float()).unflatten(1, grid) if saliency else None


def scaled(attention: Tensor) -> Tensor:
    """(B, N), each image from 0 to 1."""
    low, high = attention.aminmax(dim=1, keepdim=True)
    return (attention - low) / (high - low).clamp_min(1e-12)
