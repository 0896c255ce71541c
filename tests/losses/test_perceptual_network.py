import pytest
import torch
from torchvision.models.vgg import make_layers

from mpae.losses.perceptual import PerceptualNetwork

# torchvision's own layout of VGG-19, an eighth as wide.
SMALL_VGG19 = [8, 8, "M", 16, 16, "M", 32, 32, 32, 32, "M", 64, 64, 64, 64, "M", 64]


def test_same_maps_as_torchvision():
    reference = make_layers(SMALL_VGG19)
    weights = {f"features.{name}": value for name, value in reference.state_dict().items()}
    image = torch.randn(2, 3, 48, 40)
    maps = PerceptualNetwork.from_weights(weights)(image)
    assert [m.shape[1] for m in maps] == [8, 16, 32, 64, 64]
    for depth, values in zip((2, 7, 12, 21, 30), maps, strict=True):
        torch.testing.assert_close(values, reference[:depth](image), rtol=1e-4, atol=1e-5)


def test_names_and_sizes_are_those_of_vgg19():
    with torch.device("meta"):
        weights = PerceptualNetwork().state_dict()
    convolutions = (0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28)
    assert set(weights) == {f"features.{n}.{kind}" for n in convolutions for kind in ("weight", "bias")}
    assert weights["features.28.weight"].shape == (512, 512, 3, 3)


def test_frozen_while_the_image_gets_a_gradient():
    network = PerceptualNetwork(width=2)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    image = torch.randn(1, 3, 16, 16, requires_grad=True)
    optimiser = torch.optim.SGD([image, *network.parameters()], lr=1.0)
    sum(m.sum() for m in network(image)).backward()
    optimiser.step()
    assert image.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_loading_weights_draws_no_random_numbers():
    weights = PerceptualNetwork(width=2).state_dict()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    network = PerceptualNetwork.from_weights(weights)
    assert torch.equal(torch.rand(3), expected)
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_fewer_layers_are_the_first_of_all():
    network = PerceptualNetwork(width=2)
    image = torch.randn(1, 3, 16, 16)
    for layers in range(1, 6):
        maps = network(image, layers)
        assert len(maps) == layers
        assert all(torch.equal(a, b) for a, b in zip(maps, network(image), strict=False))


def test_too_small_image():
    with pytest.raises(ValueError, match=r"15 x 30 pixels is too small for 5 layers .* at least 16 x 16"):
        PerceptualNetwork(width=2)(torch.zeros(1, 3, 15, 30))
