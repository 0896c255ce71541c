"""From logits and annotation to what the metrics count: labels, samples, part centres."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mpae.data.loading import Sample
from mpae.data.source import Annotation
from mpae.evaluation.evaluate import foreground_mask
from mpae.metrics.clustering import labels_at_keypoints, labels_of_pixels
from mpae.metrics.metric import FoundParts
from mpae.metrics.regression import part_centres, regression_samples
from mpae.prediction.masks import segment


def sample(**annotation) -> Sample:
    return Sample(5, "heron.jpg", np.zeros((8, 8, 3), dtype=np.uint8), (200, 100), annotation=Annotation(**annotation))


def found(samples: list[Sample], logits: torch.Tensor) -> FoundParts:
    return FoundParts(samples, logits, lambda place: foreground_mask(logits[place], samples[place].size))


def test_labels_are_the_largest_of_the_interpolated_logits():
    logits = torch.randn(2, 6, 7, 5)
    logits[0, :, 2:4] = 0  # ties go to the first, as argmax does
    parts = found([sample(), sample()], logits)
    large = F.interpolate(logits, (128, 128), mode="bilinear")
    assert torch.equal(parts.labels, large.argmax(1))
    assert torch.equal(parts.part_labels, large[:, :-1].argmax(1))


@pytest.mark.parametrize("size", [(1, 1), (37, 90), (256, 190)])
def test_the_foreground_is_that_of_the_predicted_mask(size):
    logits = 5 * torch.randn(9, 6, 6)
    assert np.array_equal(foreground_mask(logits, size).numpy(), segment(logits.numpy(), size)[0] > 0)


def test_samples_are_pixels_of_the_mask():
    mask = np.arange(128 * 128).reshape(128, 128).astype(np.uint8)
    labels, parts = torch.randint(0, 9, (128, 128)), torch.randint(0, 8, (128, 128))
    every, foreground, target = labels_of_pixels(sample(part_mask=mask), labels, parts)
    assert every is labels
    assert foreground is parts
    assert np.array_equal(target.numpy(), mask)
    assert all(values.numel() == 0 for values in labels_of_pixels(sample(), labels, parts))


def test_samples_are_visible_keypoints():
    points = np.array([[100.0, 50.0], [7.0, 7.0], [199.9, 0.1]])
    labels = torch.arange(128 * 128).reshape(128, 128)
    annotation = sample(keypoints=points, visible=np.array([True, False, True]))
    every, foreground, target = labels_at_keypoints(annotation, labels, labels + 1)
    assert target.tolist() == [0, 2]
    assert every.tolist() == [64 * 128 + 64, 127]
    assert foreground.tolist() == [64 * 128 + 65, 128]
    assert labels_at_keypoints(sample(), labels, labels)[2].numel() == 0


def test_keypoints_beyond_the_edge_have_label_0_as_in_the_released_program():
    probabilities = torch.rand(1, 5, 128, 128)
    points = np.array([[0, 0], [200, 100], [199.99, 99.99], [200, 50], [100, 100], [-5, 50], [1e6, -1e6], [3, 99.7],
                       [100.0, 101.0], [-0.7, 0], [-0.8, 0]], dtype=float)
    grid = torch.from_numpy(points / (200, 100) * 2 - 1).float().view(1, 1, -1, 2)
    read = F.grid_sample(probabilities, grid, mode="nearest", padding_mode="zeros", align_corners=False)[0, :, 0]
    every, foreground, _ = labels_at_keypoints(
        sample(keypoints=points), probabilities[0].argmax(0), probabilities[0, :-1].argmax(0))
    assert every.tolist() == read.argmax(0).tolist()
    assert foreground.tolist() == read[:-1].argmax(0).tolist()


def one_cell() -> torch.Tensor:
    """Part 0 in one cell of the grid, row 1 and column 2 of 4, background elsewhere."""
    logits = torch.full((1, 3, 4, 4), -50.0)
    logits[0, 0, 1, 2] = logits[0, 2] = 50.0
    logits[0, 2, 1, 2] = -50.0
    return logits


def test_centres_and_keypoints_are_in_shares_of_the_box():
    points, logits = np.array([[100.0, 25.0]]), one_cell()
    each, = regression_samples(found([sample(keypoints=points, box=(75.0, 7.5, 50.0, 70.0))], logits), "box")
    assert each.image == 5
    assert each.visible.tolist() == [True]
    assert each.centres[0] == pytest.approx([0.5, 0.25])
    assert each.keypoints[0] == pytest.approx([0.5, 0.25])
    assert each.active.tolist() == [True, False]
    assert regression_samples(found([sample(keypoints=points)], logits), "box") == []


def test_centres_of_faces_are_those_of_the_maps_at_128_pixels():
    points, logits = np.array([[100.0, 25.0]]), torch.randn(1, 3, 4, 4)
    each, = regression_samples(found([sample(keypoints=points)], logits), "eyes")
    large = F.interpolate(logits, (128, 128), mode="bilinear").softmax(1)
    assert each.centres == pytest.approx(part_centres(large)[0][0].numpy())
    assert each.centres != pytest.approx(part_centres(logits.softmax(1))[0][0].numpy(), abs=1e-3)
    assert each.keypoints[0] == pytest.approx([0.5, 0.25])


def test_centres_of_masks_are_the_mean_of_their_pixels():
    points, logits = np.array([[100.0, 25.0]]), torch.randn(1, 3, 9, 7)
    here = sample(keypoints=points, box=(0.0, 0.0, 200.0, 100.0))
    parts = FoundParts([here], logits, lambda place: torch.zeros(1), are_masks=True)
    each, = regression_samples(parts, "box")
    labels = logits[0].argmax(0).numpy()
    for part in range(2):
        rows, columns = np.nonzero(labels == part)
        assert each.centres[part] == pytest.approx([columns.mean() / 7, rows.mean() / 9])
    joined = FoundParts([here], logits, lambda place: torch.zeros(1), part_of=(0, 0), are_masks=True)
    rows, columns = np.nonzero(labels < 2)
    assert regression_samples(joined, "box")[0].centres[0] == pytest.approx([columns.mean() / 7, rows.mean() / 9])
