"""The bundled weights: their size, their names, and that they do what their fp16 originals do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mpae import assets
from mpae.assets import load_vgg19, load_vit_small
from mpae.backbones import FrozenViT, create_vit
from mpae.backbones.weights import load_weights
from mpae.data.augment import make_view
from mpae.data.images import read_picture
from mpae.errors import MPAEError


def test_together_at_most_40_megabytes():
    assert sum(file.stat().st_size for file in assets.FOLDER.glob("*.safetensors")) <= 40_000_000


def test_origin_and_licences_lie_beside_them():
    readme = (assets.FOLDER / "README.md").read_text(encoding="utf-8")
    for file in (assets.VIT_SMALL, assets.VGG19):
        assert file.name in readme
    assert "Apache License" in (assets.FOLDER / "LICENSE-DINOv2.txt").read_text(encoding="utf-8")
    assert "MIT License" in (assets.FOLDER / "LICENSE-VGG19.txt").read_text(encoding="utf-8")


def test_vit_is_a_whole_small_dinov2():
    weights = load_vit_small()
    assert weights["pos_embed"].shape == (1, 1 + 37 * 37, 384)
    assert sum(weight.numel() for weight in weights.values()) == 22_056_192
    assert all(weight.dtype == torch.float32 and weight.isfinite().all() for weight in weights.values())


def test_vgg_ends_with_conv5_1():
    weights = load_vgg19()
    layers = (0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28)
    assert set(weights) == {f"features.{layer}.{kind}" for layer in layers for kind in ("weight", "bias")}
    assert weights["features.0.weight"].shape == (64, 3, 3, 3)
    assert weights["features.28.weight"].shape == (512, 512, 3, 3)
    assert all(weight.dtype == torch.float32 and weight.isfinite().all() for weight in weights.values())


def test_a_damaged_file_is_one_sentence(tmp_path, monkeypatch):
    for content in (None, b"", assets.VGG19.read_bytes()[:5000]):
        file = tmp_path / "vgg.safetensors"
        if content is not None:
            file.write_bytes(content)
        monkeypatch.setattr(assets, "VGG19", file)
        with pytest.raises(MPAEError, match=r"missing or damaged; install mpae again\.$"):
            load_vgg19()


def test_vit_features_agree_with_fp16_on_photos(shared: Path):
    photos = sorted((shared / "data/cub_200_2011/images").rglob("*.jpg"))[::3000]
    pixels = [torch.tensor(make_view(read_picture(photo, photo.name), 0, 224)) for photo in photos]
    images = torch.stack(pixels).permute(0, 3, 1, 2).float() / 255  # (B, 3, 224, 224)
    original = load_file(shared / "weights/vit_small_patch14_dinov2.safetensors")

    cosine = torch.cosine_similarity(_features(original, images), _features(load_vit_small(), images), dim=1)
    assert cosine.mean() >= 0.9995
    assert cosine.min() >= 0.99


def test_vgg_weights_agree_with_fp16(shared: Path):
    original = load_file(shared / "weights/vgg19_features.safetensors")
    bundled = load_vgg19()
    assert set(bundled) == set(original)
    for name, weight in original.items():
        assert (bundled[name] - weight.float()).norm() <= 0.01 * weight.float().norm(), name


def _features(weights: dict[str, torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    model = create_vit("vit_small_patch14_dinov2.lvd142m", 224)
    load_weights(model, weights, "weights")
    return FrozenViT(model, "ViT-S/14")(images)
