"""The plain reading is the package's reference: same weights, same losses, gradients and masks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mpae.cli.bench import load_benchmarks
from mpae.config import resolve
from mpae.losses import Objective, PerceptualNetwork
from mpae.model import MPAE, build_model
from mpae.model.masking import random_mask
from mpae.prediction.masks import segment

plain = load_benchmarks("plain")

SIZE, PATCH, GROUP = 32, 4, 2


class Averages(nn.Module):
    """A stand-in for a frozen ViT: each patch's mean colour, times fixed random weights."""

    patch_size, dim = PATCH, 6

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(6, 3), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        return torch.einsum("ec,bchw->behw", self.mix, nn.functional.avg_pool2d(images, PATCH) - 0.5)


def both(num_parts: int = 3):
    """Ours and plain with the same weights, in double precision."""
    config = resolve("paper", overrides={
        "model.num_parts": num_parts, "model.dim": 16, "model.partformer_layers": 3, "model.partformer_heads": 2,
        "data.image_size": SIZE, "model.pixels_per_patch": 2})
    backbone, vgg = Averages(), PerceptualNetwork(width=4)
    ours = build_model(config, backbone).double()
    reference = plain.PlainMPAE(config.model, backbone, SIZE).double()
    plain.copy_weights(ours, reference)
    objective = Objective(config.loss, GROUP, vgg).double()
    reference_objective = plain.PlainObjective(config.loss, GROUP, vgg).double()
    return ours, objective, reference, reference_objective


def batch() -> tuple[Tensor, Tensor]:
    return torch.rand(4, 3, SIZE, SIZE, dtype=torch.float64), random_mask(4, (SIZE // PATCH) ** 2, 0.75)


@pytest.mark.parametrize("num_parts", [1, 3, 7])
def test_same_losses(num_parts: int) -> None:
    ours, objective, reference, reference_objective = both(num_parts)
    images, mask = batch()
    output, expected_output = ours(images, mask), reference(images, mask)
    terms = objective(output, output.target)
    expected = reference_objective(expected_output, expected_output.target)
    for name, value in expected.items():
        assert terms[name].item() == pytest.approx(value.item(), rel=1e-6), name
    assert torch.allclose(output.restored, expected_output.restored, atol=1e-8)


def test_same_gradients() -> None:
    ours, objective, reference, reference_objective = both()
    images, mask = batch()
    for model, loss in ((ours, objective), (reference, reference_objective)):
        output = model(images, mask)
        loss(output, output.target)["total"].backward()
    gradients = {name: parameter.grad for name, parameter in reference.named_parameters() if parameter.requires_grad}
    assert gradients.keys() == {name for name, parameter in ours.named_parameters() if parameter.requires_grad}
    for name, parameter in ours.named_parameters():
        if parameter.requires_grad:
            expected = gradients[name].reshape(parameter.shape)
            assert expected.abs().max() > 0, name
            assert torch.allclose(parameter.grad, expected, rtol=1e-5, atol=1e-6 * expected.abs().max().item()), name


@pytest.mark.parametrize("size", [(48, 48), (40, 97)])
def test_same_masks(size: tuple[int, int]) -> None:
    ours, _, reference, _ = both()
    for model in (ours, reference):
        model.compress.weight.data *= 30  # a random model is sure of nothing
    images, _ = batch()
    height, width = size
    with torch.no_grad():
        logits = ours.part_logits(images)
    first, second = nn.functional.interpolate(logits, size, mode="bilinear").topk(2, dim=1).values.unbind(1)
    close = first - second < 1e-4  # (B, H, W): rounding decides
    for image, mask in enumerate(reference.masks(images, size)):
        found = torch.from_numpy(segment(logits[image], (width, height))[0])
        assert torch.equal(found[~close[image]], mask[~close[image]])
        assert close[image].float().mean() < 0.01
        assert len(mask.unique()) > 1


def test_weights_are_copied_not_shared() -> None:
    ours, _, reference, _ = both()
    ours.compress.weight.data.zero_()
    assert isinstance(ours, MPAE)
    assert reference.compress.weight.abs().max() > 0
