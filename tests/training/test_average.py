"""The running mean of the weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mpae.training.average import WeightAverage


def walked(model: nn.Linear, average: WeightAverage, steps: int, first: int = 0) -> list[Tensor]:
    """The weights after each of some random steps, which the mean takes in."""
    generator, weights = torch.Generator().manual_seed(first), []
    for step in range(first, first + steps):
        with torch.no_grad():
            model.weight += torch.randn(model.weight.shape, generator=generator)
        average.update(step + 1)
        weights.append(model.weight.detach().clone())
    return weights


def test_the_mean_by_a_loop() -> None:
    model = nn.Linear(3, 2)
    mean, average = model.weight.detach().clone(), WeightAverage(model, 0.8)
    for step, weight in enumerate(walked(model, average, 60), start=1):
        decay = min(0.8, (1 + step) / (10 + step))
        mean = decay * mean + (1 - decay) * weight
    assert average.means["weight"].allclose(mean, atol=1e-5)


def test_it_is_lent_to_the_model_and_then_given() -> None:
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.9)
    last = walked(model, average, 5)[-1]
    mean = average.means["weight"].clone()
    with average.in_place():
        assert model.weight.equal(mean)
    assert model.weight.equal(last)
    average.adopt()
    assert model.weight.equal(mean)


def test_without_decay_and_of_frozen_weights_nothing_is_kept() -> None:
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    assert set(WeightAverage(model, 0.9).state_dict()) == {"weight"}
    average = WeightAverage(model, 0.0)
    last = walked(model, average, 3)[-1]
    average.adopt()
    assert model.weight.equal(last)
    assert not average.state_dict()


def test_it_goes_on_from_a_checkpoint() -> None:
    one, two = nn.Linear(3, 2), nn.Linear(3, 2)
    two.load_state_dict(one.state_dict())
    whole, first = WeightAverage(one, 0.9), WeightAverage(two, 0.9)
    walked(one, whole, 4), walked(one, whole, 4, first=4)
    walked(two, first, 4)
    later = WeightAverage(two, 0.9, {name: mean.clone() for name, mean in first.state_dict().items()})
    walked(two, later, 4, first=4)
    assert whole.means["weight"].equal(later.means["weight"])
