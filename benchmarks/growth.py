"""Twice the images: fit, predict and evaluate on n and on 2n drawn pictures, each in a fresh process."""

from __future__ import annotations

import tempfile
import time
from typing import Any, NamedTuple

from rich.console import Console

from benchmarks.measure import in_fresh_process
from mpae.backbones import build_backbone
from mpae.config import Config, resolve
from mpae.data.sources.synthetic import SyntheticImages
from mpae.devices import peak_so_far
from mpae.evaluation.evaluate import evaluate
from mpae.model import build_model
from mpae.prediction.predictor import predict_folder
from mpae.training.fit import fit

VERBS = ("fit", "predict", "evaluate")


class Cost(NamedTuple):
    seconds: float
    bytes: int  # at most, all of the process


def growth(verb: str, images: int, settings: dict[str, Any], fresh: bool) -> list[Cost]:
    """What a verb costs with `images` pictures and with twice as many."""
    config = resolve("laptop", overrides={**settings, "training.epochs": 1})
    return [in_fresh_process(cost, verb, number, config, fresh=fresh) for number in (images, 2 * images)]


def cost(verb: str, images: int, config: Config) -> Cost:
    import lightning.fabric  # noqa: F401  # loading it takes seconds, whatever the number of images

    with tempfile.TemporaryDirectory(prefix="mpae-bench-") as folder:
        start = time.perf_counter()
        if verb == "fit":
            config = config.with_values({"cache.folder": f"{folder}/features"})
            fit(config, SyntheticImages(images), f"{folder}/run", console=Console(quiet=True))
        else:
            model = build_model(config, build_backbone(config.backbone, config.data.image_size)).eval()
            if verb == "predict":
                predict_folder(model, SyntheticImages(images), f"{folder}/parts", run="random weights")
            else:
                evaluate(model, SyntheticImages(images, split="test"))
        return Cost(time.perf_counter() - start, peak_so_far() or 0)
