"""Directions of frozen features that tell the place, found in rolled images and kept out of the 1x1 convolution."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tiny_run import tiny_settings
from torch import Tensor

from mpae.config import resolve
from mpae.data.sources.folder import FolderImages
from mpae.model import build_model
from mpae.model.places import place_directions, rolled
from mpae.run import Run
from mpae.training.fit import fit

SIDE = 8


def leaking(images: Tensor) -> Tensor:
    """Colours of 8 x 8 patches in channels 0 to 2; row and column in channels 3 and 4."""
    place = torch.linspace(-1, 1, SIDE)
    rows = place[:, None].expand(len(images), 1, SIDE, SIDE)
    columns = place[None, :].expand(len(images), 1, SIDE, SIDE)
    return torch.cat([F.avg_pool2d(images, images.shape[-1] // SIDE), rows, columns], dim=1)


def test_directions_are_those_that_tell_the_place_and_not_the_content() -> None:
    images = torch.rand(16, 3, 64, 64)
    images[:, :, :20] += 1  # a sky in every image is content, though always above
    found = place_directions(leaking, images, 2)
    assert found.shape == (5, 2)
    torch.testing.assert_close(found.T @ found, torch.eye(2))
    assert found[3:].square().sum() == pytest.approx(2, abs=0.02)


def test_rolled_images_lose_nothing() -> None:
    images = torch.rand(3, 3, 6, 6)
    moved = rolled(images, torch.Generator().manual_seed(1))
    assert not torch.equal(moved, images)
    torch.testing.assert_close(moved.flatten(1).sort().values, images.flatten(1).sort().values)


def test_a_model_that_forgets_directions_gives_what_it_would_of_features_without_them(tmp_path: Path) -> None:
    class Stub(torch.nn.Module):
        patch_size, dim = 7, 12

    model = build_model(resolve("laptop", None, tiny_settings(tmp_path) | {"data.image_size": 56}),
                        Stub())  # type: ignore[arg-type]
    directions = torch.linalg.qr(torch.randn(12, 3)).Q
    frozen = torch.randn(2, 12, 8, 8)
    without = frozen - torch.einsum("eq,fq,nfhw->nehw", directions, directions, frozen)
    with torch.no_grad():
        expected = model.compress(without)
        model.forget(directions)
        torch.testing.assert_close(model.compress(frozen), expected, atol=1e-5, rtol=1e-4)


def test_training_from_random_weights_stays_without_them(photos: Path, tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path) | {
        "model.num_parts": 3, "training.initial_parts": False, "loss.initial_parts": 0, "training.max_steps": 2,
        "loss.perceptual": [0, 0, 0, 0, 0], "cache.enabled": False}
    fit(resolve("laptop", None, settings), FolderImages(photos), tmp_path / "run")
    before = Run(tmp_path / "run").load_checkpoint()["optimizer"]["param_groups"]
    fit(resolve("laptop", None, settings | {"training.max_steps": 4}), FolderImages(photos), tmp_path / "run",
        resume=True)
    state = Run(tmp_path / "run").load_checkpoint()
    scales = [group["scale"] for group in state["optimizer"]["param_groups"]]
    assert scales == [group["scale"] for group in before]
    assert min(scales) < 0.9  # the 1x1 convolution was scaled, and its learning rate
    assert state["step"] == 4
    assert state["places"].shape[1] == 8
    weight = state["model"]["compress.weight"].flatten(1)
    assert (weight @ state["places"]).abs().max() < 1e-5 * weight.abs().max()
