"""Kept features: never half a file, never above the limit, never someone else's files, never in the way."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from mpae.backbones import cache as module
from mpae.backbones.cache import CachedBackbone, FeatureCache, default_folder, pixel_key
from mpae.backbones.vit import FEW

SHAPE = (4, 3, 3)
FILE = 4 * 3 * 3 * 2 + 128  # bytes of one map on disk


def key(number: int) -> str:
    return pixel_key(np.array([number]))


def features(number: float) -> np.ndarray:
    return np.full(SHAPE, number, np.float16)


def open_cache(folder: Path, files: float = 1000, backbone: str = "vit") -> FeatureCache:
    return FeatureCache(folder, backbone, int(files * FILE))


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.npy"))


def test_what_is_put_is_got_memory_mapped(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    assert cache.get(key(0), SHAPE) is None
    cache.put(key(0), features(0.5))
    kept = open_cache(tmp_path).get(key(0), SHAPE)
    assert isinstance(kept, np.memmap)
    assert kept.dtype == np.float16
    np.testing.assert_array_equal(kept, features(0.5))
    assert cache.path(key(0)).stat().st_size == FILE


def test_backbones_do_not_share_maps(tmp_path: Path) -> None:
    open_cache(tmp_path, backbone="one").put(key(0), features(1))
    assert open_cache(tmp_path, backbone="other").get(key(0), SHAPE) is None


def test_another_shape_or_type_is_not_kept_for_it(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    cache.put(key(0), features(1))
    assert cache.get(key(0), (4, 3, 4)) is None
    cache.put(key(1), features(1).astype(np.float32))
    assert cache.get(key(1), SHAPE) is None


@pytest.mark.parametrize("content", [
    b"", b"\x93NUMPY", b"<html>", b"PK\x03\x04" + bytes(40), b"\x80\x04cposix\nsystem\n.", bytes(FILE)])
def test_a_torn_or_strange_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    cache = open_cache(tmp_path)
    cache.put(key(0), features(1))
    cache.path(key(0)).write_bytes(content)
    assert cache.get(key(0), SHAPE) is None
    cache.put(key(0), features(2))
    np.testing.assert_array_equal(cache.get(key(0), SHAPE), features(2))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, FILE), places=st.lists(st.tuples(st.integers(0, 127), st.integers(0, 255)), max_size=6))
def test_no_damage_raises(tmp_path: Path, cut: int, places: list[tuple[int, int]]) -> None:
    cache = open_cache(tmp_path)
    cache.put(key(0), features(1))
    content = bytearray(cache.path(key(0)).read_bytes())
    for place, value in places:
        content[place] = value
    cache.path(key(0)).write_bytes(content[:cut])
    kept = cache.get(key(0), SHAPE)
    assert kept is None or kept.shape == SHAPE


def test_what_was_not_used_for_longest_makes_room(tmp_path: Path) -> None:
    before = open_cache(tmp_path, files=10)
    for number in range(10):
        before.put(key(number), features(number))
        os.utime(before.path(key(number)), (1000 + number, 1000 + number))
    cache = open_cache(tmp_path, files=10)
    assert cache.get(key(0), SHAPE) is not None  # so it is in use now
    cache.put(key(10), features(10))
    kept = {number for number in range(11) if cache.path(key(number)).exists()}
    assert kept == {0, 3, 4, 5, 6, 7, 8, 9, 10}  # room for a tenth of the limit beside the new one
    assert bytes_in(tmp_path) <= cache.limit_bytes


def test_other_backbones_count_and_make_room(tmp_path: Path) -> None:
    other = open_cache(tmp_path, files=10, backbone="other")
    for number in range(10):
        other.put(key(number), features(0))
    cache = open_cache(tmp_path, files=10)
    for number in range(5):
        cache.put(key(number), features(1))
    assert all(cache.get(key(number), SHAPE) is not None for number in range(5))
    assert bytes_in(tmp_path) <= cache.limit_bytes


def test_a_limit_below_the_working_set_neither_grows_nor_thrashes(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = open_cache(tmp_path, files=20)
    counted: list[int] = []
    count = cache._files
    monkeypatch.setattr(cache, "_files", lambda: counted.append(1) or count())
    hits = []
    for _epoch in range(5):
        hits.append(0)
        for number in range(100):
            if cache.get(key(number), SHAPE) is None:
                cache.put(key(number), features(number))
            else:
                hits[-1] += 1
        assert bytes_in(tmp_path) <= cache.limit_bytes
    assert hits == [0, 20, 20, 20, 20]  # the same maps stay, instead of each pushing out the next
    assert len(counted) <= 25  # the folder is not counted for each of 480 refusals


def test_nothing_else_in_the_folder_is_ever_removed(tmp_path: Path) -> None:
    mine = [tmp_path / name for name in ("a.npy", "a/b/c.npy", "vit/aa/results.npy", "a/b/film.part", "note.txt")]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(10 * FILE))
        os.utime(path, (1000, 1000))
    cache = open_cache(tmp_path, files=2)
    for number in range(5):
        cache.put(key(number), features(0))
    assert all(path.exists() for path in mine)


def test_what_a_killed_writer_left_is_swept_when_it_is_old(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    cache.put(key(0), features(0))
    folder = cache.path(key(0)).parent
    old, young = folder / f"{key(1)}.abc12.part", folder / f"{key(1)}.abc34.part"
    for path in (old, young):
        path.write_bytes(b"half")
    long_ago = time.time() - 2 * module.STALE_SECONDS
    os.utime(old, (long_ago, long_ago))
    open_cache(tmp_path).put(key(2), features(0))
    assert (old.exists(), young.exists()) == (False, True)


def test_a_full_disk_only_means_that_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     caplog: pytest.LogCaptureFixture) -> None:
    def full(file: Any, array: np.ndarray) -> None:
        file.write(b"half a map")
        raise OSError(errno.ENOSPC, "No space left on device")

    caplog.set_level("INFO", "mpae")  # a command with --quiet that another test ran leaves it higher
    cache = open_cache(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(np, "save", full)
        cache.put(key(0), features(0))
        cache.put(key(1), features(0))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert [record.getMessage() for record in caplog.records] == [
        f"Features cannot be kept in '{cache.folder}' (No space left on device) and are computed again each time; free "
        "some space or set cache.folder to another."]
    cache.put(key(0), features(0))
    assert cache.get(key(0), SHAPE) is not None


def test_an_interrupt_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(file: Any, array: np.ndarray) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_cache(tmp_path).put(key(0), features(0))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("obstacle", ["file", "locked"])
def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path, obstacle: str) -> None:
    folder = tmp_path / "cache"
    if obstacle == "file":
        folder.write_text("not a folder")
    else:
        folder.mkdir()
        (folder / "vit").write_text("the superuser may write anywhere, but not below a file")
        folder.chmod(0o500)
    cache = open_cache(folder)
    cache.put(key(0), features(0))
    assert cache.get(key(0), SHAPE) is None
    folder.chmod(0o700)


def write_many(folder: Path, first: int, files: float) -> None:
    cache = open_cache(folder, files)
    for turn in range(3):
        for number in range(first, first + 60):
            cache.put(key(number), features(number))
            kept = cache.get(key(number), SHAPE)
            if kept is not None and not (kept == number).all():
                os._exit(3 + turn)


@pytest.mark.parametrize("apart", [0, 30, 60])
def test_processes_write_the_same_maps_at_once(tmp_path: Path, apart: int) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_many, args=(tmp_path, index * apart, 70)) for index in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert list(tmp_path.rglob("*.part")) == []
    assert bytes_in(tmp_path) <= 1.2 * 70 * FILE  # each counts what the other wrote, now and then
    cache = open_cache(tmp_path)
    kept = [(number, cache.get(key(number), SHAPE)) for number in range(120)]
    assert all((found == number).all() for number, found in kept if found is not None)
    assert sum(found is not None for _, found in kept) >= 50


class CountingBackbone(torch.nn.Module):
    """Means of patches, and a count of the images that went through."""

    patch_size, dim, fingerprint = 2, 3, "counting"

    def __init__(self) -> None:
        super().__init__()
        self.images = 0
        self.batches: list[int] = []

    def forward(self, images: Tensor) -> Tensor:
        self.images += len({image.numpy().tobytes() for image in images})
        self.batches.append(len(images))
        return torch.nn.functional.avg_pool2d(images, 2)


def test_a_cached_backbone_computes_each_image_once(tmp_path: Path) -> None:
    plain = CountingBackbone()
    backbone = CachedBackbone(plain, FeatureCache(tmp_path, "counting", 10**6))
    assert (backbone.patch_size, backbone.dim, backbone.fingerprint) == (2, 3, "counting")
    images = torch.rand(20, 3, 6, 4)
    first = backbone(images)
    assert plain.images == 20
    assert set(plain.batches) == {FEW}  # one size, so that a map does not depend on its company
    mixed = torch.cat([images[15:], torch.rand(2, 3, 6, 4), images[:3]])
    second = backbone(mixed)
    assert plain.images == 22
    assert first.shape == (20, 3, 3, 2)
    torch.testing.assert_close(second[:5], first[15:], rtol=0, atol=0)
    torch.testing.assert_close(second[7:], first[:3], rtol=0, atol=0)


def test_kept_or_not_the_maps_are_the_same(tmp_path: Path) -> None:
    images = torch.rand(5, 3, 4, 4)
    nowhere = FeatureCache(tmp_path / "none", "counting", 0)
    kept = CachedBackbone(CountingBackbone(), FeatureCache(tmp_path, "counting", 10**6))
    without = CachedBackbone(CountingBackbone(), nowhere)(images)
    torch.testing.assert_close(kept(images), without, rtol=0, atol=0)
    torch.testing.assert_close(kept(images), without, rtol=0, atol=0)
    assert not list((tmp_path / "none").rglob("*.npy"))
    assert not without.requires_grad


def test_the_default_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "mpae" / "features"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "mpae" / "features"


def test_the_folder_of_before_is_used_where_it_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "old"))
    monkeypatch.setattr("mpae.backbones.cache.user_cache_path", lambda name, appauthor: tmp_path / "system" / name)
    assert default_folder() == tmp_path / "system" / "mpae" / "features"
    (tmp_path / "old" / "mpae" / "features").mkdir(parents=True)
    assert default_folder() == tmp_path / "old" / "mpae" / "features"
