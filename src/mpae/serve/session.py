"""What the page works on: a run, its part names, and the predictions of some images, made in the background.

Nothing here imports torch before the background thread does: the page is there at once, the model a little later.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from platformdirs import user_cache_path

from mpae.assets.trained import comes_with_mpae
from mpae.cores import available_cores
from mpae.data.source import ImageSource, Picture, UnreadableImage
from mpae.data.sources.folder import FolderImages, images_at
from mpae.errors import MPAEError
from mpae.prediction.folder import PredictionFolder, run_of
from mpae.prediction.journal import Journal
from mpae.prediction.outliers import unusualness
from mpae.prediction.output_paths import output_names
from mpae.prediction.part_names import FILE, NamedPart, PartNames
from mpae.prediction.search import PartIndex
from mpae.prediction.table import Predictions, PredictionTable
from mpae.run import Run
from mpae.serve.gallery import Columns
from mpae.serve.outlines import outline_paths, reduced
from mpae.serve.samples import Samples

if TYPE_CHECKING:
    from mpae.prediction.predictor import PartPredictor

log = logging.getLogger("mpae")

KINDS = ["masks", "parts", "features"]  # what the page needs of a prediction
BATCH = 4  # images that are predicted together: few, so that a dropped photo waits for little
HEAD_START = 1.5  # seconds in which the first photos are shown before the model takes the cores
REFRESH = 24  # images after which those predicted so far are shown


class Stopped(BaseException):
    """The server is closing: leave the prediction where it is; the next start goes on with it."""


@dataclass(frozen=True)
class Shown:
    """The images that the page shows at one moment; a later one has more of them."""

    version: int
    table: PredictionTable
    index: PartIndex | None = None
    scores: np.ndarray | None = None  # (n, K) how unusual each part is


@dataclass(frozen=True)
class Now:
    """What the page shows at one moment, one part as people see it in each column."""

    names: PartNames
    parts: list[NamedPart]
    shown: Shown
    columns: Columns


class Session:
    """Everything behind the page; its methods may be called from any thread."""

    def __init__(self, run: Run, images: Path | None, samples: bool = True):
        """
        Args:
            images: a folder of images, a .txt list of them, or a folder that `mpae predict` wrote; None shows none.
            samples: whether photos of the run's training may be shown.
        """
        self.run = run
        self.samples = Samples(run) if samples else None
        config = run.config()
        if not run.weights_file.is_file():
            run.load_weights()  # says what is missing
        self.num_parts = config.model.num_parts
        self._digest = run.weights_digest()
        self._found: Predictions | None = None  # those that were given, read once
        self._own = False  # whether the predictions are kept in the run folder, by us
        self.source, self.folder, self.origin = self._open(images)
        PartNames.load(run.folder, self.num_parts)  # a damaged file is told in the terminal, before there is a page
        self.shown = Shown(0, PredictionTable.of([], self.num_parts))
        self.done, self.total, self.state, self.sentence = 0, len(self.source or ()), "loading", ""
        self.predictor: PartPredictor | None = None
        self._model_ready, self._stop, self._may_go_on = threading.Event(), threading.Event(), threading.Event()
        self._may_go_on.set()
        self._edit, self._dropped = threading.Lock(), threading.Lock()
        self._names: tuple[Any, PartNames] | None = None
        self._now: Now | None = None
        self._row_of: tuple[int, dict[str, int]] = (-1, {})
        self._paths = lru_cache(maxsize=4096)(self._make_paths)
        if self.folder is not None and self._is_complete():
            self._show_finished()
        self._worker = threading.Thread(target=self._work, name="mpae-background", daemon=True)

    def start(self) -> None:
        self._worker.start()

    def close(self) -> None:
        """Stop the background work at the next image; what is done stays done."""
        self._stop.set()
        self._may_go_on.set()
        if self._worker.is_alive():
            self._worker.join(timeout=20)

    # -- names

    def names(self) -> PartNames:
        """As they are in the file now, whoever wrote it."""
        file = self.run.folder / FILE
        try:
            status = file.stat()
            mark: Any = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            mark = None
        last = self._names
        if last is None or last[0] != mark:
            last = self._names = mark, PartNames.load(self.run.folder, self.num_parts)
        return last[1]

    def change_names(self, change: Any, revision: int) -> PartNames:
        """Apply a change to the names that somebody saw as ``revision``; a later one refuses it."""
        with self._edit:
            return change(self.names()).save(self.run.folder, expected=revision)

    def now(self) -> Now:
        """Names, images and columns that belong together, whatever changes meanwhile."""
        shown, names = self.shown, self.names()
        last = self._now
        if last is None or last.shown is not shown or last.names is not names:
            last = self._now = Now(names, names.parts(), shown, Columns.of(shown.table, names.parts(), shown.scores))
        return last

    # -- pictures

    def picture(self, row: int) -> Picture:
        """The photo of a row, read anew and decoded as any image is."""
        if self.source is None:
            raise UnreadableImage("the images are not here")
        name = self.shown.table.names[row]
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise UnreadableImage("its name leaves the folder of images")
        if isinstance(self.source, FolderImages):
            return FolderImages(self.source.root, [name])[0]
        return self.source[self._source_row(name)]

    def mask(self, row: int) -> Image.Image:
        """The mask of a row as prediction wrote it: 0 background, 1..K."""
        if self.folder is None:
            raise UnreadableImage("there is no mask")
        root = self.folder.masks.resolve()
        path = (root / f"{self.shown.table.files[row]}.png").resolve()
        if not path.is_relative_to(root):
            raise UnreadableImage("its name leaves the folder of masks")
        try:
            with Image.open(path, formats=["PNG"]) as mask:
                mask.load()
        except Exception as error:  # whatever Pillow stumbles over
            raise UnreadableImage(f"its mask cannot be read ({type(error).__name__})") from None
        return mask if mask.mode in ("P", "L") else mask.convert("L")

    def paths(self, row: int, side: int) -> tuple[str, dict[int, str]]:
        """View box and outlines of the parts that are shown, by their number."""
        return self._paths(self.shown.table.files[row], row, side, tuple(self.names().lookup()))

    def _make_paths(self, file: str, row: int, side: int, lookup: tuple[int, ...]) -> tuple[str, dict[int, str]]:
        labels = reduced(self.mask(row), side, lookup)
        return f"0 0 {labels.shape[1]} {labels.shape[0]}", outline_paths(labels)

    def _source_row(self, name: str) -> int:
        assert self.source is not None
        if self._row_of[0] != id(self.source):
            self._row_of = id(self.source), {each: row for row, each in enumerate(self.source.names)}
        return self._row_of[1][name]

    # -- a photo that somebody dropped

    def wait_for_model(self, seconds: float) -> PartPredictor:
        self._model_ready.wait(seconds)
        if self.predictor is None:
            raise MPAEError(self.sentence or "The model is still being loaded; try again in a few seconds.")
        return self.predictor

    @contextlib.contextmanager
    def before_others(self) -> Any:
        """While this lasts, the background prediction waits, and so does the next dropped photo."""
        with self._dropped:
            self._may_go_on.clear()
            try:
                yield
            finally:
                self._may_go_on.set()

    # -- in the background

    def _work(self) -> None:
        try:
            self._stop.wait(HEAD_START if len(self.shown.table) else 0)
            self._load_model()
            if self.folder is not None and not self._is_complete():
                self._predict()
            if self.folder is not None:
                self._show_finished()
                self._measure()
            self.state = "ready"
        except Stopped:  # raised by the progress of the prediction
            self.state = "stopped"
        except MPAEError as error:
            self.state, self.sentence = "failed", str(error)
        except Exception as error:  # the page says so, and goes on with what there is
            log.exception("The background work of the page failed.")
            self.state, self.sentence = "failed", f"Prediction stopped: {type(error).__name__}: {error}"[:300]
        finally:
            self._model_ready.set()

    def _load_model(self) -> None:
        import torch

        from mpae.model.load import load_model
        from mpae.prediction.predictor import PartPredictor

        # The other half is for the page and the browser. On two cores, two threads that wait for each other took up to
        # 5 s for a photo beside other work, and one took 0.5 s.
        torch.set_num_threads(max(1, min(torch.get_num_threads(), available_cores() // 2)))
        predictor = PartPredictor(load_model(self.run.folder))
        next(predictor.predict([Picture("warm-up", Image.new("RGB", (64, 64)), "")]))  # the first photo is the slowest
        self.predictor = predictor
        self._model_ready.set()

    def _predict(self) -> None:
        from mpae.prediction.predictor import predict_folder

        assert self.predictor is not None
        assert self.source is not None
        assert self.folder is not None
        self.state = "predicting"
        before = len(Journal(self.folder.unfinished, self.source.names, output_names(self.source.names)))

        def progress(task: str, done: int, total: int) -> None:
            if self._stop.is_set():
                raise Stopped
            self.done = before + done
            if done % REFRESH == 0 or done == BATCH:
                self._show_unfinished()
            self._may_go_on.wait()

        predict_folder(self.predictor.model, self.source, self.folder.folder, run=self._digest,
                       origin=self.origin, run_folder=str(self.run.folder.resolve()), write=KINDS, batch_size=BATCH,
                       progress=progress)

    def _measure(self) -> None:
        """How unusual each part is, once all of them are known."""
        index = self.shown.index
        if index is not None:
            self.shown = Shown(self.shown.version + 1, self.shown.table, index, unusualness(index))

    def _show_unfinished(self) -> None:
        assert self.source is not None
        assert self.folder is not None
        journal = Journal(self.folder.unfinished, self.source.names, output_names(self.source.names))
        self.shown = Shown(self.shown.version + 1, PredictionTable.of(journal.records(), self.num_parts))

    def _show_finished(self) -> None:
        assert self.folder is not None
        if self.shown.index is not None:
            return
        found = self._found or Predictions(self.folder.folder)
        index = PartIndex(found.features(), found.table.present) if found.has_features else None
        self.done = self.total = len(found.table)
        self.shown = Shown(self.shown.version + 1, found.table, index)

    # -- at the start

    def _open(self, images: Path | None) -> tuple[ImageSource | None, PredictionFolder | None, str]:
        """The images, the folder of their predictions, and where they come from."""
        if images is None:
            return None, None, ""
        if (images / "predictions.json").is_file():
            return self._open_predictions(images)
        source, self._own = images_at(images), True
        origin = str(images.resolve())
        mark = hashlib.blake2b(origin.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
        folder = self._kept_in() / f"{images.resolve().name}-{mark}"
        log.info("Predictions are kept in '%s'.", folder)
        return source, PredictionFolder(folder), origin

    def _kept_in(self) -> Path:
        """Where predictions are kept: in the run folder, or in the user's cache folder if that is only to be read."""
        folder = self.run.folder
        if os.access(folder, os.W_OK) and not comes_with_mpae(folder):
            return folder / "predictions"
        return user_cache_path("mpae", appauthor=False) / "predictions" / f"{folder.name}-{self._digest[:8]}"

    def _open_predictions(self, images: Path) -> tuple[ImageSource | None, PredictionFolder, str]:
        found = self._found = Predictions(images)
        if run_of(found.settings) != self._digest:
            raise MPAEError(f"'{images}' holds the predictions of another run than '{self.run}'; serve that one, or "
                            "give the folder of the images themselves.")
        if found.settings.get("part_of"):
            raise MPAEError(f"'{images}' holds parts that --parts joined to {found.num_parts}, and the page names all "
                            f"{self.num_parts} of the run; predict again without --parts to another folder.")
        if not {"masks", "parts"} <= set(found.settings["write"]):
            raise MPAEError(f"'{images}' has no masks or no parts.jsonl to show; predict again with "
                            f"--write {','.join(KINDS)} --overwrite.")
        origin = found.settings["origin"]
        root = Path(origin)
        if root.is_file():
            return images_at(root), found.folder, origin
        if not root.is_dir():
            log.warning("The images of '%s' are not at '%s' any more: masks are shown without them.", images, root)
            return None, found.folder, origin
        return FolderImages(root, found.table.names), found.folder, origin

    def _is_complete(self) -> bool:
        """Whether the predictions are finished and of these very images; else they are made, or gone on with."""
        assert self.folder is not None
        if not self.folder.manifest.is_file():
            return False
        manifest = self.folder.manifest_of()
        if run_of(manifest["settings"]) != self._digest:
            self.folder.clear()  # of the weights before the run was trained on
            return False
        if self._own and not self.folder.is_of(self.source.names if self.source else []):
            if manifest.get("complete"):
                self.folder.clear()  # photos came or went
            return False
        return bool(manifest.get("complete"))
