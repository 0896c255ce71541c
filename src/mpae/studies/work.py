"""One run of a study in a process of its own: train, evaluate, draw. Whatever is done already is left as it is.

`python -m mpae.studies.work TASK`, where TASK is a file that `conduct.py` writes. What it calls is what `mpae fit` and
`mpae evaluate` call; the run folder is one like any other.
"""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console

from mpae.backbones import FrozenViT, build_backbone
from mpae.baselines import BASELINES
from mpae.baselines.keys import KeyViT
from mpae.config import Config
from mpae.data.catalogue import find_dataset, open_annotated, open_images
from mpae.data.source import AnnotatedSource
from mpae.devices import choose_device, peak_so_far
from mpae.distributed import is_first_process
from mpae.errors import MPAEError
from mpae.evaluation.evaluate import evaluate
from mpae.evaluation.result import keep_evaluation
from mpae.evaluation.systems import keep_features
from mpae.model.load import load_model
from mpae.run import Run
from mpae.studies.folder import taken
from mpae.studies.pictures import PicturesOnly, draw_pictures, has_pictures
from mpae.studies.results import evaluation_of, is_trained, minutes_spent
from mpae.studies.systems import is_fitted
from mpae.studies.task import TAKEN, Task
from mpae.training.fit import fit

BATCH = 16  # images of an evaluation at once
LEAST_MINUTES = 0.01  # that a run whose time is spent goes on for, to end as others do


def main() -> None:
    """Exit code 0: done. 2: a mistake, told in the last line. 130: interrupted. TAKEN: another process has the run."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    warnings.filterwarnings("ignore", module="PIL")
    try:
        sys.exit(work(Task.read(Path(sys.argv[1]))))
    except MPAEError as error:
        print(f"mpae: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def work(task: Task) -> int:
    """Do what is left of a task; an exit code."""
    if not is_first_process():  # one of several devices: the first has the lock
        return do(task)
    with taken(Path(task.lock), patience=True) as ours:
        return do(task) if ours else TAKEN


def do(task: Task) -> int:
    run, config = Run(task.folder), task.config()
    if is_fitted(task.method):
        measure(run, config, task, fit_baseline(run, config, task))
        return 0
    if not is_trained(run) and train(run, config) == "interrupted":
        return 130
    measure(run, config, task)
    return 0


def train(run: Run, config: Config) -> str:
    """Begin a run, or go on with one that was stopped; the reason why it ended goes to its log."""
    if run.exists() and config.training.max_minutes is not None:
        left = max(config.training.max_minutes - minutes_spent(run), LEAST_MINUTES)
        config = config.with_values({"training.max_minutes": left})
    result = fit(config, open_images(config.data, "train"), run.folder, resume=run.exists(), console=Console())
    if result.reason != "interrupted" and is_first_process():
        log_end(run, result.steps, result.minutes, result.reason)
    return result.reason


def fit_baseline(run: Run, config: Config, task: Task) -> Any:
    """A comparison system, fitted anew each time: it has no weights to keep."""
    size = task.evaluation["image_size"]
    model = BASELINES[task.method].load().fit(
        build_backbone(config.backbone, size), open_images(config.data, "train"), config.model.num_parts, size)
    if not run.exists():
        Run.create(run.folder, config, {"method": task.method})
    if not is_trained(run):
        log_end(run, 0, 0.0, "finished")
    return model


def log_end(run: Run, steps: int, minutes: float, reason: str) -> None:
    """How long training took, why it ended, and the most gigabytes that the process had held by then."""
    held = peak_so_far()
    run.log({"step": steps, "minutes": round(minutes, 3), "ended": reason}
            | ({} if held is None else {"memory_gb": round(held / 1e9, 2)}))


def measure(run: Run, config: Config, task: Task, model: Any = None) -> None:
    """The evaluation and the pictures that are still wanted; `model` is one that is not kept in the run folder."""
    wanted, first = task.evaluation, is_first_process()
    evaluated = evaluation_of(run, wanted, task.nme) is not None
    shows = task.possible_shows()
    if evaluated and (not first or has_pictures(run, shows)):
        return
    source = opened(config, wanted["split"])
    device = choose_device("cuda" if config.training.accelerator == "gpu" else config.training.accelerator)
    model = model if model is not None else load_model(run.folder, wanted["image_size"])
    if device.type == "cpu" and config.cache.enabled is not False and isinstance(model.backbone, (FrozenViT, KeyViT)):
        model.backbone = keep_features(model.backbone)
    if not evaluated:
        fit_split = find_dataset(config.data.dataset).fit_split if task.nme else None
        found = evaluate(model, source, fit_source=opened(config, fit_split) if fit_split else None, batch_size=BATCH,
                         workers=min(2, config.data.workers) if config.data.workers is not None else 2,
                         limit=wanted["limit"], fit_limit=wanted["nme_images"] or wanted["limit"],
                         outline=wanted["outline"], device=device, progress=tell)
        if first:
            weights = None if is_fitted(task.method) else run.weights_digest()
            keep_evaluation(run, wanted | {"system": task.method, "weights": weights}, found)
    if first and shows:
        draw_pictures(run, model.to(device), source, shows)


def opened(config: Config, split: str) -> AnnotatedSource:
    """The images of an evaluation; of a folder without annotation those of training, where parts can be counted."""
    if find_dataset(config.data.dataset).open is None:
        return PicturesOnly(open_images(config.data, "train"))
    return open_annotated(config.data, split)


def tell(task: str, done: int, total: int) -> None:
    if done == total or done % (10 * BATCH) == 0:
        print(f"{task}: {done}/{total}", flush=True)


if __name__ == "__main__":
    main()
