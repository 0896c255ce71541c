"""What a comparison system is given beside the pictures of a batch: another view, class labels, foreground masks.

MPAE is given nothing of this. It is opened for a method that says that it needs it, and for no other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from mpae.config import DataSettings
from mpae.data.augment import make_view, view_to_picture
from mpae.data.catalogue import find_dataset
from mpae.data.source import AnnotatedSource, ImageSource, Picture
from mpae.errors import MPAEError


@dataclass(frozen=True)
class Beside:
    """Called with a picture and its view, it gives arrays by name."""

    pair: bool = False  # "other", another view (3, S, S) uint8, and "other_to_view", where it lies in this one (2, 3)
    classes: Sequence[int] | None = None  # of each image of the source: "class", ()
    masks: Masks | None = None  # "mask" (1, S, S) bool of this view; with `pair` also "other_mask"

    def __call__(self, index: int, picture: Picture, view: int, size: int, reading: str,
                 seed: int) -> dict[str, np.ndarray]:
        other, found = other_view(view), {}
        if self.pair:
            pixels = make_view(picture, other, size, reading, seed)
            found["other"] = np.ascontiguousarray(pixels.transpose(2, 0, 1))
            found["other_to_view"] = between(view_to_picture(picture, view, size, reading, seed),
                                             view_to_picture(picture, other, size, reading, seed))
        if self.classes is not None:
            found["class"] = np.array(self.classes[index])
        if self.masks is not None:
            white = replace(picture, image=self.masks(index, picture))
            views = {"mask": view, "other_mask": other} if self.pair else {"mask": view}
            found |= {name: make_view(white, its, size, reading, seed)[None, :, :, 0] >= 128
                      for name, its in views.items()}
        return found


def other_view(view: int) -> int:
    """The second view of a pair: the whole picture, or view 1 for it; kept features serve both."""
    return 0 if view else 1


def between(view: np.ndarray, other: np.ndarray) -> np.ndarray:
    """From `other` to `view`, both given as `view_to_picture`: (2, 3) float32 for coordinates in [-1, 1], as
    `torch.nn.functional.affine_grid` takes them."""
    from_unit = np.array([[2, 0, -1], [0, 2, -1], [0, 0, 1.0]])  # [0, 1] -> [-1, 1]
    matrix = from_unit @ np.linalg.inv(view) @ other @ np.linalg.inv(from_unit)
    return matrix[:2].astype(np.float32)


# -- class labels


def class_names(settings: DataSettings, names: Sequence[str]) -> list[str]:
    """The class of each image, from the benchmark's names, or from the sub-folders of a plain folder."""
    rule = CLASS_RULES.get(settings.dataset) or _identities(settings).get
    found = [rule(name) or "" for name in names]
    without = [name for name, its in zip(names, found, strict=True) if not its]
    if without:
        raise MPAEError(f"Class labels are missing: '{without[0]}' and {len(without) - 1} other images of "
                        f"'{settings.dataset}' have none; put each image into a sub-folder named after its class "
                        "(IMAGES/sparrow/1.jpg, IMAGES/heron/2.jpg), or choose a --method that needs no labels.")
    if len(set(found)) < 2:
        raise MPAEError(f"All {len(names)} images are of one class, '{found[0]}', and there is nothing to tell apart; "
                        "put each image into a sub-folder named after its class (IMAGES/sparrow/1.jpg, "
                        "IMAGES/heron/2.jpg), or choose a --method that needs no labels.")
    return found


def _sub_folder(name: str) -> str:
    return name.rpartition("/")[0]


def _synset(name: str) -> str:
    """n02085620_7.JPEG, in its folder or not, is of the class n02085620."""
    found = re.match(r"n\d+", name.rpartition("/")[2])
    return found[0] if found else ""


def _identities(settings: DataSettings) -> dict[str, str]:
    """Who is in each photo of CelebA, from its list of identities where that is there."""
    for file in ("Anno/identity_CelebA.txt", "identity_CelebA.txt"):
        path = Path(settings.root or "") / file
        if os.path.isfile(path):
            rows = (line.split() for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
            return {row[0]: row[1] for row in rows if len(row) == 2}
    return {}


CLASS_RULES: dict[str, Callable[[str], str]] = {
    "folder": _sub_folder,
    "cub": _sub_folder,
    "synthetic": lambda name: name.partition("-")[2],
    "pets": lambda name: name.rpartition("_")[0],
    "partimagenet-ood": _synset,
    "partimagenet-seg": _synset,
}


# -- foreground masks


class Masks:
    """Foreground masks of the images of a source, by name: of a benchmark, or of files beside a plain folder."""

    def __init__(self, settings: DataSettings, source: ImageSource):
        self.names = list(source.names)
        self.annotated: AnnotatedSource | None = None
        entry = find_dataset(settings.dataset)
        if entry.open is not None:
            self.annotated = entry.open(settings, "train")
            self.places = {name: place for place, name in enumerate(self.annotated.names)}
            if not self.annotated.has_foreground:
                raise MPAEError(f"'{settings.dataset}' here has no foreground masks; `mpae datasets` shows where they "
                                "belong; or choose a --method that needs no masks.")
            return
        root = Path(settings.root or "")
        self.folder = root.with_name(f"{root.name}_masks")
        missing = [name for name in self.names if not os.path.isfile(self._file(name))]
        if missing:
            raise MPAEError(f"Foreground masks are missing: expected '{self._file(missing[0])}' for '{missing[0]}', "
                            f"and {len(missing) - 1} others; put a PNG of the same name into '{self.folder}' for each "
                            "image, white where the object is, or choose a --method that needs no masks.")

    def _file(self, name: str) -> Path:
        return self.folder / (os.path.splitext(name)[0] + ".png")

    def __call__(self, index: int, picture: Picture) -> Image.Image:
        """White where the object is, as large as the picture; nothing where nobody marked an object."""
        name, size = self.names[index], picture.image.size
        if self.annotated is None:
            return self._read(name).resize(size, Image.Resampling.NEAREST).convert("RGB")
        foreground = self.annotated.annotation(self.places[name]).foreground
        if foreground is None:
            return Image.new("RGB", size)
        return Image.fromarray(foreground.astype(np.uint8) * 255).resize(size, Image.Resampling.NEAREST).convert("RGB")

    def _read(self, name: str) -> Image.Image:
        try:
            with Image.open(self._file(name)) as image:
                return image.convert("L")
        except Exception as error:  # Pillow's plugins raise more than OSError on bad bytes
            reason = " ".join(str(error).split()) or type(error).__name__
            raise MPAEError(f"Cannot read the mask '{self._file(name)}': {reason}.") from None
