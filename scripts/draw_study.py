"""Draws one strip for a study: the same images for every row, without a pixel of the photos.

    python scripts/draw_study.py STUDY PICTURE.png [--parts 8]

STUDY is the folder of a study on an annotated dataset; a row is shown by the run of its first seed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from make_results import save
from mpae.data.catalogue import open_annotated
from mpae.data.sources.subsets import spread
from mpae.model.load import load_model
from mpae.studies.folder import StudyFolder
from mpae.studies.pictures import SHOWN
from mpae.studies.tabulate import tabulate
from results.strips import draw_rows, look


def draw_study(folder: Path, picture: Path, parts: int) -> None:
    study_folder, _, study, request = StudyFolder.open(folder)
    table = next(table for table in tabulate(study_folder, study, request) if table.group.parts == parts)
    rows = {}
    for row in table.rows:
        run = study_folder.run(row.runs[0].name) if row.done else None
        if run is not None and run.weights_file.is_file():  # what is fitted anew each time has none
            source = open_annotated(run.config().data, request.split)
            model = load_model(run.folder, request.image_size)
            rows[row.row.name] = look(model, source, dict.fromkeys(spread(len(source), SHOWN), ""))
    save(draw_rows(rows, parts), picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--parts", type=int, default=8)
    options = parser.parse_args()
    draw_study(options.study, options.picture, options.parts)
