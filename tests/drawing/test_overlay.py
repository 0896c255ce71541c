import numpy as np
import pytest
from PIL import Image

from mpae.drawing.overlay import (
    LARGEST,
    OPACITY,
    SMALLEST,
    inner_edge,
    overlay,
    paint_parts,
    preview_grid,
    viewing_size,
)
from mpae.drawing.palette import part_colours

GREY = (100, 100, 100)


def half_and_half(width: int = 200, height: int = 100, part: int = 3) -> np.ndarray:
    mask = np.zeros((height, width), dtype=np.uint8)
    mask[:, width // 2:] = part
    return mask


def test_background_is_untouched_parts_are_tinted_and_outlined():
    painted = np.asarray(paint_parts(Image.new("RGB", (200, 100), GREY), half_and_half()))
    colour = part_colours(3)[2]
    assert (painted[:, :100] == GREY).all()
    assert (painted[:, 100] == colour).all()  # the outline: the part's colour itself, inside the part
    mixture = np.array(GREY) * (1 - OPACITY) + colour * OPACITY
    assert np.abs(painted[:, 103:] - mixture).max() <= 2


def test_legend_names_only_the_parts_present():
    image = Image.new("RGB", (400, 200), GREY)
    colours = {tuple(colour) for colour in part_colours(5).tolist()}

    def swatches(mask: np.ndarray) -> set[tuple[int, ...]]:
        picture = overlay(image, mask)
        assert picture.width == 400
        assert picture.height > 200
        legend = np.asarray(picture)[200:].reshape(-1, 3)
        return {tuple(pixel) for pixel in np.unique(legend, axis=0).tolist()} & colours

    assert swatches(half_and_half(part=3)) == {tuple(part_colours(3)[2].tolist())}
    assert swatches(np.zeros((100, 200), dtype=np.uint8)) == set()


def test_overlay_takes_the_mask_at_the_photos_own_size():
    view = Image.new("RGB", (100, 50), GREY)
    large, small = (np.asarray(overlay(view, half_and_half(*size))) for size in [(6000, 3000), (100, 50)])
    assert np.array_equal(large, small)


@pytest.mark.parametrize("size", [(1, 1), (100, 75), (20, 3000), (30000, 20), (1000, 800)])
def test_any_size_can_be_looked_at(size):
    width, height = viewing_size(size)
    assert SMALLEST <= max(width, height) <= LARGEST
    assert min(width, height) >= 1
    picture = overlay(Image.new("RGB", (width, height), GREY), half_and_half(*size))
    assert picture.width >= width
    assert picture.height > height


def test_viewing_size_keeps_the_aspect_and_what_lies_between():
    assert viewing_size((1000, 800)) == (1000, 800)
    assert viewing_size((6000, 4000)) == (LARGEST, round(LARGEST * 2 / 3))
    assert viewing_size((100, 50)) == (SMALLEST, SMALLEST // 2)


def test_mask_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"mask has shape \(3, 4\), the image \(5, 6\)"):
        paint_parts(Image.new("RGB", (6, 5)), np.zeros((3, 4), dtype=np.uint8))


def test_grid_shows_each_picture_in_its_place():
    red, blue, small = (Image.new("RGB", size, colour) for size, colour in [
        ((60, 40), (255, 0, 0)), ((60, 40), (0, 0, 255)), ((30, 20), (0, 255, 0))])
    grid = preview_grid([[red, blue], [small]], titles=["image", "parts"])
    pixels = np.asarray(grid)
    for colour, count in [((255, 0, 0), 2400), ((0, 0, 255), 2400), ((0, 255, 0), 2400)]:
        assert (pixels == colour).all(-1).sum() == count  # the small one is drawn as wide as the others
    untitled = preview_grid([[red, blue], [small]])
    assert untitled.height < grid.height


def test_empty_grid_is_refused():
    with pytest.raises(ValueError, match="at least one picture"):
        preview_grid([])


def test_edge_is_the_inner_rim() -> None:
    inside = np.zeros((7, 7), dtype=bool)
    inside[1:6, 1:6] = True
    edge = inner_edge(inside, width=1)
    assert edge.sum() == 16
    assert not edge[3, 3]
    assert not edge[0].any()
