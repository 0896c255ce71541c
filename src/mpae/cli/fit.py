"""`mpae fit`: settings from flags, file and preset; then training; then what to do next."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from mpae.config import Config, parse_assignment, resolve
from mpae.data.catalogue import open_annotated, open_images
from mpae.errors import MPAEError
from mpae.run import Run
from mpae.training.fit import FitResult, fit, is_first_process


def fit_verb(images: Path | None, out: Path | None, preset: str | None, config_file: Path | None,
             assignments: list[str], resume: bool, overwrite: bool, flags: Mapping[str, Any],
             console: Console) -> None:
    overrides = dict(parse_assignment(text) for text in assignments) | dict(flags)
    if images is not None:
        if "data.root" in overrides or overrides.get("data.dataset", "folder") != "folder":
            raise MPAEError("Give either a folder IMAGES, or --dataset NAME --root DIR, not both.")
        overrides |= {"data.dataset": "folder", "data.root": str(images)}
    if resume and overwrite:
        raise MPAEError("--resume and --overwrite exclude each other.")
    config = settings_of(out, preset, config_file, overrides, resume)
    out = out or default_out(config, config_file)
    source = open_images(config.data, split="train")
    result = fit(config, source, out, resume=resume, overwrite=overwrite, validate=validator(config),
                 console=console)
    if is_first_process():
        console.print(summary(result), soft_wrap=True, highlight=False, markup=False)
    if result.reason == "interrupted":
        sys.exit(130)


def settings_of(out: Path | None, preset: str | None, config_file: Path | None, overrides: Mapping[str, Any],
                resume: bool) -> Config:
    """A resumed run keeps its own settings; what is given on top is checked against them later."""
    if not resume:
        return resolve(preset, config_file, overrides)
    if out is None:
        raise MPAEError("--resume needs --out RUN: the run folder to go on with.")
    stored = Run.open(out).config()
    if preset or config_file:
        return resolve(preset, config_file, overrides)
    return stored.with_values(overrides)


def default_out(config: Config, config_file: Path | None) -> Path:
    """runs/birds for the folder photos/birds, runs/cub_k8 for cub_k8.yaml."""
    if config_file is not None:
        return Path("runs") / config_file.stem
    if config.data.dataset == "folder" and config.data.root:
        return Path("runs") / Path(config.data.root).resolve().name
    return Path("runs") / config.data.dataset


def validator(config: Config) -> Any:
    """Figures on the validation share of the training images, if one was asked for; training never sees them."""
    if not config.data.validation or config.data.dataset == "folder":
        return None
    from mpae.evaluation.evaluate import evaluate

    source = open_annotated(config.data, split="validation")
    return lambda model: evaluate(model, source).figures


def summary(result: FitResult) -> str:
    run = result.run
    how = {"finished": "Trained", "time": "Time is up after", "interrupted": "Interrupted after"}[result.reason]
    lines = [f"{how} {result.steps} steps, {result.minutes:.1f} minutes. The run is in '{run}'."]
    if result.skipped:
        lines.append(f"{len(result.skipped)} images could not be read and were skipped: '{run.skipped_file}'.")
    if result.reason != "finished":
        lines.append(f"Go on with:  mpae fit --resume --out {run}")
    previews = sorted(run.previews.glob("*.png"))
    if previews:
        lines.append(f"Look at:     {previews[-1]}")
    lines.append(f"Use it:      mpae predict {run} IMAGES --out DIR")
    return "\n".join(lines)
