"""Foreground IoU: mean over images."""

from __future__ import annotations

import pytest
import torch

from mpae.metrics.foreground import ForegroundIoU, foreground_iou, touches_border
from mpae.metrics.metric import Task

TASK = Task(3, has_foreground=True)


def test_iou_by_hand():
    predicted = torch.tensor([[True, True], [False, False]])
    target = torch.tensor([[True, False], [True, False]])
    assert foreground_iou(predicted, target) == 1 / 3
    assert foreground_iou(target, target) == 1
    assert foreground_iou(~target, target) == 0
    assert foreground_iou(torch.zeros(2, 2).bool(), torch.zeros(2, 2).bool()) == 1


def test_uncertain_pixels_count_neither_as_hit_nor_as_miss():
    generator = torch.Generator().manual_seed(0)
    predicted, target, uncertain = (torch.rand(9, 7, generator=generator) < share for share in (0.6, 0.5, 0.3))
    both = either = 0
    for row in range(9):
        for column in range(7):
            if not uncertain[row, column]:
                both += bool(predicted[row, column] and target[row, column])
                either += bool(predicted[row, column] or target[row, column])
    assert foreground_iou(predicted, target, uncertain) == both / either != foreground_iou(predicted, target)


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
    one, first, second = ForegroundIoU(TASK), ForegroundIoU(TASK), ForegroundIoU(TASK)
    for iou in ious:
        one.add(iou)
    for iou in ious[::-2]:
        first.add(iou)
    for iou in ious[-2::-2]:
        second.add(iou)
    first.merge_state(second)
    assert first.compute() == one.compute()  # to the last bit
    assert one.compute()["foreground_iou"] == pytest.approx(100 * sum(ious) / 101, abs=1e-6)
    assert ForegroundIoU(TASK).compute() == {"foreground_iou": None}
