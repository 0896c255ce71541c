"""The run folder: the one place that knows its layout.

RUN/
  config.yaml            every setting as resolved, the package version, the seed
  model.safetensors      the trained weights, without the frozen backbone (it is named in config.yaml)
  backbone.safetensors   the frozen backbone, where an imported checkpoint brought it along
  checkpoints/last.ckpt  the whole training state, written atomically
  metrics.jsonl          one line a step that was logged and one an evaluation
  previews/              image | parts | restoration, as training went on
  skipped.txt            images that could not be read, and why
  parts.yaml             what people said of the parts
  hierarchy.yaml         how the parts join to fewer
  evaluations/           for each dataset and split: figures, one row an image, parts against annotated parts
  report/index.html
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import yaml

from mpae import __version__, config
from mpae.assets.trained import comes_with_mpae, is_name, unknown_name
from mpae.config import Config
from mpae.errors import MPAEError, short
from mpae.files import TEMPORARY, cannot_write, one_line, read_yaml, write_atomically, write_text

FORMAT = 1  # of the folder; a newer one is refused with a sentence
PRIVATE = (("data", "root"), ("cache", "folder"))  # settings that name folders of the machine it was trained on


class Run:
    """Paths and files of one run; reading checks what it reads, writing is atomic."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.config_file = self.folder / "config.yaml"
        self.weights_file = self.folder / "model.safetensors"
        self.backbone_file = self.folder / "backbone.safetensors"
        self.checkpoint_file = self.folder / "checkpoints" / "last.ckpt"
        self.metrics_file = self.folder / "metrics.jsonl"
        self.previews = self.folder / "previews"
        self.skipped_file = self.folder / "skipped.txt"
        self.tensorboard = self.folder / "tensorboard"
        self.evaluations = self.folder / "evaluations"
        self.parts_file = self.folder / "parts.yaml"
        self.hierarchy_file = self.folder / "hierarchy.yaml"
        self.report = self.folder / "report" / "index.html"

    def __str__(self) -> str:
        return str(self.folder)

    # -- settings

    @classmethod
    def create(cls, folder: str | Path, settings: Config, facts: Mapping[str, Any]) -> Run:
        """A new run folder; `facts` are what the settings do not say, such as the backbone's fingerprint."""
        run = cls(folder)
        content = {"format": FORMAT, "version": __version__, "seed": settings.training.seed, **facts,
                   "settings": settings.model_dump(mode="json")}
        write_text(run.config_file, yaml.safe_dump(content, sort_keys=False))
        return run

    def update(self, facts: Mapping[str, Any], settings: Config) -> None:
        """What a session that goes on changes in config.yaml: facts, and how long the run is."""
        content = self.content()
        training = content["settings"].setdefault("training", {})
        changed = {"epochs": settings.training.epochs, "max_steps": settings.training.max_steps}
        if content | dict(facts) != content or training | changed != training:
            training |= changed
            write_text(self.config_file, yaml.safe_dump(content | dict(facts), sort_keys=False))

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """An existing run folder, checked to be one."""
        run = cls(folder)
        if not os.path.isdir(run.folder):
            others = f", {unknown_name(str(run))}" if is_name(str(run)) else ""
            raise MPAEError(f"No run folder '{run}'{others}; `mpae fit IMAGES --out {run}` makes one.")
        if not os.path.isfile(run.config_file):
            raise MPAEError(f"'{run}' is not a run folder: it has no config.yaml.")
        run.content()
        return run

    def exists(self) -> bool:
        return os.path.lexists(self.config_file)

    def is_free(self) -> bool:
        """Whether a run can start here: nothing is there, or no more than a killed one left before it began."""
        if not os.path.lexists(self.folder):
            return True
        return os.path.isdir(self.folder) and all(TEMPORARY.fullmatch(name) for name in os.listdir(self.folder))

    def content(self) -> dict[str, Any]:
        """All of config.yaml."""
        content = read_yaml(self.config_file)
        found = content.get("format")
        if type(found) is not int or found < 1 or not isinstance(content.get("settings"), dict):
            raise MPAEError(f"'{self.config_file}' is not mpae's: expected 'format' and 'settings'.")
        if found > FORMAT:
            raise MPAEError(f"'{self}' was written by a newer mpae ({short(content.get('version'))}); "
                            f"this one is {__version__}: upgrade it to read this run.")
        return content

    def shared_content(self) -> dict[str, Any]:
        """config.yaml for other people: without the folders of this machine."""
        content = self.content()
        for section, key in PRIVATE:
            content["settings"].get(section, {}).pop(key, None)
        return content

    def config(self) -> Config:
        return config.from_run(self.content()["settings"], str(self.config_file))

    def evaluation(self, dataset: str, split: str, image_size: int | None = None, outline: str = "patch",
                   joined: int | None = None) -> Path:
        """The folder of the last evaluation on a split: figures.json, images.csv, contingency.png.

        One with images of another size than in training, with other outlines than those of patches or with parts
        joined to fewer has a folder of its own.
        """
        other = image_size is not None and image_size != self.config().data.image_size
        words = [dataset, split, *([str(image_size)] if other else []), *([outline] if outline != "patch" else []),
                 *([f"{joined}-parts"] if joined else [])]
        return self.evaluations / "-".join(words)

    def clear(self) -> None:
        """Remove what this package writes, and nothing else that lies in the folder."""
        self.sweep()
        for path in (self.checkpoint_file.parent, self.previews, self.tensorboard, self.evaluations,
                     self.report.parent):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self.weights_file, self.backbone_file, self.metrics_file, self.skipped_file, self.parts_file,
                     self.hierarchy_file, self.config_file):
            path.unlink(missing_ok=True)  # config.yaml last: until then it is a run folder, whoever is killed here

    def sweep(self) -> None:
        """Remove what a process that was killed left half written; one process at a time writes a run."""
        for folder in (self.folder, self.checkpoint_file.parent, self.previews):
            for left in folder.glob(".*.part"):
                if TEMPORARY.fullmatch(left.name):
                    left.unlink(missing_ok=True)

    # -- weights and training state

    def save_weights(self, weights: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
        from safetensors.torch import save

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        content = save(tensors, dict(metadata))
        write_atomically(self.weights_file, lambda path: path.write_bytes(content))

    def load_weights(self) -> dict[str, Any]:
        from safetensors.torch import load_file

        from mpae.assets.int8 import unpack

        if not os.path.isfile(self.weights_file) and comes_with_mpae(self.folder):
            raise MPAEError(f"The run '{self.folder.name}' that comes with mpae has lost its weights; install "
                            "mpae again.")
        if not os.path.isfile(self.weights_file):
            raise MPAEError(f"'{self}' is unfinished: it has no model.safetensors; "
                            f"`mpae fit --resume --out {self}` goes on with it.")
        try:
            return unpack(load_file(self.weights_file))  # those of a packed run are integers
        except Exception as error:  # SafetensorError, or what torch makes of a header that lies
            raise MPAEError(f"'{self.weights_file}' is damaged or not safetensors ({short(error)}); "
                            "copy it again, or train the run anew.") from None

    def weights_digest(self) -> str:
        """Tells one state of training from another, wherever the folder lies."""
        return hashlib.sha256(self.weights_file.read_bytes()).hexdigest()[:16]

    def save_checkpoint(self, state: Mapping[str, Any]) -> None:
        import torch

        content = io.BytesIO()  # torch hides a full disk behind an error of its own
        torch.save(dict(state), content)
        write_atomically(self.checkpoint_file, lambda path: path.write_bytes(content.getbuffer()))

    def load_checkpoint(self) -> dict[str, Any]:
        """Tensors and numbers only: a file that holds other objects could run code, and is refused."""
        import pickle

        import torch

        if not os.path.isfile(self.checkpoint_file):
            raise MPAEError(f"'{self}' has no checkpoint to resume from; start it anew with --overwrite.")
        try:
            state = torch.load(self.checkpoint_file, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            raise MPAEError(f"'{self.checkpoint_file}' is refused: it is no checkpoint of mpae, or it holds "
                            "objects that could run code; start the run anew with --overwrite.") from None
        except Exception as error:  # a torn or damaged archive raises whatever its reader stumbles over
            raise MPAEError(f"'{self.checkpoint_file}' is damaged ({short(error)}); "
                            "start the run anew with --overwrite.") from None
        kinds: dict[str, tuple[type, ...]] = {
            "step": (int,), "minutes": (int, float), "model": (dict,), "optimizer": (dict,)}
        if isinstance(state, dict) and all(isinstance(state.get(key), kind) for key, kind in kinds.items()):
            return state
        raise MPAEError(f"'{self.checkpoint_file}' is not a checkpoint of mpae: expected {', '.join(kinds)}.")

    # -- logs

    def log(self, record: Mapping[str, Any]) -> None:
        """One line of metrics.jsonl."""
        line = json.dumps(record) + "\n"
        try:
            with self.metrics_file.open("ab+") as file:
                if file.tell() and not _ends_a_line(file):
                    line = "\n" + line  # the last line was torn by a kill
                file.write(line.encode())
        except OSError as error:
            raise cannot_write(self.metrics_file, error) from None

    def records(self) -> Iterator[dict[str, Any]]:
        """The lines of metrics.jsonl; one that was torn by a kill is left out."""
        if not os.path.isfile(self.metrics_file):
            return
        with self.metrics_file.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(record, dict):
                    yield record

    def forget_after(self, step: int) -> None:
        """Drop what was logged past a checkpoint, so that a resumed run logs each step once."""
        def kept(record: Mapping[str, Any]) -> bool:
            logged = record.get("step", 0)
            return isinstance(logged, (int, float)) and logged <= step

        lines = [json.dumps(record) + "\n" for record in self.records() if kept(record)]
        write_text(self.metrics_file, "".join(lines))

    def note_skipped(self, skipped: Mapping[str, str]) -> None:
        """One line of skipped.txt for each image, whatever its name is made of."""
        lines = [f"{one_line(name)}\t{one_line(reason)}\n" for name, reason in skipped.items()]
        try:
            with self.skipped_file.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        except OSError as error:
            raise cannot_write(self.skipped_file, error) from None


def _ends_a_line(file: IO[bytes]) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
