"""Writes docs/studies/results.md, and its pictures, from run folders.

    python scripts/make_results.py RUN... [--baseline FILE.json ...] [--root CUB_200_2011]

Each RUN has been evaluated on CUB's test split (`mpae evaluate RUN --dataset cub --root ROOT`); each FILE was
written by `mpae evaluate --baseline NAME --parts K --dataset cub --root ROOT --json FILE`. Strips of pictures
with the photos go to the run folders, those without to the page.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from PIL import Image

from mpae.data.catalogue import open_annotated
from mpae.data.source import AnnotatedSource
from mpae.data.sources.subsets import spread
from mpae.errors import MPAEError
from mpae.files import write_atomically, write_text
from mpae.model.load import load_model
from results import findings, strips
from results.page import WORST, render
from results.reading import DATASET, SPLIT, Study, read_baseline, read_studies

PROJECT = Path(__file__).resolve().parents[1]
SHOWN = 12  # images of a strip


def make_results(runs: list[Path], baselines: list[Path], root: Path | None, page: Path, remarks: Path) -> None:
    studies = read_studies(runs)
    measured = [read_baseline(file) for file in baselines]
    text = remarks.read_text(encoding="utf-8") if remarks.is_file() else ""
    sources = [open_dataset(study, root) for study in studies]  # all that may be missing is found before time is spent
    pictures = page.with_suffix("")
    for study, source in zip(studies, sources, strict=True):
        draw(study, source, pictures)
    write_text(page, render(studies, measured, pictures.name, text))


def open_dataset(study: Study, root: Path | None) -> AnnotatedSource:
    changed = {"dataset": DATASET} | ({"root": str(root)} if root else {})
    return open_annotated(study.config.data.model_copy(update=changed), SPLIT)


def draw(study: Study, source: AnnotatedSource, pictures: Path) -> None:
    """The strip of images at even distances and that of the worst, without photos and with them."""
    model, rows = load_model(study.run.folder, study.measured.image_size), study.measured.rows
    for ending, chosen in {"": [rows[place] for place in spread(len(rows), SHOWN)],
                           "-worst": findings.worst(rows, WORST)}.items():
        cells = strips.look(model, source, {row.number: f"IoU {row.iou:.0f}" for row in chosen})
        save(strips.draw_parts(cells, model.num_parts), pictures / f"{study.name}{ending}.png")
        save(strips.draw_photos(cells), study.run.folder / f"strip{ending}.jpg")


def save(picture: Image.Image, path: Path) -> None:
    kind = {".png": "PNG", ".jpg": "JPEG"}[path.suffix]
    write_atomically(path, lambda temporary: picture.save(temporary, kind, optimize=True, quality=88))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--baseline", nargs="+", type=Path, default=[], metavar="FILE.json")
    parser.add_argument("--root", type=Path, help="folder of the dataset; else the one that each run was trained on")
    parser.add_argument("--out", type=Path, default=PROJECT / "docs" / "studies" / "results.md",
                        help="the page to write")
    parser.add_argument("--remarks", type=Path, default=PROJECT / "experiments" / "remarks.md",
                        help="written by hand, put into the page as it is")
    given = parser.parse_args()
    try:
        make_results(given.runs, given.baseline, given.root, given.out, given.remarks)
    except MPAEError as error:
        print(f"make_results: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"{given.out}, and pictures in {given.out.with_suffix('')}")


if __name__ == "__main__":
    main()
