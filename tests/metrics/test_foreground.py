"""Foreground IoU: mean over images."""

from __future__ import annotations

import math

import pytest
import torch

from mpae.metrics.foreground import ForegroundIoU, foreground_iou, touches_border


def test_iou_by_hand():
    predicted = torch.tensor([[True, True], [False, False]])
    target = torch.tensor([[True, False], [True, False]])
    assert foreground_iou(predicted, target) == 1 / 3
    assert foreground_iou(target, target) == 1
    assert foreground_iou(~target, target) == 0
    assert foreground_iou(torch.zeros(2, 2).bool(), torch.zeros(2, 2).bool()) == 1


def test_sizes_must_agree():
    with pytest.raises(ValueError, match="differ in shape"):
        foreground_iou(torch.zeros(2, 3).bool(), torch.zeros(3, 2).bool())


def test_one_pixel_at_the_edge_touches_the_border():
    mask = torch.zeros(5, 7, dtype=torch.bool)
    mask[1:-1, 1:-1] = True
    assert not touches_border(mask)
    for row, column in ((0, 3), (-1, 3), (2, 0), (2, -1), (0, 0)):
        edge = torch.zeros(5, 7, dtype=torch.bool)
        edge[row, column] = True
        assert touches_border(edge)
    assert touches_border(torch.ones(1, 4, dtype=torch.bool))
    assert not touches_border(torch.zeros(1, 1, dtype=torch.bool))


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_mean_over_images_in_any_order_and_share():
    ious = torch.rand(101, dtype=torch.float64).tolist()
    one, first, second = ForegroundIoU(), ForegroundIoU(), ForegroundIoU()
    for iou in ious:
        one.update(iou)
    for iou in ious[::-2]:
        first.update(iou)
    for iou in ious[-2::-2]:
        second.update(iou)
    first.merge_state(second)
    assert first.compute() == one.compute()  # to the last bit
    assert one.compute() == pytest.approx(100 * sum(ious) / 101, abs=1e-6)
    assert math.isnan(ForegroundIoU().compute())
