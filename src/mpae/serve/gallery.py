"""Filters and orders of the gallery, on whole columns at once: thousands of photos in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpae.errors import MPAEError
from mpae.prediction.part_names import NamedPart
from mpae.prediction.table import PredictionTable

ORDERS = ("name", "area", "certainty", "unusual")


@dataclass(frozen=True)
class Columns:
    """What is known of n images, one column for each part as people see it."""

    share: np.ndarray  # (n, parts), 0 where absent
    certainty: np.ndarray  # (n, parts), mean over the part's pixels
    unusual: np.ndarray  # (n, parts), standard deviations; 0 until they are known

    @classmethod
    def of(cls, table: PredictionTable, parts: Sequence[NamedPart], scores: np.ndarray | None) -> Columns:
        n = len(table)
        share, certainty, unusual = (np.zeros((n, len(parts)), dtype=np.float32) for _ in range(3))
        for number, part in enumerate(parts):
            members = [member - 1 for member in part.members]
            areas = table.share[:, members]  # (n, members)
            share[:, number] = areas.sum(axis=1)
            weighted = (areas * table.confidence[:, members]).sum(axis=1)
            certainty[:, number] = weighted / share[:, number].clip(min=1e-9)
            if scores is not None and len(scores) == n:
                unusual[:, number] = np.where(areas > 0, scores[:, members], 0).max(axis=1)
        return cls(share, certainty, unusual)

    def choose(self, present: Sequence[int], absent: Sequence[int], order: str, part: int | None,
               descending: bool) -> np.ndarray:
        """Rows of the images that show some parts and do not show others, in an order; columns count from 0."""
        if order not in ORDERS:
            raise MPAEError(f"Photos cannot be sorted by '{order[:40]}'; expected one of: {', '.join(ORDERS)}.")
        there = self.share > 0
        fits = there[:, list(present)].all(axis=1) & ~there[:, list(absent)].any(axis=1)
        if order != "name" and part is not None:
            fits &= there[:, part]
        rows = np.flatnonzero(fits)
        if order == "name":
            return rows[::-1] if descending else rows
        values = self._values(order, part)[rows]
        return rows[np.argsort(-values if descending else values, kind="stable")]

    def _values(self, order: str, part: int | None) -> np.ndarray:
        """(n,) what to sort by: of one part, or of the image as a whole."""
        column = {"area": self.share, "certainty": self.certainty, "unusual": self.unusual}[order]
        if part is not None:
            return column[:, part]
        if order == "certainty":  # the least certain part counts
            return np.where(self.share > 0, column, np.inf).min(axis=1, initial=np.inf)
        return column.sum(axis=1) if order == "area" else column.max(axis=1, initial=0)

    def examples(self, part: int, count: int) -> tuple[list[int], list[int]]:
        """Rows of the most and the least certain examples of a part; of few, a half each."""
        rows = np.flatnonzero(self.share[:, part] > 0)
        ordered = rows[np.argsort(-self.certainty[rows, part], kind="stable")].tolist()
        half = len(ordered) // 2
        return ordered[:min(count, len(ordered) - half)], ordered[::-1][:min(count, half)]
