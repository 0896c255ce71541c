"""Frozen features on disk: a backbone's map of a view never changes, so it is computed once.

One file holds one map, half precision, written beside and renamed: readers never see half a file, two
processes may write the same one, and a process that is killed leaves nothing that is read later.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

SUFFIX = ".npy"


class FeatureCache:
    """Maps of one backbone at one image size, keyed by the content of the picture and the view.

    The folder as a whole (all backbones and sizes) stays below `limit_bytes`: what has not been used for
    longest goes first, but nothing that this process has used. Where that is not enough, maps are simply
    not kept, which costs time and changes no result.
    """

    def __init__(self, folder: Path, backbone: str, image_size: int, shape: tuple[int, int, int], limit_bytes: int):
        self.folder = folder
        self.maps = folder / f"{backbone}-{image_size}px"
        self.shape = shape  # (E, h, w)
        self.limit_bytes = limit_bytes
        self.used: set[Path] = set()
        self.size: int | None = None  # bytes on disk, counted when first needed

    def path(self, digest: str, view: int) -> Path:
        return self.maps / digest[:2] / f"{digest}-{view}{SUFFIX}"

    def get(self, digest: str, view: int) -> np.ndarray | None:
        """The map (E, h, w) float16, memory-mapped, or None where it is not kept."""
        path = self.path(digest, view)
        try:
            features = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError):
            path.unlink(missing_ok=True)  # not a map, whatever it is: compute it again
            return None
        if features.shape != self.shape or features.dtype != np.float16:
            return None
        return features

    def keep(self, digest: str, view: int) -> None:
        """Note that this process uses the map, so that it does not make room for others."""
        self.used.add(self.path(digest, view))

    def put(self, digest: str, view: int, features: np.ndarray) -> None:
        """Keep a map (E, h, w) float16 if there is room; a full disk only means that it is not kept."""
        path = self.path(digest, view)
        if not self._make_room(features.nbytes):
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as beside:
                np.save(beside, features)
            os.replace(beside.name, path)
        except OSError:
            return
        self.size = (self.size or 0) + features.nbytes

    def _make_room(self, needed: int) -> bool:
        if self.size is None:
            self.size = sum(size for _, size, _ in self._files())
        if self.size + needed <= self.limit_bytes:
            return True
        target = 0.9 * self.limit_bytes - needed
        files = sorted(self._files())
        self.size = sum(size for _, size, _ in files)
        for _, size, path in files:
            if self.size <= target:
                break
            if path not in self.used:
                path.unlink(missing_ok=True)
                self.size -= size
        return self.size + needed <= self.limit_bytes

    def _files(self) -> list[tuple[float, int, Path]]:
        """(time of last use, bytes, path) of every map below the folder, other backbones' included."""
        found = []
        for path in self.folder.glob(f"*/*/*{SUFFIX}"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # another process made room
            found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
        return found


def default_folder() -> Path:
    """The user's cache folder, as other tools choose it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mpae" / "features"
