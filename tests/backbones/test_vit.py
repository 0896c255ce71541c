"""FrozenViT: one dense map of any timm ViT, and never a trained one."""

from __future__ import annotations

import pytest
import timm
import torch

from mpae.backbones import NAMED
from mpae.backbones.vit import FrozenViT, at_once, fingerprint_of, same_weights

SMALL = {"embed_dim": 32, "depth": 2, "num_heads": 2}


def tiny(name: str = "vit_small_patch14_reg4_dinov2", size: int = 56) -> FrozenViT:
    return FrozenViT(timm.create_model(name, img_size=size, dynamic_img_size=True, **SMALL), name)


@pytest.mark.parametrize("architecture", NAMED.values())
def test_every_named_architecture_gives_a_map_at_224(architecture):
    dynamic = {} if "samvit" in architecture else {"dynamic_img_size": True}
    backbone = FrozenViT(timm.create_model(architecture, img_size=224, **SMALL, **dynamic), architecture)
    grid = 224 // backbone.patch_size
    with torch.no_grad():
        features = backbone(torch.rand(2, 3, 224, 224))
    assert features.shape == (2, backbone.dim, grid, grid)
    assert features.isfinite().all()


def test_features_are_the_normalised_patch_tokens_without_registers():
    model = timm.create_model("vit_small_patch14_reg4_dinov2", img_size=56, dynamic_img_size=True, **SMALL).eval()
    images = torch.rand(2, 3, 56, 56)
    mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).view(2, 3, 1, 1)
    with torch.no_grad():
        tokens = model.forward_features((images - mean) / std)  # (B, 1 + 4 + N, E)
    expected = tokens[:, 5:].transpose(1, 2).reshape(2, 32, 4, 4)

    torch.testing.assert_close(FrozenViT(model, "tiny")(images), expected)


def test_rows_and_columns_are_the_images():
    backbone = tiny()
    images = torch.rand(1, 3, 56, 84)
    changed = images.clone()
    changed[:, :, 42:, :14] = 0  # the lowest, leftmost patch
    assert backbone(images).shape == (1, 32, 4, 6)
    change = (backbone(changed) - backbone(images)).abs().sum(dim=1)[0]  # (h, w)
    assert divmod(int(change.argmax()), 6) == (3, 0)


def test_colours_are_normalised_as_the_backbone_wants():
    clip, dino = (FrozenViT(timm.create_model(name, **SMALL), name) for name in
                  (NAMED["clip-vitb16"], NAMED["dino-vits16"]))
    assert clip.mean.flatten().tolist() == pytest.approx([0.48145466, 0.4578275, 0.40821073])
    assert dino.mean.flatten().tolist() == pytest.approx([0.485, 0.456, 0.406])


def test_bfloat16_is_near_float32_and_kept_apart_from_it():
    model = timm.create_model("vit_small_patch14_dinov2", img_size=56, dynamic_img_size=True, **SMALL)
    images, merged = torch.rand(2, 3, 56, 56), torch.tensor([[True, False], [False, True]])
    exact = FrozenViT(model, "tiny")
    expected, expected_merged = exact(images), exact.forward_merged(images[:1], merged)
    fast = FrozenViT(model, "tiny", precision="bfloat16")
    for found, of in ((fast(images), expected), (fast.forward_merged(images[:1], merged), expected_merged)):
        assert found.dtype == torch.float32
        assert not torch.equal(found, of)
        assert torch.nn.functional.cosine_similarity(found, of, dim=1).min() > 0.999
    assert fast.fingerprint != exact.fingerprint
    assert same_weights(fast.fingerprint, exact.fingerprint)
    assert not same_weights(fast.fingerprint, "others")


def test_it_stays_frozen():
    backbone = FrozenViT(timm.create_model("test_vit", dynamic_img_size=True, drop_path_rate=0.9), "test_vit")
    images = torch.rand(2, 3, 64, 64)
    before = backbone(images)
    torch.nn.Sequential(backbone).train()
    after = backbone(images.requires_grad_())

    assert not any(module.training for module in backbone.modules())
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    assert not after.requires_grad
    torch.testing.assert_close(after, before)


def test_features_can_go_on_into_a_trained_layer():
    layer = torch.nn.Conv2d(32, 4, 1)
    layer(tiny()(torch.rand(1, 3, 56, 56))).sum().backward()
    assert layer.weight.grad is not None


def test_no_weights_are_kept_that_a_map_does_not_need():
    backbone = FrozenViT(timm.create_model("test_vit", num_classes=1000), "test_vit")
    assert not [name for name, _ in backbone.named_parameters() if "head" in name]


def test_sizes_that_cut_a_patch_are_refused():
    with pytest.raises(ValueError, match=r"56 x 60 px do not divide into patches of 14 px\."):
        tiny()(torch.rand(1, 3, 56, 60))


def test_what_is_no_vit_is_refused():
    with pytest.raises(ValueError, match="resnet is not a vision transformer"):
        FrozenViT(timm.create_model("test_resnet"), "resnet")


def test_fingerprint_tells_weights_shapes_names_and_architecture_apart():
    weights = {"a": torch.arange(4.0), "b": torch.zeros(2)}
    same = {"b": torch.zeros(2), "a": torch.arange(4.0)}
    assert fingerprint_of(weights, "vit") == fingerprint_of(same, "vit")
    others = [fingerprint_of({**weights, "a": torch.arange(4.0) + 1e-6}, "vit"),
              fingerprint_of({**weights, "a": torch.arange(4.0).view(2, 2)}, "vit"),
              fingerprint_of({**weights, "a": torch.arange(4.0).half()}, "vit"),
              fingerprint_of({"a": weights["a"], "c": weights["b"]}, "vit"),
              fingerprint_of(weights, "other")]
    assert len({fingerprint_of(weights, "vit"), *others}) == 6


def test_fingerprint_is_the_same_everywhere():
    weights = {"a": torch.arange(9.0).view(3, 3).t(), "b": torch.tensor(2, dtype=torch.int64)}
    assert fingerprint_of(weights, "vit") == "021554a95de5093527b58eaa4d9a85d7"


@pytest.mark.parametrize(("size", "images"), [(112, 4), (224, 4), (322, 1), (448, 1), (1036, 1)])
def test_large_images_go_in_fewer_at_once(size: int, images: int) -> None:
    assert at_once(size) == images


def test_nothing_merged_is_the_plain_map() -> None:
    backbone, image = tiny(), torch.rand(1, 3, 56, 84)
    torch.testing.assert_close(backbone.forward_merged(image, torch.zeros(2, 3, dtype=torch.bool)), backbone(image))


def test_four_equal_patches_are_one_token_that_counts_four_times() -> None:
    """Where the patches of a square and their positions are the same, merging them changes nothing at all."""
    backbone, image = tiny(), torch.rand(1, 3, 56, 84)
    merged = torch.tensor([[True, False, True], [False, True, False]])
    with torch.no_grad():
        backbone.model.pos_embed.zero_()
    for row, column in merged.nonzero().tolist():
        place = image[:, :, 28 * row : 28 * row + 28, 28 * column : 28 * column + 28]
        place.copy_(place[:, :, :14, :14].repeat(1, 1, 2, 2))
    torch.testing.assert_close(backbone.forward_merged(image, merged), backbone(image))


def test_a_merged_square_has_one_feature() -> None:
    backbone, merged = tiny(), torch.tensor([[False, True], [False, False]])
    found, plain = backbone.forward_merged(image := torch.rand(1, 3, 56, 56), merged), backbone(image)
    assert found.shape == plain.shape
    assert (found[0, :, :2, 2:] == found[0, :, :1, 2:3]).all()
    assert not torch.allclose(found, plain)


def test_other_kinds_of_vit_are_not_merged() -> None:
    assert tiny().can_merge
    assert not FrozenViT(timm.create_model(NAMED["sam-vitb16"], img_size=64, **SMALL), "sam").can_merge
