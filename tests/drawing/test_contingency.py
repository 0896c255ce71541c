"""The picture of the contingency table."""

from __future__ import annotations

import numpy as np

from mpae.drawing.contingency import CELL, FULL, column_order, draw_contingency, row_percent
from mpae.evaluation.result import Contingency


def test_percent_of_rows():
    assert row_percent(np.array([[1, 3], [0, 0]])).tolist() == [[25, 75], [0, 0]]


def test_columns_follow_the_rows_and_unused_parts_come_late():
    share = np.array([[0, 0, 90, 10], [0, 80, 5, 15.0]])
    assert column_order(share) == [2, 1, 0, 3]


def test_the_picture_has_a_dark_cell_where_they_agree():
    table = np.array([[100, 0, 0], [0, 0, 50]])
    picture = draw_contingency(Contingency(table, ["head", "tail"], ["part-01", "part-02", "background"]))
    pixels = np.asarray(picture)
    right = picture.width - 12 - CELL[0] + 4  # within the last column, the background's
    bottom = picture.height - 12 - CELL[1] + 4  # within the last row
    assert tuple(pixels[bottom, right]) == FULL
    assert tuple(pixels[bottom - CELL[1], right]) == (255, 255, 255)
    assert tuple(pixels[bottom - CELL[1], right - 2 * CELL[0]]) == FULL


def test_many_parts_and_long_names():
    table = np.random.default_rng(0).integers(0, 9, (41, 51))
    names = [f"a very long name of an annotated part {index}" for index in range(41)]
    parts = [f"part-{index:02d}" for index in range(1, 51)]
    picture = draw_contingency(Contingency(table, names, [*parts, "background"]))
    assert picture.width < 51 * CELL[0] + 300
