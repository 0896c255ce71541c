"""Training a run from its settings: what `mpae fit` and `PartDiscovery.fit` call."""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from mpae import config as settings_file
from mpae.backbones import build_backbone
from mpae.backbones.cache import CachedBackbone, FeatureCache, default_folder
from mpae.config import Config
from mpae.data.source import ImageSource, Picture, UnreadableImage
from mpae.errors import MPAEError
from mpae.model import MPAE, build_model, load_trainable
from mpae.run import Run

log = logging.getLogger("mpae")

# What may differ between a run and its continuation without changing its weights, or only how long it runs.
MAY_CHANGE = {"data.root", "data.workers", "training.max_minutes", "training.checkpoint_minutes",
              "cache.limit_gb", "cache.folder"}


@dataclass(frozen=True)
class FitResult:
    run: Run
    model: MPAE
    reason: str  # finished | time | interrupted
    steps: int
    minutes: float
    skipped: dict[str, str]


class Readable:
    """A source without the images that cannot be read."""

    def __init__(self, source: ImageSource, indices: Sequence[int]):
        self.source, self.indices = source, indices
        self.names = [source.names[index] for index in indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Picture:
        return self.source[self.indices[index]]


def fit(config: Config, source: ImageSource, out: str | Path, *, resume: bool = False, overwrite: bool = False,
        validate: Any = None, console: Console | None = None) -> FitResult:
    """Train on the pictures of `source` and leave a run folder at `out`.

    Everything that can be wrong with the request is found before anything on disk is changed.
    """
    from mpae.training.schedule import total_steps

    run = Run(out)
    check_out(run, resume, overwrite)
    check_devices(config)
    readable, skipped = readable_images(source)
    config = shrunk_to(config, len(readable))
    facts = {"images": len(readable), "images_digest": names_digest(readable)}
    if resume:
        check_same_settings(run.config(), config)
        check_same_images(run, facts)
    backbone = with_cache(config, build_backbone(config.backbone, config.data.image_size))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        model = build_model(config, backbone)
    state = run.load_checkpoint() if resume and run.checkpoint_file.exists() else None
    if state is not None:
        load_trainable(model, state["model"], str(run.checkpoint_file))

    if is_first_process():
        run.sweep()
        if not resume:
            run.clear()
            Run.create(out, config, facts | {"backbone_fingerprint": backbone.fingerprint})
        run.forget_after(state["step"] if state else 0)
        run.skipped_file.unlink(missing_ok=True)
        run.note_skipped(skipped)
    steps = total_steps(len(readable), config.training.batch_size, config.training.epochs, config.training.max_steps)
    return _train(config, readable, run, model, state, steps, skipped, validate, console or Console(stderr=True))


def _train(config: Config, source: ImageSource, run: Run, model: MPAE, state: dict[str, Any] | None, steps: int,
           skipped: dict[str, str], validate: Any, console: Console) -> FitResult:
    import lightning
    from lightning.pytorch.loggers import TensorBoardLogger

    from mpae.data.loading import PictureReader, read_batches
    from mpae.initial_parts.find import InitialParts
    from mpae.training.batches import StepSampler
    from mpae.training.callbacks import Clock, CollapseWatch, Interruption, Recorder, Schedule
    from mpae.training.module import TrainingModule
    from mpae.training.preview import Previewer
    from mpae.training.progress import ShowProgress
    from mpae.training.schedule import steps_per_epoch

    training = config.training
    start = state["step"] if state else 0
    cached = isinstance(model.backbone, CachedBackbone)
    if start >= steps:
        log.info("This run is finished: %d of %d steps.", start, steps)
    clock = Clock(state["minutes"] if state else 0.0)
    kept = state.get("initial_parts") or state.get("seeds") if state else None  # "seeds": version 0.1
    initial_parts = InitialParts.load(kept) if state else begin_with_initial_parts(config, source, model)
    module = TrainingModule(config, model, build_objective(config), start,
                            state["optimizer"] if state else None, initial_parts)
    schedule = Schedule(config, steps, clock)
    interruption = Interruption(schedule)
    progress = ShowProgress(console, steps, clock, training.max_minutes)
    recorder = Recorder(run, config, steps, steps_per_epoch(len(source), training.batch_size), clock,
                        Previewer(source, model, config.model.mask_ratio), validate)
    recorder.skipped = dict(skipped)
    with quiet_lightning():
        trainer = lightning.Trainer(
            accelerator=training.accelerator, devices=training.devices, num_nodes=training.nodes,
            strategy=strategy(config), precision=training.precision,
            max_epochs=1, gradient_clip_val=training.clip_norm, use_distributed_sampler=False,
            callbacks=[schedule, interruption, recorder, CollapseWatch(), progress],
            logger=TensorBoardLogger(run.tensorboard.parent, name=run.tensorboard.name, version="",
                                     purge_step=start or None),
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
        sampler = StepSampler(start, steps, trainer.global_rank, trainer.world_size, images=len(source),
                              batch_size=training.batch_size, views=config.cache.views if cached else None,
                              seed=training.seed)
        reader = PictureReader(source, config.data.image_size, substitute=True)
        loader = read_batches(reader, sampler, workers(config))
        if state and state.get("precision"):
            trainer.precision_plugin.load_state_dict(state["precision"])
        try:
            if start < steps:
                trainer.fit(module, loader)
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise MPAEError("A process that reads images was ended from outside, by a signal or for lack of memory; "
                            f"`mpae fit --resume --out {run}` goes on, --workers 0 does without.") from None
        finally:
            interruption.restore()
            progress.stop()
    if trainer.is_global_zero:
        run.save_weights(model.trainable_state(), {"step": str(module.step)})
    return FitResult(run, model.eval(), schedule.reason, module.step, clock.total, recorder.skipped)


def check_out(run: Run, resume: bool, overwrite: bool) -> None:
    """An existing run is never touched by accident."""
    if not is_first_process():
        return
    if resume and not run.exists():
        raise MPAEError(f"'{run}' holds no run to resume; leave out --resume to start one.")
    if not resume and run.exists() and not overwrite:
        raise MPAEError(f"'{run}' holds a run already; go on with --resume, replace it with --overwrite, "
                        "or choose another --out.")
    if not run.exists() and not run.is_free():
        raise MPAEError(f"'{run}' exists and is not a run folder; choose another --out.")


def check_devices(config: Config) -> None:
    """What Lightning would find only after the run folder is made."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    wanted, accelerator = config.training.devices, config.training.accelerator
    if accelerator == "gpu" and not gpus:
        raise MPAEError("training.accelerator is gpu, and there is no GPU that torch can use; leave it at auto.")
    if gpus and accelerator != "cpu" and wanted > gpus:
        raise MPAEError(f"--devices {wanted} asks for more GPUs than the {gpus} of this machine.")


def check_same_images(run: Run, facts: dict[str, Any]) -> None:
    """Which image comes in which step depends on the list of images: another list is another run."""
    before = run.content()
    if before.get("images_digest") not in (None, facts["images_digest"]):
        raise MPAEError(f"The images have changed since '{run}' was started: there were {before.get('images')}, now "
                        f"there are {facts['images']} that can be read; restore them or start a new run.")


def names_digest(source: ImageSource) -> str:
    listed = "\0".join(source.names).encode("utf-8", errors="surrogateescape")
    return hashlib.blake2b(listed, digest_size=16).hexdigest()


def strategy(config: Config) -> str:
    """DDP where there are several processes; it must be told where part of the model goes unused."""
    if config.training.devices * config.training.nodes == 1:
        return "auto"
    whole = config.loss.restoration > 0 and config.model.mask_ratio < 1
    return "ddp" if whole else "ddp_find_unused_parameters_true"


def check_same_settings(before: Config, now: Config) -> None:
    """A continued run keeps its settings: anything else would be another run under the same name."""
    changed = [f"{name} was {old!r}, now {new!r}" for name, old, new in differences(before, now)
               if name not in MAY_CHANGE]
    if changed:
        raise MPAEError(f"--resume with other settings: {'; '.join(changed)}. Leave them out, "
                        "or start a new run with another --out.")


def differences(before: Config, now: Config) -> list[tuple[str, Any, Any]]:
    found = []
    for name, _ in settings_file.all_settings():
        section, _, key = name.partition(".")
        old, new = getattr(getattr(before, section), key), getattr(getattr(now, section), key)
        if old != new:
            found.append((name, old, new))
    return found


def readable_images(source: ImageSource) -> tuple[Readable, dict[str, str]]:
    """The pictures that can be opened and read to the end, and the others with the reason."""
    def problem(index: int) -> str | None:
        try:
            source[index]
        except UnreadableImage as error:
            return str(error)
        return None

    if len(source) > 1000:
        log.info("Reading %d images once, to find those that cannot be read.", len(source))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # decoding leaves Python's lock
        problems = list(pool.map(problem, range(len(source))))
    good = [index for index, reason in enumerate(problems) if reason is None]
    skipped = {source.names[index]: reason for index, reason in enumerate(problems) if reason is not None}
    if len(good) < 2:
        first = f" (the first: '{next(iter(skipped))}', {next(iter(skipped.values()))})" if skipped else ""
        found = "no image" if not good else "one image"
        raise MPAEError(f"Of {len(source)} images {found} can be read{first}; training needs at least 2.")
    return Readable(source, good), skipped


def shrunk_to(config: Config, images: int) -> Config:
    """A folder smaller than a batch is no mistake: batch and group shrink to it."""
    training = config.training
    if images >= training.batch_size:
        return config
    processes = training.devices * training.nodes
    group = min(training.group_size, max(1, images // processes))
    batch = max(1, images // (group * processes)) * group * processes
    log.info("%d images are fewer than a batch of %d: batch_size is now %d and group_size %d.",
             images, training.batch_size, batch, group)
    return config.with_values({"training.batch_size": batch, "training.group_size": group})


def with_cache(config: Config, backbone: Any) -> Any:
    """Kept features on a CPU, where the backbone is most of the cost; on the fly with a GPU. Says which."""
    on_gpu = config.training.accelerator != "cpu" and torch.cuda.is_available()
    enabled = config.cache.enabled if config.cache.enabled is not None else not on_gpu
    if not enabled:
        log.info("Frozen features are computed in every step (%s).",
                 "as asked" if config.cache.enabled is False else "a GPU does that faster than a disk")
        return backbone
    folder = Path(config.cache.folder).expanduser() if config.cache.folder else default_folder()
    log.info("Frozen features of %d views an image are kept in '%s' (at most %g GB; --no-cache computes them in "
             "every step).", config.cache.views, folder, config.cache.limit_gb)
    return CachedBackbone(backbone, FeatureCache(folder, backbone.fingerprint, int(config.cache.limit_gb * 1e9)))


def begin_with_initial_parts(config: Config, source: ImageSource, model: MPAE) -> Any:
    """The initial parts of a new run, where the settings want any; and the model set to begin there."""
    from mpae.initial_parts.find import find_initial_parts, look_at
    from mpae.initial_parts.warm_start import IMAGES, warm_start

    training = config.training
    if not (config.loss.initial_parts or training.initial_parts):
        return None
    log.info("Looking for parts in the frozen features of the images, to begin with.")
    initial_parts = find_initial_parts(source, model.backbone, config.model.num_parts, model.image_size, training.seed)
    if initial_parts is not None and training.initial_parts:
        images, frozen = map(torch.cat, zip(*look_at(source, model.backbone, model.image_size, IMAGES), strict=True))
        warm_start(model, images, frozen, initial_parts(frozen), training.seed)
    return initial_parts if config.loss.initial_parts else None


def build_objective(config: Config) -> Any:
    """The objective with the bundled perceptual network, where any layer of it counts."""
    from mpae.assets import load_vgg19
    from mpae.losses.objective import Objective
    from mpae.losses.perceptual import PerceptualNetwork

    wanted = config.loss.restoration and (config.loss.perceptual is None or any(config.loss.perceptual))
    network = PerceptualNetwork.from_weights(load_vgg19()) if wanted else None
    return Objective(config.loss, config.training.group_size, network)


def workers(config: Config) -> int:
    return config.data.workers if config.data.workers is not None else min(4, os.cpu_count() or 1)


def is_first_process() -> bool:
    """Whether this is the one process of several that writes; known before Lightning starts."""
    ranks = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID")
    return all(os.environ.get(name, "0") == "0" for name in ranks)


class quiet_lightning:
    """Lightning's tips and banners are not for our users."""

    def __enter__(self) -> None:
        self.catcher = warnings.catch_warnings()
        self.catcher.__enter__()
        warnings.filterwarnings("ignore", module="lightning.*")
        self.loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
        self.levels = [logger.level for logger in self.loggers]
        for logger in self.loggers:
            logger.setLevel(logging.ERROR)

    def __exit__(self, *details: Any) -> None:
        for logger, level in zip(self.loggers, self.levels, strict=True):
            logger.setLevel(level)
        self.catcher.__exit__(*details)
