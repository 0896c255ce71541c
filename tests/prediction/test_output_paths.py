import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpae.prediction.output_paths import ENDINGS, output_names, safe_path


def test_sub_folders_are_kept_and_the_extension_goes():
    assert output_names(["birds/heron.jpg", "birds/wren.jpg", "cat.PNG"]) == ["birds/heron", "birds/wren", "cat"]


@pytest.mark.parametrize(("names", "expected"), [
    (["a.jpg", "a.png"], ["a.jpg", "a.png"]),
    (["a.jpg", "A.png"], ["a.jpg", "A.png"]),  # one file where case is not told apart
    (["x/a.jpg", "y/a.png"], ["x/a", "y/a"]),
    (["a.jpg", "a.png", "a.jpg.png"], ["a.jpg", "a.png", "a.jpg.png"]),
    (["a", "a.jpg"], ["a", "a.jpg"]),
    (["b.jpg", "a.b.jpg"], ["b", "a.b"]),
])
def test_images_that_would_collide_keep_their_whole_name(names, expected):
    assert output_names(names) == expected


@pytest.mark.parametrize(("name", "expected"), [
    ("../../etc/passwd.png", "etc/passwd.png"), ("/etc/x.png", "etc/x.png"), ("a/../../b.png", "a/b.png"),
    ("C:\\photos\\a.png", "C_/photos/a.png"), ("./a//b.png", "a/b.png"), ("..", "image"),
    ("heron.png/a.jpg", "heron.png_/a.jpg"),
    ("a\nb\x00.png", "a_b_.png"), ("dots../a.png", "dots/a.png"), ("...png", "...png"),
])
def test_paths_stay_below_the_folder(name, expected):
    assert safe_path(name) == expected


def test_names_that_become_alike_are_told_apart():
    names = ["/a.jpg", "a.jpg", "../a.jpg", "A.JPG"]
    assert len({name.casefold() for name in output_names(names)}) == 4


def test_long_names_fit_the_file_system(tmp_path):
    names = ["a" * 246 + ".png", "a" * 245 + "b.png", "鳥" * 83 + ".png", os.fsdecode(b"\xff" * 250 + b".png")]
    files = output_names(names)
    assert len(set(files)) == 4
    for file in files:
        (tmp_path / f".{file}.jpg.1234567.part").write_text("fits")


steps = st.lists(st.sampled_from(["a", "A", "b", ".", "..", "/", "\\", ":", "\n", ".png", ".jpg", "_", " ", "é"]),
                 min_size=1, max_size=6).map("".join)


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
@given(st.lists(steps, unique=True, max_size=8))
def test_never_a_collision_and_never_an_escape(names):
    files = output_names(names)
    assert len({file.casefold() for file in files}) == len(names)
    for file in files:
        path = PurePosixPath(file)
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert Path("/out", *path.parts).resolve().is_relative_to("/out")
    folders = {parent.as_posix().casefold() for file in files for parent in PurePosixPath(file).parents}
    assert folders.isdisjoint(f"{file}{ending}".casefold() for file in files for ending in ENDINGS)
