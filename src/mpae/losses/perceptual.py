"""Phi of Eq. 3: the frozen VGG-19, up to the first activation of each of its five blocks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from mpae.assets import load_vgg19
from mpae.backbones.download import fetch
from mpae.backbones.weights import is_weights_file, read_tensors
from mpae.config import LossSettings
from mpae.errors import MPAEError

BUNDLED, PLAIN = "bundled", "vgg19"
REPOSITORY = "timm/vgg19.tv_in1k"  # on the hub: torchvision's ImageNet weights
CONVOLUTIONS = (2, 2, 4, 4, 1)  # in each block; of the last, only conv5_1 is needed
WIDTHS = (1, 2, 4, 8, 8)  # channels of each block, in multiples of the first block's 64
TAPS = (1, 6, 11, 20, 29)  # relu1_1, relu2_1, relu3_1, relu4_1 and relu5_1 in `features`


class PerceptualNetwork(nn.Module):
    """VGG-19 from conv1_1 to relu5_1, frozen, with the layer names of torchvision (`features.N`).

    Made directly it has random weights (and, for tests, any width); `from_weights` takes trained ones.
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for count, multiple in zip(CONVOLUTIONS, WIDTHS, strict=True):
            if layers:
                layers.append(nn.MaxPool2d(2))
            for _ in range(count):
                layers += [nn.Conv2d(channels, multiple * width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = multiple * width
        self.features = nn.Sequential(*layers)
        self._freeze()

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor]) -> PerceptualNetwork:
        """The network with these `features.N.weight` and `features.N.bias` of its 13 convolutions."""
        with torch.device("meta"):  # no time and no random numbers spent on weights that are replaced at once
            network = cls(width=weights["features.0.weight"].shape[0])
        network.load_state_dict(weights, assign=True)
        network._freeze()
        return network

    def forward(self, images: Tensor, layers: int = 5) -> list[Tensor]:
        """What the network sees in images, at five scales.

        Args:
            images: (B, 3, H', W'), normalised with ImageNet's mean and deviation.
            layers: how many of the five maps are wanted; what lies beyond is not computed.
        Returns:
            relu1_1, relu2_1, ...: (B, 64, H', W'), (B, 128, H'/2, W'/2), ..., (B, 512, H'/16, W'/16).
        """
        smallest = 2 ** (layers - 1)
        if min(images.shape[-2:]) < smallest:
            height, width = images.shape[-2:]
            raise ValueError(f"an image of {height} x {width} pixels is too small for {layers} layers of "
                             f"VGG-19; use at least {smallest} x {smallest}, or fewer layers.")
        maps = []
        values = images.contiguous(memory_format=torch.channels_last)
        for index, layer in enumerate(self.features[: TAPS[layers - 1] + 1]):
            values = layer(values)
            if index in TAPS:
                maps.append(values)
        return maps

    def _freeze(self) -> None:
        self.requires_grad_(False)
        self.to(memory_format=torch.channels_last)  # faster on CPU and GPU


def load_perceptual(settings: LossSettings) -> PerceptualNetwork | None:
    """Phi of the settings, or None where no layer of it has a weight."""
    if not settings.restoration or (settings.perceptual is not None and not any(settings.perceptual)):
        return None
    return PerceptualNetwork.from_weights(load_vgg19() if settings.vgg == BUNDLED else _plain(settings.vgg))


def _plain(name: str) -> dict[str, Tensor]:
    """Weights of conv1_1 to conv5_1 from the hub or from a file under the names of torchvision and timm."""
    if name != PLAIN and not is_weights_file(name):
        raise MPAEError(f"Unknown loss.vgg '{name}'; choose {BUNDLED}, {PLAIN}, or a file of VGG-19's weights.")
    file = Path(name).expanduser() if name != PLAIN else fetch(
        REPOSITORY, "model.safetensors", None, PLAIN,
        f"--set loss.vgg=FILE (or take the VGG that comes with mpae: --set loss.vgg={BUNDLED})")
    content = read_tensors(file)
    with torch.device("meta"):
        expected = PerceptualNetwork().state_dict()
    for key, tensor in expected.items():
        found = content.get(key)
        if not isinstance(found, Tensor) or found.shape != tensor.shape:
            what = f"is {tuple(found.shape)}" if isinstance(found, Tensor) else "is missing"
            raise MPAEError(f"'{file}' is no VGG-19 under torchvision's names: {key} {what}, expected "
                            f"{tuple(tensor.shape)}; pass another file with --set loss.vgg=FILE.")
    return {key: content[key].float() for key in expected}
