"""The command that makes a run, found from its settings: it gives exactly these and is as short as can be."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import yaml

from mpae.config import PRESETS, Config, DataSettings, all_settings, differences, resolve
from results.reading import DATASET, Measured, Study

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
# Where things lie and how fast they are read; the same run on another machine has others.
MACHINE = {"data.root", "data.workers", "cache.folder", "cache.limit_gb", "training.checkpoint_minutes"}
Changes = list[tuple[str, Any, Any]]  # setting, its value in the preset or file, its value in the run


def changes(before: Config, now: Config) -> Changes:
    return [change for change in differences(before, now) if change[0] not in MACHINE]


def nearest_preset(config: Config) -> tuple[str, Changes]:
    """The preset from which the run differs in the fewest settings, and these."""
    found = [(name, changes(resolve(name), config)) for name in PRESETS]
    return min(found, key=lambda each: len(each[1]))


def fit_command(study: Study) -> str:
    """`mpae fit` with a preset, a file of experiments/ if one helps, and what still differs."""
    starts = [(preset, file, changes(resolve(preset, file), study.config))
              for preset in PRESETS for file in [*sorted(EXPERIMENTS.glob("*.yaml")), None]]
    preset, file, left = min(starts, key=lambda start: len(start[2]))
    words = ["mpae fit", f"--preset {preset}", *([f"--config experiments/{file.name}"] if file else []),
             *(_flag(name, value) for name, _, value in left), "--root ROOT", f"--out runs/{study.name}"]
    return " ".join(words)


def evaluate_commands(study: Study) -> list[str]:
    return [f"mpae evaluate runs/{study.name} {_evaluated(each, study.config.data.image_size)}"
            for each in study.evaluations]


def baseline_command(baseline: Measured) -> str:
    return (f"mpae evaluate --baseline {baseline.system} --parts {baseline.num_parts} "
            f"{_evaluated(baseline, DataSettings().image_size)}")


def _evaluated(measured: Measured, size: int) -> str:
    """What is evaluated, and what differs from the usual: all images, of this size, with NME."""
    unusual = {f"--limit {measured.limit}": measured.limit is not None, "--no-nme": measured.figures["nme"] is None,
               f"--nme-images {measured.nme_images}": measured.nme_images is not None,
               f"--image-size {measured.image_size}": measured.image_size != size}
    return " ".join([f"--dataset {DATASET} --root ROOT", *(flag for flag, given in unusual.items() if given)])


def _flag(name: str, value: Any) -> str:
    """`--seed 1` where the setting has a flag of its own, else `--set section.key=value`."""
    field = dict(all_settings())[name]
    flag = (field.json_schema_extra or {}).get("flag")  # type: ignore[union-attr]
    if flag and "/" not in str(flag) and value is not None:
        return f"{flag} {shown(name, value)}"
    return f"--set {name}={shown(name, value)}"


def shown(name: str, value: Any) -> str:
    """A value as YAML in one word; of a file of weights, its name alone."""
    if name == "backbone.name":
        return backbone_name(value)
    text = yaml.safe_dump(list(value) if isinstance(value, tuple) else value, default_flow_style=True, width=1000)
    return text.removesuffix("...\n").strip().replace(" ", "")


def backbone_name(name: str) -> str:
    path = PurePath(name)
    return name if len(path.parts) < 2 else f"WEIGHTS/{path.name}"
