from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mpae.config import resolve
from mpae.errors import MPAEError
from mpae.model import MPAE, build_model, load_trainable
from mpae.model.masking import random_mask, random_window


class Averages(nn.Module):
    """A stand-in for a frozen ViT: each patch's mean colour, times fixed random weights."""

    patch_size, dim = 4, 6

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(6, 3), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        return torch.einsum("ec,bchw->behw", self.mix, nn.functional.avg_pool2d(images, 4))


def tiny(**values: object) -> MPAE:
    small = {"model.num_parts": 3, "model.dim": 16, "model.partformer_layers": 2, "model.partformer_heads": 2,
             "data.image_size": 16, "model.pixels_per_patch": 2}
    return build_model(resolve("laptop", overrides=small | values), Averages())


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.0])
def test_forward_gives_everything_the_objective_needs(ratio: float) -> None:
    model = tiny()
    output = model(torch.rand(2, 3, 16, 16), random_mask(2, 16, ratio))
    assert output.similarity.shape == (2, 4, 4, 4)
    assert output.descriptors.shape == (2, 4, 16)
    assert output.features.shape == (2, 16, 4, 4)
    assert output.restored.shape == output.target.shape == (2, 3, 8, 8)
    assert torch.allclose(output.similarity.sum(1), torch.ones(2, 4, 4))


def test_known_features_give_the_same_result() -> None:
    model, images, mask = tiny(), torch.rand(2, 3, 16, 16), random_mask(2, 16, 0.9)
    without, given = model(images, mask), model(images, mask, model.backbone(images))
    assert torch.equal(without.similarity, given.similarity)
    assert torch.equal(without.restored, given.restored)


def test_inference_agrees_with_training() -> None:
    model, images = tiny(), torch.rand(2, 3, 16, 16)
    maps = model.describe(images)
    output = model(images, random_mask(2, 16, 0.9))
    assert torch.allclose(maps.logits.softmax(1), output.similarity, atol=1e-6)
    assert torch.equal(maps.descriptors, output.descriptors)


def test_softened_logits_differ_as_asked_and_keep_their_order() -> None:
    model, images = tiny(), torch.rand(4, 3, 16, 16)
    before = model.part_logits(images)
    model.soften(images, model.backbone(images), 3.0)
    after = model.part_logits(images)
    assert after.std(dim=1).mean().item() == pytest.approx(3.0, rel=1e-4)
    assert torch.equal(after.argsort(dim=1), before.argsort(dim=1))


def test_larger_images_give_a_finer_map_and_the_same_descriptors() -> None:
    model, images = tiny(), torch.rand(2, 3, 32, 32)
    small = nn.functional.interpolate(images, (16, 16), mode="bilinear", antialias=True)
    maps = model.describe(images)
    assert maps.logits.shape == (2, 4, 8, 8)
    assert torch.equal(maps.descriptors, model.describe(small).descriptors)
    assert model.attention(images).shape == (2, 4, 4, 4)


def test_hidden_pixels_reach_the_restoration_only_through_descriptors() -> None:
    model, images = tiny(), torch.rand(1, 3, 16, 16)
    mask = torch.ones(1, 16, dtype=torch.bool)
    mask[0, 0] = False
    other = images.clone()
    other[:, :, 8:, 8:] = torch.rand(1, 3, 8, 8)  # hidden patches
    first, second = model.encoder(model.normalise(images), mask), model.encoder(model.normalise(other), mask)
    assert torch.equal(first, second)


def test_all_but_the_backbone_learns() -> None:
    model = tiny()
    before = model.backbone.mix.clone()
    output = model(torch.rand(2, 3, 16, 16), random_mask(2, 16, 0.5))
    (output.restored.square().mean() + output.similarity.square().mean()).backward()
    without = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert without == []
    assert model.backbone.mix.grad is None
    assert torch.equal(model.backbone.mix, before)
    assert not any(name.startswith("backbone") for name in model.trainable_state())


def test_attention_maps_have_the_grid() -> None:
    assert tiny().attention(torch.rand(2, 3, 16, 16)).shape == (2, 4, 4, 4)


def test_colours_are_in_range() -> None:
    model = tiny()
    image = torch.rand(1, 3, 8, 8)
    assert torch.allclose(model.colours(model.normalise(image)), image, atol=1e-6)


def test_image_size_names_the_nearest() -> None:
    with pytest.raises(MPAEError, match="image_size 18 is not a multiple of patch_size 4; use 16 or 20"):
        tiny(**{"data.image_size": 18})


def test_weights_of_version_0_1_bring_the_positions_of_then() -> None:
    """It wrote no fixed positions, and had the row in the first half of the channels."""
    model = tiny()
    weights = {name: value for name, value in model.trainable_state().items()
               if name not in ("encoder.positions", "decoder.positions")}
    column, row = model.decoder.positions.clone().chunk(2, dim=1)
    load_trainable(model, weights, "run")
    assert torch.equal(model.decoder.positions, torch.cat([row, column], dim=1))
    assert torch.equal(model.encoder.positions, model.decoder.positions)


@pytest.mark.parametrize(("pictures", "losses", "antialias"), [
    ("released", "released", False), ("released", "paper", True), ("ours", "released", True)])
def test_the_target_is_resized_as_the_reading_says(pictures: str, losses: str, antialias: bool) -> None:
    model = tiny(**{"data.reading": pictures, "loss.reading": losses})
    images, mask = torch.rand(2, 3, 16, 16), random_mask(2, 16, 0.5)
    expected = nn.functional.interpolate(model.normalise(images), (8, 8), mode="bilinear", antialias=antialias)
    assert torch.equal(model(images, mask).target, expected)


def test_partformer_sees_a_smaller_image_in_training_and_prediction() -> None:
    model, images = tiny(**{"model.partformer_size": 8}), torch.rand(2, 3, 16, 16)
    assert model.partformer.patch_positions.shape == (4, 16)
    small = model.normalise(nn.functional.interpolate(images, (8, 8), mode="bilinear", antialias=True))
    assert torch.equal(model.describe(images).descriptors, model.partformer(small))
    output = model(images, random_mask(2, 16, 0.5))
    assert torch.equal(output.descriptors, model.partformer(small))
    assert output.similarity.shape == (2, 4, 4, 4)  # of the backbone, as fine as ever
    assert model.attention(images).shape == (2, 4, 2, 2)


def test_a_partformer_size_that_is_no_multiple_of_the_patch_is_told() -> None:
    with pytest.raises(MPAEError, match=r"model\.partformer_size 10 is not a multiple of patch_size 4; use 8 or 12"):
        tiny(**{"data.image_size": 32, "model.partformer_size": 10})


def test_a_window_restores_what_lies_in_it() -> None:
    """With a decoder without layers each patch is restored alone: the window of the whole."""
    model, images, mask = tiny(), torch.rand(3, 3, 16, 16), random_mask(3, 16, 0.5)
    model.decoder.layers = nn.ModuleList()
    window = random_window(3, (4, 4), 2, torch.Generator().manual_seed(0))
    whole, part = model(images, mask), model(images, mask, window=window)
    for number, first in enumerate(window[:, 0].tolist()):
        top, left = 2 * (first // 4), 2 * (first % 4)  # two pixels a patch
        inside = (number, slice(None), slice(top, top + 4), slice(left, left + 4))
        assert torch.equal(part.target[number], whole.target[inside])
        assert torch.allclose(part.restored[number], whole.restored[inside], atol=1e-6)
    assert torch.equal(part.similarity, whole.similarity)
