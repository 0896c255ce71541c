"""Frozen features on disk: a backbone's map of an image never changes, so it is computed once.

One file holds one map, half precision, written beside and renamed: readers never see half a file, two
processes may write the same one, and a process that is killed leaves nothing that is read later.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

CHUNK = 16  # images that go through the backbone together
STALE_SECONDS = 3600  # a file beside that is older was left by a process that was killed


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
        for start in range(0, len(missing), CHUNK):
            places = missing[start : start + CHUNK]
            padded = places + places[:1] * (CHUNK - len(places))
            maps[places] = self.backbone(images[padded])[: len(places)].half()
            for place in places:
                self.cache.put(keys[place], maps[place].cpu().numpy())
        return maps.float()


def pixel_key(image: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(image), digest_size=16).hexdigest()


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
        self.size: int | None = None  # bytes on disk, counted when first needed

    def path(self, key: str) -> Path:
        return self.maps / key[:2] / f"{key}.npy"

    def get(self, key: str, shape: tuple[int, int, int]) -> np.ndarray | None:
        """The map (E, h, w) float16, memory-mapped, or None where it is not kept."""
        path = self.path(key)
        try:
            features = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError):
            return None  # not a map, whatever it is: it will be replaced
        if features.shape != shape or features.dtype != np.float16:
            return None
        self.used.add(path)
        return features

    def put(self, key: str, features: np.ndarray) -> None:
        """Keep a map (E, h, w) float16 if there is room; a full disk only means that it is not kept."""
        path = self.path(key)
        if not self._make_room(features.nbytes):
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as beside:
                np.save(beside, features)
            os.replace(beside.name, path)
        except OSError:
            return
        self.used.add(path)
        self.size = (self.size or 0) + features.nbytes

    def _make_room(self, needed: int) -> bool:
        if self.size is None:
            self._sweep()
            self.size = sum(size for _, size, _ in self._files())
        if self.size + needed <= self.limit_bytes:
            return True
        files = sorted(self._files())
        self.size = sum(size for _, size, _ in files)
        for _, size, path in files:
            if self.size <= 0.9 * self.limit_bytes - needed:
                break
            if path not in self.used:
                path.unlink(missing_ok=True)
                self.size -= size
        return self.size + needed <= self.limit_bytes

    def _files(self) -> list[tuple[float, int, Path]]:
        """(time of last use, bytes, path) of every map below the folder, other backbones' included."""
        found = []
        for path in self.folder.glob("*/*/*.npy"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # another process made room
            found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
        return found

    def _sweep(self) -> None:
        for path in self.folder.glob("*/*/*.part"):
            try:
                if time.time() - path.stat().st_mtime > STALE_SECONDS:
                    path.unlink()
            except OSError:
                continue


def default_folder() -> Path:
    """The user's cache folder, as other tools choose it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mpae" / "features"
