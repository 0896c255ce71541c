import numpy as np
import pytest

from mpae.drawing.palette import BACKGROUND_COLOUR, linear_to_lab, mask_palette, part_colours, srgb_to_linear

# Machado, Oliveira and Fernandes (2009), severity 1, for linear light.
PROTANOPIA = np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                       [-0.003882, -0.048116, 1.051998]])
DEUTERANOPIA = np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                         [-0.011820, 0.042940, 0.968881]])


def smallest_distance(colours: np.ndarray, sight: np.ndarray | None = None) -> float:
    linear = srgb_to_linear(colours)
    if sight is not None:
        linear = (linear @ sight.T).clip(0, 1)
    lab = linear_to_lab(linear)
    distances = np.linalg.norm(lab[:, None] - lab, axis=-1)
    return distances[~np.eye(len(lab), dtype=bool)].min()


def test_lab_of_known_colours():
    lab = linear_to_lab(srgb_to_linear(np.array([[255, 255, 255], [0, 0, 0], [255, 0, 0]])))
    assert lab == pytest.approx(np.array([[100, 0, 0], [0, 0, 0], [53.24, 80.09, 67.20]]), abs=0.02)


def test_fifty_parts_are_told_apart_and_none_is_lost_on_black():
    colours = np.vstack([[BACKGROUND_COLOUR], part_colours(50)])
    assert smallest_distance(colours) > 25  # 10 is a clear difference of two areas side by side


@pytest.mark.parametrize("sight", [None, PROTANOPIA, DEUTERANOPIA], ids=["full", "protanopia", "deuteranopia"])
def test_eight_parts_suit_the_common_colour_blindness(sight):
    assert smallest_distance(part_colours(8), sight) > 34


@pytest.mark.parametrize("num_parts", [0, 1, 4, 8, 9, 25, 255])
def test_a_part_has_one_colour_whatever_the_number_of_parts(num_parts):
    colours = part_colours(num_parts)
    assert colours.shape == (num_parts, 3)
    assert colours.dtype == np.uint8
    assert np.array_equal(colours, part_colours(255)[:num_parts])


def test_mask_palette_begins_with_the_background():
    assert mask_palette(2) == bytes(BACKGROUND_COLOUR) + part_colours(2).tobytes()


def test_a_negative_number_of_parts_is_refused():
    with pytest.raises(ValueError, match="num_parts is -1"):
        part_colours(-1)
