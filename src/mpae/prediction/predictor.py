"""From pictures to parts: one after the other in memory, or a whole source into a folder.

Into a folder, processes decode pictures ahead of the network, and threads make and write the files behind it.
Queues are bounded, so memory does not depend on the number of images.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mpae.backbones.vit import at_once, one_to_a_core
from mpae.cores import available_cores
from mpae.data.augment import make_view
from mpae.data.loading import Batch, PictureReader, Sample, in_batches, read_batches
from mpae.data.source import ImageSource, Picture
from mpae.devices import map_on_cores, place_on
from mpae.distributed import gather_items, on_first_process, rank_and_size
from mpae.drawing.overlay import viewing_size
from mpae.errors import MPAEError
from mpae.files import write_skipped
from mpae.model.protocol import PartModel
from mpae.prediction.close_up import can_look_closer, look_closer
from mpae.prediction.features import describe_with_features
from mpae.prediction.folder import PredictionFolder
from mpae.prediction.journal import Journal, JournalWriter, Record
from mpae.prediction.masks import MAX_PARTS, probabilities, segment
from mpae.prediction.outline import checked_outline, refine
from mpae.prediction.output_paths import output_names
from mpae.prediction.outputs import DEFAULT_OUTPUTS, OUTPUTS, Output, Predicted, choose_outputs
from mpae.prediction.part_names import PartNames
from mpae.prediction.parts import Part, Parts
from mpae.prediction.two_looks import can_take_two_looks

Progress = Callable[[str, int, int], None]  # what is done, images done, images in all


class Described(NamedTuple):
    """Of B images, float32. Logits are those of the model's K parts, also where they are joined to fewer."""

    logits: Sequence[np.ndarray]  # (K+1, h, w) of each, background last
    descriptors: np.ndarray  # (B, K, C)
    features: np.ndarray  # (B, K, E): mean of the frozen features under each part


class PartPredictor:
    """A model that finds the parts of pictures of any size."""

    def __init__(self, model: PartModel, *, flip: bool = False, outline: str = "pixel", exact: bool = False,
                 device: torch.device | str | None = None, names: PartNames | None = None,
                 part_of: Sequence[int] | None = None):
        """
        Args:
            flip: average the logits of the picture and of its mirror image; it takes twice the time.
            outline: "pixel", of the edges in the picture, or "patch", of the grid of patches.
            exact: one look at the whole picture, all of its patches alike. Otherwise an MPAE takes a closer look at the
                object (`close_up.py`), and on a CPU, where pixel outlines need no more, a coarse one at the background
                of large images (`two_looks.py`).
            device: where the model moves; without one it stays where it is.
            names: that people gave the K parts of the model; their numbers if not given.
            part_of: (K,), the part of fewer, 0.., that each of them belongs to; `Hierarchy.part_of` gives it.
        """
        if model.num_parts > MAX_PARTS:
            raise MPAEError(f"The model has {model.num_parts} parts, and a mask has room for {MAX_PARTS}; "
                            f"train one with fewer.")
        self.model, self.flip, self.outline, self.device = (
            model, flip, checked_outline(outline), place_on(model, device))
        self.close_up = not exact and can_look_closer(model)
        self.two_looks = not exact and outline == "pixel" and can_take_two_looks(model, self.device.type)
        self.part_of, names = part_of, names or PartNames(model.num_parts)
        self.names = names if part_of is None else names.gathered(part_of)

    @property
    def num_parts(self) -> int:
        """That are found: those of the model, or the fewer that they are joined to."""
        return self.names.num_parts

    @property
    def needs_pictures(self) -> bool:
        """Whether it looks at pictures beside the inputs of the model."""
        return self.close_up or self.outline == "pixel"

    def predict(self, pictures: Iterable[Picture], *, batch_size: int = 16,
                with_probabilities: bool = False) -> Iterator[Parts]:
        """The parts of each picture, at its own size; pictures are taken as they are needed."""
        pictures = iter(pictures)
        while batch := list(islice(pictures, batch_size)):
            pixels = [make_view(picture, view=0, size=self.model.image_size) for picture in batch]
            shown = [np.asarray(shown_picture(picture)) for picture in batch] if self.close_up else None
            found = iter(zip(batch, *self.describe(np.stack(pixels), shown), strict=True))
            together = 1 if with_probabilities else torch.get_num_threads()  # a large photo's probabilities are large
            while some := list(islice(found, together)):
                yield from map_on_cores(lambda each: self._parts(*each, with_probabilities), some)

    def _parts(self, picture: Picture, logits: np.ndarray, descriptors: np.ndarray, features: np.ndarray,
               with_probabilities: bool) -> Parts:
        """The parts of a picture at its own size, from what the model says of it."""
        size = picture.image.size
        if self.outline == "pixel":
            logits = refine(logits, shown_picture(picture), size)
        mask, present = self.segment(logits, size)
        maps = probabilities(logits, size, self.part_of) if with_probabilities else None
        return Parts(picture.name, mask, present, descriptors, maps, features, self.names)

    def segment(self, logits: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, list[Part]]:
        """The mask of an image (H, W) and the parts in it, with the names that people gave them."""
        mask, present = segment(logits, size, self.part_of)
        return mask, [replace(part, given_name=self.names.name(part.index)) for part in present]

    @torch.inference_mode()
    def describe(self, pixels: np.ndarray, shown: Sequence[np.ndarray] | None = None) -> Described:
        """What the model says of images (B, S, S, 3) uint8.

        Args:
            shown: the pictures themselves (H, W, 3) uint8, at a size to look at; a closer look needs them.
        """
        images = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).float().div_(255).contiguous()
        if not self.close_up or shown is None:
            return self._described(images, list)
        close = look_closer(self.model, images, shown,
                            lambda small: torch.cat(self._few_at_a_time(self.model.part_logits, small)))
        return self._described(close.images, close.placed)

    def _described(self, images: Tensor, whole: Callable[[Tensor], list[Tensor]]) -> Described:
        """Of images (B, 3, S, S); `whole` makes their logits (B, K+1, h, w) those of whole pictures."""
        found = self._few_at_a_time(self._describe, images, 1 if self.two_looks else None)
        logits, descriptors, features = (torch.cat(each) for each in zip(*found, strict=True))
        descriptors = descriptors[:, :-1]
        if self.part_of is not None:
            descriptors, features = (joined_vectors(each, logits, self.part_of) for each in (descriptors, features))
        return Described([_to_numpy(each) for each in whole(logits)], _to_numpy(descriptors), _to_numpy(features))

    def _few_at_a_time(self, function: Callable[[Tensor], Any], images: Tensor, few: int | None = None) -> list[Any]:
        """A function of images (B, 3, H, W), on a CPU of a few at a time, one chunk to a core where that may be."""
        on_cpu = self.device.type == "cpu"
        chunks = images.split(few or (at_once(images.shape[-1]) if on_cpu else len(images)))
        if one_to_a_core(getattr(self.model, "backbone", None), self.device):
            return map_on_cores(function, chunks)
        return [function(chunk) for chunk in chunks]

    def _describe(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (logits, descriptors), features = describe_with_features(self.model, images, self.two_looks)
        if self.flip:
            mirrored, mirrored_features = describe_with_features(self.model, images.flip(-1), self.two_looks)
            logits = (logits + mirrored.logits.flip(-1)) / 2
            descriptors = (descriptors + mirrored.descriptors) / 2
            features = (features + mirrored_features) / 2
        return logits, descriptors, features


@dataclass(frozen=True)
class FolderPrediction:
    """What `predict_folder` did."""

    folder: PredictionFolder
    images: int  # whose predictions are in the folder
    new: int  # of them by this call
    skipped: list[tuple[str, str]] = field(repr=False)  # name and reason of images that could not be read
    seconds: float


def predict_folder(model: PartModel, source: ImageSource, out: str | Path, *, run: str, origin: str = "",
                   run_folder: str = "", write: Sequence[str] = DEFAULT_OUTPUTS, flip: bool = False,
                   outline: str = "pixel", exact: bool = False, part_of: Sequence[int] | None = None,
                   batch_size: int = 16, workers: int = 0, overwrite: bool = False,
                   device: torch.device | str | None = None, names: PartNames | None = None,
                   progress: Progress = lambda *_: None) -> FolderPrediction:
    """Write the parts of all images of a source into a folder; go on if a call before was stopped.

    Args:
        run: fingerprint of the model; predictions of another one are not gone on with.
        origin: where the images come from; likewise.
        run_folder: where the run lies; kept for those who look at the predictions later.
        write: what to write; `mpae.prediction.outputs` describes each.
        outline, exact, part_of: as for `PartPredictor`.
        device: where the model is moved and runs; where it is, if not given.
        workers: processes that read and decode ahead of the model.
        names: that people gave the parts; overlays, tables and COCO have them. Masks have all K parts in any case.
        progress: called with "predict", images done by this call, and images it has to do.

    Where torch.distributed runs, each process takes its share of the images.
    """
    start = time.perf_counter()
    predictor = PartPredictor(model, flip=flip, outline=outline, exact=exact, device=device, names=names,
                              part_of=part_of)
    outputs = choose_outputs(write)
    settings = {"run": run, "origin": origin, "write": [output.name for output in outputs], "flip": flip,
                "num_parts": predictor.num_parts, "image_size": model.image_size}
    if part_of is not None:
        settings["part_of"] = list(part_of)
    if outline != "patch":
        settings["outline"] = outline
    if predictor.close_up:
        settings["close_up"] = True
    if predictor.two_looks:
        settings["looks"] = 2
    if predictor.names.entries:
        settings["names"] = predictor.names.as_text()  # one file has the same names throughout
    folder, files = PredictionFolder(out), output_names(source.names)
    found = on_first_process(lambda: _begin(folder, settings, source.names, files, overwrite, run_folder))
    if isinstance(found, dict):
        skipped = [(name, reason) for name, reason in found["skipped"]]
        return FolderPrediction(folder, found["images"], 0, skipped, time.perf_counter() - start)
    rank, processes = rank_and_size()
    job = _Job(predictor, source, folder, files, outputs, batch_size, workers, progress)
    unreadable = sorted(gather_items(job.run(found[rank::processes], rank)))
    skipped = [(source.names[index], reason) for index, reason in unreadable]
    images = on_first_process(lambda: _assemble(folder, settings, source.names, files, skipped, predictor.names))
    return FolderPrediction(folder, images, len(found) - len(skipped), skipped, time.perf_counter() - start)


def _begin(folder: PredictionFolder, settings: dict[str, Any], names: Sequence[str], files: Sequence[str],
           overwrite: bool, run_folder: str) -> list[int] | dict[str, Any]:
    """Indices of the images that are to be done; or, where all is done, what the manifest says of it."""
    complete = folder.prepare(settings, names, overwrite, run_folder)
    return complete or Journal(folder.unfinished, names, files).undone()


@dataclass
class _Job:
    """The images of this process, from reading to the journal."""

    predictor: PartPredictor
    source: ImageSource
    folder: PredictionFolder
    files: Sequence[str]  # output name of each image
    outputs: Sequence[Output]
    batch_size: int
    workers: int
    progress: Progress

    def run(self, indices: Sequence[int], rank: int) -> list[tuple[int, str]]:
        """Predict these images; returns index and reason of those that could not be read."""
        skipped: list[tuple[int, str]] = []
        pending: deque[Future[tuple[Record, dict[str, np.ndarray]]]] = deque()
        journal = JournalWriter(self.folder.unfinished, rank)
        pool = ThreadPoolExecutor(max_workers=min(4, available_cores()))
        done = 0

        def settle(leave: int) -> None:
            nonlocal done
            while len(pending) > leave:
                journal.append(*pending.popleft().result())
                done += 1
                self.progress("predict", done + len(skipped), len(indices))

        try:
            for batch in self._batches(indices):
                skipped += [(each.index, each.reason) for each in batch.unreadable]
                pending += self._predict(batch.samples, pool)
                settle(leave=2 * self.batch_size)
            settle(leave=0)
        finally:
            pool.shutdown(cancel_futures=True)
            journal.close()
        return skipped

    def _batches(self, indices: Sequence[int]) -> Iterator[Batch]:
        shown = self.predictor.needs_pictures or any(each.shows for each in self.outputs)
        reader = PictureReader(self.source, self.predictor.model.image_size,
                               shown_size=viewing_size if shown else None)
        return read_batches(reader, in_batches(indices, self.batch_size), min(self.workers, len(indices)))

    def _predict(self, samples: list[Sample],
                 pool: ThreadPoolExecutor) -> Iterator[Future[tuple[Record, dict[str, np.ndarray]]]]:
        if samples:
            shown = [sample.shown for sample in samples if sample.shown is not None]
            described = self.predictor.describe(np.stack([sample.pixels for sample in samples]), shown or None)
            for each in zip(samples, *described, strict=True):
                yield pool.submit(self._write, *each)

    def _write(self, sample: Sample, logits: np.ndarray, descriptors: np.ndarray,
               features: np.ndarray) -> tuple[Record, dict[str, np.ndarray]]:
        """Make and write the files of one image; returns what the tables need of it: plain data, and numbers."""
        file = self.files[sample.index]
        if self.predictor.outline == "pixel" and sample.shown is not None:
            logits = refine(logits, Image.fromarray(sample.shown), sample.size)
        mask, present = self.predictor.segment(logits, sample.size)
        found = Predicted(sample.size, logits, mask, present, descriptors, features, sample.shown,
                          self.predictor.names, self.predictor.part_of)
        for output in self.outputs:
            if output.image:
                output.image(self.folder.folder / output.path.format(file), found)
        kept = {output.name: output.keep(found) for output in self.outputs if output.keep}
        numbers = {name: value for name, value in kept.items() if isinstance(value, np.ndarray)}
        record: Record = {"name": sample.name, "file": file, "width": sample.size[0], "height": sample.size[1],
                          "parts": [part.as_dict() for part in present],
                          "kept": {name: value for name, value in kept.items() if name not in numbers}}
        return record, numbers


def _assemble(folder: PredictionFolder, settings: dict[str, Any], names: Sequence[str], files: Sequence[str],
              skipped: list[tuple[str, str]], part_names: PartNames) -> int:
    """Put the tables together from the journals; returns the number of images in them."""
    journal = Journal(folder.unfinished, names, files)
    for name in settings["write"]:
        if write := OUTPUTS[name].table:
            write(folder.output(name), journal, part_names)
    write_skipped(folder.skipped, skipped)
    folder.finish(settings, names, len(journal), skipped)
    return len(journal)


def shown_picture(picture: Picture) -> Image.Image:
    """At a size to look at."""
    return picture.image.resize(viewing_size(picture.image.size), Image.Resampling.BICUBIC)


def joined_vectors(vectors: Tensor, logits: Tensor, part_of: Sequence[int]) -> Tensor:
    """Means over the parts that are joined, each by its share of the image: (B, K, C) -> (B, k, C).

    Args:
        logits: (B, K+1, h, w), background last.
    """
    mass = logits.softmax(dim=1)[:, :-1].mean(dim=(2, 3))[..., None] + 1e-12  # (B, K, 1)
    groups = torch.as_tensor(part_of, device=vectors.device)
    members = [groups == part for part in range(int(groups.max()) + 1)]
    return torch.stack([(vectors * mass)[:, its].sum(dim=1) / mass[:, its].sum(dim=1) for its in members], dim=1)


def _to_numpy(values: Tensor) -> np.ndarray:
    return values.float().cpu().numpy()
