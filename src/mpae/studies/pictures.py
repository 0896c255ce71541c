"""Small pictures of a run for the page, kept in RUN/pictures: the same images for every run of a dataset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from mpae.data.loading import NOTHING
from mpae.data.source import Annotation, ImageSource, Picture
from mpae.data.sources.subsets import spread
from mpae.drawing.overlay import paint_parts
from mpae.files import write_atomically, write_text
from mpae.model.load import load_model
from mpae.report.collect import Seen, explain, see_batches
from mpae.report.pictures import attention_map
from mpae.run import Run

SHOWN = 8  # images of a strip
CATEGORIES = 12  # images of different categories
TOKENS = 5  # parts of an image whose attention is shown
LONGEST = 240  # pixels along the longer side
LISTING = "pictures.json"


class PicturesOnly:
    """A source without annotation, for an evaluation that can count parts and nothing else."""

    keypoint_names: Sequence[str] = ()
    part_names: Sequence[str] = ()
    has_foreground = False

    def __init__(self, source: ImageSource):
        self._source = source
        self.names = source.names

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Picture:
        return self._source[index]

    def annotation(self, index: int) -> Annotation:
        return NOTHING


def listing(run: Run) -> dict[str, Any]:
    """What was drawn: by kind of picture a list of files with captions."""
    try:
        content = json.loads((run.folder / "pictures" / LISTING).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def has_pictures(run: Run, shows: Sequence[str]) -> bool:
    return set(shows) <= set(listing(run))


def draw_pictures(run: Run, model: Any, source: ImageSource, shows: Sequence[str]) -> None:
    """Draw what is shown of a run: its parts, and on request restorations, attention and other categories."""
    album = Album(run)
    seen = look(model, source, spread(len(source), SHOWN))
    album.add("image", [(each.image, each.name) for each in seen])
    if "parts" in shows:
        album.add("parts", [(painted(each), each.name) for each in seen])
    if "categories" in shows:
        others = look(model, source, one_of_each(source.names))
        album.add("categories", [(painted(each), category(each.name)) for each in others])
    if {"restored", "attention"} & set(shows):  # what training sees: at its own size
        config = run.config()
        explained = look(load_model(run.folder).to(next(model.parameters()).device), source,
                         spread(len(source), SHOWN), config.model.mask_ratio)
        album.add("restored", [(each.restored, each.name) for each in explained if each.restored])
        album.add("attention", [pair for each in explained[:3] for pair in attention_pairs(each)])
    album.close()


def look(model: Any, source: ImageSource, indices: Sequence[int], mask_ratio: float | None = None) -> list[Seen]:
    """The parts of some images; with a mask ratio, what is restored and where part tokens look too."""
    found = []
    for batch in see_batches(model, source, indices, SHOWN, thumbnail_size):
        for seen, pixels in batch:
            found.append(seen)
            if mask_ratio is not None:
                explain(model, seen, pixels, mask_ratio)
    return found


def thumbnail_size(size: tuple[int, int]) -> tuple[int, int]:
    factor = LONGEST / max(size)
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def painted(seen: Seen) -> Image.Image:
    return paint_parts(seen.image, seen.mask)


def attention_pairs(seen: Seen) -> list[tuple[Image.Image, str]]:
    """The largest parts of an image: the part's mask above, where its token looks below (Fig. 8)."""
    pairs = [(stacked(painted(seen), seen.image), seen.name)]
    for part in sorted(seen.present, key=lambda part: -part.share)[:TOKENS]:
        alone = paint_parts(seen.image, np.where(seen.mask == part.index, seen.mask, 0).astype(seen.mask.dtype))
        pairs.append((stacked(alone, attention_map(seen, part.index - 1)), f"part {part.index}"))
    return pairs


def stacked(above: Image.Image, below: Image.Image) -> Image.Image:
    canvas = Image.new("RGB", (above.width, above.height + below.height + 4), (128, 128, 128))
    canvas.paste(above, (0, 0))
    canvas.paste(below, (0, above.height + 4))
    return canvas


def category(name: str) -> str:
    return PurePosixPath(name).parent.name


def one_of_each(names: Sequence[str]) -> list[int]:
    """The first image of categories at even distances; of any images, where names tell no categories."""
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        first.setdefault(category(name), index)
    if len(first) < CATEGORIES:
        return list(spread(len(names), CATEGORIES))
    firsts = list(first.values())
    return [firsts[place] for place in spread(len(firsts), CATEGORIES)]


class Album:
    """Writes pictures and, in the end, the list of them."""

    def __init__(self, run: Run):
        self.folder = run.folder / "pictures"
        self.listed: dict[str, list[dict[str, Any]]] = {}

    def add(self, show: str, pictures: Sequence[tuple[Image.Image, str]]) -> None:
        listed = self.listed.setdefault(show, [])
        for number, (picture, caption) in enumerate(pictures):
            file = f"{show}-{number:02d}.jpg"
            write_atomically(self.folder / file, partial(picture.save, format="JPEG", quality=85))
            listed.append({"file": file, "caption": caption, "width": picture.width, "height": picture.height})

    def close(self) -> None:
        write_text(self.folder / LISTING, json.dumps(self.listed, indent=1) + "\n")
