import naive
import pytest
import torch

from mpae.losses.perceptual import PerceptualNetwork
from mpae.losses.restoration import FEW, perceptual_loss, pixel_loss, restoration_loss

RELEASED, PAPER = (0.1, [0.5] * 5), (0.5, [0.1] * 5)


def images(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


@pytest.fixture
def network() -> PerceptualNetwork:
    torch.manual_seed(0)
    return PerceptualNetwork(width=2).double()


@pytest.mark.parametrize("size", [(16, 16), (16, 32), (37, 18)])
@pytest.mark.parametrize(("pixel", "layers"), [RELEASED, PAPER, (0.0, [0, 1.0, 0, 0.3, 0]), (1.0, [0] * 5)])
def test_restoration_loss_is_eq_3(network, size, pixel, layers):
    restored, target = images(2, 3, *size), images(2, 3, *size)
    expected = naive.restoration_loss(restored, target, network(restored), network(target), pixel, layers)
    terms = restoration_loss(restored, target, network, pixel, layers)
    assert terms["restoration"].item() == pytest.approx(expected)


def test_one_pixel():
    restored, target = images(1, 3, 1, 1), images(1, 3, 1, 1)
    assert pixel_loss(restored, target).item() == pytest.approx(naive.pixel_loss(restored, target))


def test_parts_are_named_and_add_up(network):
    terms = restoration_loss(images(1, 3, 16, 16), images(1, 3, 16, 16), network, *PAPER)
    assert set(terms) == {"pixel", "perceptual", "restoration"}
    torch.testing.assert_close(terms["restoration"], 0.5 * terms["pixel"] + terms["perceptual"])


def test_weight_0_leaves_a_part_out(network):
    restored, target = images(1, 3, 16, 16), images(1, 3, 16, 16)
    assert set(restoration_loss(restored, target, network, 0, [1.0] * 5)) == {"perceptual", "restoration"}
    assert set(restoration_loss(restored, target, None, 1, [0.0] * 5)) == {"pixel", "restoration"}


def test_zero_for_a_perfect_restoration(network):
    target = images(1, 3, 16, 16)
    assert restoration_loss(target.clone(), target, network)["restoration"].item() == 0


def test_layers_beyond_the_last_weight_are_not_computed(network):
    last = network.features[28]
    last.register_forward_hook(lambda *_: pytest.fail("conv5_1 was computed"))
    restoration_loss(images(1, 3, 8, 8), images(1, 3, 8, 8), network, 0.1, [1, 0, 0, 1, 0])


def test_gradcheck(network):
    target = images(1, 3, 16, 17)
    restored = images(1, 3, 16, 17).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: restoration_loss(x, target, network)["restoration"], restored, fast_mode=True)
    assert torch.autograd.gradcheck(lambda x: pixel_loss(x, target), restored)


AT_ONCE = FEW // 32**2  # images of 32 px that VGG sees together


@pytest.mark.parametrize("count", [1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE + 3])
def test_few_images_at_a_time_change_nothing(network, count):
    """Loss and gradient of all images at once, by autograd alone."""
    target = images(count, 3, 32, 32)
    restored = images(count, 3, 32, 32).requires_grad_()
    ours = restoration_loss(restored, target, network, 0.0, RELEASED[1])["restoration"]
    whole = perceptual_loss(network(restored), network(target), RELEASED[1])
    torch.testing.assert_close(ours, whole)
    gradients = [torch.autograd.grad(3 * loss, restored)[0] for loss in (ours, whole)]
    torch.testing.assert_close(*gradients)


def test_never_more_than_a_few_images_in_the_network(network):
    seen = []
    network.features[0].register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    restoration_loss(images(10, 3, 64, 64).requires_grad_(), images(10, 3, 64, 64), network)
    assert sum(seen) == 20
    assert max(seen) == FEW // 64**2 == 4


def test_target_pass_keeps_no_graph(network):
    target = images(1, 3, 16, 16).requires_grad_()
    terms = restoration_loss(images(1, 3, 16, 16).requires_grad_(), target, network, 0, [1.0] * 5)
    terms["restoration"].backward()
    assert target.grad is None


def test_half_precision_maps_are_compared_in_float32():
    ours, theirs = torch.rand(2, 3, 40, 40), torch.rand(2, 3, 40, 40)
    loss = perceptual_loss([ours.bfloat16()], [theirs.bfloat16()], [1.0])
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(naive.pixel_loss(ours.bfloat16(), theirs.bfloat16()), rel=1e-5)


def test_mistakes():
    with pytest.raises(ValueError, match="there is no network"):
        restoration_loss(images(1, 3, 16, 16), images(1, 3, 16, 16), None)
    with pytest.raises(ValueError, match=r"\(1, 3, 16, 16\) and target \(1, 3, 32, 32\)"):
        restoration_loss(images(1, 3, 16, 16), images(1, 3, 32, 32), None, perceptual=[0] * 5)
