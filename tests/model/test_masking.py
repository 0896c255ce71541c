from __future__ import annotations

import pytest
import torch

from mpae.model.masking import gather_tokens, num_visible, patchify, random_mask, unpatchify, visible_positions


@pytest.mark.parametrize(("height", "width", "patch"), [(28, 28, 14), (12, 20, 4), (3, 9, 3)])
def test_unpatchify_undoes_patchify(height: int, width: int, patch: int) -> None:
    images = torch.rand(2, 3, height, width)
    patches = patchify(images, patch)
    assert patches.shape == (2, height // patch * (width // patch), 3 * patch**2)
    assert torch.equal(unpatchify(patches, patch, (height // patch, width // patch)), images)


def test_patches_run_row_by_row() -> None:
    images = torch.arange(2 * 2 * 4 * 6.0).reshape(1, 4, 4, 6)[:, :3]
    patches = patchify(images, 2)
    for n in range(6):
        row, column = divmod(n, 3)
        expected = images[0, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        assert torch.equal(patches[0, n], expected.flatten())


def test_patchify_refuses_a_size_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="not a multiple of patch_size 14"):
        patchify(torch.rand(1, 3, 30, 28), 14)


@pytest.mark.parametrize(("patches", "ratio", "visible"), [
    (256, 0.9, 25), (1024, 0.9, 102), (100, 0.9, 10), (10, 0.7, 3), (256, 1.0, 0), (256, 0.0, 256)])
def test_num_visible(patches: int, ratio: float, visible: int) -> None:
    assert num_visible(patches, ratio) == visible


def test_random_mask_hides_the_same_number_anew_in_each_image() -> None:
    mask = random_mask(64, 100, 0.9, torch.Generator().manual_seed(1))
    assert mask.dtype == torch.bool
    assert torch.equal((~mask).sum(1), torch.full((64,), 10))
    assert len({tuple(row.tolist()) for row in mask}) == 64
    assert (~mask).float().mean(0).max() < 0.35  # no favourite patch
    assert torch.equal(mask, random_mask(64, 100, 0.9, torch.Generator().manual_seed(1)))


def test_visible_tokens_come_in_image_order() -> None:
    mask = torch.tensor([[True, False, True, False], [False, True, True, False]])
    positions = visible_positions(mask)
    assert positions.tolist() == [[1, 3], [0, 3]]
    tokens = torch.arange(8.0).reshape(2, 4, 1)
    assert gather_tokens(tokens, positions).flatten().tolist() == [1, 3, 4, 7]
    assert visible_positions(torch.ones(2, 4, dtype=torch.bool)).shape == (2, 0)
