"""What can be wrong with a request to train, found before anything on disk is changed."""

from __future__ import annotations

import hashlib
import logging
import os
from typing import Any

import torch

from mpae.config import Config, differences
from mpae.data.source import ImageSource
from mpae.devices import choose_device
from mpae.distributed import is_first_process
from mpae.errors import MPAEError
from mpae.run import Run

log = logging.getLogger("mpae")

# What may differ between a run and its continuation without changing its weights, or only how long it runs.
MAY_CHANGE = {"data.root", "data.workers", "training.epochs", "training.max_steps", "training.max_minutes",
              "training.checkpoint_minutes", "training.preview_minutes", "cache.limit_gb", "cache.folder"}


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


def check_devices(config: Config) -> torch.device:
    """The kind of device that is trained on; there must be as many as are asked for."""
    training = config.training
    device = choose_device("cuda" if training.accelerator == "gpu" else training.accelerator)
    if device.type == "cuda" and training.devices > torch.cuda.device_count():
        raise MPAEError(f"--devices {training.devices} asks for more GPUs than the {torch.cuda.device_count()} of this "
                        "machine.")
    if device.type == "mps" and training.devices * training.nodes > 1:
        raise MPAEError(f"--devices {training.devices} asks for more than the one device that mps has; leave it at 1.")
    started = int(os.environ.get("WORLD_SIZE", "1")) if torch.distributed.is_torchelastic_launched() else None
    if started not in (None, training.devices * training.nodes):
        raise MPAEError(f"torchrun has started {started} processes, and --devices {training.devices} times "
                        f"training.nodes {training.nodes} is another number; give both the same.")
    return device


def check_continues(run: Run, config: Config, facts: dict[str, Any]) -> bool:
    """A continued run keeps its settings and its images, to which more may have come: anything else would be another
    run under the same name. Returns whether there are more."""
    changed = [f"{name} was {old!r}, now {new!r}" for name, old, new in differences(run.config(), config)
               if name not in MAY_CHANGE]
    if changed:
        raise MPAEError(f"--resume with other settings: {'; '.join(changed)}. Leave them out, "
                        "or start a new run with another --out.")
    content = run.content()  # which image comes in which step depends on the list of images
    before, now = content.get("images"), facts["images"]
    if content.get("images_digest") in (None, facts["images_digest"]):
        return False
    if not isinstance(before, int) or now <= before:
        raise MPAEError(f"The images have changed since '{run}' was started: there were {before}, now "
                        f"there are {now} that can be read; restore them or start a new run.")
    log.info("There were %d images before and there are %d now: the run goes on with all of them.", before, now)
    return True


def facts_of(source: ImageSource) -> dict[str, Any]:
    """What a run remembers of its images."""
    listed = "\0".join(source.names).encode("utf-8", errors="surrogateescape")
    return {"images": len(source), "images_digest": hashlib.blake2b(listed, digest_size=16).hexdigest()}


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
