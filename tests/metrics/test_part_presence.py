"""Parts per image and how often each part appears."""

from __future__ import annotations

import math

import pytest
import torch

from mpae.metrics.presence import PartPresence, part_areas


def test_areas_count_every_pixel_of_every_image():
    labels = torch.randint(0, 4, (5, 7, 6))
    areas = part_areas(labels, 3)
    expected = [[int((image == part).sum()) for part in range(4)] for image in labels]
    assert areas.tolist() == expected


def test_presence_by_hand():
    labels = torch.tensor([[[0, 0], [2, 3]], [[0, 3], [3, 3]], [[3, 3], [3, 3]]])  # 3 is the background
    metric = PartPresence(3)
    metric.update(part_areas(labels[:1], 3))
    metric.update(part_areas(labels[1:], 3))
    result = metric.compute()
    assert float(result["parts_per_image"]) == 1.0
    assert result["frequency"].tolist() == [2 / 3, 0, 1 / 3]


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_without_images_it_is_not_a_number():
    assert math.isnan(float(PartPresence(3).compute()["parts_per_image"]))


def test_processes_add_up():
    areas = part_areas(torch.randint(0, 9, (6, 5, 5)), 8)
    one, first, second = PartPresence(8), PartPresence(8), PartPresence(8)
    one.update(areas)
    first.update(areas[0::2])
    second.update(areas[1::2])
    first.merge_state(second)
    assert torch.equal(first.compute()["frequency"], one.compute()["frequency"])
