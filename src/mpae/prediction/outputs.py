"""What `mpae predict` can write: an output is one function or two, and one line of `OUTPUTS`.

Flags, defaults and the layout of the prediction folder follow from that line. Each file is written to a temporary
file and renamed: a stopped or failed prediction leaves no half of a file.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from mpae.errors import MPAEError
from mpae.files import write_atomically

if TYPE_CHECKING:  # `mpae --help` reads the registry: what draws and segments is imported when it is used
    from mpae.prediction.journal import Journal
    from mpae.prediction.part_names import PartNames
    from mpae.prediction.parts import Part


@dataclass(frozen=True)
class Predicted:
    """What prediction knows of one image when its files are written."""

    size: tuple[int, int]  # width and height
    logits: np.ndarray  # (K+1, h, w)
    mask: np.ndarray  # (H, W) uint8
    present: list[Part]
    descriptors: np.ndarray  # (K, C)
    features: np.ndarray  # (K, E): mean of the frozen features under each part
    shown: np.ndarray | None  # (H', W', 3) uint8, the image at a size to look at, where an output `shows` it
    names: PartNames  # that people gave the parts
    part_of: Sequence[int] | None = None  # which of the parts above each channel of logits is, where some are joined

    @property
    def num_parts(self) -> int:
        return self.names.num_parts


@dataclass(frozen=True)
class Output:
    """One thing that prediction can write: a file for each image, or one file for all of them."""

    name: str  # in --write
    path: str  # in the prediction folder; {} is the output name of an image
    title: str
    default: bool = True
    shows: bool = False  # needs the image at a size to look at
    image: Callable[[Path, Predicted], None] | None = None  # writes the file of one image
    keep: Callable[[Predicted], Any] | None = None  # what `table` needs of one image: plain data, or numbers (K, n)
    table: Callable[[Path, Journal, PartNames], None] | None = None  # writes the file of all images

    @property
    def place(self) -> str:
        """The file or folder in the prediction folder."""
        return self.path.partition("/")[0]


# -- a file for each image


def write_mask(path: Path, found: Predicted) -> None:
    """The labels as a PNG whose palette is the parts' colours."""
    from PIL import Image

    from mpae.drawing.palette import mask_palette

    image = Image.fromarray(found.mask)
    image.putpalette(mask_palette(found.num_parts))
    write_atomically(path, lambda temporary: image.save(temporary, format="PNG"))


def write_overlay(path: Path, found: Predicted) -> None:
    from PIL import Image

    from mpae.drawing.overlay import overlay

    assert found.shown is not None
    names = found.names
    picture = overlay(Image.fromarray(found.shown), names.seen(found.mask), names.all_names(), names.colours())
    write_atomically(path, lambda temporary: picture.save(temporary, format="JPEG", quality=90))


def write_probabilities(path: Path, found: Predicted) -> None:
    """`probabilities` (K+1, H, W) float16 in an .npz, made and written a few rows at a time."""
    from mpae.prediction.masks import InterpolatedLogits

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            values = InterpolatedLogits(found.logits, found.size).probability_rows(found.part_of)
            _write_array(archive, "probabilities", (found.num_parts + 1, *found.size[::-1]), "<f2", values)

    write_atomically(path, write)


# -- a file for all images


def write_parts(path: Path, journal: Journal, names: PartNames) -> None:
    """One line of JSON for each image."""
    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8") as file:
            for record in journal.records():
                line = {key: record[key] for key in ("name", "file", "width", "height", "parts")}
                file.write(json.dumps(line) + "\n")

    write_atomically(path, write)


def write_descriptors(path: Path, journal: Journal, names: PartNames) -> None:
    """`names` (n,), `descriptors` (n, K, C) float32 and `present` (n, K) bool, in the order of the images."""
    n = len(journal)
    images = np.array([record["name"] for record in journal.records()], dtype=str)
    first = next(journal.numbers("descriptors"), np.empty((names.num_parts, 0)))

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w") as archive:
            _write_array(archive, "names", images.shape, images.dtype.str, [images])
            _write_array(archive, "descriptors", (n, *first.shape), "<f4", journal.numbers("descriptors"))
            present = (_present(record["parts"], names.num_parts) for record in journal.records())
            _write_array(archive, "present", (n, names.num_parts), "|b1", present)

    write_atomically(path, write)


def write_features(path: Path, journal: Journal, names: PartNames) -> None:
    """(n, K, E) float16, in the order of parts.jsonl, as a plain .npy that can be mapped into memory."""
    first = next(journal.numbers("features"), np.empty((names.num_parts, 0)))

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            _write_header(file, (len(journal), *first.shape), "<f2")
            for piece in journal.numbers("features"):
                file.write(np.ascontiguousarray(piece, dtype="<f2").tobytes())

    write_atomically(path, write)


def keep_coco(found: Predicted) -> dict[int, str]:
    from mpae.prediction.coco import encode_labels

    return encode_labels(found.names.seen(found.mask))


def write_annotations(path: Path, journal: Journal, names: PartNames) -> None:
    from mpae.prediction.coco import write_coco

    write_coco(path, journal, names)


# -- the registry, in the order of --write


OUTPUTS = {output.name: output for output in (
    Output("masks", "masks/{}.png", "indexed PNGs at each image's own size: 0 background, 1..K parts",
           image=write_mask),
    Output("overlays", "overlays/{}.jpg", "parts painted over the photo, with a legend", shows=True,
           image=write_overlay),
    Output("parts", "parts.jsonl", "one line for each image: parts present with area, centre, box, confidence",
           table=write_parts),
    Output("coco", "coco.json", "the masks as COCO annotations",
           keep=keep_coco, table=write_annotations),
    Output("descriptors", "descriptors.npz", "names (n,), descriptors (n, K, C), present (n, K)",
           keep=lambda found: found.descriptors, table=write_descriptors),
    Output("features", "features.npy", "(n, K, E) float16, rows as in parts.jsonl: frozen features, for search",
           keep=lambda found: found.features, table=write_features),
    Output("probabilities", "probabilities/{}.npz", "(K+1, H, W) float16 for each image, background last; large",
           default=False, image=write_probabilities),
)}
DEFAULT_OUTPUTS = tuple(name for name, output in OUTPUTS.items() if output.default)


def choose_outputs(names: Sequence[str]) -> list[Output]:
    """The outputs of these names, in the order of the registry."""
    unknown = [name for name in names if name not in OUTPUTS]
    if unknown or not names:
        found = f"Cannot write '{', '.join(unknown)}'" if unknown else "Nothing is to be written"
        raise MPAEError(f"{found}; choose from: {', '.join(OUTPUTS)}.")
    return [output for name, output in OUTPUTS.items() if name in names]


# -- arrays


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
