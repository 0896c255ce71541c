from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from torch import nn

from mpae.backbones import FrozenViT, build_backbone
from mpae.baselines.dino_kmeans import DinoKMeans
from mpae.config import BackboneSettings, Precision, resolve
from mpae.data.augment import make_view
from mpae.data.sources.folder import FolderImages
from mpae.errors import MPAEError
from mpae.export.int8 import Int8Linear, quantised
from mpae.initial_parts.k_means import k_means
from mpae.model import MPAE, build_model


def tiny(precision: Precision = "float32") -> MPAE:
    vit = timm.create_model("vit_small_patch14_dinov2", num_classes=0, img_size=56, embed_dim=32, depth=2, num_heads=2)
    config = resolve("laptop", overrides={"model.num_parts": 3, "model.dim": 16, "data.image_size": 56})
    return build_model(config, FrozenViT(vit, "tiny", precision=precision)).eval()


@torch.no_grad()
def test_layer_is_near_its_original() -> None:
    linear = nn.Linear(64, 48)
    inputs = torch.randn(3, 5, 64)
    expected = linear(inputs)
    found = Int8Linear(linear)(inputs)
    assert found.shape == expected.shape
    assert found.dtype == torch.float32
    assert (found - expected).norm() / expected.norm() < 0.02


@torch.no_grad()
def test_a_huge_token_does_not_spoil_the_others() -> None:
    linear = nn.Linear(64, 48, bias=False)
    inputs = torch.randn(7, 64)
    inputs[3] *= 1000
    expected = linear(inputs)
    error = (Int8Linear(linear)(inputs) - expected).norm(dim=1) / expected.norm(dim=1)
    assert error.max() < 0.04


@torch.no_grad()
def test_an_empty_token_gives_the_bias() -> None:
    linear = nn.Linear(8, 4)
    assert torch.allclose(Int8Linear(linear)(torch.zeros(2, 8)), linear.bias.expand(2, 4))


@torch.no_grad()
def test_products_do_not_overflow() -> None:
    linear = nn.Linear(512, 4, bias=False)
    linear.weight.fill_(1.0)
    inputs = torch.linspace(-1, 1, 512)[None].repeat(2, 1)
    inputs[1] = 1.0
    assert Int8Linear(linear)(inputs)[1].tolist() == pytest.approx([512.0] * 4, rel=1e-2)


def test_only_the_backbone_of_the_copy_changes() -> None:
    model = tiny()
    images = torch.rand(2, 3, 56, 56)
    with torch.no_grad():
        before = model.part_logits(images)
        faster = quantised(model)
        assert torch.equal(model.part_logits(images), before)
        assert not torch.equal(faster.part_logits(images), before)
        assert torch.equal(faster.describe(images).descriptors, model.describe(images).descriptors)
    assert not any(isinstance(module, nn.Linear) for module in faster.backbone.modules())
    assert not any(isinstance(module, Int8Linear) for module in model.modules())
    assert faster.partformer.embed.weight is model.partformer.embed.weight  # nothing is held twice


def test_a_machine_without_int8_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with pytest.raises(MPAEError, match="leave out --int8"):
        quantised(tiny())


@torch.inference_mode()
def test_masks_agree_on_birds(shared: Path) -> None:
    root = shared / "data" / "cub_200_2011" / "images"
    names = [file.relative_to(root).as_posix() for file in sorted(root.glob("*/*.jpg"))[::1200]]
    photos = FolderImages(root, names)
    images = torch.stack([torch.tensor(make_view(photos[index], 0, 224)) for index in range(len(photos))])
    images = images.permute(0, 3, 1, 2).float() / 255
    backbone = build_backbone(BackboneSettings(), 224)
    features = nn.functional.normalize(backbone(images).flatten(2).transpose(1, 2).flatten(0, 1), dim=1)
    centres = torch.from_numpy(k_means(features.numpy(), 9, seed=0).centres)
    model = DinoKMeans(backbone, 224, parts=centres[:8], background=centres[8:], variance=1.0)
    labels, expected = (
        nn.functional.interpolate(each.part_logits(images), (128, 128), mode="bilinear").argmax(1)
        for each in (quantised(model), model))
    assert len(expected.unique()) > 4
    assert (labels == expected).float().mean() >= 0.98


@torch.no_grad()
def test_what_is_left_of_a_bfloat16_backbone_computes_in_float32() -> None:
    torch.manual_seed(0)
    exact = tiny()
    torch.manual_seed(0)
    images, fast = torch.rand(2, 3, 56, 56), tiny("bfloat16")
    fast.load_state_dict(exact.state_dict())
    torch.testing.assert_close(quantised(fast).part_logits(images), quantised(exact).part_logits(images))
    assert fast.get_submodule("backbone").precision == "bfloat16"
