"""Frozen features on disk: a backbone's map of an image never changes, so it is computed once.

One file holds one map, half precision, written to a temporary file and renamed: readers never see half a file, two
processes may write the same one, and a process that is killed leaves nothing that is read later.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from platformdirs import user_cache_path
from torch import Tensor, nn

from mpae.backbones.vit import at_once, one_to_a_core
from mpae.devices import map_on_cores

log = logging.getLogger("mpae")

CHUNK = 16  # images that go through the backbone together on a GPU
STALE_SECONDS = 3600  # a file beside that is older was left by a process that was killed
HEADER = 128  # bytes that a .npy file adds to its map
OURS = re.compile(r"[0-9a-f]{32}\.(npy|\w+\.part)")  # nothing else that lies in the folder is ever removed
RECOUNT = 0.05  # share of the limit after whose writing the folder is counted anew, for others write too


class CachedBackbone(nn.Module):
    """A frozen backbone that looks up maps it has made before, by the exact pixels that enter it.

    Maps are rounded to half precision whether they were kept or not, and made in chunks of one size, so
    the map of an image depends neither on the cache nor on the other images of its batch.
    """

    def __init__(self, backbone: Any, cache: FeatureCache):
        super().__init__()
        self.backbone = backbone
        self.cache = cache
        self.patch_size: int = backbone.patch_size
        self.dim: int = backbone.dim
        self.fingerprint: str = backbone.fingerprint

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """images (B, 3, H, W) in [0, 1] -> (B, E, h, w)."""
        B, _, H, W = images.shape
        shape = self.dim, H // self.patch_size, W // self.patch_size
        keys = [pixel_key(image) for image in images.cpu().numpy()]
        kept = [self.cache.get(key, shape) for key in keys]
        maps = torch.empty(B, *shape, dtype=torch.float16, device=images.device)
        for place, features in enumerate(kept):
            if features is not None:
                maps[place] = torch.from_numpy(np.array(features)).to(images.device)
        missing = [place for place, features in enumerate(kept) if features is None]
        chunk = at_once(max(H, W)) if images.device.type == "cpu" else CHUNK
        chunks = [missing[start : start + chunk] for start in range(0, len(missing), chunk)]

        def compute(places: list[int]) -> None:
            padded = places + places[:1] * (chunk - len(places))
            maps[places] = self.backbone(images[padded])[: len(places)].half()

        if one_to_a_core(self.backbone, images.device):
            map_on_cores(compute, chunks)
        else:
            for places in chunks:
                compute(places)
        for place in missing:
            self.cache.put(keys[place], maps[place].cpu().numpy())
        return maps.float()


def pixel_key(image: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=16).hexdigest()


class FeatureCache:
    """Maps of one backbone, each under the key of its pixels.

    The folder as a whole (all backbones) stays below `limit_bytes`: what has not been used for longest
    goes first, but nothing that this process has used. Where that is not enough, maps are simply not
    kept, which costs time and changes no result.
    """

    def __init__(self, folder: Path, backbone: str, limit_bytes: int):
        self.folder = folder
        self.maps = folder / backbone
        self.limit_bytes = limit_bytes
        self.used: set[Path] = set()
        self.size = 0  # bytes on disk when last counted, and what this process wrote since
        self.uncounted = float("inf")  # bytes that this process wrote since
        self.told = False  # that nothing can be written
        self.full = False  # all that is left is in use: looking for room again would find none

    def path(self, key: str) -> Path:
        return self.maps / key[:2] / f"{key}.npy"

    def get(self, key: str, shape: tuple[int, int, int]) -> np.ndarray | None:
        """The map (E, h, w) float16, memory-mapped, or None where it is not kept."""
        path = self.path(key)
        try:
            features = np.lib.format.open_memmap(path, mode="r")
        except Exception:  # no file, or not a map, whatever it is: it will be replaced
            return None
        if features.shape != shape or features.dtype != np.float16:
            return None
        self._note_use(path)
        return features

    def put(self, key: str, features: np.ndarray) -> None:
        """Keep a map (E, h, w) float16 if there is room; a full disk only means that it is not kept."""
        if not self._make_room(features.nbytes + HEADER):
            return
        path = self.path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(prefix=f"{key}.", suffix=".part", dir=path.parent,
                                             delete=False) as temporary:
                try:
                    np.save(temporary, features)
                    temporary.close()
                    os.replace(temporary.name, path)
                except BaseException:
                    os.unlink(temporary.name)
                    raise
        except OSError as error:
            if not self.told:
                self.told = True
                log.warning("Features cannot be kept in '%s' (%s) and are computed again each time; free some space or "
                            "set cache.folder to another.", self.folder, error.strerror or error)
            return
        self._note_use(path)
        self.size += features.nbytes + HEADER
        self.uncounted += features.nbytes + HEADER

    def _note_use(self, path: Path) -> None:
        if path not in self.used:
            self.used.add(path)
            with contextlib.suppress(OSError):
                os.utime(path)  # many file systems do not note when a file was read

    def _make_room(self, needed: int) -> bool:
        if self.full:
            return False
        if self.size + needed > self.limit_bytes or self.uncounted > RECOUNT * self.limit_bytes:
            files = self._files()
            self.size, self.uncounted = sum(size for _, size, _ in files), 0.0
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

        On the way, what a killed process left half written is removed.
        """
        found = []
        for folder, _, names in os.walk(self.folder):
            for name in filter(OURS.fullmatch, names):
                path = Path(folder, name)
                with contextlib.suppress(OSError):  # another process made room
                    status = path.stat()
                    if name.endswith(".npy"):
                        found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
                    elif time.time() - status.st_mtime > STALE_SECONDS:
                        path.unlink()
        return found


def default_folder() -> Path:
    """The user's cache folder as the system has it; that of version 0.1, where it is there."""
    before = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpae" / "features"
    return before if before.is_dir() else user_cache_path("mpae", appauthor=False) / "features"
