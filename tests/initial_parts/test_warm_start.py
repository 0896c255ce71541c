from __future__ import annotations

import torch

from mpae.config import resolve
from mpae.initial_parts.warm_start import (
    at_random_places,
    leading_directions,
    least_squares,
    logistic_regression,
    warm_start,
)
from mpae.model import build_model


class Stub(torch.nn.Module):
    patch_size, dim = 7, 12


def test_the_first_maps_are_those_of_the_seeds() -> None:
    config = resolve("laptop", None, {"data.image_size": 56, "model.num_parts": 3, "model.dim": 16,
                                      "model.partformer_layers": 2, "model.partformer_heads": 4})
    torch.manual_seed(0)
    model = build_model(config, Stub())  # type: ignore[arg-type]
    truth = torch.randint(4, (24, 8, 8))
    frozen = torch.randn(4, 12)[truth].permute(0, 3, 1, 2) * 3 + torch.randn(24, 12, 8, 8) * 0.1
    initial_parts = torch.nn.functional.one_hot(truth, 4).permute(0, 3, 1, 2).float()
    images = torch.rand(24, 3, 56, 56)
    warm_start(model, images[:16], frozen[:16], initial_parts[:16], seed=0)
    with torch.no_grad():
        guess = model.describe(images[16:], frozen[16:]).logits.argmax(1)
    assert (guess == truth[16:]).float().mean() > 0.98
    assert model.partformer.project.weight.requires_grad
    with torch.no_grad():
        descriptors = model.describe(images[16:], frozen[16:]).descriptors
    size = descriptors.square().mean().sqrt().item()  # what fills hidden patches, beside positions of size 0.7
    assert 0.8 < size < 1.2


def test_principal_directions_are_orthogonal_and_of_unit_mean_square() -> None:
    maps = torch.randn(6, 10, 5, 5) * torch.arange(1, 11).view(10, 1, 1)
    directions = leading_directions(maps, 4)
    product = directions @ directions.T
    assert torch.allclose(product, product.diagonal().diag(), atol=1e-5)
    values = torch.einsum("qe,nehw->nqhw", directions, maps)
    assert abs(values.square().mean().item() - 1) < 1e-4
    assert len(leading_directions(maps, 99)) == 10


def test_logistic_regression_tells_apart_what_can_be_told() -> None:
    centres = torch.eye(3) * 2
    label = torch.randint(3, (20, 5, 5))
    features = (centres[label] + 0.1 * torch.randn(20, 5, 5, 3)).permute(0, 3, 1, 2)
    weight = logistic_regression(features, torch.eye(3)[label].permute(0, 3, 1, 2), seed=0)
    assert ((centres @ weight.T).argmax(1) == torch.arange(3)).all()


def test_random_places_lie_between_positions() -> None:
    h, w = 4, 6
    rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    maps = torch.stack([rows, columns], dim=2).float().expand(3, -1, -1, -1) + 10 * torch.arange(3).view(3, 1, 1, 1)
    found = at_random_places(maps, 500, torch.Generator().manual_seed(0))  # row and column, each 10 more an image
    image = found[:, 0].div(10).floor()
    places = found - 10 * image[:, None]
    assert (image.unique() == torch.arange(3)).all()
    assert (places >= 0).all()
    assert (places <= torch.tensor([h - 1.0, w - 1.0])).all()
    assert (places - places.round()).abs().max() > 0.4  # and not only on them


def test_least_squares_gives_the_descriptors() -> None:
    outputs = torch.randn(1, 3, 8).expand(5, -1, -1) + 0.01 * torch.randn(5, 3, 8)
    descriptors = torch.randn(3, 8)
    assert torch.allclose(outputs @ least_squares(outputs, descriptors).T, descriptors.expand(5, -1, -1), atol=0.15)
