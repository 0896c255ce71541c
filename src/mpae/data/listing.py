"""Images wherever a person points: a folder, one file, or a text file that lists paths."""

from __future__ import annotations

import os
from pathlib import Path

from mpae.data.folder import FolderImages
from mpae.data.source import ImageSource
from mpae.errors import MPAEError


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
    paths = [(file.parent / line.strip()).resolve() for line in lines if line.strip()]
    if not paths:
        raise MPAEError(f"The list '{file}' names no image; write one path a line.")
    root = Path(os.path.commonpath([path.parent for path in paths]))
    return FolderImages(root, list(dict.fromkeys(path.relative_to(root).as_posix() for path in paths)))
