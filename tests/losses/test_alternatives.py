import naive
import pytest
import torch

from mpae.losses.alternatives import area_loss, batch_presence_loss, concentration_loss

SHAPES = [(3, 4, 4, 5), (1, 2, 1, 1), (2, 3, 2, 6), (2, 6, 3, 3)]
PAIRS = [(area_loss, naive.area_loss), (batch_presence_loss, naive.batch_presence_loss),
         (concentration_loss, naive.concentration_loss)]


@pytest.mark.parametrize(("loss", "reference"), PAIRS)
@pytest.mark.parametrize("shape", SHAPES)
def test_against_loops(loss, reference, shape):
    similarity = (2 * torch.randn(shape, dtype=torch.float64)).softmax(1)
    assert loss(similarity).item() == pytest.approx(reference(similarity))


@pytest.mark.parametrize("loss", [loss for loss, _ in PAIRS])
def test_gradcheck(loss):
    logits = torch.randn(2, 3, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: loss(x.softmax(1)), logits)


@pytest.mark.parametrize("loss", [loss for loss, _ in PAIRS])
def test_order_of_parts_does_not_matter(loss):
    similarity = torch.randn(3, 4, 4, 5, dtype=torch.float64).softmax(1)
    torch.testing.assert_close(loss(similarity[:, [2, 0, 1, 3]]), loss(similarity))


@pytest.mark.parametrize("background", [False, True])
def test_area_loss_with_other_settings_against_loops(background):
    similarity = (2 * torch.randn(3, 4, 4, 5, dtype=torch.float64)).softmax(1)
    assert area_loss(similarity, 0.5, background).item() == pytest.approx(naive.area_loss(similarity, 0.5, background))


def test_area_loss_wants_every_part_in_every_image():
    similarity = torch.zeros(1, 5, 4, 4)
    assert area_loss(similarity).item() == 4
    similarity[0, 0] = 1
    assert area_loss(similarity, epsilon=2.0).item() == pytest.approx(3 + 1 / 9)


def test_batch_presence_accepts_an_image_without_parts():
    similarity = torch.zeros(2, 3, 5, 5)
    similarity[0, 0, :, :3] = similarity[0, 1, :, -3:] = 1
    assert batch_presence_loss(similarity).item() == 0


def test_concentration_is_0_for_single_positions():
    similarity = torch.zeros(1, 3, 4, 4, dtype=torch.float64)
    similarity[0, 0, 1, 2] = similarity[0, 1, 3, 0] = 1
    assert concentration_loss(similarity).item() == pytest.approx(0, abs=1e-7)
    similarity[0, 1, 0, 0] = 1
    assert concentration_loss(similarity).item() > 0.1
