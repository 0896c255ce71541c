import naive
import pytest
import torch

from mpae.losses.border import border_prior


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 1, 1), (3, 4, 2, 2), (2, 3, 1, 6), (1, 3, 3, 3)])
def test_border_prior(shape):
    similarity = torch.randn(shape, dtype=torch.float64).softmax(1)
    assert border_prior(similarity).item() == pytest.approx(naive.border_prior(similarity))


def test_only_the_outermost_ring_counts():
    similarity = torch.zeros(1, 3, 5, 6)
    similarity[:, -1] = 1
    similarity[0, :, 1:-1, 1:-1] = torch.tensor([1.0, 0, 0])[:, None, None]
    assert border_prior(similarity).item() == 0
    similarity[0, :, 0, 2] = torch.tensor([0, 1.0, 0])
    assert border_prior(similarity).item() == pytest.approx(1 / 18)


def test_gradcheck():
    logits = torch.randn(2, 3, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: border_prior(x.softmax(1)), logits)
