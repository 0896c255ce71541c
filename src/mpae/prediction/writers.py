"""The files of a prediction: three for each image, and the tables of all images.

Each is written to a temporary file and renamed: a stopped or failed prediction leaves no half of a file.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image

from mpae.drawing.overlay import overlay
from mpae.drawing.palette import mask_palette
from mpae.files import one_line, write_atomically, write_text
from mpae.prediction.journal import Journal
from mpae.prediction.masks import InterpolatedLogits

INTERNAL = ("runs", "row", "shape", "columns")  # what a record holds beside the line of parts.jsonl


def write_mask(path: Path, mask: np.ndarray, num_parts: int) -> None:
    """(H, W) uint8 as a PNG whose pixels are the labels and whose palette is the parts' colours."""
    image = Image.fromarray(mask)
    image.putpalette(mask_palette(num_parts))
    write_atomically(path, lambda temporary: image.save(temporary, format="PNG"))


def write_overlay(path: Path, view: Image.Image, mask: np.ndarray) -> None:
    picture = overlay(view, mask)
    write_atomically(path, lambda temporary: picture.save(temporary, format="JPEG", quality=90))


def write_probabilities(path: Path, logits: np.ndarray, size: tuple[int, int]) -> None:
    """`probabilities` (K+1, H, W) float16 in an .npz, made and written a few rows at a time."""
    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            values = InterpolatedLogits(logits, size).probability_rows()
            _write_array(archive, "probabilities", (len(logits), size[1], size[0]), "<f2", values)

    write_atomically(path, write)


def write_parts_table(path: Path, journal: Journal) -> None:
    """One line of JSON an image."""
    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8") as file:
            for record in journal.records():
                line = {key: value for key, value in record.items() if key not in INTERNAL}
                file.write(json.dumps(line) + "\n")

    write_atomically(path, write)


def write_descriptors(path: Path, journal: Journal, num_parts: int) -> None:
    """`names` (n,), `descriptors` (n, K, C) float32 and `present` (n, K) bool, in the order of the images."""
    n = len(journal)
    names = np.array([record["name"] for record in journal.records()], dtype=str)
    first = next(journal.descriptors(), np.empty((num_parts, 0)))

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w") as archive:
            _write_array(archive, "names", names.shape, names.dtype.str, [names])
            _write_array(archive, "descriptors", (n, *first.shape), "<f4", journal.descriptors())
            present = (_present(record["parts"], num_parts) for record in journal.records())
            _write_array(archive, "present", (n, num_parts), "|b1", present)

    write_atomically(path, write)


def write_features(path: Path, journal: Journal, num_parts: int) -> None:
    """(n, K, E) float16, in the order of parts.jsonl, as a plain .npy that can be mapped into memory."""
    first = next(journal.features(), np.empty((num_parts, 0)))

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            _write_header(file, (len(journal), *first.shape), "<f2")
            for piece in journal.features():
                file.write(np.ascontiguousarray(piece, dtype="<f2").tobytes())

    write_atomically(path, write)


def write_skipped(path: Path, skipped: Sequence[tuple[str, str]]) -> None:
    """Name and reason of images that could not be read, one a line; no file if there are none."""
    if skipped:
        write_text(path, "".join(f"{one_line(name)}\t{one_line(reason)}\n" for name, reason in skipped))
    else:
        path.unlink(missing_ok=True)


def _present(parts: Sequence[dict[str, int]], num_parts: int) -> np.ndarray:
    present = np.zeros(num_parts, dtype=bool)
    present[[part["index"] - 1 for part in parts]] = True
    return present


def _write_array(archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], dtype: str,
                 pieces: Iterable[np.ndarray]) -> None:
    """An array of an .npz from pieces that follow each other in memory order."""
    entry = zipfile.ZipInfo(f"{name}.npy")  # with a fixed date: the same predictions are the same bytes
    entry.compress_type = archive.compression
    with archive.open(entry, "w", force_zip64=True) as file:
        _write_header(file, shape, dtype)
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, dtype=dtype).tobytes())


def _write_header(file: IO[bytes], shape: tuple[int, ...], dtype: str) -> None:
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
