import naive
import pytest
import torch

from mpae.config import LossSettings
from mpae.losses.objective import Objective
from mpae.losses.seed import seed_loss
from mpae.model import MPAEOutput


def maps(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).softmax(1)


def test_seed_loss():
    similarity, seeds = maps(2, 4, 3, 5), maps(2, 4, 3, 5)
    assert seed_loss(similarity, seeds).item() == pytest.approx(naive.seed_loss(similarity, seeds))


def test_a_probability_of_zero_is_finite_and_has_a_gradient():
    logits = torch.tensor([200.0, 0.0]).view(1, 2, 1, 1).requires_grad_()
    seeds = torch.tensor([0.0, 1.0]).view(1, 2, 1, 1)
    loss = seed_loss(logits.softmax(1), seeds)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_gradcheck():
    logits, seeds = torch.randn(2, 3, 2, 2, dtype=torch.float64, requires_grad=True), maps(2, 3, 2, 2)
    assert torch.autograd.gradcheck(lambda x: seed_loss(x.softmax(1), seeds), logits)


def test_the_objective_has_the_term_where_there_are_seeds():
    objective = Objective(LossSettings(restoration=0, seed=3.0), 2, None)
    image = torch.zeros(2, 3, 8, 8)
    output = MPAEOutput(maps(2, 4, 5, 5).float(), torch.randn(2, 4, 6), torch.randn(2, 6, 5, 5), image, image)
    seeds = maps(2, 4, 5, 5).float()
    without, with_them = objective(output, image), objective(output, image, seeds)
    assert "seed" not in without
    assert with_them["seed"].item() == pytest.approx(seed_loss(output.similarity, seeds).item())
    assert with_them["total"].item() == pytest.approx(without["total"].item() + 3 * with_them["seed"].item(), rel=1e-5)
