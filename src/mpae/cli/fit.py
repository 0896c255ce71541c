"""`mpae fit`: settings from flags, file and preset; then training; then what to do next."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpae.baselines import find_method
from mpae.cli.console import messages, results
from mpae.cli.flags import Assignments, ConfigFile, Overwrite, Preset, Quiet
from mpae.cli.settings import values_table
from mpae.cli.settings_flags import with_settings
from mpae.config import Config, differences, origins, parse_assignment, resolve
from mpae.errors import MPAEError
from mpae.run import Run

if TYPE_CHECKING:
    from mpae.training.fit import FitResult


@with_settings()
def fit(
    images: Annotated[Path | None, typer.Argument(metavar="IMAGES", help="a folder of images")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", "-o", help="the run folder to make")] = None,
    preset: Preset = None,
    config_file: ConfigFile = None,
    assignments: Assignments = None,
    from_run: Annotated[Path | None, typer.Option("--from", metavar="RUN", help="begin with the parts of another run, "
                                                  "its numbers and names: a run folder, or birds, pets, ... "
                                                  "(`mpae runs`)")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in --out")] = False,
    overwrite: Overwrite = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be trained, and write nothing")] = False,
    quiet: Quiet = False,
    settings: Any = None,
) -> None:
    """Learn the parts of the things in a folder of images, or in a dataset (--dataset NAME --root DIR)."""
    from mpae.data.catalogue import open_images
    from mpae.distributed import is_first_process
    from mpae.hub import run_folder
    from mpae.training.fit import fit

    console = messages(quiet)
    overrides = chosen_settings(images, assignments or [], settings or {})
    for other, given in {"--overwrite": overwrite, "--from": from_run is not None}.items():
        if resume and given:
            raise MPAEError(f"--resume and {other} exclude each other.")
    begin = Run.open(run_folder(from_run)) if from_run is not None else None
    if begin is not None:
        overrides = with_kept(begin, preset, config_file, overrides)
    config = settings_of(out_folder, preset, config_file, overrides, resume)
    find_method(config.model.method)  # an unknown one is told before its data are looked for
    out = out_folder or default_out(config, config_file)
    source = open_images(config.data, split="train")
    if dry_run:
        origin = {} if resume else origins(preset, config_file, overrides)
        print_plan(config, origin, len(source), out, resume, overwrite)
        return
    result = fit(config, source, out, resume=resume, overwrite=overwrite, begin=begin, validate=validator(config),
                 console=console)
    if is_first_process():
        console.print(summary(result), soft_wrap=True, highlight=False, markup=False)
    if result.reason == "interrupted":
        sys.exit(130)


def print_plan(config: Config, origin: dict[str, str], images: int, out: Path, resume: bool, overwrite: bool) -> None:
    """What --dry-run says: settings that differ from their defaults, images, steps; mistakes as `fit` finds them."""
    from mpae.training.request import check_devices, check_out, shrunk_to
    from mpae.training.schedule import steps_per_epoch, total_steps

    check_out(Run(out), resume, overwrite)
    device, fitted = check_devices(config), shrunk_to(config, images)
    training = fitted.training
    epoch = steps_per_epoch(images, training.batch_size, training.partial_batch, training.devices * training.nodes)
    changed = [name for name, _, _ in differences(Config(), fitted)]
    where = {name: origin.get(name, "the run") for name in changed}
    where |= {name: f"there are {images} images" for name, _, _ in differences(config, fitted)}
    console = results()
    console.print(values_table(fitted, where, changed))
    limit = f", {training.max_minutes:g} minutes at most" if training.max_minutes else ""
    steps = total_steps(epoch, training.epochs, training.max_steps)
    console.print(f"{find_method(config.model.method).tag}: {images} images found, {steps} steps of "
                  f"{training.batch_size} images on {device.type}{limit}; the run would be in '{out}'. Nothing was "
                  "written.", highlight=False, soft_wrap=True)


def chosen_settings(images: Path | None, assignments: list[str], flags: Mapping[str, Any]) -> dict[str, Any]:
    """What --set, the flags and IMAGES say, by the name of the setting."""
    chosen = dict(parse_assignment(text) for text in assignments) | dict(flags)
    if images is None:
        return chosen
    if "data.root" in chosen or chosen.get("data.dataset", "folder") != "folder":
        raise MPAEError("Give either a folder IMAGES, or --dataset NAME --root DIR, not both.")
    return chosen | {"data.dataset": "folder", "data.root": str(images)}


def settings_of(out: Path | None, preset: str | None, config_file: Path | None, overrides: Mapping[str, Any],
                resume: bool) -> Config:
    """A resumed run keeps its own settings; what the command line adds is checked against them later."""
    if not resume:
        return resolve(preset, config_file, overrides)
    if out is None:
        raise MPAEError("--resume needs --out RUN: the run folder to go on with.")
    before = Run.open(out).config()
    if preset or config_file:
        return resolve(preset, config_file, overrides)
    return before.with_values(overrides)


def with_kept(begin: Run, preset: str | None, config_file: Path | None,
              overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the command line, and those that the run of --from has in any case."""
    from mpae.training.begin import check_kept, kept_settings, value_of

    kept, config = kept_settings(begin), resolve(preset, config_file, overrides)
    said = [name for name, origin in origins(preset, config_file, overrides).items()
            if origin != "default" and not origin.startswith("preset ")]
    check_kept(kept, {name: value_of(config, name) for name in said}, begin)
    return {**overrides, **kept}


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
    from mpae.data.catalogue import open_annotated
    from mpae.evaluation.evaluate import evaluate

    source = open_annotated(config.data, split="validation")
    return lambda model, progress: evaluate(model, source, device=model.mean.device, progress=progress).figures


def summary(result: FitResult) -> str:
    run = result.run
    how = {"finished": "Trained", "settled": "The parts no longer change:", "time": "Time is up after",
           "interrupted": "Interrupted after"}[result.reason]
    lines = [f"{how} {result.steps} steps, {result.minutes:.1f} minutes. The run is in '{run}'."]
    if result.skipped:
        lines.append(f"{len(result.skipped)} images could not be read and were skipped: '{run.skipped_file}'.")
    if result.reason in ("time", "interrupted"):
        lines.append(f"Go on with:  mpae fit --resume --out {run}")
    previews = sorted(run.previews.glob("*.png"))
    if previews:
        lines.append(f"Look at:     {previews[-1]}")
    lines.append(f"Use it:      mpae predict {run} IMAGES --out DIR")
    return "\n".join(lines)
