import math

import naive
import pytest
import torch

from mpae.losses.distribution import entropy_loss, variation_loss

READINGS = ["released", "paper"]
SHAPES = [(2, 3, 4, 5), (1, 6, 3, 2), (3, 2, 1, 1), (2, 4, 1, 6)]


def random_similarity(*shape: int) -> torch.Tensor:
    return (2 * torch.randn(shape, dtype=torch.float64)).softmax(1)


@pytest.mark.parametrize("shape", SHAPES)
def test_variation_loss_is_eq_10(shape):
    similarity = random_similarity(*shape)
    assert variation_loss(similarity).item() == pytest.approx(naive.variation_loss(similarity))


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_entropy_loss_is_eq_11(shape, reading):
    similarity = random_similarity(*shape)
    assert entropy_loss(similarity, reading).item() == pytest.approx(naive.entropy_loss(similarity, reading))


def test_gradcheck():
    logits = torch.randn(2, 3, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: variation_loss(x.softmax(1)), logits)
    for reading in READINGS:
        assert torch.autograd.gradcheck(lambda x, r=reading: entropy_loss(x.softmax(1), r), logits)


def test_variation_is_0_for_constant_maps_and_only_for_them():
    similarity = random_similarity(2, 4, 1, 1).expand(2, 4, 5, 6).clone()
    assert variation_loss(similarity).item() == 0
    similarity[0, :2, 2, 3] += torch.tensor([0.1, -0.1])
    assert variation_loss(similarity).item() == pytest.approx(0.1 * 4 * 2 / (2 * 5 * 6))


@pytest.mark.parametrize("reading", READINGS)
def test_entropy_is_0_for_one_hot_and_largest_for_uniform(reading):
    one_hot = torch.nn.functional.one_hot(torch.randint(5, (2, 3, 4)), 5).movedim(-1, 1).double()
    uniform = torch.full((2, 5, 3, 4), 0.2, dtype=torch.float64)
    assert entropy_loss(one_hot, reading).item() == 0
    assert entropy_loss(uniform, "released").item() == pytest.approx(math.log(5))
    for _ in range(20):
        assert 0 < entropy_loss(random_similarity(2, 5, 3, 4), reading) < entropy_loss(uniform, reading)


def test_the_two_entropies_differ_by_positions_over_channels():
    similarity = random_similarity(2, 5, 3, 4)
    torch.testing.assert_close(entropy_loss(similarity, "paper"), entropy_loss(similarity) * 3 * 4 / 5)


@pytest.mark.parametrize("reading", READINGS)
def test_entropy_has_a_finite_gradient_where_the_softmax_is_0(reading):
    logits = torch.tensor([0.0, 500.0, -500.0]).view(1, 3, 1, 1).requires_grad_()
    similarity = logits.softmax(1)
    assert (similarity == 0).any()
    entropy_loss(similarity, reading).backward()
    assert logits.grad.isfinite().all()


def test_order_of_channels_does_not_matter():
    similarity = random_similarity(2, 5, 3, 4)
    permuted = similarity[:, [1, 4, 0, 3, 2]]
    torch.testing.assert_close(variation_loss(permuted), variation_loss(similarity))
    torch.testing.assert_close(entropy_loss(permuted), entropy_loss(similarity))


def test_loss_of_a_batch_is_the_mean_over_images_whatever_came_before():
    similarity = random_similarity(4, 3, 5, 4)
    for loss in (variation_loss, entropy_loss):
        whole = loss(similarity)  # a larger batch first: no normaliser may survive it
        each = torch.stack([loss(image[None]) for image in similarity])
        torch.testing.assert_close(whole, each.mean())
