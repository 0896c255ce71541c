"""`mpae evaluate`: a run, or a baseline, against a benchmark by the paper's protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mpae.cli.progress import ImageProgress, image_progress
from mpae.config import CacheSettings, DataSettings
from mpae.data.catalogue import find_dataset, open_annotated
from mpae.distributed import process_group
from mpae.errors import MPAEError
from mpae.evaluation.evaluate import evaluate
from mpae.evaluation.paper import paper_row
from mpae.evaluation.result import Evaluation
from mpae.files import write_atomically, write_text
from mpae.prediction.writers import write_skipped
from mpae.run import Run

TITLES = {"nmi": "NMI", "ari": "ARI", "foreground_nmi": "NMI, foreground only", "nme": "NME (less is better)",
          "foreground_ari": "ARI, foreground only", "foreground_iou": "foreground IoU",
          "parts_per_image": "parts an image", "images": "images"}


def evaluate_verb(run_folder: Path | None, name: str, root: Path | None, split: str, json_file: Path | None,
                  limit: int | None, nme: bool, nme_images: int | None, image_size: int | None, baseline: str | None,
                  parts: int | None, batch_size: int, workers: int, cached: bool, console: Console,
                  out: Console) -> None:
    if (run_folder is None) == (baseline is None):
        raise MPAEError("Give either a run folder RUN or --baseline dino-kmeans --parts K.")
    if nme_images and not nme:
        raise MPAEError("--nme-images says how the NME is made, and --no-nme that none is; leave out one of them.")
    entry = find_dataset(name)
    settings = data_settings(run_folder, name, root, image_size)
    source = open_annotated(settings, split)  # what is wrong with the dataset is found before time is spent
    fit_source = open_annotated(settings, entry.fit_split) if nme and entry.fit_split else None
    with process_group() as first, image_progress(console if first else Console(quiet=True)) as progress:
        if baseline is not None:
            model, weights = baseline_model(baseline, parts, settings, workers, progress), None
        else:
            model, weights = run_model(run_folder, parts, image_size), Run(run_folder or "").weights_digest()
        if cached:
            model.backbone = user_cache(model.backbone)
        result = evaluate(model, source, fit_source=fit_source, batch_size=batch_size, workers=workers, limit=limit,
                          fit_limit=nme_images or limit, progress=progress)
    if not first:
        return
    title = f"{run_folder or baseline} on {name}, {split} split, K = {model.num_parts}"
    out.print(figures_table(result, title, name, model.num_parts))
    share = 100 * result.model_seconds / result.seconds
    out.print(f"{result.seconds:.0f} s, {share:.0f} % of them in the model; {len(result.skipped)} images skipped.",
              highlight=False)
    record = {"evaluation": name, "split": split, "system": baseline or "mpae", "num_parts": model.num_parts,
              "image_size": model.image_size, "limit": limit, "nme_images": nme_images, "weights": weights}
    if json_file is not None:
        write_text(json_file, as_json(record, result))
    if run_folder is not None:
        keep(Run(run_folder), record, result, out)
    elif json_file is not None:  # a baseline has no folder of its own
        result.write_rows(json_file.with_suffix(".csv"))


def data_settings(run_folder: Path | None, name: str, root: Path | None, image_size: int | None) -> DataSettings:
    """The run's own settings say what was set aside for validation and how many images are drawn."""
    base = Run.open(run_folder).config().data if run_folder else DataSettings()
    return base.model_copy(update={"dataset": name, "root": str(root) if root else None,
                                   "image_size": image_size or base.image_size})


def run_model(run_folder: Path | None, parts: int | None, image_size: int | None) -> Any:
    from mpae.model.load import load_model

    model = load_model(run_folder or "", image_size)
    if parts is not None and parts != model.num_parts:
        raise MPAEError(f"'{run_folder}' was trained with {model.num_parts} parts, not {parts}; leave out --parts.")
    return model


def baseline_model(baseline: str, parts: int | None, settings: DataSettings, workers: int,
                   progress: ImageProgress) -> Any:
    from mpae.backbones import build_backbone
    from mpae.baselines import BASELINES
    from mpae.config import BackboneSettings
    from mpae.data.catalogue import open_images

    if baseline not in BASELINES:
        raise MPAEError(f"Unknown baseline '{baseline}'; choose one of: {', '.join(BASELINES)}.")
    if parts is None:
        raise MPAEError("--baseline needs --parts K, the number of parts.")
    backbone = build_backbone(BackboneSettings(), settings.image_size)
    return BASELINES[baseline].fit(backbone, open_images(settings, "train"), parts, settings.image_size,
                                   workers=workers, progress=progress)


def user_cache(backbone: Any) -> Any:
    """A backbone that keeps its maps in the user's cache folder, for whoever evaluates many runs."""
    from mpae.backbones.cache import CachedBackbone, FeatureCache, default_folder

    limit = int(CacheSettings().limit_gb * 1e9)
    return CachedBackbone(backbone, FeatureCache(default_folder(), backbone.fingerprint, limit))


def figures_table(result: Evaluation, title: str, name: str, num_parts: int) -> Table:
    """Our figures, and the paper's for the same dataset and K where it has them."""
    paper = paper_row(name, num_parts) or {}
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("figure")
    table.add_column("here", justify="right")
    for system in paper:
        table.add_column(f"paper: {system}", justify="right")
    for key, value in result.figures.items():
        if value is not None:
            ours = f"{value:.0f}" if key == "images" else f"{value:.2f}"
            theirs = (f"{row[key]:.2f}" if key in row else "" for row in paper.values())
            table.add_row(TITLES.get(key, key), ours, *theirs)
    return table


def as_json(record: dict[str, Any], result: Evaluation) -> str:
    return json.dumps(record | result.to_json(), indent=2) + "\n"


def keep(run: Run, record: dict[str, Any], result: Evaluation, out: Console) -> None:
    """The figures go to metrics.jsonl; all there is to know goes to evaluations/NAME-SPLIT."""
    from mpae.drawing.contingency import draw_contingency

    folder = run.evaluation(record["evaluation"], record["split"], record["image_size"])
    folder.mkdir(parents=True, exist_ok=True)
    result.write_rows(folder / "images.csv")
    write_text(folder / "figures.json", as_json(record, result))
    write_skipped(folder / "skipped.txt", result.skipped)
    if result.contingency is not None:
        picture = draw_contingency(result.contingency)
        write_atomically(folder / "contingency.png", lambda path: picture.save(path, format="PNG"))
    run.log(record | result.figures)
    out.print(f"One row an image, and parts against annotated parts: {folder}", highlight=False)
