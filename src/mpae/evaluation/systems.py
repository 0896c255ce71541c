"""What is evaluated: the model of a run, or a baseline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpae.backbones import build_backbone
from mpae.backbones.cache import CachedBackbone, FeatureCache, default_folder
from mpae.baselines import BASELINES
from mpae.config import BackboneSettings, CacheSettings, DataSettings, Precision
from mpae.data.catalogue import open_images
from mpae.errors import MPAEError
from mpae.run import Run


def data_settings(run: Run | None, dataset: str, root: Path | None, image_size: int | None) -> DataSettings:
    """The run's own settings say what was set aside for validation and how many images are drawn."""
    base = run.config().data if run else DataSettings()
    return base.model_copy(update={"dataset": dataset, "root": str(root) if root else None,
                                   "image_size": image_size or base.image_size})


def baseline_model(name: str, parts: int | None, settings: DataSettings, workers: int,
                   progress: Callable[[str, int, int], None], precision: Precision = "float32") -> Any:
    """A baseline with K parts, fitted to the training split."""
    if name not in BASELINES:
        raise MPAEError(f"Unknown baseline '{name}'; choose one of: {', '.join(BASELINES)}.")
    if parts is None:
        raise MPAEError("--baseline needs --parts K, the number of parts.")
    backbone = build_backbone(BackboneSettings(precision=precision), settings.image_size)
    return BASELINES[name].load().fit(backbone, open_images(settings, "train"), parts, settings.image_size,
                                      workers=workers, progress=progress)


def keep_features(backbone: Any) -> Any:
    """A backbone that keeps its maps in the user's cache folder, for whoever evaluates many runs."""
    limit = int(CacheSettings().limit_gb * 1e9)
    return CachedBackbone(backbone, FeatureCache(default_folder(), backbone.fingerprint, limit))
