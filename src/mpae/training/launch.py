"""Processes and devices by Lightning Fabric: it starts those of --devices, and joins those of torchrun or SLURM."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch

from mpae.config import Config
from mpae.errors import MPAEError
from mpae.run import Run

PATIENCE = timedelta(days=7)  # others wait while the first process reads images; one that fails is noticed otherwise


def start_processes(config: Config, device: torch.device) -> Any:
    """A Fabric whose processes work together from here on; with --devices N the others run the same command."""
    with quiet_lightning():
        from lightning.fabric import Fabric
        from lightning.fabric.strategies import DDPStrategy

        training = config.training
        whole = config.loss.restoration > 0 and config.model.mask_ratio < 1  # else part of the model goes unused
        alone = training.devices * training.nodes == 1
        fabric = Fabric(
            accelerator=device.type, devices=training.devices, num_nodes=training.nodes, precision=training.precision,
            strategy="auto" if alone else DDPStrategy(find_unused_parameters=not whole, timeout=PATIENCE))
        fabric.launch()
    return fabric


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Lightning's tips and banners are not for our users."""
    logger = logging.getLogger("lightning.fabric")
    level = logger.level
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning.*")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)


@contextmanager
def dead_workers_told(run: Run) -> Iterator[None]:
    """A process that reads images may be ended from outside; torch tells that in a traceback."""
    try:
        yield
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise MPAEError("A process that reads images was ended from outside, by a signal or for lack of memory; "
                        f"`mpae fit --resume --out {run}` goes on, --workers 0 does without.") from None
