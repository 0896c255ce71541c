"""Images set aside: what changed, when a run has come to rest, and errors at hidden patches alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mpae.config import resolve
from mpae.data.sources.in_memory import InMemoryImages
from mpae.losses.perceptual import PerceptualNetwork
from mpae.model import build_model
from mpae.model.masking import random_mask
from mpae.training.held import BETTER, PATIENCE, SHARE, STILL, Held, Look, at_hidden, changed, rests, set_aside


def test_every_image_is_trained_on_or_set_aside() -> None:
    source = pictures(100)
    seen, held = set_aside(source, 7)
    assert held is not None
    assert sorted(seen.names + held.names) == sorted(source.names)
    assert (len(seen), len(held)) == (93, 7)
    assert len(set_aside(source, 50)[1] or ()) == 10  # a tenth at most
    assert set_aside(source, 0) == (source, None)


def test_changed_by_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    before, now = (torch.randint(4, (3, 5, 6), generator=generator) for _ in range(2))  # 3 is the background
    pairs = [(a, b) for a, b in zip(before.flatten().tolist(), now.flatten().tolist(), strict=True) if (a, b) != (3, 3)]
    assert changed(before, now, 3) == pytest.approx(sum(a != b for a, b in pairs) / len(pairs))
    assert changed(now, now, 3) == 0
    assert changed(torch.full((1, 2, 2), 3), torch.full((1, 2, 2), 3), 3) == 0  # no part at all


def test_a_run_comes_to_rest_where_changes_are_small_or_nothing_gets_smaller() -> None:
    def changes(*values: float) -> list[Look]:
        return [Look(value, 1.0) for value in values]

    assert rests([]) == 0
    assert rests(changes(0.5, 0.4, 0.3, 0.2)) == 0
    assert rests(changes(0.5, STILL / 2)) == 1
    assert rests(changes(0.2, *[0.2] * PATIENCE)) == 1
    assert rests(changes(0.2, *[0.2] * (PATIENCE - 1), *[0.1] * PATIENCE)) == 0  # a smaller one came in time
    assert rests(changes(*[STILL / 2] * 3)) == 3
    assert rests(changes(0.2, *[0.2] * PATIENCE) * 2) == 2  # each rest begins anew


def test_a_run_goes_on_while_hidden_patches_are_restored_better() -> None:
    falling = [Look(0.2, 1.0 * (BETTER - 0.01) ** look) for look in range(20)]
    assert rests(falling) == 0
    assert rests([*falling, *[falling[-1]] * PATIENCE]) == 0  # after twenty looks it waits for longer
    assert rests([*falling, *[falling[-1]] * round(20 * SHARE / (1 - SHARE))]) == 1
    assert rests([Look(0.2, 1.0 * (1 + BETTER) / 2)] * (PATIENCE + 1)) == 1  # hardly less is not less


class Averages(nn.Module):
    patch_size, dim = 4, 3

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(images, 4)


def pictures(count: int) -> InMemoryImages:
    generator = torch.Generator().manual_seed(1)
    return InMemoryImages([torch.randint(256, (20, 24, 3), dtype=torch.uint8, generator=generator).numpy()
                         for _ in range(count)])


@pytest.mark.parametrize("pixels_per_patch", [4, 3])  # 16 px, and 12 px, which are too few for all of VGG
def test_a_look_tells_change_and_errors_and_goes_on_from_a_checkpoint(pixels_per_patch: int) -> None:
    config = resolve("laptop", overrides={
        "model.num_parts": 3, "model.dim": 16, "model.partformer_layers": 1, "data.image_size": 16,
        "model.partformer_size": 16, "model.pixels_per_patch": pixels_per_patch, "model.mask_ratio": 0.5})
    torch.manual_seed(0)
    model, network = build_model(config, Averages()).train(), PerceptualNetwork(width=2)
    held = Held(pictures(18), config, network)
    first = held.look(model)
    assert set(first) == {"held_pixel", "held_perceptual"}
    assert model.training
    held.note(first)
    later = Held(pictures(18), config, network, held.state_dict())
    second = later.look(model)
    assert second == first | {"held_changed": 0.0}
    later.note(second)
    assert ([look.change for look in later.looks], later.drops) == ([0.0], 1)
    assert Held(pictures(18), config, network, later.state_dict()).drops == 1


def test_visible_patches_do_not_count() -> None:
    target, mask = torch.rand(2, 3, 8, 8), random_mask(2, 16, 0.5)
    restored = at_hidden(torch.zeros_like(target), target, mask, 2, (4, 4))
    for image in range(2):
        for patch in range(16):
            row, column = 2 * (patch // 4), 2 * (patch % 4)
            cell = restored[image, :, row : row + 2, column : column + 2]
            expected = target[image, :, row : row + 2, column : column + 2]
            assert torch.equal(cell, torch.zeros_like(cell) if mask[image, patch] else expected)
