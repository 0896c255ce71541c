"""Parts per image and how often each part appears."""

from __future__ import annotations

import pytest
import torch

from mpae.metrics.metric import Task
from mpae.metrics.presence import PartPresence, part_areas


def test_areas_count_every_pixel_of_every_image():
    labels = torch.randint(0, 4, (5, 7, 6))
    areas = part_areas(labels, 3)
    expected = [[int((image == part).sum()) for part in range(4)] for image in labels]
    assert areas.tolist() == expected


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_presence_by_hand():
    labels = torch.tensor([[[0, 0], [2, 3]], [[0, 3], [3, 3]], [[3, 3], [3, 3]]])  # 3 is the background
    metric = PartPresence(Task(3))
    metric.add(part_areas(labels[:1], 3))
    metric.add(part_areas(labels[1:], 3))
    assert metric.compute() == {"parts_per_image": 1.0}
    assert metric.frequency == pytest.approx([200 / 3, 0, 100 / 3])


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_without_images_there_is_no_figure():
    assert PartPresence(Task(3)).compute() == {"parts_per_image": None}


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_processes_add_up():
    areas = part_areas(torch.randint(0, 9, (6, 5, 5)), 8)
    one, first, second = PartPresence(Task(8)), PartPresence(Task(8)), PartPresence(Task(8))
    one.add(areas)
    first.add(areas[0::2])
    second.add(areas[1::2])
    first.merge_state(second)
    assert first.compute() == one.compute()
    assert first.frequency == one.frequency
