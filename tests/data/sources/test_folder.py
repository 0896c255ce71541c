"""A folder of photos, whatever else lies in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from broken_images import encoded, flag, make_broken_images

from mpae.data.source import UnreadableImage
from mpae.data.sources.folder import FolderImages, find_images
from mpae.errors import MPAEError


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(flag(), "PNG"))
    return path


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_lists_every_sound_and_broken_file_once(tmp_path: Path) -> None:
    files = make_broken_images(tmp_path / "images")
    source = FolderImages(files.folder)
    assert list(source.names) == files.names
    assert len(source) == len(files.names)
    read, refused = set(), set()
    for index, name in enumerate(source.names):
        try:
            read.add(source[index].name)
        except UnreadableImage:
            refused.add(name)
    assert (read, refused) == (set(files.sound), set(files.broken))


def test_names_are_relative_sorted_and_of_images_only(tmp_path: Path) -> None:
    for name in ("b.PNG", "a/z.jpg", "a/b/c.tiff", "a.txt", "noextension", ".hidden.png", ".git/x.png", "c.webp"):
        put(tmp_path / name)
    assert find_images(tmp_path) == ["a/b/c.tiff", "a/z.jpg", "b.PNG", "c.webp"]


def test_one_file_is_a_folder_of_one(tmp_path: Path) -> None:
    source = FolderImages(put(tmp_path / "a bird.unusual"))
    assert list(source.names) == ["a bird.unusual"]
    assert source[0].image.size == (48, 32)


def test_given_names_are_kept(tmp_path: Path) -> None:
    put(tmp_path / "a.png")
    put(tmp_path / "b.png")
    source = FolderImages(tmp_path, ["b.png"])
    assert (len(source), source[0].name) == (1, "b.png")


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    put(tmp_path / "photos" / "a.png")
    put(tmp_path / "elsewhere" / "b.png")
    (tmp_path / "photos" / "link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "photos" / "again").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "photos", target_is_directory=True)
    names = find_images(tmp_path / "photos")
    assert len(names) == 2
    assert {Path(name).name for name in names} == {"a.png", "b.png"}


def test_folders_that_vanish_while_they_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a" / "1.png")
    put(tmp_path / "b" / "2.png")
    real = os.stat

    def stat(path: object, *args: object, **options: object) -> os.stat_result:
        if str(path) == str(tmp_path / "a"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return real(path, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", stat)
    assert find_images(tmp_path) == ["b/2.png"]


def test_files_that_vanish_afterwards_are_unreadable(tmp_path: Path) -> None:
    path = put(tmp_path / "a.png")
    source = FolderImages(tmp_path)
    path.unlink()
    with pytest.raises(UnreadableImage, match="No such file"):
        source[0]


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MPAEError, match=r"^No such folder: '.*nowhere'\.$"):
        FolderImages(tmp_path / "nowhere")
    with pytest.raises(MPAEError, match=r"^No images in '.*' \(looked for \.jpg .*subfolders too\)\.$"):
        FolderImages(tmp_path)
    for name in ("a" * 300, "zero\0byte"):
        with pytest.raises(MPAEError, match=r"^Cannot read the folder '.*': .*\.$"):
            FolderImages(tmp_path / name)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MPAEError, match="neither a folder nor an image file"):
        FolderImages(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(MPAEError, match="Too many levels"):
        FolderImages(tmp_path / "loop")
