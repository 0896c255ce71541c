"""About how long a run takes on this machine: counted operations, divided by how fast it multiplies matrices.

Rough, within a factor of two or three, and as if nothing else ran here; where runs of the same dataset are there
already, their pace is taken instead.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

from mpae.backbones import BUNDLED_ARCHITECTURE, NAMED, create_vit
from mpae.config import Config
from mpae.losses.perceptual import CONVOLUTIONS, WIDTHS
from mpae.studies.conduct import is_done
from mpae.studies.expand import PlannedRun, Request
from mpae.studies.folder import StudyFolder
from mpae.studies.results import is_trained
from mpae.studies.study import Study
from mpae.studies.systems import is_fitted
from mpae.studies.task import make_task
from mpae.training.schedule import steps_per_epoch, total_steps

EFFICIENCY = 0.5  # of a network's layers against one large matrix product
BACKWARD = 3.0  # a step against a forward pass
PATCH = 14  # pixels; nearly all backbones have that or 16
CLUSTERED = 500  # training images that a system without training looks at


class Cost(NamedTuple):
    steps: int
    hours: float
    done: bool


def estimate_hours(folder: StudyFolder, study: Study, request: Request, runs: Sequence[PlannedRun],
                   images: Mapping[str, tuple[int, int]]) -> list[Cost]:
    """What each run takes; one that is done takes nothing.

    Args:
        images: how many images to train on and to evaluate each dataset has.
    """
    speed, paces = operations_per_second(), measured_paces(folder, runs)
    costs: list[Cost] = []
    kept: set[tuple[str | int, ...]] = set()  # features of which images are in the cache by then
    for run in runs:
        count, test = images[run.config.data.dataset]
        steps = steps_of(run.config, count) if not is_fitted(run.row.method) else 0
        seconds = paces.get(run.group.dataset, training_operations(run.config) / speed) * steps
        seen = kept_features(run.config, count, steps)
        seconds += 0 if (*features_of(run), run.seed) in kept else seen * backbone_of(run.config) / speed
        if run.config.training.max_minutes is not None and steps:
            seconds = min(seconds, 60 * run.config.training.max_minutes)
        looked_at = min(test, request.limit or test) + (CLUSTERED if is_fitted(run.row.method) else 0)
        seconds += 0 if features_of(run) in kept else looked_at * backbone_of(run.config, request.image_size) / speed
        if keeps_features(run.config):
            kept |= {features_of(run), (*features_of(run), run.seed)}
        task = make_task(folder, study, request, run)
        costs.append(Cost(steps, seconds / 3600, is_done(folder, task, run.name)))
    return costs


def steps_of(config: Config, images: int) -> int:
    training = config.training
    epoch = steps_per_epoch(images, min(training.batch_size, images), training.partial_batch,
                            training.devices * training.nodes)
    return total_steps(epoch, training.epochs, training.max_steps)


def measured_paces(folder: StudyFolder, runs: Sequence[PlannedRun]) -> dict[str, float]:
    """Seconds a step, of runs that are there already, by dataset."""
    paces: dict[str, list[float]] = {}
    for run in runs:
        there = folder.run(run.name)
        if is_trained(there):
            last = [record for record in there.records() if "ended" in record][-1]
            if last["step"]:
                paces.setdefault(run.group.dataset, []).append(60 * last["minutes"] / last["step"])
    return {dataset: sum(found) / len(found) for dataset, found in paces.items()}


def kept_features(config: Config, images: int, steps: int) -> int:
    """Images that go through the backbone: each view once where features are kept, some shown again before others."""
    seen = steps * config.training.batch_size
    return min(seen // config.cache.reuse, config.cache.views * images) if keeps_features(config) else seen


def keeps_features(config: Config) -> bool:
    on_cpu = config.training.accelerator == "cpu" or not torch.cuda.is_available()
    return config.cache.enabled if config.cache.enabled is not None else on_cpu


def features_of(run: PlannedRun) -> tuple[str | int, ...]:
    """Runs that have these in common share the features of an evaluation; those of the same seed, of training too."""
    return run.config.data.dataset, run.config.backbone.name


def training_operations(config: Config) -> float:
    """Of a step without the frozen backbone: PartFormer, encoder and decoder, and VGG-19 on both images."""
    model, side = config.model, config.data.image_size
    seen = (min(model.partformer_size or side, side) // PATCH) ** 2
    restored = min(model.window or side, side // PATCH) ** 2
    networks = transformer(model.partformer_layers, seen, model.dim)
    networks += transformer(model.decoder_layers, restored, model.dim)
    networks += transformer(model.encoder_layers, restored * (1 - model.mask_ratio), model.dim)
    structure = config.loss.restoration > 0 and (config.loss.perceptual is None or any(config.loss.perceptual))
    vgg = vgg_operations(restored * model.pixels_per_patch**2) if structure else 0
    return config.training.batch_size * (BACKWARD * networks + (BACKWARD + 1) * vgg)


def transformer(layers: int, tokens: float, dim: int) -> float:
    """Of a forward pass for one image: projections and MLP, and attention."""
    return layers * tokens * (24 * dim**2 + 4 * tokens * dim)


def vgg_operations(pixels: float) -> float:
    """Of VGG-19 up to relu5_1 for an image of so many pixels."""
    total, channels = 0.0, 3
    for count, multiple in zip(CONVOLUTIONS, WIDTHS, strict=True):
        for _ in range(count):
            total += 2 * 9 * channels * 64 * multiple * pixels
            channels = 64 * multiple
        pixels /= 4
    return total


def backbone_of(config: Config, image_size: int | None = None) -> float:
    return backbone_operations(config.backbone.name, image_size or config.data.image_size)


@lru_cache
def backbone_operations(name: str, size: int) -> float:
    """Of a frozen backbone for one image."""
    if Path(name).is_file():
        weights, patch, width, depth = Path(name).stat().st_size / 4, 16, 0, 0
    else:
        vit = create_vit(NAMED.get(name, BUNDLED_ARCHITECTURE if name == "bundled" else name), 224)
        weights = sum(parameter.numel() for parameter in vit.parameters())
        patch, width, depth = vit.patch_embed.proj.kernel_size[0], vit.num_features, len(vit.blocks)
    patches = (size // patch) ** 2
    return 2 * weights * patches + 4 * patches**2 * width * depth


def operations_per_second() -> float:
    """Measured in a tenth of a second on the device that is the default; the time of other processes does not count."""
    on_gpu = torch.cuda.is_available()
    now, threads = (time.perf_counter, 1) if on_gpu else (time.process_time, torch.get_num_threads())
    matrix = torch.rand(1024, 1024, device="cuda" if on_gpu else "cpu")
    matrix @ matrix
    start, done = now(), 0
    while now() - start < 0.1 * threads:
        (matrix @ matrix)[0, 0].item()
        done += 1
    return EFFICIENCY * done * 2 * 1024**3 * threads / (now() - start)
