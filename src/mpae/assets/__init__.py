"""Weights that come with the package: DINOv2 ViT-S/14 and VGG-19; README.md here says where they are from.

Trained runs that come with it are in `trained.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mpae.errors import MPAEError

if TYPE_CHECKING:
    from torch import Tensor

FOLDER = Path(__file__).parent
VIT_SMALL = FOLDER / "vit_small_patch14_dinov2.int8.safetensors"
VGG19 = FOLDER / "vgg19_features.int8.safetensors"


def load_vit_small() -> dict[str, Tensor]:
    """DINOv2 ViT-S/14, float32, under timm's names for `vit_small_patch14_dinov2.lvd142m` (518 px)."""
    return _load(VIT_SMALL)


def load_vgg19() -> dict[str, Tensor]:
    """VGG-19 conv1_1 to conv5_1, float32, as `features.N.weight` and `.bias`."""
    return _load(VGG19)


def _load(file: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from mpae.assets.int8 import unpack

    try:
        return unpack(load_file(file))
    except (OSError, SafetensorError):
        raise MPAEError(f"The bundled weights '{file}' are missing or damaged; install mpae again.") from None
