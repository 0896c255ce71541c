"""Photos to try a run on, where the user gave none: some that it was trained on, or else what it drew in training."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from mpae.data.source import ImageSource, Picture, UnreadableImage
from mpae.errors import MPAEError
from mpae.run import Run

COUNT = 8


class Samples:
    """A few photos of a run's training set, spread over it; none where that is not here any more."""

    def __init__(self, run: Run):
        self.run = run
        self.source = lru_cache(maxsize=1)(self._open)  # looked for when somebody asks: a folder may be large

    def _open(self) -> ImageSource | None:
        from mpae.data.catalogue import open_images

        try:
            return open_images(self.run.config().data, "train")
        except MPAEError:
            return None

    def rows(self) -> list[int]:
        """Which photos of the training set are shown."""
        source = self.source()
        count = min(COUNT, len(source)) if source is not None else 0
        return [number * len(source or ()) // count for number in range(count)]

    def names(self) -> list[str]:
        source = self.source()
        return [Path(source.names[row]).name for row in self.rows()] if source is not None else []

    def picture(self, number: int) -> Picture:
        source, rows = self.source(), self.rows()
        if source is None or not 0 <= number < len(rows):
            raise UnreadableImage("there is no such photo")
        return source[rows[number]]

    def preview(self) -> Path | None:
        """The last picture that training drew: photos, their parts and restorations."""
        drawn = sorted(path for path in self.run.previews.glob("step-*.png") if path.is_file())
        return drawn[-1] if drawn else None
