import naive
import pytest
import torch

from mpae.config import LossSettings
from mpae.losses.initial_parts import initial_parts_loss
from mpae.losses.objective import Objective
from mpae.model import MPAEOutput


def maps(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).softmax(1)


def test_against_a_loop():
    similarity, initial_parts = maps(2, 4, 3, 5), maps(2, 4, 3, 5)
    expected = naive.initial_parts_loss(similarity, initial_parts)
    assert initial_parts_loss(similarity, initial_parts).item() == pytest.approx(expected)


def test_a_probability_of_zero_is_finite_and_has_a_gradient():
    logits = torch.tensor([200.0, 0.0]).view(1, 2, 1, 1).requires_grad_()
    initial_parts = torch.tensor([0.0, 1.0]).view(1, 2, 1, 1)
    loss = initial_parts_loss(logits.softmax(1), initial_parts)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_gradcheck():
    logits, initial_parts = torch.randn(2, 3, 2, 2, dtype=torch.float64, requires_grad=True), maps(2, 3, 2, 2)
    assert torch.autograd.gradcheck(lambda x: initial_parts_loss(x.softmax(1), initial_parts), logits)


def test_the_objective_has_the_term_where_training_began_with_parts():
    objective = Objective(LossSettings(restoration=0, initial_parts=3.0), 2, None)
    image = torch.zeros(2, 3, 8, 8)
    output = MPAEOutput(maps(2, 4, 5, 5).float(), torch.randn(2, 4, 6), torch.randn(2, 6, 5, 5), image, image)
    initial_parts = maps(2, 4, 5, 5).float()
    without, with_them = objective(output, image), objective(output, image, initial_parts)
    assert "initial_parts" not in without
    term = with_them["initial_parts"].item()
    assert term == pytest.approx(initial_parts_loss(output.similarity, initial_parts).item())
    assert with_them["total"].item() == pytest.approx(without["total"].item() + 3 * term, rel=1e-5)
