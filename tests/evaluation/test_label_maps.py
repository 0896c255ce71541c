"""Labels, foreground and part centres from logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mpae.data.loading import Sample
from mpae.data.source import Annotation
from mpae.evaluation.label_maps import annotated_samples, foreground_mask, keypoint_samples, part_labels
from mpae.prediction.masks import segment


def sample(**annotation) -> Sample:
    return Sample(index=5, name="five.jpg", pixels=np.zeros((8, 8, 3), dtype=np.uint8), size=(200, 100),
                  annotation=Annotation(**annotation))


def test_labels_are_the_largest_of_the_interpolated_logits():
    logits = torch.randn(2, 6, 7, 5)
    logits[0, :, 2:4] = 0  # ties go to the first, as argmax does
    labels, parts = part_labels(logits, 32)
    large = F.interpolate(logits, (32, 32), mode="bilinear")
    assert torch.equal(labels, large.argmax(1))
    assert torch.equal(parts, large[:, :-1].argmax(1))


@pytest.mark.parametrize("size", [(1, 1), (37, 90), (256, 190)])
def test_the_foreground_is_that_of_the_predicted_mask(size):
    logits = 5 * torch.randn(9, 6, 6)
    assert np.array_equal(foreground_mask(logits, size).numpy(), segment(logits.numpy(), size)[0] > 0)


def test_samples_are_pixels_of_the_mask_or_visible_keypoints():
    mask = np.arange(128 * 128, dtype=np.int64).reshape(128, 128).astype(np.uint8)
    where, target = annotated_samples(sample(part_mask=mask), masks=True)
    assert torch.zeros(128, 128)[where].shape == target.shape == (128, 128)
    points = np.array([[100.0, 50.0], [7.0, 7.0], [199.9, 0.1]])
    visible = np.array([True, False, True])
    (rows, columns), target = annotated_samples(sample(keypoints=points, visible=visible), masks=False)
    assert target.tolist() == [0, 2]
    assert rows.tolist() == [64, 0]
    assert columns.tolist() == [64, 127]
    assert annotated_samples(sample(), masks=False)[1].numel() == 0
    assert annotated_samples(sample(keypoints=points), masks=True)[1].numel() == 0


def test_centres_and_keypoints_are_in_shares_of_the_box():
    logits = torch.full((1, 3, 4, 4), -50.0)
    logits[0, 0, 1, 2] = logits[0, 2] = 50.0  # part 0 in one cell of the grid, row 1 and column 2 of 4
    logits[0, 2, 1, 2] = -50.0
    points = np.array([[100.0, 25.0]])
    found, = keypoint_samples([sample(keypoints=points, box=(75.0, 7.5, 50.0, 70.0))], logits, "box")
    assert found.image == 5
    assert found.visible.tolist() == [True]
    assert found.centres[0] == pytest.approx([0.5, 0.25])
    assert found.keypoints[0] == pytest.approx([0.5, 0.25])
    assert found.active.tolist() == [True, False]
    whole, = keypoint_samples([sample(keypoints=points)], logits, "eyes")
    assert whole.centres[0] == pytest.approx([0.5, 0.25]) == whole.keypoints[0]
    assert keypoint_samples([sample(keypoints=points)], logits, "box") == []
