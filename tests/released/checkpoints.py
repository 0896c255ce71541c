"""Files as the released program writes them, at the published size, with random values."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import timm
import torch
from torch import Tensor

HERE = Path(__file__).parent
DINOV2_NAMES = {"reg_token": "register_tokens"}  # timm's -> DINOv2's own


@cache
def published(side: int = 448, parts: int = 16) -> dict[str, Tensor]:
    """The state dict of CUB_K16.pth without the backbone, or one for images of another size or another K."""
    generator = torch.Generator().manual_seed(0)
    patches = (side // 14) ** 2
    swap = {1041: patches + parts + 1, 1024: patches, 17: parts + 1, 16: parts}
    shapes: dict[str, list[int]] = json.loads((HERE / "keys_cub_k16.json").read_text())
    return {name: torch.randn([swap.get(size, size) for size in shape], generator=generator) * 0.05
            if name.endswith(("pos_embed", "class_embedding", "ArcMarginProduct.weight"))
            else torch.randn(shape, generator=generator) * 0.05 for name, shape in shapes.items()}


def dinov2(size: int = 518) -> dict[str, Tensor]:
    """DINOv2 ViT-B/14 with registers under its own names, with positions for the size it was trained at."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        with torch.device("meta"):
            shapes = timm.create_model("vit_base_patch14_reg4_dinov2", num_classes=0, img_size=size).state_dict()
        weights = {DINOV2_NAMES.get(name, name): torch.randn(tensor.shape) * 0.02 for name, tensor in shapes.items()}
    patches = weights["pos_embed"]
    weights["pos_embed"] = torch.cat([patches[:, :1], patches], dim=1)  # the class token has a position there
    weights["mask_token"] = torch.zeros(1, 768)
    return {f"backbone1.{name}": tensor for name, tensor in weights.items()}
