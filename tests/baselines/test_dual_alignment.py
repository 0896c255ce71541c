"""Dual alignment: what is painted in a step, and constants that follow the grid."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

from mpae.backbones import FrozenViT
from mpae.baselines.dual_alignment import DualAlignment
from mpae.baselines.method import StepInput
from mpae.config import resolve

PATCH, SIDE = 14, 6


def made(**values: Any) -> DualAlignment:
    vit = timm.create_model("vit_small_patch14_reg4_dinov2", img_size=PATCH * SIDE, dynamic_img_size=True,
                            embed_dim=32, depth=1, num_heads=2)
    chosen = {"data.image_size": PATCH * SIDE, "model.num_parts": 3, "model.dim": 32, "model.partformer_layers": 1}
    return DualAlignment(resolve("laptop", None, chosen | values), FrozenViT(vit, "tiny"))


def step() -> StepInput:
    nothing = torch.empty(0)
    return StepInput(nothing, nothing, {}, torch.Generator().manual_seed(0))


def same_colour_in_a_patch(images: int) -> Tensor:
    """(B, 3, S, S), one random colour for each patch."""
    return torch.rand(images, 3, SIDE, SIDE).repeat_interleave(PATCH, 2).repeat_interleave(PATCH, 3)


@pytest.mark.parametrize("window", [None, 2, 4, SIDE])
def test_what_is_painted_is_compared_with_the_same_place_of_the_image(window: int | None) -> None:
    model = made(**{"model.window": window})
    sizes: list[tuple[int, int]] = []

    def paint(mixed: Tensor) -> Tensor:
        sizes.append(tuple(mixed.shape[2:]))  # type: ignore[arg-type]
        return mixed.repeat_interleave(4, 2).repeat_interleave(4, 3)

    model.paint = nn.Identity()
    model.paint.forward = paint  # type: ignore[assignment, method-assign]
    images = same_colour_in_a_patch(5)
    mixed = model.normalise(images)[:, :, ::PATCH, ::PATCH]  # what the mixture would be if it knew every colour
    error, other = (model.reconstruction(mixed.roll(shift, dims=3), images, step()) for shift in (0, 1))
    assert sizes == [(window or SIDE,) * 2] * 2
    assert error < 0.3 * other  # not nothing: resizing mixes colours at the edges of patches


def test_vgg_weighs_as_published_whatever_mpae_has() -> None:
    assert made().layers == pytest.approx((0.1, 0.1, 0.1, 0.1, 0.0))  # `laptop` leaves out relu5_1
    assert made(**{"loss.perceptual": None}).layers == pytest.approx((0.1,) * 5)
    assert made(**{"loss.perceptual": (0.0,) * 5}).layers == (0.0,) * 5


@pytest.mark.parametrize(("dataset", "published"), [("cub", 0.5), ("celeba", 2.0), ("folder", 1.5)])
def test_a_part_is_asked_for_the_same_share_of_the_image_on_every_grid(dataset: str, published: float) -> None:
    assert made(**{"data.dataset": dataset}).epsilon == pytest.approx(published * SIDE**2 / 32**2)
