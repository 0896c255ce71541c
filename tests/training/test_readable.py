"""A first look at the files of a folder."""

from __future__ import annotations

import pytest
from PIL import Image

from mpae.data.source import Picture, UnreadableImage
from mpae.errors import MPAEError
from mpae.training import readable
from mpae.training.readable import find_unreadable


class Files:
    """Some cannot be read; counts how many were asked for."""

    def __init__(self, count: int, broken: set[int]):
        self.names, self.broken, self.asked = [f"{number}.png" for number in range(count)], broken, 0

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Picture:
        self.asked += 1
        if index in self.broken:
            raise UnreadableImage("torn")
        return Picture(self.names[index], Image.new("RGB", (4, 4)), "0" * 16)


def quiet(*_: object) -> None:
    pass


def test_a_small_folder_is_read_whole() -> None:
    files = Files(100, {3, 70})
    assert find_unreadable(files, quiet) == {"3.png": "torn", "70.png": "torn"}
    assert files.asked == 100


def test_a_large_folder_is_read_for_some_seconds() -> None:
    files = Files(10_000, {3, 9_000})
    assert find_unreadable(files, quiet, seconds=0.0) == {"3.png": "torn"}
    assert files.asked == readable.CHUNK


def test_two_images_are_looked_for_as_long_as_it_takes() -> None:
    files = Files(500, set(range(450)))
    assert len(find_unreadable(files, quiet, seconds=0.0)) == 450


@pytest.mark.parametrize(("broken", "found"), [(set(range(5)), "no image"), (set(range(4)), "one image")])
def test_a_folder_without_two_pictures_is_told(broken: set[int], found: str) -> None:
    with pytest.raises(MPAEError, match=f"Of 5 images {found} can be read .the first: '0.png', torn.; training needs"):
        find_unreadable(Files(5, broken), quiet)
