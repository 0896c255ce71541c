from dataclasses import dataclass
from typing import get_args

import pytest
import torch

from mpae.config import LossSettings
from mpae.losses import alternatives, border, distribution, presence, restoration, semantic
from mpae.losses.objective import LOSSES, SHORT_TITLES, TITLES, Loss, Objective
from mpae.losses.perceptual import PerceptualNetwork

EVERY_TERM = {"restoration", "pixel", "perceptual", "foreground", "background", "semantic", "variation",
              "entropy", "border", "total"}


@dataclass
class Output:
    similarity: torch.Tensor
    descriptors: torch.Tensor
    features: torch.Tensor
    restored: torch.Tensor

    def first(self, count: int) -> "Output":
        return Output(*(value[:count] for value in vars(self).values()))


def random_output(batch: int = 4, parts: int = 3) -> Output:
    return Output(torch.randn(batch, parts + 1, 5, 4).softmax(1), torch.randn(batch, parts + 1, 8),
                  torch.randn(batch, 8, 5, 4), torch.randn(batch, 3, 20, 16))


@pytest.fixture
def network() -> PerceptualNetwork:
    return PerceptualNetwork(width=2)


@pytest.mark.parametrize("reading", ["released", "paper"])
def test_total_is_the_weighted_sum(network, reading):
    settings = LossSettings(reading=reading, restoration=1.1, presence=0.9, foreground=0.7, background=1.3,
                            semantic=0.3, distribution=0.6, variation=1.2, entropy=0.8, border=2.0, scale=10,
                            margin=0.4)
    output, target = random_output(), torch.randn(4, 3, 20, 16)
    terms = Objective(settings, 2, network)(output, target)
    p = output.similarity
    pixel, layers = {"released": (0.1, [0.5] * 5), "paper": (0.5, [0.1] * 5)}[reading]
    expected = {
        **restoration.restoration_loss(output.restored, target, network, pixel, layers),
        "foreground": presence.foreground_loss(p, 2, reading),
        "background": presence.background_loss(p, reading),
        "semantic": semantic.semantic_loss(p, output.descriptors, output.features, 10, 0.4, reading),
        "variation": distribution.variation_loss(p),
        "entropy": distribution.entropy_loss(p, reading),
        "border": border.border_prior(p),
    }
    expected["total"] = (
        1.1 * expected["restoration"] + 0.9 * (0.7 * expected["foreground"] + 1.3 * expected["background"])
        + 0.3 * expected["semantic"] + 0.6 * (1.2 * expected["variation"] + 0.8 * expected["entropy"])
        + 2.0 * expected["border"])
    assert set(terms) == EVERY_TERM
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value, msg=name)


def test_settings_choose_the_weights_within_restoration(network):
    settings = LossSettings(pixel=0.3, perceptual=(0, 0, 2, 0, 0))
    output, target = random_output(), torch.randn(4, 3, 20, 16)
    expected = restoration.restoration_loss(output.restored, target, network, 0.3, (0, 0, 2, 0, 0))
    torch.testing.assert_close(Objective(settings, 2, network)(output, target)["restoration"],
                               expected["restoration"])


@pytest.mark.parametrize(("settings", "skipped"), [
    ({"restoration": 0}, {"restoration", "pixel", "perceptual"}),
    ({"presence": 0}, {"foreground", "background"}),
    ({"foreground": 0}, {"foreground"}),
    ({"background": 0}, {"background"}),
    ({"semantic": 0}, {"semantic"}),
    ({"distribution": 0}, {"variation", "entropy"}),
    ({"variation": 0}, {"variation"}),
    ({"entropy": 0}, {"entropy"}),
    ({"border": 0}, {"border"}),
    ({"pixel": 0}, {"pixel"}),
    ({"perceptual": (0, 0, 0, 0, 0)}, {"perceptual"}),
])
def test_weight_0_skips_its_term(network, monkeypatch, settings, skipped):
    for name in skipped & {"foreground", "background", "semantic", "variation", "entropy"}:
        monkeypatch.setattr(f"mpae.losses.objective.{name}_loss", lambda *_: pytest.fail("computed"))
    objective = Objective(LossSettings(**{"border": 1.0, **settings}), 2, network)
    terms = objective(random_output(), torch.randn(4, 3, 20, 16))
    assert set(terms) == EVERY_TERM - skipped
    assert terms["total"].isfinite()


def test_nothing_switched_on_gives_0():
    settings = LossSettings(restoration=0, presence=0, semantic=0, distribution=0)
    terms = Objective(settings, 2, None)(random_output(), torch.randn(4, 3, 20, 16))
    assert {name: value.item() for name, value in terms.items()} == {"total": 0}


def test_no_state_between_calls(network):
    objective = Objective(LossSettings(border=1.0), 4, network)
    output, target = random_output(8), torch.randn(8, 3, 20, 16)
    alone = Objective(LossSettings(border=1.0), 4, network)(output.first(3), target[:3])
    objective(output, target)
    after_larger_batch = objective(output.first(3), target[:3])
    assert alone.keys() == after_larger_batch.keys()
    assert all(torch.equal(alone[name], after_larger_batch[name]) for name in alone)


def test_gradient_reaches_the_model_and_not_the_network(network):
    output, target = random_output(), torch.randn(4, 3, 20, 16)
    for value in vars(output).values():
        value.requires_grad_()
    Objective(LossSettings(border=1.0), 2, network)(output, target)["total"].backward()
    assert all(value.grad.abs().sum() > 0 for value in vars(output).values())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_half_precision_is_summed_in_float32(network):
    output, target = random_output(), torch.randn(4, 3, 20, 16)
    objective = Objective(LossSettings(border=1.0), 2, network)
    expected = objective(output, target)
    halves = Output(*(value.bfloat16() for value in vars(output).values()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        terms = objective(halves, target)
    assert all(value.dtype == torch.float32 for value in terms.values())
    for name in EVERY_TERM:
        torch.testing.assert_close(terms[name], expected[name], rtol=0.05, atol=0.02, msg=name)


@pytest.mark.parametrize(("form", "loss"), [("area", alternatives.area_loss),
                                            ("batch", alternatives.batch_presence_loss)])
def test_foreground_form_of_table_6(network, form, loss):
    output, target = random_output(), torch.randn(4, 3, 20, 16)
    terms = Objective(LossSettings(foreground_form=form), 2, network)(output, target)
    torch.testing.assert_close(terms["foreground"], loss(output.similarity))


def test_settings_of_the_area_form(network):
    output, target = random_output(), torch.randn(4, 3, 20, 16)
    settings = LossSettings(foreground_form="area", area_epsilon=0.5, area_background=True)
    terms = Objective(settings, 2, network)(output, target)
    torch.testing.assert_close(terms["foreground"], alternatives.area_loss(output.similarity, 0.5, background=True))


def test_concentration_takes_the_place_of_variation_and_entropy(network):
    output, target = random_output(), torch.randn(4, 3, 20, 16)
    settings = LossSettings(distribution_form="concentration", restoration=0, presence=0, semantic=0)
    terms = Objective(settings, 2, network)(output, target)
    assert set(terms) == {"concentration", "total"}
    torch.testing.assert_close(terms["total"], 0.5 * alternatives.concentration_loss(output.similarity))


def test_every_loss_is_weighed_by_settings_that_exist():
    for loss in LOSSES:
        for name in loss.weight:
            assert isinstance(getattr(LossSettings(), name), float), f"config.LossSettings lacks {name}"
        if loss.form is not None:
            assert loss.form[1] in get_args(LossSettings.model_fields[loss.form[0]].annotation)


def test_a_line_in_the_registry_is_all_that_a_loss_needs(monkeypatch):
    added = Loss("mass", "mass of the first part", "mass", ("border",), lambda step: step.similarity[:, 0].mean())
    monkeypatch.setattr("mpae.losses.objective.LOSSES", (*LOSSES, added))
    output, target = random_output(), torch.randn(4, 3, 20, 16)
    settings = LossSettings(restoration=0, presence=0, semantic=0, distribution=0, border=3.0)
    terms = Objective(settings, 2, None)(output, target)
    assert set(terms) == {"border", "mass", "total"}
    torch.testing.assert_close(terms["total"], 3 * terms["border"] + 3 * output.similarity[:, 0].mean())


def test_titles_are_those_of_everything_that_is_logged(network):
    terms = Objective(LossSettings(border=1.0, initial_parts=1.0), 2, network)(
        random_output(), torch.randn(4, 3, 20, 16), torch.randn(4, 4, 5, 4).softmax(1))
    assert set(terms) <= set(TITLES)
    assert set(terms) - {"total", "pixel", "perceptual"} <= set(SHORT_TITLES)
