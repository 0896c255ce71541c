"""Many images, and several trainings at once, through the command."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from forked import Forked
from pictures import draw_photo
from PIL import Image
from run_files import files_in, same_weights
from tiny_run import make_tiny_run

IMAGES = int(os.environ.get("MPAE_LOAD_IMAGES", "2000"))  # 10,000 in the figures of docs/reliability.md


def resident(pid: int) -> int:
    """Bytes of memory that a process holds for itself."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise ValueError("no RssAnon")


def handles(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def processes_of_session(session: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(after_name[3]) == session:
            found.append(stat.parent.name)
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts memory and handles in /proc")
def test_memory_and_handles_do_not_grow_with_the_number_of_images(forked: Forked, tmp_path: Path) -> None:
    run, photos, out = make_tiny_run(tmp_path / "run"), tmp_path / "photos", tmp_path / "out"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, 4, 4, 3), dtype=np.uint8)
    for number, colours in enumerate(pixels):
        path = photos / f"{number % 10}" / f"{number:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(colours).resize((16, 16), Image.Resampling.NEAREST).save(path, compress_level=0)
    child = forked.start("predict", run, photos, "--out", out, "--workers", "2", "--write", "masks,parts,descriptors",
                         environment={"TMPDIR": str(temporary)})
    early, late = watch(child.pid, out / ".unfinished" / "images-0.jsonl")
    ended = child.wait()
    assert ended.returncode == 0, ended.output
    assert len((out / "parts.jsonl").read_text().splitlines()) == IMAGES
    assert late[0] < 1.03 * early[0] + 2e6, (early, late)
    assert late[1] <= early[1] + 2
    assert processes_of_session(child.pid) == []
    assert list(temporary.iterdir()) == []
    assert len(list((out / "masks").rglob("*.png"))) == IMAGES
    assert not [name for name in files_in(out) if name.endswith(".part") or ".unfinished" in name]


def watch(pid: int, journal: Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """The most memory and handles seen while a fifth of the images is done, and from then on."""
    early, late = (0, 0), (0, 0)
    line = 0
    while True:
        time.sleep(0.05)
        try:
            seen = resident(pid), handles(pid)
        except (OSError, ValueError):  # it has ended
            return early, late
        if not line and journal.exists() and journal.stat().st_size:
            line = len(journal.read_bytes().splitlines()[0])
        if line:
            done = journal.stat().st_size / line if journal.exists() else IMAGES
            if done < IMAGES / 5:
                early = max(early[0], seen[0]), max(early[1], seen[1])
            else:
                late = max(late[0], seen[0]), max(late[1], seen[1])


def test_two_trainings_share_one_cache(forked: Forked, tiny: list[str], tmp_path: Path) -> None:
    photos, cache = tmp_path / "photos", tmp_path / "cache"
    photos.mkdir()
    for index in range(12):
        draw_photo(index).save(photos / f"{index}.jpg")

    def start(name: str, folder: Path) -> object:
        return forked.start("fit", photos, "--out", tmp_path / name, *tiny, "--set", f"cache.folder={folder}")

    together = [start("first", cache), start("second", cache)]
    alone = start("alone", tmp_path / "own cache")
    for child in (*together, alone):
        ended = child.wait()
        assert ended.returncode == 0, ended.output
    for name in ("first", "second"):
        assert same_weights(tmp_path / name, tmp_path / "alone")
    assert files_in(cache) == files_in(tmp_path / "own cache")  # nothing half written, nothing twice
    for path in cache.rglob("*.npy"):
        assert np.isfinite(np.load(path)).all()
