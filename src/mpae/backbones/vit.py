"""The frozen feature extractor: any timm vision transformer as images in, one dense map out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from mpae.config import Precision

FEW = 4  # images that go through a ViT together on a CPU: what lies between its layers then stays in its caches
PIXELS = FEW * 224**2  # of all of them; larger images go in fewer at once
ROUNDED = "-bf16"  # in the fingerprint of a backbone that computes in bfloat16


class FrozenViT(nn.Module):
    """Final-norm patch tokens of a timm ViT, as a map; class and register tokens are left out.

    It never trains: no parameter has a gradient, and `train()` leaves it in evaluation mode. Every size that
    is a multiple of the patch works. `build_backbone` fits the positional table to the size in use, once; at
    another size that table is interpolated anew in each pass.
    """

    mean: Tensor  # (3, 1, 1), the backbone's own: CLIP's differs from ImageNet's
    std: Tensor  # (3, 1, 1)

    def __init__(self, model: Any, name: str, fingerprint: str | None = None, precision: Precision = "float32"):
        """
        Args:
            model: a finished timm ViT.
            name: what messages call it.
            fingerprint: of its weights; computed from the model if not given.
            precision: of its matrix products; sums and norms stay in float32.
        """
        super().__init__()
        if not is_vit(model):
            raise ValueError(f"{name} is not a vision transformer with one map of features.")
        model.prune_intermediate_layers(1, prune_norm=False, prune_head=True)
        self.model = model.requires_grad_(False)
        self.name = name
        self.patch_size = patch_size_of(model)
        self.dim = int(model.num_features)  # E; SAM's neck gives fewer than its blocks
        self.fingerprint = fingerprint or fingerprint_of(model.state_dict(), name)
        self.precision: Precision = precision
        if precision == "bfloat16":
            self.fingerprint += ROUNDED  # kept features of both precisions are not mixed
        self.register_buffer("mean", torch.tensor(model.pretrained_cfg["mean"]).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(model.pretrained_cfg["std"]).view(3, 1, 1))
        self.eval()

    def train(self, mode: bool = True) -> FrozenViT:
        """Stays in evaluation mode, whatever the model around it does."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """
        Args:
            images: (B, 3, H, W) in [0, 1]; H and W are multiples of the patch size.
        Returns:
            (B, E, h, w).
        """
        height, width = images.shape[-2:]
        if height % self.patch_size or width % self.patch_size:
            raise ValueError(f"{height} x {width} px do not divide into patches of {self.patch_size} px.")
        normalised = (images - self.mean) / self.std  # (B, 3, H, W)
        with self._arithmetic(images):
            features = self.model.forward_intermediates(normalised, indices=1, norm=True, intermediates_only=True)[-1]
        return features if self.precision == "float32" else features.float()  # (B, E, h, w)

    def _arithmetic(self, images: Tensor) -> AbstractContextManager[Any]:
        """The precision of matrix products in here; where it is float32, that of the caller."""
        if self.precision == "float32":
            return nullcontext()
        if images.device.type == "cpu":  # there torch's fused attention takes three times as long in bfloat16
            for attention in (each for each in self.model.modules() if hasattr(each, "fused_attn")):
                attention.fused_attn = False
        return torch.autocast(images.device.type, torch.bfloat16)

    @property
    def can_merge(self) -> bool:
        """Whether `forward_merged` knows the layers of this ViT."""
        return type(self.model) is VisionTransformer

    @torch.no_grad()
    def forward_merged(self, image: Tensor, merged: Tensor) -> Tensor:
        """The map of one image, where some squares of 2 x 2 patches go through the layers as one token, their mean.

        Such a token counts as the four that it stands for: log 4 is added to every attention that it gets.

        Args:
            image: (1, 3, H, W) in [0, 1].
            merged: (h/2, w/2) bool, the squares that are one token.
        Returns:
            (1, E, h, w), the same feature in all four patches of a merged square.
        """
        with self._arithmetic(image):
            return self._merged(image, merged)

    def _merged(self, image: Tensor, merged: Tensor) -> Tensor:
        vit, (rows, columns) = self.model, merged.shape
        tokens = vit.norm_pre(vit._pos_embed(vit.patch_embed((image - self.mean) / self.std)))[0]  # (P+N, E)
        prefix, patches = tokens[: vit.num_prefix_tokens], tokens[vit.num_prefix_tokens :]
        squares = patches.view(rows, 2, columns, 2, -1).transpose(1, 2).flatten(2, 3)  # (h/2, w/2, 4, E)
        fine, coarse = squares[~merged].flatten(0, 1), squares[merged].mean(dim=1)  # (4 n, E), (m, E)
        tokens = torch.cat([prefix, fine, coarse])[None]  # (1, P + 4 n + m, E)
        counts = tokens.new_ones(tokens.shape[1])
        counts[len(prefix) + len(fine) :] = 4
        weights = counts.log().view(1, 1, 1, -1)
        weights = weights.bfloat16() if self.precision == "bfloat16" else weights  # as attention has it
        for block in vit.blocks:
            tokens = block(tokens, attn_mask=weights)
        fine, coarse = vit.norm(tokens)[0, len(prefix) :].split([len(fine), len(coarse)])
        squares[~merged], squares[merged] = fine.unflatten(0, (-1, 4)), coarse[:, None].expand(-1, 4, -1)
        return squares.unflatten(2, (2, 2)).permute(4, 0, 2, 1, 3).reshape(1, -1, 2 * rows, 2 * columns)


def same_weights(fingerprint: str, other: str) -> bool:
    """Whether two fingerprints are of the same weights, in whatever precision."""
    return fingerprint.replace(ROUNDED, "") == other.replace(ROUNDED, "")


def at_once(size: int) -> int:
    """How many square images go through a ViT together on a CPU: 4 of 224 px, one of 448 px."""
    return min(FEW, max(1, PIXELS // size**2))


def one_to_a_core(backbone: Any, device: torch.device) -> bool:
    """Whether several threads may look through this backbone at once: on a CPU, and nothing is kept between layers."""
    return device.type == "cpu" and isinstance(backbone, FrozenViT)


def is_vit(model: Any) -> bool:
    """Whether a timm model has one resolution throughout and gives its tokens as a map."""
    needed = ("patch_embed", "blocks", "forward_intermediates", "prune_intermediate_layers")
    return all(hasattr(model, name) for name in needed)


def patch_size_of(model: Any) -> int:
    """Pixels along the side of the square that one token stands for."""
    return int(model.feature_info[-1]["reduction"])


def fingerprint_of(weights: Mapping[str, Tensor], architecture: str) -> str:
    """A name for these very weights in this architecture, the same in every process and on every machine."""
    digest = hashlib.blake2b(architecture.encode(), digest_size=16)
    for name in sorted(weights):
        weight = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
        digest.update(weight.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
