"""From settings and images to a trained run: what `mpae fit` and `PartDiscovery.fit` call."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from mpae.backbones.vit import fingerprint_of
from mpae.baselines import find_method
from mpae.baselines.method import PartMethod
from mpae.config import Config
from mpae.data.source import ImageSource
from mpae.distributed import on_first_process, rank_and_size
from mpae.files import write_text
from mpae.losses.perceptual import PerceptualNetwork, load_perceptual
from mpae.model import load_trainable
from mpae.model.hierarchy import look_for_hierarchy
from mpae.run import Run
from mpae.training.assemble import (
    beside_of,
    build_losses,
    build_optimizer,
    class_numbers,
    find_agreement,
    new_model,
    own_settings,
    training_batches,
    with_cache,
    with_number_of_parts,
)
from mpae.training.begin import begin_with
from mpae.training.held import Held, set_aside
from mpae.training.launch import dead_workers_told, start_processes
from mpae.training.loop import train
from mpae.training.preview import Previewer
from mpae.training.progress import Display
from mpae.training.readable import find_unreadable
from mpae.training.record import Recorder, Validator
from mpae.training.request import check_continues, check_devices, check_out, facts_of, shrunk_to
from mpae.training.schedule import Plan, steps_per_epoch, total_steps
from mpae.training.watch import Clock

log = logging.getLogger("mpae")


@dataclass(frozen=True)
class FitResult:
    run: Run
    model: Any  # MPAE, or a `mpae.baselines.method.PartMethod`
    reason: str  # finished | settled | time | interrupted
    steps: int
    minutes: float
    skipped: dict[str, str]


def fit(config: Config, source: ImageSource, out: str | Path, *, resume: bool = False, overwrite: bool = False,
        begin: Run | None = None, validate: Validator | None = None, console: Console | None = None) -> FitResult:
    """Train on the pictures of `source` and leave a run folder at `out`.

    Everything that can be wrong with the request is found before anything on disk is changed.

    Args:
        begin: another run, to begin with its parts; `config` has the settings of `mpae.training.begin.kept_settings`.
        validate: figures of a model, asked for after each epoch.
    """
    run, method = Run(out), find_method(config.model.method)
    check_out(run, resume, overwrite)
    device, config = check_devices(config), own_settings(config)
    classes = class_numbers(config, source)[0]
    beside_of(config, source)  # labels and masks that are missing are told before anything is written
    model = new_model(config, len(classes))
    perceptual = load_perceptual(config.loss) if getattr(model, "vgg", True) else None
    if begin is not None:
        begin_with(model, begin)
    if method.name != "mpae":
        log.info("Method: %s.", method.tag)
    with Display(console or Console(stderr=True)) as display:
        fabric = start_processes(config, device)
        skipped = on_first_process(lambda: find_unreadable(source, display))
        seen, held = set_aside(source, config.training.held)
        config = shrunk_to(config, len(seen))
        facts = {"method": method.name, "supervision": method.supervision} | facts_of(source)
        facts |= {"classes": classes} if classes else {}
        facts |= {"begun_with": str(begin)} if begin else {}
        if config.training.auto_parts and begin is None and not resume:
            curve = on_first_process(lambda: find_agreement(config, seen, model, device, display))
            config, facts["agreement"] = with_number_of_parts(config, curve), curve
            model = new_model(config, len(classes))
        grown = resume and check_continues(run, config, facts)
        state = run.load_checkpoint() if resume and run.checkpoint_file.exists() else None
        if state is not None:
            load_trainable(model, state["model"], str(run.checkpoint_file))
        facts["backbone_fingerprint"] = model.backbone.fingerprint
        facts["vgg_fingerprint"] = fingerprint_of(perceptual.state_dict(), "vgg19") if perceptual else None
        names = begin.parts_file.read_text(encoding="utf-8") if begin and begin.parts_file.is_file() else None
        on_first_process(lambda: begin_folder(run, config, facts, state, skipped, resume, names))
        known = None if grown else (state or {}).get("held")  # others are set aside of more images
        look = Held(held, config, perceptual, known) if held is not None else None
        return run_session(fabric, config, seen, look, run, model, perceptual, state or {}, skipped, validate, display,
                           begun=begin is not None)


def begin_folder(run: Run, config: Config, facts: dict[str, Any], state: dict[str, Any] | None,
                 skipped: dict[str, str], resume: bool, names: str | None) -> None:
    """The run folder at the beginning of a session; `names` are those of the parts that a run begins with."""
    run.sweep()
    if resume:
        run.update({key: facts[key] for key in ("images", "images_digest")}, config)
    else:
        run.clear()
        Run.create(run.folder, config, facts)
        if names is not None:
            write_text(run.parts_file, names)
    run.forget_after(state["step"] if state else 0)
    run.skipped_file.unlink(missing_ok=True)
    run.note_skipped(skipped)


def run_session(fabric: Any, config: Config, source: ImageSource, held: Held | None, run: Run, model: Any,
                perceptual: PerceptualNetwork | None, state: dict[str, Any], skipped: dict[str, str],
                validate: Validator | None, display: Display, begun: bool = False) -> FitResult:
    """Put together what the loop needs, and loop; `state` is the checkpoint to go on from, empty for a new run."""
    training, clock = config.training, Clock(state.get("minutes", 0.0))
    epoch = steps_per_epoch(len(source), training.batch_size, training.partial_batch, rank_and_size()[1])
    plan = Plan(state.get("step", 0), total_steps(epoch, training.epochs, training.max_steps), epoch)
    if isinstance(model, PartMethod) and not model.is_trained:
        return fit_at_once(fabric, config, source, run, model, skipped, validate, display)
    settled = held is not None and held.drops > len(training.milestones)
    if settled:
        log.info("This run is finished: after %d steps its parts no longer changed.", plan.first)
        plan = plan._replace(steps=plan.first)
    elif plan.first >= plan.steps:
        log.info("This run is finished: %d of %d steps.", plan.first, plan.steps)
    model.backbone = with_cache(config, model.backbone, fabric.device)
    losses = fabric.setup_module(build_losses(config, source, model, perceptual, state, fabric.device, display,
                                              begun))
    optimizer = fabric.setup_optimizers(build_optimizer(config, model, state.get("optimizer")))
    fabric.strategy.precision.load_state_dict(state.get("precision") or {})
    record = Recorder(run, plan, clock, lambda: {
        "model": model.trainable_state(), "optimizer": optimizer.state_dict(),
        "precision": fabric.strategy.precision.state_dict(),
        "initial_parts": losses.initial_parts.state_dict() if losses.initial_parts else {},
        "places": losses.places, "held": held.state_dict() if held else {},
    }, Previewer(source, model, config.model.mask_ratio), validate, skipped)
    step, reason = plan.first, "finished"
    if plan.first < plan.steps:
        with dead_workers_told(run):
            step, reason = train(fabric, config, plan, losses, optimizer, training_batches(config, source, model, plan),
                                 held, clock, record, display)
    record.close(model, step)
    if reason != "interrupted":
        on_first_process(lambda: look_for_hierarchy(model.eval(), source, fabric.device, display).save(run))
    return FitResult(run, model.eval(), reason, step, clock.total, record.skipped)


def fit_at_once(fabric: Any, config: Config, source: ImageSource, run: Run, model: PartMethod, skipped: dict[str, str],
                validate: Validator | None, display: Display) -> FitResult:
    """A method that looks at the images once and takes no step."""
    clock = Clock(0.0)
    model.backbone = with_cache(config, model.backbone, fabric.device)
    model.to(fabric.device)
    build_losses(config, source, model, None, {}, fabric.device, display)
    record = Recorder(run, Plan(0, 1, 1), clock, dict, Previewer(source, model, 0.0), validate, skipped)
    record.preview(model.eval(), 0)
    record.validate(model, 0, display)
    record.close(model, 0)
    return FitResult(run, model.eval(), "finished", 0, clock.total, record.skipped)
