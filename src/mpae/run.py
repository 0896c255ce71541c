"""The run folder: the one place that knows its layout.

RUN/
  config.yaml            every setting as resolved, the package version, the seed
  model.safetensors      the trained weights, without the frozen backbone (it is named in config.yaml)
  checkpoints/last.ckpt  the whole training state, written atomically
  metrics.jsonl          one line a step that was logged and one an evaluation
  previews/              image | parts | restoration, as training went on
  skipped.txt            images that could not be read, and why
  report/index.html
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from mpae import __version__, config
from mpae.config import Config
from mpae.errors import MPAEError

FORMAT = 1  # of the folder; a newer one is refused with a sentence


class Run:
    """Paths and files of one run; reading checks what it reads, writing is atomic."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.config_file = self.folder / "config.yaml"
        self.weights_file = self.folder / "model.safetensors"
        self.checkpoint_file = self.folder / "checkpoints" / "last.ckpt"
        self.metrics_file = self.folder / "metrics.jsonl"
        self.previews = self.folder / "previews"
        self.skipped_file = self.folder / "skipped.txt"
        self.tensorboard = self.folder / "tensorboard"
        self.report = self.folder / "report" / "index.html"

    def __str__(self) -> str:
        return str(self.folder)

    # -- settings

    @classmethod
    def create(cls, folder: str | Path, settings: Config, facts: Mapping[str, Any]) -> Run:
        """A new run folder; `facts` are what the settings do not say, such as the backbone's fingerprint."""
        run = cls(folder)
        run.folder.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "version": __version__, "seed": settings.training.seed, **facts,
                   "settings": settings.model_dump(mode="json")}
        write_text(run.config_file, yaml.safe_dump(content, sort_keys=False))
        return run

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """An existing run folder, checked to be one."""
        run = cls(folder)
        if not run.folder.is_dir():
            raise MPAEError(f"No run folder '{run}'; `mpae fit IMAGES --out {run}` makes one.")
        if not run.config_file.is_file():
            raise MPAEError(f"'{run}' is not a run folder: it has no config.yaml.")
        run.content()
        return run

    def exists(self) -> bool:
        return self.config_file.exists()

    def content(self) -> dict[str, Any]:
        """All of config.yaml."""
        content = config.read_yaml(self.config_file)
        found = content.get("format")
        if not isinstance(found, int) or not isinstance(content.get("settings"), dict):
            raise MPAEError(f"'{self.config_file}' was not written by mpae: it needs 'format' and 'settings'.")
        if found > FORMAT:
            raise MPAEError(f"'{self}' was written by a newer mpae ({content.get('version')}); this one is "
                            f"{__version__}: upgrade it to read this run.")
        return content

    def config(self) -> Config:
        return config.from_mapping(self.content()["settings"], str(self.config_file))

    def clear(self) -> None:
        """Remove what this package writes, and nothing else that lies in the folder."""
        for path in (self.config_file, self.weights_file, self.metrics_file, self.skipped_file):
            path.unlink(missing_ok=True)
        for path in (self.checkpoint_file.parent, self.previews, self.tensorboard, self.report.parent):
            shutil.rmtree(path, ignore_errors=True)

    # -- weights and training state

    def save_weights(self, weights: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
        from safetensors.torch import save_file

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        write_beside(self.weights_file, lambda path: save_file(tensors, path, dict(metadata)))

    def load_weights(self) -> dict[str, Any]:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        if not self.weights_file.is_file():
            raise MPAEError(f"'{self}' is unfinished: it has no model.safetensors; "
                            f"`mpae fit --resume --out {self}` goes on with it.")
        try:
            return load_file(self.weights_file)
        except (SafetensorError, OSError, ValueError) as error:
            raise MPAEError(f"'{self.weights_file}' cannot be read as safetensors: {error}.") from None

    def save_checkpoint(self, state: Mapping[str, Any]) -> None:
        import torch

        write_beside(self.checkpoint_file, lambda path: torch.save(dict(state), path))

    def load_checkpoint(self) -> dict[str, Any]:
        import pickle

        import torch

        try:
            state = torch.load(self.checkpoint_file, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            raise MPAEError(f"'{self}' has no checkpoint to resume from; start it anew with --overwrite.") from None
        except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise MPAEError(f"'{self.checkpoint_file}' is not a checkpoint of mpae: {reason}") from None
        if not isinstance(state, dict) or "step" not in state:
            raise MPAEError(f"'{self.checkpoint_file}' is not a checkpoint of mpae: it holds no step.")
        return state

    # -- logs

    def log(self, record: Mapping[str, Any]) -> None:
        """One line of metrics.jsonl."""
        with self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def records(self) -> Iterator[dict[str, Any]]:
        """The lines of metrics.jsonl; a last line that was torn by a kill is left out."""
        if not self.metrics_file.is_file():
            return
        with self.metrics_file.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if isinstance(record, dict):
                    yield record

    def forget_after(self, step: int) -> None:
        """Drop logged steps past a checkpoint, so that a resumed run logs each step once."""
        kept = [record for record in self.records() if record.get("step", 0) <= step or "evaluation" in record]
        write_text(self.metrics_file, "".join(json.dumps(record) + "\n" for record in kept))


def write_beside(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file beside its place and rename it there: nobody ever sees half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(beside)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        if error.errno == errno.ENOSPC:
            raise MPAEError(f"The disk is full: '{path}' could not be written; "
                            f"{'its last good version stays' if path.exists() else 'free some space'}.") from None
        raise MPAEError(f"Cannot write '{path}': {error.strerror or error}.") from None
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    write_beside(path, lambda beside: beside.write_text(text, encoding="utf-8"))
