"""`mpae evaluate`: a run, or a baseline, against a benchmark by the paper's protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from mpae.baselines import BASELINES, find_method
from mpae.cli.console import messages, results
from mpae.cli.flags import RUN_HELP, Arithmetic, BatchSize, Device, ImageSize, Outline, Quiet, Workers
from mpae.cli.progress import busy, image_progress
from mpae.errors import MPAEError

if TYPE_CHECKING:
    from mpae.evaluation.result import Evaluation


def evaluate(
    run_folder: Annotated[Path | None, typer.Argument(metavar="RUN", help=RUN_HELP)] = None,
    *,
    dataset: Annotated[str, typer.Option(help="which benchmark; `mpae datasets` lists them")],
    root_folder: Annotated[Path | None, typer.Option("--root", help="folder of the downloaded benchmark")] = None,
    split: Annotated[str, typer.Option(help="train, test, validation, ...")] = "test",
    json_file: Annotated[Path | None, typer.Option("--json", help="write all figures to this file; "
                          "of a baseline or a run that is only read also one row per image, beside it as .csv")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="only so many images, spread over the split")] = None,
    nme: Annotated[bool, typer.Option("--nme/--no-nme", help="the keypoint regression, which needs a pass over "
                                      "the training split")] = True,
    nme_images: Annotated[int | None, typer.Option("--nme-images", min=1, help="fit that regression on so many "
                          "training images, spread over the split, instead of all")] = None,
    image_size: ImageSize = None,
    outline: Outline = "patch",
    baseline: Annotated[str | None, typer.Option(help=f"instead of a run: {', '.join(BASELINES)}")] = None,
    parts: Annotated[int | None, typer.Option(min=1, max=1000, help="K of the baseline; of a run, to how many its "
                                              "parts are joined")] = None,
    precision: Arithmetic = None,
    device: Device = "auto",
    batch_size: BatchSize = 32,
    workers: Workers = 2,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="keep frozen features for the next "
                                        "evaluation")] = False,
    quiet: Quiet = False,
) -> None:
    """NMI, ARI, NME, foreground IoU and more on a benchmark, beside the paper's figures."""
    console, out = messages(quiet), results()
    with busy(console, "load torch"):
        from mpae import hub
        from mpae.data.catalogue import find_dataset, open_annotated, open_images
        from mpae.devices import choose_device
        from mpae.distributed import process_group
        from mpae.evaluation import evaluate, result, systems
        from mpae.model.hierarchy import joined_parts
        from mpae.model.load import load_model
        from mpae.prediction.outline import checked_outline
        from mpae.prediction.part_names import PartNames
        from mpae.run import Run

    if (run_folder is None) == (baseline is None):
        raise MPAEError("Give either a run folder RUN or --baseline NAME --parts K; baselines are: "
                        f"{', '.join(BASELINES)}.")
    if nme_images and not nme:
        raise MPAEError("--nme-images says how the NME is made, and --no-nme that none is; leave out one of them.")
    checked_outline(outline)
    where = choose_device(device)
    run = Run.open(hub.run_folder(run_folder)) if run_folder else None
    settings = systems.data_settings(run, dataset, root_folder, image_size)
    fit_split = find_dataset(dataset).fit_split if nme else None
    source = open_annotated(settings, split)  # what is wrong with the dataset is found before time is spent
    fit_source = open_annotated(settings, fit_split) if fit_split else None
    with process_group() as first:
        console = console if first else Console(quiet=True)
        with busy(console, "load the model"):
            loaded = load_model(run.folder, image_size, precision) if run else None
        with image_progress(console) as progress:
            model = loaded or systems.baseline_model(
                str(baseline), parts, settings, workers, progress, precision or "float32")
            if cache:
                model.backbone = systems.keep_features(model.backbone)
            part_of = joined_parts(run, model.to(where), parts, lambda: open_images(settings, "train"), where,
                                   progress) if run else None
            found = evaluate.evaluate(model, source, fit_source=fit_source, batch_size=batch_size, workers=workers,
                                      limit=limit, fit_limit=nme_images or limit, outline=outline, part_of=part_of,
                                      device=where, progress=progress)
    if not first:
        return
    if run:
        names = PartNames.load(run.folder, model.num_parts)
        found = found.with_names((names.gathered(part_of) if part_of else names).labels())
    num_parts = max(part_of) + 1 if part_of else model.num_parts
    system = BASELINES[str(baseline)] if run is None else find_method(run.config().model.method)
    title = (f"{run_folder or baseline} on {dataset}, {split} split, K = {num_parts}"
             + (f" joined from {model.num_parts}" if part_of else "")
             + f", {outline} outlines; {system.name}, {system.supervision}")
    out.print(figures_table(found, title, dataset, num_parts))
    share = 100 * found.model_seconds / found.seconds
    out.print(f"{found.seconds:.0f} s, {share:.0f} % of them in the model; {len(found.skipped)} images skipped.",
              highlight=False)
    record = {"evaluation": dataset, "split": split, "system": system.name,
              "supervision": system.supervision, "num_parts": num_parts,
              "image_size": model.image_size, "outline": outline,
              "precision": precision or (run.config().backbone.precision if run else "float32"),
              "limit": limit, "nme_images": nme_images,
              "joined_from": model.num_parts if part_of else None,
              "weights": run.weights_digest() if run else None}
    if json_file is not None:
        result.write_figures(json_file, record, found)
    if run is not None and not hub.is_read_only(run_folder or ""):
        folder = result.keep_evaluation(run, record, found)
        out.print(f"One row per image, and parts against annotated parts: {folder}", highlight=False)
    elif json_file is not None:  # a baseline has no folder of its own, others are only read
        found.write_rows(json_file.with_suffix(".csv"))


def figures_table(found: Evaluation, title: str, dataset: str, num_parts: int) -> Table:
    """Our figures, and the paper's for the same dataset and K where it has them."""
    from mpae.evaluation.paper import paper_row
    from mpae.metrics.registry import FIGURES

    paper = paper_row(dataset, num_parts) or {}
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("figure")
    table.add_column("here", justify="right")
    for system in paper:
        table.add_column(f"paper: {system}", justify="right")
    for figure in FIGURES:
        value = found.figures[figure.name]
        if value is not None:
            theirs = (f"{row[figure.name]:.2f}" if figure.name in row else "" for row in paper.values())
            table.add_row(figure.long_title, f"{value:.2f}", *theirs)
    table.add_row("images", f"{found.figures['images']:.0f}")
    return table
