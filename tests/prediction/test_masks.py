import tracemalloc

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mpae.prediction import masks
from mpae.prediction.masks import InterpolatedLogits, interpolation_axis, probabilities, segment

SIZES = [(1, 1), (7, 5), (16, 16), (50, 33), (300, 140), (3000, 2), (2, 700)]  # width, height


def random_logits(num_parts: int = 6, grid: tuple[int, int] = (4, 5), scale: float = 3.0) -> np.ndarray:
    generator = np.random.default_rng(num_parts)
    return generator.normal(size=(num_parts + 1, *grid)).astype(np.float32) * scale


def interpolated(logits: np.ndarray, size: tuple[int, int]) -> torch.Tensor:
    large = F.interpolate(torch.from_numpy(logits)[None].double(), size=size[::-1], mode="bilinear",
                          align_corners=False)
    return large[0]  # (K+1, H, W)


def labels(similarity: torch.Tensor) -> np.ndarray:
    background = len(similarity) - 1
    winner = similarity.argmax(0)
    return torch.where(winner == background, 0, winner + 1).numpy()


@pytest.mark.parametrize("size", SIZES)
def test_interpolated_logits_equal_the_papers_interpolated_features(size):
    """Matching is linear: the mask and its probabilities are those of features interpolated first."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(1, 16, 4, 5, generator=generator)
    descriptors = torch.randn(1, 7, 16, generator=generator)
    features_up = F.interpolate(features, size=size[::-1], mode="bilinear", align_corners=False)
    expected = torch.einsum("bkc,bchw->bkhw", descriptors, features_up).softmax(1)[0]

    logits = torch.einsum("bkc,bchw->bkhw", descriptors, features)[0].numpy()
    assert np.abs(probabilities(logits, size) - expected.numpy()).max() < 1e-5
    mask, _ = segment(logits, size)
    assert np.mean(mask == labels(expected)) > 0.9999


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", [0.0, 0.1, 3.0, 100.0])  # all channels contend, ..., hardly any does
def test_mask_and_measures_equal_a_plain_reading(size, scale):
    logits = random_logits(scale=scale)
    similarity = interpolated(logits, size).softmax(0)
    expected = labels(similarity)
    mask, present = segment(logits, size)
    assert mask.shape == size[::-1]
    assert mask.dtype == np.uint8
    assert np.mean(mask == expected) > 0.999
    assert [part.index for part in present] == [k for k in np.unique(mask) if k]
    for part in present:
        rows, columns = np.nonzero(mask == part.index)
        assert part.area == len(rows)
        assert part.share == pytest.approx(len(rows) / mask.size)
        assert part.centre == pytest.approx((columns.mean() + 0.5, rows.mean() + 0.5))
        assert part.box == (columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1)
        certainty = similarity[part.index - 1].numpy()[rows, columns].mean()
        assert part.confidence == pytest.approx(certainty, abs=1e-4)


def test_pruning_drops_only_what_is_negligible():
    logits = random_logits(num_parts=20, scale=10.0)
    grid = InterpolatedLogits(logits, (400, 400))
    similarity = probabilities(logits, (400, 400))
    dropped = 0
    for y, x in grid.tiles():
        absent = np.setdiff1d(np.arange(21), grid.contenders(y, x))
        dropped += len(absent)
        assert similarity[absent, y, x].sum(axis=0).max(initial=0) < 21e-6
    assert dropped > 0


def test_tiles_cover_every_pixel_once():
    grid = InterpolatedLogits(random_logits(), (1000, 333))
    times = np.zeros((333, 1000), dtype=int)
    for y, x in grid.tiles():
        times[y, x] += 1
        assert y.stop - y.start <= masks.TILE
        assert x.stop - x.start <= masks.TILE
    assert (times == 1).all()


def test_equal_logits_go_to_the_first_part():
    mask, present = segment(np.zeros((4, 3, 3), dtype=np.float32), (10, 10))
    assert (mask == 1).all()
    assert present[0].confidence == pytest.approx(0.25)


def test_background_alone_has_no_parts():
    logits = random_logits()
    logits[-1] += 1000
    mask, present = segment(logits, (40, 30))
    assert not mask.any()
    assert present == []


def test_interpolation_weights_are_those_of_torch():
    for pixels, grid in [(1, 1), (1, 9), (9, 1), (224, 16), (5, 16), (2048, 37)]:
        expected = F.interpolate(torch.eye(grid)[None], size=pixels, mode="linear", align_corners=False)[0].T
        assert np.abs(interpolation_axis(pixels, grid).weights - expected.numpy()).max() < 1e-4


def test_255_parts_fit_and_256_do_not():
    logits = np.zeros((256, 1, 1), dtype=np.float32)
    logits[254] = 1
    assert segment(logits, (3, 3))[0].tolist() == [[255] * 3] * 3
    with pytest.raises(ValueError, match="256 parts do not fit"):
        segment(np.zeros((257, 1, 1), dtype=np.float32), (3, 3))


def test_logits_that_are_not_finite_are_refused():
    logits = random_logits()
    logits[0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        segment(logits, (3, 3))


def test_a_large_mask_needs_little_more_than_itself():
    logits = random_logits(num_parts=50, grid=(16, 16), scale=100.0)
    size = (3000, 1500)
    tracemalloc.start()
    try:
        mask, _ = segment(logits, size)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert mask.nbytes < peak < mask.nbytes + 20e6  # all logits at this size are 900 MB


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_joined_parts_are_the_union_of_their_members(scale):
    logits, size, part_of = scale * np.random.default_rng(3).standard_normal((6, 5, 7)), (150, 200), [0, 1, 0, 2, 1]
    every, (mask, present) = segment(logits, size)[0], segment(logits, size, part_of)
    assert np.array_equal(mask, np.array([0, 1, 2, 1, 3, 2], dtype=np.uint8)[every])
    maps = probabilities(logits, size, part_of)
    single = probabilities(logits, size)
    assert maps[0] == pytest.approx(single[0] + single[2], abs=1e-6)
    assert maps[3] == pytest.approx(single[5], abs=1e-6)
    for part in present:
        inside = mask == part.index
        assert part.area == inside.sum()
        assert part.confidence == pytest.approx(maps[part.index - 1][inside].mean(), abs=1e-4)
