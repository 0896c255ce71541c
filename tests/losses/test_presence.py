import math

import naive
import pytest
import torch

from mpae.losses.presence import background_loss, centre_distance, foreground_loss, smoothed

READINGS = ["released", "paper"]
# (B, K+1, h, w) and G: non-square, short last group, a single position, grids too small to average
SHAPES = [((4, 3, 4, 5), 2), ((6, 8, 3, 3), 3), ((5, 4, 7, 3), 2), ((1, 2, 1, 1), 1), ((3, 3, 2, 6), 8)]


def random_similarity(*shape: int) -> torch.Tensor:
    return (3 * torch.randn(shape, dtype=torch.float64)).softmax(1)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("shape", "group_size"), SHAPES)
def test_foreground_loss_is_eq_4(shape, group_size, reading):
    similarity = random_similarity(*shape)
    expected = naive.foreground_loss(similarity, group_size, reading)
    assert foreground_loss(similarity, group_size, reading).item() == pytest.approx(expected)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("shape", [shape for shape, _ in SHAPES])
def test_background_loss_is_eq_5(shape, reading):
    similarity = random_similarity(*shape)
    expected = naive.background_loss(similarity, reading)
    assert background_loss(similarity, reading).item() == pytest.approx(expected)


@pytest.mark.parametrize("size", [(1, 1), (1, 4), (5, 2), (5, 5), (6, 3)])
def test_centre_distance_is_eq_6(size):
    distance = centre_distance(*size, dtype=torch.float64)
    h, w = size
    expected = [[naive.centre_distance(i, j, h, w) for j in range(w)] for i in range(h)]
    torch.testing.assert_close(distance, torch.tensor(expected, dtype=torch.float64))
    assert distance[0, 0] == distance[-1, -1] == distance[0, -1] == distance.max() == 1


def test_centre_is_0():
    assert centre_distance(5, 7)[2, 3].item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("reading", READINGS)
def test_gradcheck(reading):
    logits = torch.randn(3, 3, 4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: foreground_loss(x.softmax(1), 2, reading), logits)
    assert torch.autograd.gradcheck(lambda x: background_loss(x.softmax(1), reading), logits)


@pytest.mark.parametrize("reading", READINGS)
def test_order_of_parts_does_not_matter(reading):
    similarity = random_similarity(4, 6, 5, 4)
    permuted = similarity[:, [3, 1, 4, 0, 2, 5]]
    torch.testing.assert_close(foreground_loss(permuted, 2, reading), foreground_loss(similarity, 2, reading))
    torch.testing.assert_close(background_loss(permuted, reading), background_loss(similarity, reading))


@pytest.mark.parametrize("reading", READINGS)
def test_foreground_loss_is_0_when_each_part_has_its_image(reading):
    similarity = torch.zeros(2, 3, 5, 5)
    similarity[0, 0] = similarity[1, 1] = 1
    assert foreground_loss(similarity, 2, reading).item() == 0
    assert foreground_loss(similarity, 1, reading).item() == 0.5  # alone, each image lacks the other's part


def test_foreground_loss_does_not_accept_the_background_as_a_part():
    similarity = torch.zeros(2, 3, 5, 5)
    similarity[:, -1] = 1
    assert foreground_loss(similarity, 2).item() == 2


def test_a_short_last_group_counts_as_much():
    similarity = random_similarity(5, 4, 5, 5)
    first, last = foreground_loss(similarity[:4], 4), foreground_loss(similarity[4:], 4)
    torch.testing.assert_close(foreground_loss(similarity, 4), (first + last) / 2)


@pytest.mark.parametrize("reading", READINGS)
def test_background_loss_is_0_when_the_background_is_certain_in_a_corner(reading):
    similarity = random_similarity(2, 4, 6, 7)
    similarity[:, :, :3, -3:] = 0
    similarity[:, -1, :3, -3:] = 1
    assert background_loss(similarity, reading).item() == pytest.approx(0, abs=1e-12)


def test_background_loss_in_one_position_is_for_the_paper_only():
    similarity = torch.full((1, 2, 5, 5), 0.5)
    similarity[0, :, 0, 0] = torch.tensor([0.0, 1.0])
    assert background_loss(similarity, "paper").item() == 0
    assert background_loss(similarity, "released").item() == pytest.approx(-math.log((1 + 8 * 0.5) / 9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reading", READINGS)
def test_background_loss_is_bounded_with_finite_gradient(dtype, reading):
    similarity = torch.zeros(2, 3, 5, 5, dtype=dtype, requires_grad=True)
    loss = background_loss(similarity, reading)
    loss.backward()
    assert loss.item() == 100
    assert similarity.grad.isfinite().all()


def test_background_loss_of_a_batch_is_the_mean_over_images():
    similarity = random_similarity(3, 4, 5, 5)
    each = torch.stack([background_loss(image[None]) for image in similarity])
    torch.testing.assert_close(background_loss(similarity), each.mean())


def test_smoothed_leaves_small_grids_alone():
    maps = torch.rand(2, 3, 2, 8)
    assert torch.equal(smoothed(maps), maps)
    assert smoothed(torch.rand(2, 3, 3, 8)).shape == (2, 3, 1, 6)


def test_group_size_0():
    with pytest.raises(ValueError, match="group_size is 0"):
        foreground_loss(random_similarity(2, 3, 4, 4), 0)
