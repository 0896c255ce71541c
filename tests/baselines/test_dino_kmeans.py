"""The clustering baseline on a tiny ViT and pictures in memory."""

from __future__ import annotations

import numpy as np
import pytest
import timm
import torch
from PIL import Image

from mpae.backbones.vit import FrozenViT
from mpae.baselines import BASELINES
from mpae.baselines.dino_kmeans import DinoKMeans, features_and_attention, squared_distance_maps
from mpae.data.source import Picture, UnreadableImage
from mpae.errors import MPAEError

SIZE = 64


class Squares:
    """A coloured square somewhere on noise; no annotation at all."""

    def __init__(self, count: int = 12, broken: tuple[int, ...] = ()):
        self.names = [f"{index}.png" for index in range(count)]
        self.broken = broken

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Picture:
        if index in self.broken:
            raise UnreadableImage("the file is empty")
        random = np.random.default_rng(index)
        pixels = random.integers(0, 60, (SIZE, SIZE, 3), dtype=np.uint8)
        row, column = random.integers(0, 32, 2)
        pixels[row:row + 32, column:column + 32] = (230, 40, 40) if index % 2 else (40, 230, 40)
        return Picture(self.names[index], Image.fromarray(pixels), f"{index:032x}")


@pytest.fixture(scope="module")
def backbone() -> FrozenViT:
    torch.manual_seed(0)
    return FrozenViT(timm.create_model("test_vit", img_size=SIZE, num_classes=0, dynamic_img_size=True), "test_vit")


@pytest.fixture(scope="module")
def model(backbone: FrozenViT) -> DinoKMeans:
    return DinoKMeans.fit(backbone, Squares(), 3, SIZE, batch_size=5)


def images_of(source: Squares) -> torch.Tensor:
    pixels = np.stack([np.asarray(source[index].image) for index in range(len(source))])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255


def test_it_has_the_interface_of_a_model(model):
    images = images_of(Squares(2))
    logits = model.part_logits(images)
    assert (model.num_parts, model.image_size) == (3, SIZE)
    assert logits.shape == (2, 4, 4, 4)
    maps = model.describe(images)
    assert torch.equal(maps.logits, logits)
    assert maps.descriptors.shape == (2, 4, model.backbone.dim)
    assert BASELINES["dino-kmeans"].load() is DinoKMeans


def test_logits_are_negative_squared_distances_by_loops(model):
    images = images_of(Squares(2))
    features = model.backbone(images)
    logits = model.part_logits(images)
    for image in range(2):
        for row in range(4):
            for column in range(4):
                feature = features[image, :, row, column]
                feature = feature / feature.norm()
                distances = [float((feature - centre).square().sum()) for centre in model.parts]
                distances.append(min(float((feature - centre).square().sum()) for centre in model.background))
                expected = [-distance / (2 * model.variance) for distance in distances]
                assert logits[image, :, row, column].tolist() == pytest.approx(expected, rel=1e-3, abs=1e-2)


def test_distance_maps_of_the_centre_itself_are_zero():
    features = torch.nn.functional.normalize(torch.randn(2, 8, 3, 3), dim=1)
    maps = squared_distance_maps(features, features[0, :, 1, 2][None])
    assert maps.shape == (2, 1, 3, 3)
    assert abs(float(maps[0, 0, 1, 2])) < 1e-6


def test_attention_of_the_class_token_is_the_one_of_the_last_block(backbone):
    images = images_of(Squares(2))
    features, attention = features_and_attention(backbone, images)
    assert torch.allclose(features, backbone(images), atol=1e-5)
    seen: list[torch.Tensor] = []
    last = backbone.model.blocks[-1].attn
    with last.qkv.register_forward_hook(lambda _, inputs, output: seen.append(output)):
        backbone(images)
    query, key, _ = seen[0].reshape(2, 17, 3, last.num_heads, last.head_dim).permute(2, 0, 3, 1, 4)
    expected = (query[:, :, :1] @ key.transpose(-1, -2) * last.scale).softmax(-1)[:, :, 0, 1:].mean(1)
    assert torch.allclose(attention, expected, atol=1e-5)
    assert last.fused_attn == backbone.model.blocks[0].attn.fused_attn
    assert not last.attn_drop._forward_pre_hooks


def test_the_same_seed_gives_the_same_model(backbone, model):
    again = DinoKMeans.fit(backbone, Squares(), 3, SIZE, batch_size=5)
    assert torch.equal(again.parts, model.parts)
    assert torch.equal(again.background, model.background)


def test_unreadable_images_are_left_out(backbone):
    seen = []
    DinoKMeans.fit(backbone, Squares(6, broken=(0, 1)), 2, SIZE, batch_size=2,
                   progress=lambda *state: seen.append(state))
    assert seen == [("cluster features", 2, 6), ("cluster features", 4, 6), ("cluster features", 6, 6)]
    with pytest.raises(MPAEError, match="None of the 2 images to cluster can be read"):
        DinoKMeans.fit(backbone, Squares(2, broken=(0, 1)), 2, SIZE)


def test_too_many_parts_are_a_plain_error(backbone):
    with pytest.raises(MPAEError, match="too few for 500 parts; give more images or fewer parts"):
        DinoKMeans.fit(backbone, Squares(2), 500, SIZE)


def test_a_backbone_without_class_token_is_a_plain_error():
    vit = timm.create_model("test_vit", img_size=SIZE, num_classes=0, class_token=False, global_pool="avg")
    with pytest.raises(MPAEError, match="'plain' has no class token"):
        DinoKMeans.fit(FrozenViT(vit, "plain"), Squares(2), 2, SIZE)
