"""The folder that `mpae predict` writes: its layout, whose it is, and whether it is finished.

DIR/
  predictions.json      the run and the settings these predictions come from
  masks/ ...            the outputs, as prediction/outputs.py lists them
  thumbnails/           small JPEGs, made by `mpae serve` as they are looked at
  skipped.txt           images that could not be read, and why
  .unfinished/          the journal of a prediction that is not complete
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mpae.errors import MPAEError
from mpae.files import cannot_write, write_text
from mpae.prediction.outputs import OUTPUTS

FORMAT = 1
WAY_OUT = "choose another folder or overwrite it with --overwrite"


class PredictionFolder:
    """Paths of a prediction, and its manifest."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.manifest = self.folder / "predictions.json"
        self.masks = self.output("masks")
        self.parts = self.output("parts")
        self.features = self.output("features")
        self.thumbnails = self.folder / "thumbnails"
        self.skipped = self.folder / "skipped.txt"
        self.unfinished = self.folder / ".unfinished"

    def __str__(self) -> str:
        return str(self.folder)

    def output(self, name: str) -> Path:
        """The file or folder of an output: output("masks") is DIR/masks."""
        return self.folder / OUTPUTS[name].place

    def prepare(self, settings: Mapping[str, Any], names: Sequence[str], overwrite: bool,
                run_folder: str = "") -> dict[str, Any] | None:
        """Make the folder ready to be written to or gone on with, or refuse to.

        Args:
            settings: what the predictions depend on, as plain data; `run` is the fingerprint of the model.
            run_folder: where the run lies, for those who look for it later.
        Returns:
            None; or, if the predictions of these images are complete, their number and the skipped ones.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            occupied = any(self.folder.iterdir())
            if occupied and overwrite:
                self.clear()
        except (FileExistsError, NotADirectoryError):
            raise MPAEError(f"'{self}' is a file; give a folder for the predictions.") from None
        except OSError as error:
            raise cannot_write(self.folder, error) from None
        if occupied and not overwrite:
            found = self._read_manifest()
            self._check_same(found, settings)
            if found.get("complete"):
                if found["complete"]["names"] != digest(names):
                    raise MPAEError(f"'{self}' holds the finished predictions of other images; {WAY_OUT}.")
                return found["complete"]
            self._remove_leftovers()
            return None
        self._write_manifest(settings, None, run_folder)
        return None

    def finish(self, settings: Mapping[str, Any], names: Sequence[str], images: int,
               skipped: Sequence[tuple[str, str]]) -> None:
        """All is written: the journal goes."""
        complete = {"names": digest(names), "images": images, "skipped": skipped}
        self._write_manifest(settings, complete, self._read_manifest().get("run_folder", ""))
        shutil.rmtree(self.unfinished, ignore_errors=True)

    def is_of(self, names: Sequence[str]) -> bool:
        """Whether it holds the finished predictions of just these images."""
        complete = self.manifest_of().get("complete")
        return isinstance(complete, dict) and complete.get("names") == digest(names)

    def manifest_of(self) -> dict[str, Any]:
        """What predictions.json says, of a folder that is looked at and not written to."""
        try:
            found = self._read_manifest()
            if found.get("format") == FORMAT and all(
                    isinstance(found["settings"].get(key), kind)
                    for key, kind in (("run", str), ("origin", str), ("num_parts", int), ("write", list))):
                return found
        except MPAEError:
            pass
        raise MPAEError(f"'{self}' holds no predictions of this version of mpae; `mpae predict RUN IMAGES --out "
                        f"{self}` makes some.")

    def clear(self) -> None:
        """Remove predictions of mpae, and nothing else that lies in the folder."""
        try:
            self._read_manifest()
        except MPAEError:
            return  # a coco.json or a folder `masks` that somebody else made
        for path in (*map(self.output, OUTPUTS), self.thumbnails, self.unfinished, self.skipped, self.manifest):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _read_manifest(self) -> dict[str, Any]:
        if not self.manifest.exists():
            raise MPAEError(f"'{self}' is not empty and holds no predictions of mpae; {WAY_OUT}.")
        try:
            found = json.loads(self.manifest.read_bytes())
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("settings"), dict):
            raise MPAEError(f"'{self.manifest}' was not written by mpae; {WAY_OUT}.")
        return found

    def _check_same(self, found: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        if found.get("format") != FORMAT:
            raise MPAEError(f"'{self}' holds predictions of another version of mpae; {WAY_OUT}.")
        if found["settings"].get("run") != settings["run"]:
            raise MPAEError(f"'{self}' holds the predictions of another run; {WAY_OUT}.")
        for key, value in settings.items():
            there = found["settings"].get(key)
            if there != value:
                raise MPAEError(f"'{self}' holds predictions with {key} = {_as_text(there)}, not {_as_text(value)}; "
                                f"{WAY_OUT}.")

    def _write_manifest(self, settings: Mapping[str, Any], complete: Mapping[str, Any] | None, run_folder: str) -> None:
        content = {"format": FORMAT, "settings": dict(settings), "run_folder": run_folder, "complete": complete}
        write_text(self.manifest, json.dumps(content, indent=2) + "\n")

    def _remove_leftovers(self) -> None:
        """Files that a kill has kept from being renamed to their place."""
        for output in OUTPUTS:
            for path in self.output(output).rglob(".*.part"):
                path.unlink(missing_ok=True)


def digest(names: Iterable[str]) -> str:
    """A fingerprint of a list of names."""
    state = hashlib.blake2b(digest_size=16)
    for name in names:
        state.update(name.encode("utf-8", "surrogatepass") + b"\0")
    return state.hexdigest()


def _as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def run_of(settings: Mapping[str, Any]) -> str:
    """The digest of the weights that predictions are of, whatever the arithmetic (`cli/predict.py` adds that)."""
    return str(settings["run"]).partition("-")[0]
