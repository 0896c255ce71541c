"""`mpae serve` on a real folder of predictions: how soon it is there, how fast it answers, and what search finds.

    python -m benchmarks.looking RUN PREDICTIONS [--class-token] [--json FILE]

The kind of a photo is the folder that it lies in (a species, in CUB); a search is as good as the share of its first ten
photos that are of the same kind. --class-token compares with whole-image search, for which the backbone sees every
photo once more.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, cast

import httpx
import numpy as np
import typer

from mpae.data.sources.folder import FolderImages, images_at
from mpae.prediction.outliers import find_outliers, unusualness
from mpae.prediction.part_names import PartNames
from mpae.prediction.search import PartIndex, unit_length
from mpae.prediction.table import Predictions

FIRST = 10  # photos of a search that are looked at
TIMES = 15  # a request is made
DROPPED = 15  # photos are uploaded


def main(run: Path, predictions: Path, class_token: Annotated[bool, typer.Option("--class-token")] = False,
         json_file: Annotated[Path | None, typer.Option("--json")] = None) -> None:
    """Measure the page of RUN on the folder PREDICTIONS."""
    found = Predictions(predictions)
    names = PartNames.load(run, found.num_parts)
    figures = {"photos": len(found.table), "seconds": page_times(run, predictions, found),
               "same kind in the first ten, %": retrieval(found, names, run, class_token),
               "outliers": listed(found)}
    text = json.dumps(figures, indent=2)
    print(text)
    if json_file:
        json_file.write_text(text + "\n", encoding="utf-8")


# -- the page

def page_times(run: Path, predictions: Path, found: Predictions) -> dict[str, dict[str, float]]:
    """From the start to an answer, and each kind of request: seconds on the clock, and of CPU by the server."""
    start = time.perf_counter()
    with served(run, predictions) as (client, used):
        times = {"start to address": (time.perf_counter() - start, used())}
        client.get("/api/state").raise_for_status()
        client.get("/api/photos").raise_for_status()
        times["start to list of photos"] = time.perf_counter() - start, used()
        while not client.get("/api/state").json()["measured"]:
            time.sleep(0.5)
        times["start to outliers"] = time.perf_counter() - start, used()
        part = int(found.table.present.sum(axis=0).argmax()) + 1
        row = int(found.table.present[:, part - 1].argmax())
        rows = range(min(60, len(found.table)))
        for name, path in {"filter": f"/api/photos?present={part}&absent={part % found.num_parts + 1}",
                           "sort": f"/api/photos?order=unusual&part={part}&descending=1",
                           "search": f"/api/search?row={row}&part={part}&top=40", "outliers": "/api/outliers",
                           "60 tiles": f"/api/tiles?rows={','.join(map(str, rows))}"}.items():
            times[name] = taken([partial(client.get, path)] * TIMES, used)
        times["a thumbnail, first time"] = taken([partial(client.get, f"/thumbnail/{row}") for row in rows], used)
        root = folder_of(found)
        drops = [partial(client.post, "/api/upload", content=(root / name).read_bytes(), headers={"x-mpae": "1"})
                 for name in found.table.names[:DROPPED]]
        times["drop"] = taken(drops, used)
    return {name: {"clock": round(clock, 4), "CPU": round(cpu, 4)} for name, (clock, cpu) in times.items()}


def folder_of(found: Predictions) -> Path:
    """That the names of the photos begin at, also where they were a list."""
    return cast(FolderImages, images_at(Path(found.settings["origin"]))).root


def taken(requests: list[Callable[[], httpx.Response]], used: Callable[[], float]) -> tuple[float, float]:
    """Of a request: median on the clock, mean of CPU."""
    times, before = [], used()
    for request in requests:
        start = time.perf_counter()
        request().raise_for_status()
        times.append(time.perf_counter() - start)
    return statistics.median(times), (used() - before) / len(requests)


@contextmanager
def served(run: Path, predictions: Path) -> Iterator[tuple[httpx.Client, Callable[[], float]]]:
    """A page in a process of its own: a client of it, and how many seconds of CPU it has used."""
    words = [sys.executable, "-m", "mpae.cli", "serve", str(run), str(predictions), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout

    def used() -> float:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100  # user and system, in hundredths of a second

    try:
        with httpx.Client(base_url=process.stdout.readline().strip(), timeout=600) as client:
            yield client, used
    finally:
        process.terminate()
        process.wait(timeout=60)


# -- what is found

def retrieval(found: Predictions, names: PartNames, run: Path, class_token: bool) -> dict[str, dict[str, float]]:
    """For each part: search as it is, plain cosine of the frozen features, and of the class token, same photos."""
    kinds = np.array([str(PurePosixPath(name).parent) for name in found.table.names])
    index = PartIndex(found.features(), found.table.present)
    tokens = class_tokens(found, run) if class_token else None
    table = {}
    for part in range(1, found.num_parts + 1):
        vectors = index.vectors(part)
        if len(vectors.rows) <= FIRST:
            continue
        here = kinds[vectors.rows]
        row = {"photos": len(vectors.rows), "search": same_kind(vectors.units, here),
               "plain features": same_kind(unit_length(index.features[vectors.rows, part - 1]), here)}
        if tokens is not None:
            row["class token"] = same_kind(unit_length(tokens[vectors.rows]), here)
        table[f"{part} {names.name(part)}"] = row
    return table


def same_kind(units: np.ndarray, kinds: np.ndarray) -> float:
    """Percent of the FIRST most similar others that are of the same kind, (m, E) of length 1."""
    hits = 0
    for start in range(0, len(units), 512):
        similarity = units[start:start + 512] @ units.T
        rows = np.arange(start, start + len(similarity))
        similarity[rows - start, rows] = -np.inf
        best = np.argpartition(-similarity, FIRST, axis=1)[:, :FIRST]
        hits += int((kinds[best] == kinds[rows, None]).sum())
    return round(100 * hits / (FIRST * len(units)), 1)


def class_tokens(found: Predictions, run: Path) -> np.ndarray:
    """(n, E) of the run's backbone, at the size of the run."""
    import torch

    from mpae.data.loading import PictureReader, in_batches, read_batches
    from mpae.model.load import load_model

    backbone = load_model(run).backbone
    source, tokens = FolderImages(folder_of(found), found.table.names), []
    reader = PictureReader(source, found.settings["image_size"])
    for batch in read_batches(reader, in_batches(range(len(source)), 16), workers=2):
        images = batch.images.float() / 255  # (B, 3, S, S)
        with torch.inference_mode():
            tokens.append(backbone.model.forward_features((images - backbone.mean) / backbone.std)[:, 0])
    return torch.cat(tokens).numpy()


def listed(found: Predictions) -> dict[str, float]:
    """Photos in which a part looks wrong, in percent."""
    index = PartIndex(found.features(), found.table.present)
    outliers = find_outliers(unusualness(index), found.table.present, [[k + 1] for k in range(found.num_parts)])
    return {f"{why}, % of photos": round(100 * len({each.image for each in outliers if each.why == why})
                                         / len(found.table), 2) for why in ("unlike", "missing")}


if __name__ == "__main__":
    typer.run(main)
