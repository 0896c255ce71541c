"""Where the files of an image go: sub-folders are kept, nothing collides, nothing leaves the folder.

``birds/heron.jpg`` becomes ``birds/heron``, to which each kind of file adds its own ending. Where another
image would take the same path, as with ``a.jpg`` and ``a.png``, both keep their whole name instead, and the
masks are ``a.jpg.png`` and ``a.png.png``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from mpae.prediction.outputs import OUTPUTS

MAX_BYTES = 180  # of one step of a path; file systems take 255, with endings and temporary names
ENDINGS = tuple({PurePosixPath(output.path).suffix for output in OUTPUTS.values() if output.image})
FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')  # in the file names of one system or another


def output_names(names: Sequence[str]) -> list[str]:
    """A relative path without ending for each image; it depends on nothing but the list of names."""
    whole = [safe_path(name) for name in names]
    times = Counter(path.casefold() for path in whole)  # some file systems do not tell A from a
    whole = [path if times[path.casefold()] == 1 else f"{path}-{_hash(name)}"
             for path, name in zip(whole, names, strict=True)]
    short = [_without_extension(path) for path in whole]
    times = Counter(path.casefold() for path in (*whole, *short))
    return [brief if times[brief.casefold()] == 1 else path for path, brief in zip(whole, short, strict=True)]


def safe_path(name: str) -> str:
    """A relative path below any folder, whatever the name says: no root, no '..', no forbidden characters."""
    steps = [_safe_step(step) for step in name.replace("\\", "/").split("/") if step not in ("", ".", "..")]
    # A folder `heron.png` would stand where the mask of `heron.jpg` goes.
    steps[:-1] = [f"{step}_" if step.lower().endswith(ENDINGS) else step for step in steps[:-1]]
    return "/".join(steps) or "image"


def _safe_step(step: str) -> str:
    safe = FORBIDDEN.sub("_", step).rstrip(". ") or "_"
    if len(os.fsencode(safe)) > MAX_BYTES:
        beginning = os.fsencode(safe)[:MAX_BYTES - 9].decode("utf-8", errors="ignore")
        safe = f"{beginning}-{_hash(step)}"
    return safe


def _without_extension(path: str) -> str:
    short = PurePosixPath(path).with_suffix("")
    return str(short) if short.name.strip(".") else path


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
