"""The tables of a prediction folder in memory: one row an image, one column a part."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json

from mpae.errors import MPAEError
from mpae.prediction.folder import PredictionFolder
from mpae.prediction.part_names import PartNames


@dataclass(frozen=True)
class PredictionTable:
    """What prediction found in n images."""

    names: Sequence[str]
    files: Sequence[str]  # output name of each, to which masks and overlays add their ending
    sizes: np.ndarray  # (n, 2) width and height
    share: np.ndarray  # (n, K) of the image's pixels; 0 where the part is absent
    confidence: np.ndarray  # (n, K)

    @property
    def present(self) -> np.ndarray:
        """(n, K) bool."""
        return self.share > 0

    @property
    def num_parts(self) -> int:
        return self.share.shape[1]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, records: Iterable[dict[str, Any]], num_parts: int) -> PredictionTable:
        """From the lines of parts.jsonl."""
        names, files, sizes, share, confidence = [], [], [], [], []
        for row in records:
            names.append(row["name"])
            files.append(row["file"])
            sizes.append((row["width"], row["height"]))
            shares, certainties = [0.0] * num_parts, [0.0] * num_parts
            for part in row["parts"]:
                shares[part["index"] - 1] = part["share"] or 1e-6
                certainties[part["index"] - 1] = part["confidence"]
            share.append(shares)
            confidence.append(certainties)
        shape = len(names), num_parts
        return cls(names, files, np.array(sizes, dtype=np.int64).reshape(-1, 2),
                   np.array(share, dtype=np.float32).reshape(shape),
                   np.array(confidence, dtype=np.float32).reshape(shape))


class Predictions:
    """A finished prediction folder that was opened to be looked at."""

    def __init__(self, folder: str | Path):
        self.folder = PredictionFolder(folder)
        if not self.folder.folder.is_dir():
            raise MPAEError(f"No folder '{folder}'; `mpae predict RUN IMAGES --out {folder}` makes one.")
        manifest = self.folder.manifest_of()
        self.settings: dict[str, Any] = manifest["settings"]
        self.run_folder = str(manifest.get("run_folder") or "")
        self.num_parts: int = self.settings["num_parts"]
        self.table = self._read_table()

    def _read_table(self) -> PredictionTable:
        if not self.folder.parts.is_file():
            raise MPAEError(f"'{self.folder}' has no parts.jsonl: its prediction is unfinished, or was made without "
                            "it; run the same `mpae predict` again, with --write masks,parts,features.")
        try:
            with self.folder.parts.open("rb") as lines:
                return PredictionTable.of(map(_record, lines), self.num_parts)
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            raise MPAEError(f"'{self.folder.parts}' is damaged ({type(error).__name__}); predict again with "
                            "--overwrite.") from None

    def part_names(self, run: Path) -> PartNames:
        """The names in the run folder, of the parts of these predictions: joined where those of the run were."""
        part_of = self.settings.get("part_of")
        names = PartNames.load(run, len(part_of) if part_of else self.num_parts)
        return names.gathered(part_of) if part_of else names

    @property
    def has_features(self) -> bool:
        return self.folder.features.is_file()

    def features(self) -> np.ndarray:
        """(n, K, E) float16, mapped into memory."""
        if not self.has_features:
            raise MPAEError(f"'{self.folder}' has no features.npy to compare parts by; predict again with "
                            "--write masks,parts,features --overwrite.")
        try:
            found = np.load(self.folder.features, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise MPAEError(f"'{self.folder.features}' is damaged ({error}); predict again with --overwrite.") from None
        if found.ndim != 3 or found.shape[:2] != self.table.share.shape or not found.shape[2]:
            raise MPAEError(f"'{self.folder.features}' has shape {found.shape}, which does not fit "
                            f"{len(self.table)} images of {self.num_parts} parts; predict again with --overwrite.")
        return found


def _record(line: bytes) -> Any:
    """A line of parts.jsonl. pydantic's parser takes a third of the time, and knows no names that are no UTF-8."""
    try:
        return from_json(line)
    except ValueError:
        return json.loads(line)
