"""A ResNet that a method trains from pixels, where the paper's systems had no frozen ViT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import timm
import torch
import torch.nn.functional as nnf
from torch import Tensor, nn

from mpae.backbones.download import fetch
from mpae.backbones.weights import is_weights_file, read_tensors
from mpae.config import BackboneSettings
from mpae.errors import MPAEError

DEFAULT = "resnet101.tv2_in1k"  # torchvision's second-generation ImageNet weights


class ResNetTrunk(nn.Module):
    """layer3 (+) layer4 brought to its size: images (B, 3, H, W) -> (B, 3072, H/16, W/16)."""

    def __init__(self, settings: BackboneSettings):
        super().__init__()
        self.settings = settings
        name = settings.architecture if is_weights_file(settings.name) else None
        try:
            model: Any = timm.create_model(name or DEFAULT, num_classes=0, pretrained=False)
        except RuntimeError:
            model = None
        if not all(hasattr(model, layer) for layer in ("conv1", "layer3", "layer4")):
            raise MPAEError(f"timm's '{name}' is no ResNet, which this method trains; pass the weights file of one by "
                            "--backbone FILE --set backbone.architecture=NAME, or leave both out for ResNet-101.")
        self.model = model
        self.width = sum(info["num_chs"] for info in model.feature_info[-2:])

    def load_pretrained(self) -> None:
        """ImageNet weights, from the file of the settings or from the hub."""
        file = Path(self.settings.name) if is_weights_file(self.settings.name) else fetch(
            f"timm/{DEFAULT}", "model.safetensors", None, DEFAULT,
            f"--backbone FILE --set backbone.architecture={DEFAULT}")
        weights = {key: value for key, value in read_tensors(file).items() if not key.startswith("fc.")}
        try:
            self.model.load_state_dict(weights)
        except (RuntimeError, TypeError) as error:
            raise MPAEError(f"'{file}' does not fit timm's {self.settings.architecture or DEFAULT}: "
                            f"{' '.join(str(error).split())[:150]}.") from None

    def forward(self, images: Tensor) -> Tensor:
        model = self.model
        values = model.maxpool(model.act1(model.bn1(model.conv1(images))))
        third = model.layer3(model.layer2(model.layer1(values)))
        fourth = nnf.interpolate(model.layer4(third), third.shape[2:], mode="bilinear", align_corners=True)
        return torch.cat([fourth, third], dim=1)
