"""The library: parts of things in a few lines of Python, as a scikit-learn estimator."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from mpae.config import default_preset, differences, resolve
from mpae.data.sources.in_memory import ImageLike, InMemoryImages, is_one_image, iterate_pictures
from mpae.devices import choose_device
from mpae.drawing.palette import part_name
from mpae.errors import MPAEError
from mpae.hub import run_folder
from mpae.model.hierarchy import joined_parts
from mpae.model.load import load_model
from mpae.prediction.folder import run_of
from mpae.prediction.part_names import PartNames
from mpae.prediction.parts import Parts
from mpae.prediction.predictor import PartPredictor
from mpae.prediction.search import PartIndex
from mpae.prediction.table import Predictions
from mpae.run import Run

log = logging.getLogger("mpae")

# What a pickle carries of the run folder; an imported model may have brought its backbone along.
NEEDED = ("config.yaml", "model.safetensors", "backbone.safetensors", "hierarchy.yaml")


class PartDiscovery(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Finds the parts of things in images that nobody has labelled: a scikit-learn transformer.

    Args:
        parts: int, K, the number of parts, the background not counted; ``"auto"`` finds one from 2 to 32.
        preset: ``"laptop"`` or ``"paper"``; None is the one that suits this machine.
        out: path of the run folder that `fit` makes; None is a temporary one, which goes with this object.
        settings: dict, any of the settings that ``mpae settings`` lists, for example ``{"training.epochs": 20}``.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``, where it trains and predicts; ``"auto"`` is a GPU by
            CUDA where there is one, else the CPU.

    Attributes:
        run_: `mpae.run.Run`, the run folder of the fitted model; ``run_.folder`` is its path.
        model_: `mpae.model.MPAE`, a torch module in evaluation mode, on the device where it predicts.

    >>> from mpae import PartDiscovery
    >>> model = PartDiscovery.load("runs/birds")  # or PartDiscovery(parts=8).fit("photos/")
    >>> parts = model.predict("photos/heron.jpg")
    >>> parts.mask.shape, str(parts.mask.dtype)  # the size of the photo; 0 background, 1..K parts
    ((80, 96), 'uint8')
    >>> [part.name for part in parts.present]  # each with area, centre, box and confidence
    ['part-...]
    >>> parts.descriptors.shape  # (K, C)
    (3, 32)
    """

    run_: Run
    model_: Any

    def __init__(self, parts: int | str = 8, preset: str | None = None, out: str | os.PathLike[str] | None = None,
                 settings: Mapping[str, Any] | None = None, device: str = "auto"):
        # scikit-learn copies estimators by these five, so they are kept as they are.
        self.parts, self.preset, self.out, self.settings, self.device = parts, preset, out, settings, device

    # -- from images, from a folder, from the Hub, and back

    def fit(self, images: str | os.PathLike[str] | Iterable[ImageLike], y: Any = None, *,
            out: str | os.PathLike[str] | None = None,
            begin_with: str | os.PathLike[str] | None = None) -> PartDiscovery:
        """Learn parts from a folder of images, or from images at hand.

        Args:
            images: a folder, sub-folders included; or paths, Pillow images, arrays (H, W, 3) or (H, W) of uint8
                or of floats in [0, 1], or tensors (3, H, W) likewise.
            y: not looked at; a scikit-learn pipeline passes it.
            out: path of the run folder to make, instead of the constructor's.
            begin_with: another run, as in `load`: training begins with its parts, and the new run has their numbers
                and names.
        Returns:
            This object, fitted. Ctrl-C ends the training early and keeps what was learned so far.
        Raises:
            MPAEError: what is wrong with the images or settings, in one sentence; nothing was written.

        >>> quick = {**tiny, "training.max_steps": 1}  # settings of a tiny model, for this example
        >>> photos = [np.full((64, 64, 3), 40 * shade, dtype=np.uint8) for shade in range(6)]
        >>> model = PartDiscovery(parts=2, preset="laptop", settings=quick).fit(photos)
        >>> model.predict(photos[3]).num_parts
        2
        """
        from mpae.data.catalogue import open_images
        from mpae.training.begin import check_kept, kept_settings
        from mpae.training.fit import fit

        if "model.num_parts" in (self.settings or {}):
            raise MPAEError("The number of parts is in settings as 'model.num_parts'; give it as parts=K instead.")
        is_folder = isinstance(images, (str, os.PathLike))
        if is_one_image(images) and not is_folder:
            raise MPAEError("Training needs at least 2 images and one was given; pass a folder, or a list of images.")
        where = {} if self.device == "auto" else {"training.accelerator": self.device}
        number = {"training.auto_parts": True} if self.parts == "auto" else {"model.num_parts": self.parts}
        chosen: dict[str, Any] = {**(self.settings or {}), **where, **number, "data.dataset": "folder",
                                  "data.root": os.fspath(images) if is_folder else None}  # type: ignore[arg-type]
        begin = Run.open(run_folder(begin_with)) if begin_with is not None else None
        if begin is not None:
            kept = kept_settings(begin)
            check_kept(kept, chosen, begin)
            chosen |= kept
        config = resolve(self.preset or default_preset(), None, chosen)
        source = open_images(config.data) if is_folder else InMemoryImages(images)  # type: ignore[arg-type]
        folder, temporary = self._new_folder(out if out is not None else self.out)
        result = fit(config, source, folder, begin=begin)
        if result.reason == "interrupted":
            log.warning("Interrupted: the parts are those of the %d steps done so far.", result.steps)
        self._temporary = temporary
        return self._use(Run.open(folder))

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, revision: str | None = None,
             device: str = "auto") -> PartDiscovery:
        """A fitted model from a run folder, or from the Hugging Face Hub by its ``user/name``.

        Args:
            folder: path of a run folder here; if there is none and it reads ``user/name``, that model on the Hub;
                ``hf://user/name`` is the Hub in any case.
            revision: str, branch, tag or commit on the Hub.
            device: where it predicts, as in the constructor.
        Returns:
            A fitted `PartDiscovery` whose ``parts`` and ``settings`` are those of the run.
        Raises:
            MPAEError: there is no such run, or its files are damaged.

        >>> PartDiscovery.load("runs/birds").parts
        3
        """
        run = Run.open(run_folder(folder, revision))
        config = run.config()
        settings = {name: value for name, _, value in differences(resolve("paper"), config)
                    if name not in ("model.num_parts", "data.dataset", "data.root")}
        return cls(config.model.num_parts, "paper", settings=settings, device=device)._use(run)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Keep the run folder of this model, for `load` and for the command ``mpae``.

        Args:
            folder: path of a folder that does not exist yet, or is empty.

        >>> PartDiscovery.load("runs/birds").save("runs/copy")
        >>> PartDiscovery.load("runs/copy").parts
        3
        """
        self._check_fitted()
        target = Path(folder)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise MPAEError(f"'{target}' exists already; save to another folder.")
        temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            copy_run(self.run_, temporary)
            if target.exists():
                target.rmdir()
            os.replace(temporary, target)
        except OSError as error:
            raise MPAEError(f"Cannot write '{target}': {error.strerror or error}.") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    # -- from images to parts

    @overload  # a path and an array can be iterated over too, so the first that fits counts
    def predict(self, images: ImageLike, probabilities: bool = False,  # type: ignore[overload-overlap]
                flip: bool = False, parts: int | None = None, outline: str = "pixel",
                exact: bool = False) -> Parts: ...
    @overload
    def predict(self, images: Iterable[ImageLike], probabilities: bool = False,
                flip: bool = False, parts: int | None = None, outline: str = "pixel",
                exact: bool = False) -> list[Parts]: ...

    def predict(self, images: Any, probabilities: bool = False, flip: bool = False,
                parts: int | None = None, outline: str = "pixel", exact: bool = False) -> Parts | list[Parts]:
        """The parts of an image at its own size; a list of them for a folder or several images.

        Args:
            images: a path, a Pillow image, an array (H, W, 3) or (H, W), a tensor (3, H, W); or an iterable of
                these, or a folder.
            probabilities: bool, also give the probability of each part for every pixel, ``(K+1, H, W)``.
            flip: bool, average over the image and its mirror image, which takes twice the time.
            parts: int, join the parts of the run to so many, those that are most alike first.
            outline: str, of the mask: "pixel", the edges in the image, or "patch", the grid of patches.
            exact: bool, one look at the whole image, without a closer one at the object.
        Returns:
            `mpae.prediction.parts.Parts` for one image, a list of them for several, in their order: ``name``,
            ``mask`` (H, W) uint8, ``present`` (a list of `Part`: index, name, area, share, centre, box, confidence),
            ``descriptors`` (K, C) float32, and ``probabilities`` (K+1, H, W), background last, or None.
        Raises:
            MPAEError: a file that cannot be read as an image.
            sklearn.exceptions.NotFittedError: before `fit` and `load`.

        >>> model = PartDiscovery.load("runs/birds")
        >>> photo = np.full((40, 60, 3), 0.5)
        >>> model.predict(photo, probabilities=True).probabilities.shape
        (4, 40, 60)
        >>> [parts.size for parts in model.predict([photo, "photos/heron.jpg"])]
        [(60, 40), (96, 80)]
        """
        found = self._predict(images, probabilities, flip, parts, outline, exact)
        return next(found) if is_one_image(images) else list(found)

    def transform(self, images: Any) -> np.ndarray:
        """One vector for each image, for a classifier or a search: (n, K·(C+1)) float32.

        Each part has C+1 numbers in a row: 1 where the image shows it, and its descriptor scaled to length 1.
        All of them are 0 where the image does not show it.

        Args:
            images: as for `predict`; one image is a batch of one.
        Returns:
            A float32 array with a row for each image; `get_feature_names_out` names its columns.

        >>> PartDiscovery.load("runs/birds").transform("photos/").shape  # 3 parts, descriptors of 32 numbers
        (1, 99)
        """
        rows = [part_vector(parts) for parts in self._predict(images)]
        if not rows:
            raise MPAEError("There is no image to transform; pass a folder, an image or some images.")
        return np.stack(rows)

    def search(self, predictions: str | os.PathLike[str], photo: Any, part: str | int, top: int = 20) -> list[Found]:
        """The images of a folder that ``mpae predict`` wrote whose part is most like that of a photo, best first.

        Args:
            predictions: the folder; it must be of this run.
            photo: the name of an image in the folder, or any image.
            part: name or number of the part to compare.
        """
        self._check_fitted()
        return search_predictions(predictions, photo, part, top, model=self)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """What each number of `transform` is: ``part-01``, ``part-01-000``, ``part-01-001``, ...

        Args:
            input_features: not looked at; a scikit-learn pipeline passes it.
        Returns:
            An array of K·(C+1) strings.

        >>> PartDiscovery.load("runs/birds").get_feature_names_out()[[0, 1, 33]].tolist()
        ['part-01', 'part-01-000', 'part-02']
        """
        self._check_fitted()
        parts, dim = self.model_.num_parts, self.run_.config().model.dim
        return np.array([name for index in range(1, parts + 1) for name in (
            part_name(index), *(f"{part_name(index)}-{number:03d}" for number in range(dim)))], dtype=object)

    # -- inside

    def _predict(self, images: Any, probabilities: bool = False, flip: bool = False,
                 parts: int | None = None, outline: str = "pixel", exact: bool = False) -> Iterator[Parts]:
        self._check_fitted()
        names = PartNames.load(self.run_.folder, self.model_.num_parts)
        part_of = joined_parts(self.run_, self.model_, parts, _no_hierarchy, self.model_.mean.device)
        predictor = PartPredictor(self.model_, flip=flip, outline=outline, exact=exact, names=names, part_of=part_of)
        return predictor.predict(iterate_pictures(images), with_probabilities=probabilities)

    def _use(self, run: Run) -> PartDiscovery:
        self.model_ = load_model(run.folder).to(choose_device(self.device))
        self.run_ = run
        return self

    def _new_folder(self, out: str | os.PathLike[str] | None) -> tuple[Path, Any]:
        if out is None:
            temporary = tempfile.TemporaryDirectory(prefix="mpae-")
            return Path(temporary.name), temporary
        if Run(Path(out)).exists():
            raise MPAEError(f"'{out}' holds a run already; use it with PartDiscovery.load, or choose another out.")
        return Path(out), None

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This PartDiscovery knows no parts yet; call fit(images), or use "
                                 "PartDiscovery.load(folder).")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "run_")

    def __sklearn_tags__(self) -> Any:
        """scikit-learn: it takes images, not tables, and checks them itself."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        tags.no_validation = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """A pickle carries the trained weights, and the frozen backbone by its name only, as a run folder does."""
        state = {key: value for key, value in super().__getstate__().items()
                 if key not in ("run_", "model_", "_temporary")}
        if self.__sklearn_is_fitted__():
            state["_files"] = {name: (self.run_.folder / name).read_bytes() for name in NEEDED
                               if (self.run_.folder / name).is_file()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files", None)
        super().__setstate__(state)
        if files is not None:
            folder, self._temporary = self._new_folder(None)
            for name in filter(files.__contains__, NEEDED):
                (folder / name).write_bytes(files[name])
            self._use(Run.open(folder))


def load(folder: str | os.PathLike[str], *, revision: str | None = None, device: str = "auto") -> PartDiscovery:
    """A fitted model from a run folder or from the Hugging Face Hub: `PartDiscovery.load`, with the same arguments.

    >>> import mpae
    >>> mpae.load("runs/birds").parts
    3
    """
    return PartDiscovery.load(folder, revision=revision, device=device)


def part_vector(parts: Parts) -> np.ndarray:
    """One image as (K·(C+1),) float32: for each part 1 and its descriptor scaled to length 1, or zeros.

    >>> from mpae.prediction.parts import Part
    >>> second = Part(index=2, area=3, share=0.75, centre=(1.17, 1.17), box=(0, 0, 2, 2), confidence=0.9)
    >>> mask, descriptors = np.array([[0, 2], [2, 2]], dtype=np.uint8), np.array([[7.0, 7.0], [3.0, 4.0]])
    >>> part_vector(Parts("heron.jpg", mask, [second], descriptors)).round(2).tolist()
    [0.0, 0.0, 0.0, 1.0, 0.6..., 0.8...]
    """
    present = np.zeros((parts.num_parts, 1))
    present[[part.index - 1 for part in parts.present]] = 1
    length = np.linalg.norm(parts.descriptors, axis=1, keepdims=True).clip(min=1e-12)
    vector: np.ndarray = present * np.hstack([present, parts.descriptors / length])  # (K, C+1)
    return vector.astype(np.float32).ravel()


def copy_run(run: Run, folder: Path) -> None:
    """Copy what this package writes into a run folder, and nothing else that lies there."""
    folder.mkdir(parents=True)
    for file in (run.config_file, run.weights_file, run.backbone_file, run.metrics_file, run.skipped_file,
                 run.parts_file, run.hierarchy_file):
        if file.is_file():
            shutil.copy(file, folder / file.name)
    for inner in (run.checkpoint_file.parent, run.previews):
        if inner.is_dir():
            shutil.copytree(inner, folder / inner.name)


def _no_hierarchy() -> InMemoryImages:
    raise MPAEError("This run does not know yet how its parts join; `mpae predict RUN IMAGES --parts N` looks for it, "
                    "once.")


@dataclass(frozen=True)
class Found:
    """An image that a search by part found."""

    name: str  # as in the prediction folder
    part: int  # 1..K
    similarity: float  # cosine, at most 1


def search_predictions(predictions: str | os.PathLike[str], photo: Any, part: str | int, top: int = 20,
                       run: str | os.PathLike[str] | None = None, model: PartDiscovery | None = None) -> list[Found]:
    """The images of a prediction folder whose part is most like that of a photo, best first.

    Args:
        photo: the name of an image in the folder, or any image.
        part: its name or number.
        run: the run folder of the predictions, if it is not where it was.
        model: the same, where it is loaded already.
    """
    found = Predictions(Path(predictions))
    folder = model.run_.folder if model is not None else Path(run_folder(run) if run else found.run_folder)
    if (model is not None or run) and Run(folder).weights_digest() != run_of(found.settings):
        raise MPAEError(f"'{predictions}' holds the predictions of another run than '{folder}'; give the run that "
                        "made them.")
    named = found.part_names(folder).find(part)
    index = PartIndex(found.features(), found.table.present)
    columns = [member - 1 for member in named.members]
    name = Path(photo).as_posix() if isinstance(photo, (str, os.PathLike)) else None
    if name is not None and name in found.table.names:
        row: int | None = list(found.table.names).index(name)
        largest = named.members[int(found.table.share[row, columns].argmax())]
        vector = index.vector(row, largest)  # type: ignore[arg-type]
    else:
        if model is None and not Run(folder).exists():
            raise MPAEError(f"The run of '{predictions}' is not at '{folder}' any more; give it with --run RUN.")
        row, parts = None, (model or PartDiscovery.load(folder)).predict(
                photo, parts=found.num_parts if found.settings.get("part_of") else None)
        present = [each for each in parts.present if each.index in named.members]
        if not present or parts.features is None:
            raise MPAEError(f"'{parts.name}' does not show the part '{named.name}'; it shows: "
                            f"{', '.join(each.name for each in parts.present) or 'none'}.")
        largest = max(present, key=lambda each: each.area).index
        vector = parts.features[largest - 1]
    matches = index.search(vector, largest, named.members, top, leave_out=row)
    return [Found(found.table.names[match.image], match.part, match.similarity) for match in matches]
