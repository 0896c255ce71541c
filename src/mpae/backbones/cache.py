"""Frozen features on disk: a backbone's map of a view never changes, so it is computed once.

One file holds one map, half precision, written beside and renamed: readers never see half a file, two
processes may write the same one, and a process that is killed leaves nothing that is read later.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from pathlib import Path

import numpy as np

from mpae.data.views import VERSION

SUFFIX = ".npy"
PART = ".part"
HEADER = 128  # bytes that a .npy file adds
OURS = re.compile(r"[0-9a-f]{32}(-stored)?-\d+\.(npy|\w+\.part)")  # nothing else in the folder is ever removed
ABANDONED = 3600.0  # seconds after which a half-written file belongs to a process that was killed
RECOUNT = 0.05  # share of the limit after whose writing the folder is counted anew, for others write too


class FeatureCache:
    """Maps of one backbone at one image size, keyed by the content of the picture and the view.

    The folder as a whole (all backbones and sizes) stays below `limit_bytes`: what has not been used for
    longest goes first, but nothing that this process has used. Where that is not enough, maps are simply
    not kept, which costs time and changes no result.
    """

    def __init__(self, folder: Path, backbone: str, image_size: int, shape: tuple[int, int, int], limit_bytes: int):
        self.folder = folder
        self.maps = folder / f"{backbone}-{image_size}px-v{VERSION}"
        self.shape = shape  # (E, h, w)
        self.limit_bytes = limit_bytes
        self.used: set[Path] = set()
        self.size = 0  # bytes on disk, as last counted, and what this process wrote since
        self.uncounted: float = float("inf")  # bytes that this process wrote since the folder was counted
        self.full = False  # all that is left is in use: there is no point in looking for room again

    def path(self, digest: str, view: int) -> Path:
        return self.maps / digest[:2] / f"{digest}-{view}{SUFFIX}"

    def get(self, digest: str, view: int) -> np.ndarray | None:
        """The map (E, h, w) float16, memory-mapped, or None where it is not kept."""
        path = self.path(digest, view)
        try:
            features = np.lib.format.open_memmap(path, mode="r")
        except OSError:
            return None
        except Exception:  # not a map, whatever it is: compute it again
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        if features.shape != self.shape or features.dtype != np.float16:
            return None
        return features

    def keep(self, digest: str, view: int) -> None:
        """Note that this process uses the map, so that it does not make room for others."""
        path = self.path(digest, view)
        if path not in self.used:
            self.used.add(path)
            with contextlib.suppress(OSError):
                os.utime(path)  # many file systems do not note when a file was read

    def put(self, digest: str, view: int, features: np.ndarray) -> None:
        """Keep a map (E, h, w) float16 if there is room; a full disk only means that it is not kept."""
        if not self._make_room(features.nbytes + HEADER):
            return
        path = self.path(digest, view)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(prefix=f"{path.stem}.", suffix=PART, dir=path.parent,
                                             delete=False) as beside:
                try:
                    np.save(beside, features)
                    beside.close()
                    written = os.path.getsize(beside.name)
                    os.replace(beside.name, path)
                except BaseException:
                    os.unlink(beside.name)
                    raise
        except OSError:
            return
        self.size += written
        self.uncounted += written

    def _make_room(self, needed: int) -> bool:
        if self.full:
            return False
        if self.size + needed > self.limit_bytes or self.uncounted > RECOUNT * self.limit_bytes:
            files = self._files()
            self.size, self.uncounted = sum(size for _, size, _ in files), 0
            if self.size + needed > self.limit_bytes:
                self._remove_oldest(files, 0.9 * self.limit_bytes - needed)
                self.full = self.size + needed > self.limit_bytes
        return not self.full

    def _remove_oldest(self, files: list[tuple[float, int, Path]], target: float) -> None:
        for _, size, path in sorted(files):
            if self.size <= target:
                return
            if path not in self.used:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
                    self.size -= size

    def _files(self) -> list[tuple[float, int, Path]]:
        """(time of last use, bytes, path) of every map below the folder, other backbones' included.

        Half-written files that a killed process left behind are removed.
        """
        found = []
        for folder, _, names in os.walk(self.folder):
            for name in filter(OURS.fullmatch, names):
                path = Path(folder, name)
                with contextlib.suppress(OSError):  # another process made room
                    status = path.stat()
                    if name.endswith(SUFFIX):
                        found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
                    elif time.time() - status.st_mtime > ABANDONED:
                        path.unlink()
        return found


def default_folder() -> Path:
    """The user's cache folder, as other tools choose it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mpae" / "features"
