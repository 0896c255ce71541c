"""How parts join, from contacts made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mpae.config import Config
from mpae.errors import MPAEError
from mpae.model.hierarchy import Hierarchy, contacts_of, find_hierarchy
from mpae.run import Run


def chain(*weights: float) -> torch.Tensor:
    """Contacts of parts in a row."""
    contacts = torch.zeros(len(weights) + 1, len(weights) + 1)
    for place, weight in enumerate(weights):
        contacts[place, place + 1] = contacts[place + 1, place] = weight
    return contacts


def test_contacts_by_hand() -> None:
    labels = torch.tensor([[[0, 1, 3], [0, 1, 2]]])  # 3 is the background
    assert contacts_of(labels, 3).tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]


def test_those_that_touch_most_join_first() -> None:
    found = find_hierarchy(chain(9, 1, 5))
    assert found.joins == ((1, 2), (3, 4))
    assert [found.part_of(number) for number in (4, 3, 2)] == [[0, 1, 2, 3], [0, 0, 1, 2], [0, 0, 1, 1]]


@pytest.mark.parametrize("seed", range(5))
def test_levels_are_nested_and_the_same_each_time(seed: int) -> None:
    contacts = torch.rand(12, 12, generator=torch.Generator().manual_seed(seed)).triu(1)
    found = find_hierarchy(contacts + contacts.T)
    assert found == find_hierarchy(contacts + contacts.T)
    for number in range(2, 12):
        fine, coarse = found.part_of(number + 1), found.part_of(number)
        assert sorted(set(coarse)) == list(range(number))
        assert len(set(zip(fine, coarse, strict=True))) == number + 1  # each finer part lies in one coarser


def test_a_part_that_no_image_shows_is_joined_first() -> None:
    contacts = torch.zeros(5, 5)
    contacts[:4, :4] = chain(4, 4, 4)
    assert find_hierarchy(contacts).joins[0] == (1, 5)
    assert len(find_hierarchy(torch.zeros(4, 4)).joins) == 2


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(MPAEError, match="has 4 parts, which cannot become 5; ask for 2 to 4"):
        find_hierarchy(chain(1, 1, 1)).part_of(5)
    with pytest.raises(MPAEError, match="cannot become 1"):
        find_hierarchy(chain(1, 1, 1)).part_of(1)
    with pytest.raises(MPAEError, match="has 2 parts, which are not joined"):
        find_hierarchy(chain(1)).part_of(1)


def test_the_file_is_of_the_weights_it_was_made_for(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", Config(), {})
    run.save_weights({"w": torch.zeros(1)}, {})
    found = find_hierarchy(chain(9, 1, 5))
    found.save(run)
    assert Hierarchy.load(run, 4) == found
    run.save_weights({"w": torch.ones(1)}, {})
    assert Hierarchy.load(run, 4) is None  # training went on
    for text in ("format: 1\njoins: [[1, 2], [2, 3]]\n", "format: 1\njoins: 3\n", "format: 2\n"):
        run.hierarchy_file.write_text(text)
        with pytest.raises(MPAEError, match="damaged or not mpae's"):
            Hierarchy.load(run, 4)
