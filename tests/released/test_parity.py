"""Numbers of the released program, recorded by running it: our model with its weights gives the same.

tests/released/*.safetensors hold weights under its own names, inputs, outputs, every loss and every gradient. In place
of VGG's five layers stand five average pools of the images, with windows of 1, 2, 4, 8 and 16. The recorded decoder
has one attention head; the published ones, four times as wide, have four.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional

from mpae.config import LossSettings, resolve
from mpae.export.released import BACKBONE, UNUSED, from_released, to_released
from mpae.losses import Objective, PerceptualNetwork
from mpae.model import MPAE, build_model, load_trainable
from mpae.model.masking import num_visible
from mpae.model.matching import part_logits
from mpae.model.mpae import MPAEOutput
from mpae.model.partformer import PartFormer
from mpae.model.restoration import Decoder, VisibleEncoder

HERE = Path(__file__).parent
CASES = sorted(path.stem for path in HERE.glob("released_*.safetensors"))


class Averages(PerceptualNetwork):
    """The recorded stand-in for VGG."""

    def forward(self, images: Tensor, layers: int = 5) -> list[Tensor]:
        return [functional.avg_pool2d(images, 2**layer) for layer in range(layers)]


class NoBackbone(nn.Module):
    """The frozen features are recorded too."""

    patch_size, dim = 14, 48


@dataclass
class Case:
    tensors: dict[str, Tensor]
    model: MPAE
    output: MPAEOutput
    losses: dict[str, Tensor]

    def some(self, prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in self.tensors.items() if name.startswith(prefix)}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """A recorded case: the model with its weights, one pass forward and one backward."""
    with safe_open(HERE / f"{request.param}.safetensors", "pt") as file:
        facts, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    partformer = json.loads(facts["partformer"])
    group, ratio = int(facts["group"]), float(facts["mask_ratio"])
    parts, dim, side = int(facts["parts"]), partformer["width"], int(facts["image_size"]) // 14
    model = MPAE(NoBackbone(), PartFormer(parts, 14, (side, side), dim, partformer["layers"], partformer["heads"]),
                 VisibleEncoder(14, (side, side), dim, layers=2, heads=4),
                 Decoder((side, side), dim, layers=2, heads=1, pixels_per_patch=int(facts["pixels_per_patch"])), dim)
    recorded = {name.removeprefix("weight."): tensor for name, tensor in tensors.items() if name.startswith("weight.")}
    load_trainable(model, from_released(recorded), request.param)
    noise = tensors["input.noise"]
    mask = torch.ones_like(noise, dtype=torch.bool)
    mask.scatter_(1, noise.argsort(dim=1)[:, : num_visible(noise.shape[1], ratio)], False)
    output = model(tensors["input.images"] * model.std + model.mean, mask, tensors["input.frozen"])
    settings = LossSettings(reading="released", vgg="vgg19")
    losses = Objective(settings, group, Averages(width=1))(output, output.target)
    losses["total"].backward()
    return Case(tensors, model, output, losses)


def relative(found: Tensor, expected: Tensor) -> float:
    """The largest difference, as a share of the largest value."""
    return ((found - expected).abs().max() / expected.abs().max()).item()


@torch.no_grad()
def known_to(case: Case) -> float:
    """1e-5; but a logit of 2,000, as in the sparse case, is known in float32 to 1e-4 only, and its softmax no better:
    two processors round it differently."""
    largest = part_logits(case.output.descriptors, case.output.features).abs().max().item()
    return max(1e-5, largest * torch.finfo(torch.float32).eps)


def test_three_cases_are_recorded() -> None:
    assert CASES == ["released_k4", "released_k8", "released_sparse"]


@pytest.mark.parametrize("name", ["descriptors", "features", "similarity", "restored"])
def test_outputs(case: Case, name: str) -> None:
    assert relative(getattr(case.output, name), case.tensors[f"output.{name}"]) < 1e-5


def test_the_target_of_the_restoration(case: Case) -> None:
    assert relative(case.output.target, case.tensors["input.small"]) < 1e-5


def test_prediction(case: Case) -> None:
    """The released program interpolates features, we interpolate logits: a linear map, so the same."""
    expected = case.tensors["output.prediction_x4"]
    with torch.no_grad():
        logits = part_logits(case.output.descriptors, case.output.features)
        found = functional.interpolate(logits, scale_factor=4, mode="bilinear").softmax(dim=1)
    assert relative(found, expected) < known_to(case)
    assert torch.equal(found.argmax(dim=1), expected.argmax(dim=1))


@pytest.mark.parametrize("name", ["foreground", "background", "restoration", "variation", "entropy", "semantic",
                                  "total"])
def test_losses(case: Case, name: str) -> None:
    """The entropy rests on small probabilities, which are known as well as the largest logit is: see `known_to`."""
    exact = known_to(case) if name == "entropy" else 1e-5
    assert case.losses[name].item() == pytest.approx(case.tensors[f"loss.{name}"].item(), rel=exact)


def test_gradients(case: Case) -> None:
    found = to_released({name: parameter.grad for name, parameter in case.model.named_parameters()})
    expected = case.some("grad.")
    assert found.keys() == expected.keys()
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    for name, gradient in expected.items():
        size = gradient.abs().max().item()
        assert size > 0, name
        # Some sums of large terms are small; rounding is as large as the terms are.
        assert (found[name] - gradient).abs().max().item() < 1e-4 * size + 1e-7 * largest, name


def test_the_table_of_names_reads_both_ways(case: Case) -> None:
    recorded = case.some("weight.")
    back = to_released(from_released(recorded))
    assert back.keys() == recorded.keys() - set(UNUSED)
    assert all(torch.equal(tensor, recorded[name]) for name, tensor in back.items())


def test_the_table_has_every_name_of_the_published_files() -> None:
    shapes = json.loads((HERE / "keys_cub_k16.json").read_text())
    theirs = {name: torch.zeros(shape) for name, shape in shapes.items()} | {f"{BACKBONE}norm.weight": torch.ones(768)}
    config = resolve("paper", None, {"data.dataset": "cub", "model.num_parts": 16})
    backbone = NoBackbone()
    backbone.dim = 768
    model = build_model(config, backbone)
    assert {name: tensor.shape for name, tensor in from_released(theirs).items()} == {
        name: tensor.shape for name, tensor in model.trainable_state().items()}
