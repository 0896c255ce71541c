from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pictures import draw_photo
from PIL import Image
from rich.console import Console
from tiny_run import make_tiny_run

from mpae.cli.show import UPPER_HALF, half_blocks, parts_table, png_file, print_parts, show
from mpae.errors import MPAEError
from mpae.prediction.parts import Part, Parts
from mpae.run import Run

Command = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_tiny_run(tmp_path_factory.mktemp("show") / "run")


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    draw_photo(0).save(tmp_path / "heron.jpg")
    return tmp_path / "heron.jpg"


def test_prints_a_table_and_writes_a_picture_beside_the_image(mpae: Command, run: Run, photo: Path) -> None:
    done = mpae("show", run, photo)
    assert done.returncode == 0, done.stderr
    assert "confidence" in done.stdout
    assert "part-01" in done.stdout
    assert UPPER_HALF not in done.stdout  # no terminal, no picture
    assert "\x1b" not in done.stdout
    assert done.stdout.endswith("heron-parts.png\n")
    assert sorted(path.name for path in photo.parent.iterdir()) == ["heron-parts.png", "heron.jpg"]
    with Image.open(photo.with_name("heron-parts.png")) as picture:
        assert picture.width >= 480
        assert picture.height > picture.width * 80 / 96  # the legend
    show(run.folder, photo, quiet=True)  # its own picture is replaced


def test_without_an_image_it_draws_one(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    show(run.folder, quiet=True)
    assert [path.name for path in tmp_path.iterdir()] == [f"{run.folder.name}-parts.png"]


def test_a_terminal_gets_the_picture_too() -> None:
    screen, photo = io.StringIO(), draw_photo(0)
    present = [Part(index, 8, 0.1, (1, 1), (0, 0, 2, 2), 0.5) for index in (1, 3)]
    print_parts(Console(file=screen, force_terminal=True, color_system="truecolor", width=60, height=30), photo,
                Parts("heron.jpg", np.ones((photo.height, photo.width), np.uint8), present, np.zeros((3, 4))))
    lines = [line for line in screen.getvalue().splitlines() if UPPER_HALF in line]
    assert len(lines) <= 24
    assert {line.count(UPPER_HALF) for line in lines} <= set(range(1, 61))
    assert "\x1b[38;2;" in lines[0]
    assert "part-03" in screen.getvalue()


def test_half_blocks_are_the_pixels_of_the_picture() -> None:
    pixels = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [9, 9, 9]]], dtype=np.uint8)
    text = half_blocks(Image.fromarray(pixels), columns=2, rows=5)
    assert text.plain == UPPER_HALF * 2
    styles = [span.style for span in text.spans]
    assert [tuple(style.color.triplet) for style in styles] == [(255, 0, 0), (0, 255, 0)]  # type: ignore[union-attr]
    assert [tuple(style.bgcolor.triplet) for style in styles] == [(0, 0, 255), (9, 9, 9)]  # type: ignore[union-attr]


@pytest.mark.parametrize("size", [(1, 1), (3000, 2), (2, 3000), (400, 300)])
def test_the_picture_fits_the_terminal_whatever_its_shape(size: tuple[int, int]) -> None:
    lines = half_blocks(Image.new("RGB", size), columns=70, rows=20).plain.splitlines()
    assert 1 <= len(lines) <= 20
    assert all(1 <= len(line) <= 70 for line in lines)


def test_an_image_without_parts_says_so() -> None:
    nothing = Parts("sky.jpg", np.zeros((2, 2), np.uint8), [], np.zeros((3, 4), np.float32))
    assert parts_table(nothing) == "This image shows no parts."


def test_the_current_folder_where_the_image_lies_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    assert png_file(Path("photos/heron.jpg")) == Path("heron-parts.png")  # no such folder
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    assert png_file(Path("photos/heron.jpg")) == Path("photos/heron-parts.png")


@pytest.mark.parametrize("content", [b"notes", "photo"])
def test_a_file_of_the_users_own_is_not_replaced(run: Run, photo: Path, content: bytes | str) -> None:
    taken = photo.with_name("heron-parts.png")
    if isinstance(content, bytes):
        taken.write_bytes(content)
    else:
        draw_photo(1).save(taken)
    before = taken.read_bytes()
    with pytest.raises(MPAEError, match="was not made by `mpae show`; choose another file with --out FILE"):
        show(run.folder, photo)
    assert taken.read_bytes() == before


MISTAKES = {
    "a folder": (".", "takes one image"),
    "no image": ("nowhere.jpg", "No such file"),
    "torn": ("torn.jpg", "Cannot read the image"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_gets_one_sentence(run: Run, tmp_path: Path, case: str) -> None:
    (tmp_path / "torn.jpg").write_bytes(b"\xff\xd8\xff")
    name, expected = MISTAKES[case]
    with pytest.raises(MPAEError, match=expected):
        show(run.folder, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["torn.jpg"]
