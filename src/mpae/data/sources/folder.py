"""A folder of photos, its sub-folders included."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mpae.data.dataset import Dataset
from mpae.data.images import EXTENSIONS, read_picture
from mpae.data.source import ImageSource, Picture
from mpae.errors import MPAEError

log = logging.getLogger("mpae")


class FolderImages:
    """Every image file below a folder (or one file), in the order of its names."""

    def __init__(self, root: str | Path, names: Sequence[str] | None = None):
        self.root = Path(root)
        self.names: Sequence[str] = find_images(self.root) if names is None else names
        if os.path.isfile(self.root):
            self.root = self.root.parent

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Picture:
        return read_picture(self.root / self.names[index], self.names[index])


def find_images(root: Path) -> list[str]:
    """Relative POSIX paths of all images below a folder, sorted; a single file is a folder of one.

    Whatever is named like an image is listed, readable or not: a source says of each why it is not.
    """
    if os.path.isfile(root):
        return [root.name]
    try:
        os.scandir(root).close()
    except FileNotFoundError:
        raise MPAEError(f"No such folder: '{root}'.") from None
    except NotADirectoryError:
        raise MPAEError(f"'{root}' is neither a folder nor an image file.") from None
    except (OSError, ValueError) as error:
        raise MPAEError(f"Cannot read the folder '{root}': {getattr(error, 'strerror', error)}.") from None
    names = sorted(_walk(root))
    if not names:
        raise MPAEError(f"No images in '{root}' (looked for {' '.join(EXTENSIONS)}, subfolders too).")
    return names


def _walk(root: Path) -> Iterator[str]:
    # Links to folders are followed once: a loop of links leads to a folder that was seen.
    seen: set[tuple[int, int]] = set()
    for folder, subfolders, files in os.walk(root, followlinks=True, onerror=_tell):
        try:
            status = os.stat(folder)
        except OSError:  # it vanished just now
            subfolders.clear()
            continue
        if (status.st_dev, status.st_ino) in seen:
            subfolders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for file in files:
            if file.lower().endswith(EXTENSIONS) and not file.startswith("."):
                yield (Path(folder) / file).relative_to(root).as_posix()


def _tell(error: OSError) -> None:
    log.warning("Left out the folder '%s': %s.", error.filename, error.strerror)


def images_at(place: Path) -> ImageSource:
    """A folder, a file, or a `.txt` list with one path a line, relative to the list's own folder."""
    if place.is_file() and place.suffix.lower() == ".txt":
        return listed_images(place)
    return FolderImages(place)


def listed_images(file: Path) -> FolderImages:
    """The images of a list; their names start at the deepest folder that holds them all."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MPAEError(f"Cannot read the list '{file}': {error}.") from None
    here = str(file.parent.resolve())  # pathlib takes a third of a second for 5,000 paths
    paths = [os.path.normpath(os.path.join(here, line.strip())) for line in lines if line.strip()]
    if not paths:
        raise MPAEError(f"The list '{file}' names no image; write one path a line.")
    root = Path(os.path.commonpath({os.path.dirname(path) for path in paths}))
    before = len(os.path.join(root, ""))
    return FolderImages(root, list(dict.fromkeys(path[before:].replace(os.sep, "/") for path in paths)))


DATASET = Dataset(
    name="folder",
    description="your own photos, sub-folders included",
    annotation="none",
    tree={"**/*.jpg": f"photos; also {' '.join(ending for ending in EXTENSIONS if ending != '.jpg')}"},
    origin="yours",
    licence="yours",
    sizes={"train": "all images"},
    open=None,
)
