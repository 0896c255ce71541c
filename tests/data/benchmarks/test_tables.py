"""Text tables: the forms that exist in official releases, and paths that may not lead out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpae.data.benchmarks.tables import SLIP, check_points, read_table, safe_name
from mpae.errors import MPAEError


@pytest.mark.parametrize(("text", "first_line"), [
    ("a 1 2\nb 3 4\n", 1), ("a 1 2\r\nb 3 4", 1), ("2\na 1 2\nb 3 4\n\n", 2),
    ("2\nname x y\na 1 2\nb 3 4\n", 3), ("name x y\na 1 2\nb 3 4\n", 2), ("2\nx y\n  a\t1   2 \nb 3 4\n", 3),
])
def test_headers_may_be_there_or_not(tmp_path: Path, text: str, first_line: int) -> None:
    (tmp_path / "t.txt").write_bytes(text.encode())
    table = read_table(tmp_path / "t.txt", "name x y", header=True)
    assert table.keys == ["a", "b"]
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])
    assert table.where(1) == f"'{tmp_path / 't.txt'}', line {first_line + 1}"


def test_rows_are_found_by_key_in_the_order_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("1 2 0.5\n1 1 0.25\n")
    table = read_table(tmp_path / "t.txt", "image part x", key_words=2)
    np.testing.assert_array_equal(table.values[table.rows(["1 1", "1 2"], Path("list.txt"))], [[0.25], [0.5]])


def test_empty_binary_and_absent_files(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(b"")
    assert read_table(tmp_path / "t.txt", "name x").values.shape == (0, 1)
    (tmp_path / "t.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MPAEError, match=r"t.txt' is not a text file."):
        read_table(tmp_path / "t.txt", "name x")
    with pytest.raises(MPAEError, match=r"^Cannot read '.*gone.txt': No such file"):
        read_table(tmp_path / "gone.txt", "name x")


@pytest.mark.parametrize("name", [
    "../a", "a/../../b", "/a", "\\a", "C:/a", "C:a", "..\\a", "", ".", "a\0b", "\ud800",
])
def test_paths_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(MPAEError, match=r"^here: .* is no path inside the dataset folder; refused\.$"):
        safe_name(name, "here")


@pytest.mark.parametrize(("name", "expected"), [
    ("a/b.jpg", "a/b.jpg"), ("a\\b.jpg", "a/b.jpg"), ("./a//b", "a/b"), ("a..b/é.jpg", "a..b/é.jpg"),
])
def test_paths_that_stay_inside_are_kept(name: str, expected: str) -> None:
    assert safe_name(name, "here") == expected


def test_points_may_slip_but_not_leave() -> None:
    slip = SLIP * 200
    check_points(np.array([[0.0, 0.0], [200 + slip, -slip]]), (200, 100), "a.jpg", ["line 1", "line 2"])
    with pytest.raises(MPAEError, match=r"^line 2: point \(221, 50\) lies outside 'a.jpg' of 200 x 100"):
        check_points(np.array([[0.0, 0.0], [201 + slip, 50]]), (200, 100), "a.jpg", ["line 1", "line 2"])
