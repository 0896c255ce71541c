"""How parts join, from means made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mpae.config import Config
from mpae.errors import MPAEError
from mpae.model.hierarchy import Hierarchy, find_hierarchy, means_of
from mpae.run import Run


def line(*places: float, unseen: int = 0) -> Hierarchy:
    """Of parts whose means lie on a line, all of them beside each other in ten images, and of some that are nowhere."""
    number = len(places) + unseen
    shown = torch.zeros(10, number, dtype=torch.bool)
    shown[:, : len(places)] = True
    return find_hierarchy(torch.tensor([*places, *[0.0] * unseen])[:, None], shown, 1 - torch.eye(number))


def test_those_that_are_alike_join_first() -> None:
    found = line(0, 1, 10, 12)
    assert found.joins == ((1, 2), (3, 4))
    assert [found.part_of(number) for number in (4, 3, 2)] == [[0, 1, 2, 3], [0, 0, 1, 2], [0, 0, 1, 1]]
    assert line(5, 0, 9, 1).joins == ((2, 4), (1, 3))


def test_means_by_a_loop() -> None:
    logits = torch.randn(3, 4, 5, 6)
    logits[1, 2] = -9  # part 2 is not in the second image
    means, shown = means_of(logits)
    for image in range(3):
        labels = logits[image].argmax(dim=0)
        for part in range(3):
            places = (labels == part).nonzero().tolist()
            assert bool(shown[image, part]) == bool(places)
            values = [logits[image, :3, y, x] - logits[image, :3, y, x].mean() for y, x in places] or [torch.zeros(3)]
            assert means[image, part].allclose(torch.stack(values).mean(dim=0), atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_levels_are_nested_and_the_same_each_time(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    told = (torch.randn(12, 4, generator=random), torch.rand(30, 12, generator=random) < 0.7,
            torch.rand(12, 12, generator=random))
    found = find_hierarchy(*told)
    assert found == find_hierarchy(*told)
    for number in range(2, 12):
        fine, coarse = found.part_of(number + 1), found.part_of(number)
        assert sorted(set(coarse)) == list(range(number))
        assert len(set(zip(fine, coarse, strict=True))) == number + 1  # each finer part lies in one coarser


def test_a_part_that_no_image_shows_is_joined_first() -> None:
    assert line(3, 4, 8, 20, unseen=1).joins[0] == (1, 5)
    assert len(line(unseen=4).joins) == 2


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(MPAEError, match="has 4 parts, which cannot become 5; ask for 2 to 4"):
        line(0, 1, 2, 3).part_of(5)
    with pytest.raises(MPAEError, match="cannot become 1"):
        line(0, 1, 2, 3).part_of(1)
    with pytest.raises(MPAEError, match="has 2 parts, which are not joined"):
        line(0, 1).part_of(1)


def test_the_file_is_of_the_weights_it_was_made_for(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", Config(), {})
    run.save_weights({"w": torch.zeros(1)}, {})
    found = line(0, 1, 10, 12)
    found.save(run)
    assert Hierarchy.load(run, 4) == found
    run.save_weights({"w": torch.ones(1)}, {})
    assert Hierarchy.load(run, 4) is None  # training went on
    for text in ("format: 1\njoins: [[1, 2], [2, 3]]\n", "format: 1\njoins: 3\n", "format: 2\n"):
        run.hierarchy_file.write_text(text)
        with pytest.raises(MPAEError, match="damaged or not mpae's"):
            Hierarchy.load(run, 4)
