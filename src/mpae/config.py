"""Every setting, once: type, default, range, help text and command-line flag.

Precedence: defaults < preset < the preset's values for the dataset < YAML file < flags and ``--set``; `origins` tells
which of them a value came from. The command line, the YAML reader and the documentation are all generated from the
classes below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from mpae.errors import MPAEError, bad_values, short, unknown_options
from mpae.files import parse_yaml, read_yaml

Reading = Literal["released", "paper"]
Precision = Literal["float32", "bfloat16"]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]


def setting(default: Any, help: str, flag: str | None = None, **limits: Any) -> Any:
    """One setting: its default, its sentence in ``--help``, its short flag if it has one, its limits."""
    return Field(default, description=help, json_schema_extra={"flag": flag} if flag else None, **limits)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Pydantic reads true as 1; whoever writes `epochs: yes` did not mean one epoch."""
        inside = value if isinstance(value, list) else [value]
        annotation = str(cls.model_fields[info.field_name or ""].annotation)
        if "bool" not in annotation and any(isinstance(item, bool) for item in inside):
            raise ValueError("a value other than true or false")
        return value


class DataSettings(Section):
    """Which images are read, and how large they enter the network."""

    dataset: str = setting("folder", "which dataset; `mpae datasets` lists them", "--dataset")
    root: str | None = setting(None, "folder of the images or of the downloaded benchmark", "--root")
    image_size: int = setting(224, "side of the square network input in pixels", "--image-size",
                              ge=14, le=4096)
    reading: Literal["ours", "released"] = setting(
        "ours", "how pictures are cut and resized: ours, or as in the released program")
    validation: float = setting(0.0, "share of the training images set aside for validation", ge=0, lt=0.9)
    synthetic_images: int = setting(600, "images that `--dataset synthetic` draws for training",
                                    ge=2, le=1_000_000)
    workers: int | None = setting(None, "processes that decode images; one for each core if not given",
                                  "--workers", ge=0, le=256)


class BackboneSettings(Section):
    """The frozen ViT that gives the feature map."""

    name: str = setting("bundled", "bundled, a named backbone, any timm ViT, or a weights file", "--backbone")
    architecture: str | None = setting(
        None, "timm name for a weights file whose architecture is not recognised")
    precision: Precision = setting(
        "float32", "of its arithmetic: float32, or bfloat16, about three times as fast on a CPU that has it (`mpae "
        "doctor`)", "--precision")


class ModelSettings(Section):
    """The trainable blocks of the paper's Fig. 2."""

    method: str = setting("mpae", "which system to train; an unknown name lists them, with what each learns from",
                          "--method")
    num_parts: int = setting(8, "K, the number of parts, the background not counted; auto finds it, from 2 to 32",
                             "--parts", ge=1, le=1000)
    dim: int = setting(256, "C, the width of descriptors and features", ge=8, le=8192)
    partformer_size: int | None = setting(None, "side in pixels of the image that PartFormer sees, where it is "
                                          "less than data.image_size", ge=1, le=4096)
    partformer_layers: int = setting(6, "layers of the ViT that makes the part descriptors", ge=1, le=100)
    partformer_heads: int = setting(8, "attention heads of that ViT", ge=1, le=128)
    encoder_layers: int = setting(2, "layers of the encoder of visible patches (Table 8)", ge=1, le=100)
    decoder_layers: int = setting(2, "layers of the decoder that restores the image (Table 9)", ge=1, le=100)
    restoration_heads: int = setting(4, "attention heads of encoder and decoder", ge=1, le=128)
    mask_ratio: float = setting(0.9, "r, the share of patches hidden from the encoder (Table 5)", ge=0, le=1)
    first_logits: float | None = setting(None, "deviation between parts of the logits that training from random "
                                         "weights begins with; if not given, that of the released ones, about 30",
                                         gt=0)
    place_directions: int = setting(0, "directions of the frozen features that tell the place in the picture, which "
                                    "training from random weights does without", ge=0, le=64)
    even_directions: int = setting(0, "principal directions of the frozen features that are evened out in the random "
                                   "weights that training begins with (ours, not the paper's)", ge=0, le=8192)
    pixels_per_patch: int = setting(8, "restored image: pixels along the side of each patch", ge=1, le=64)
    window: int | None = setting(None, "side in patches of the window that a training step restores, at a random "
                                 "place, where it is less than the whole image", ge=1, le=1024)
    nearby: bool = setting(False, "whether attention of the decoder begins by looking at patches nearby (ours, not the "
                           "paper's)")


class LossSettings(Section):
    """Weights of the objective; a weight of 0 switches its term off.

    total = restoration L_r + presence (foreground L_f + background L_b) + semantic L_s
            + distribution (variation L_v + entropy L_e) + border L_border + initial_parts L_initial
    """

    reading: Reading = setting(
        "released", "where paper and released implementation disagree, which to follow")
    restoration: float = setting(1.0, "weight of L_r, Eq. 3", ge=0)
    presence: float = setting(1.0, "lambda_p, weight of L_f + L_b", ge=0)
    foreground: float = setting(1.0, "weight of L_f within presence, Eq. 4", ge=0)
    background: float = setting(1.0, "weight of L_b within presence, Eq. 5", ge=0)
    semantic: float = setting(0.25, "lambda_s, weight of L_s, Eq. 7", ge=0)
    distribution: float = setting(0.5, "lambda_d, weight of L_v + L_e", ge=0)
    variation: float = setting(1.0, "weight of L_v within distribution, Eq. 10", ge=0)
    entropy: float = setting(1.0, "weight of L_e within distribution, Eq. 11", ge=0)
    foreground_form: Literal["groups", "batch", "area"] = setting(
        "groups", "L_f of the paper, or an alternative of its Table 6")
    area_epsilon: float = setting(1.5, "epsilon of the area form of L_f, in positions of the grid", gt=0)
    area_background: bool = setting(False, "whether the area form of L_f asks for background too")
    distribution_form: Literal["variation", "concentration"] = setting(
        "variation", "L_v + L_e of the paper, or the alternative of its Table 6")
    border: float = setting(0.0, "weight of the border prior (ours, not the paper's)", ge=0)
    initial_parts: float = setting(0.0, "weight of staying near the parts that training begins with (ours, not the "
                                   "paper's)", ge=0)
    scale: float = setting(20.0, "s of L_s", gt=0)
    margin: float = setting(0.5, "m of L_s, in radians", ge=0, lt=1.57)
    pixel: float | None = setting(
        None, "weight of the pixel L1 within L_r; 0.1 (released) or 0.5 (paper)", ge=0)
    perceptual: tuple[Weight, Weight, Weight, Weight, Weight] | None = setting(
        None, "weights of VGG-19 relu1_1 to relu5_1 within L_r; released: 5/32, 5/16, 5/8, 5/4, 5, or 0.5 each of the "
        "bundled VGG; paper: 0.1 each")
    vgg: str = setting("bundled", "VGG-19 of L_r: bundled (layers of equal activation), vgg19 (ImageNet, from the "
                       "hub), or a file of its weights")


class TrainingSettings(Section):
    """Optimisation, hardware and when to stop."""

    epochs: int = setting(100, "passes over the images", "--epochs", ge=1, le=1_000_000)
    max_steps: int | None = setting(None, "stop after this many steps, if that is sooner", ge=1)
    max_minutes: float | None = setting(None, "stop after this many minutes, if that is sooner; the learning "
                                        "rate then decays by time", "--max-minutes", gt=0)
    batch_size: int = setting(64, "images a step, over all devices", "--batch-size", ge=1, le=65_536)
    partial_batch: bool = setting(False, "keep the last batch of an epoch although it is smaller, as the released "
                                  "program does")
    group_size: int = setting(8, "G, images in which every part should appear once; 64 for many categories",
                              "--group-size", ge=1, le=65_536)
    learning_rate: float | None = setting(None, "Adam's learning rate; 5e-4 (released) or 5e-3 (paper)", gt=0)
    auto_parts: bool = setting(False, "find the number of parts first, from 2 to 32 (ours, not the paper's)")
    initial_parts: bool = setting(False, "begin with the parts that frozen features suggest (ours, not the paper's)")
    starts: int = setting(1, "short trainings, each from random weights of its own, on whose parts they agree training "
                          "begins where it has no initial parts; 1: with random weights (ours, not the paper's)",
                          ge=1, le=100)
    warmup_steps: int = setting(0, "steps over which the learning rate rises from 0", ge=0)
    held: int = setting(0, "images set aside, a tenth at most, to see how well hidden patches are restored and whether "
                        "parts still change: the learning rate drops, and in the end the run stops, where they do not",
                        ge=0, le=100_000)
    schedule: Literal["steps", "cosine"] = setting(
        "steps", "how the learning rate falls: at milestones, as released, or along half a cosine to 0")
    milestones: tuple[Share, ...] = setting((0.8, 0.9), "shares of the run at which the learning rate drops, if its "
                                            "schedule is steps")
    decay: float = setting(0.2, "factor by which it drops", gt=0, le=1)
    clip_norm: float = setting(2.0, "largest norm of the gradient", gt=0)
    seed: int = setting(0, "everything random derives from it", "--seed", ge=0, le=2**32 - 1)
    devices: int = setting(1, "processes on the CPU, or GPUs, on each node", "--devices", ge=1, le=1024)
    nodes: int = setting(1, "machines", ge=1, le=10_000)
    accelerator: Literal["auto", "cpu", "cuda", "mps", "gpu"] = setting(
        "auto", "where to train: auto, cpu, cuda or mps", "--device")
    precision: Literal["32-true", "16-mixed", "bf16-mixed"] = setting(
        "32-true", "arithmetic of the forward pass")
    checkpoint_minutes: float = setting(2.0, "minutes between checkpoints", gt=0)
    preview_minutes: float = setting(2.0, "minutes between previews", gt=0)


class CacheSettings(Section):
    """Frozen features, computed once for each image and view."""

    enabled: bool | None = setting(
        None, "keep frozen features on disk; on for a CPU, off for a GPU if not given", "--cache/--no-cache")
    views: int = setting(4, "augmented views an image when features are kept", ge=1, le=1000)
    reuse: int = setting(1, "while features of all images are not kept yet, of this many images of a step only one is "
                         "new: features cost more than a step", ge=1, le=1000)
    limit_gb: float = setting(20.0, "largest size of the cache", gt=0, le=1_000_000)
    folder: str | None = setting(None, "where the cache lives; the user's cache folder if not given")


class Config(Section):
    """All settings of a run."""

    data: DataSettings = DataSettings()
    backbone: BackboneSettings = BackboneSettings()
    model: ModelSettings = ModelSettings()
    loss: LossSettings = LossSettings()
    training: TrainingSettings = TrainingSettings()
    cache: CacheSettings = CacheSettings()

    def learning_rate(self) -> float:
        """Paper: 5e-3 is printed (A.2), 5e-4 is what the released implementation uses."""
        if self.training.learning_rate is not None:
            return self.training.learning_rate
        return {"released": 5e-4, "paper": 5e-3}[self.loss.reading]

    def with_values(self, values: Mapping[str, Any]) -> Config:
        """A copy with dotted settings replaced: ``config.with_values({"training.epochs": 3})``."""
        return _validated(_merged(self.model_dump(mode="json"), _nested(values)), "the settings")

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


PRESETS: dict[str, dict[str, Any]] = {
    # Appendix A.2 and the released implementation, which gave the published figures.
    "paper": {
        "data.reading": "released",
        "backbone.name": "dinov2-vitb14-reg",
        "loss.vgg": "vgg19",
        "training.batch_size": 64,
        "training.partial_batch": True,
        "training.epochs": 100,
    },
    # Two CPU cores and no download. docs/studies/laptop.md has the run behind each choice.
    "laptop": {
        "backbone.name": "bundled",
        "model.partformer_size": 112,
        "model.partformer_layers": 4,
        "model.first_logits": 3.0,
        "model.place_directions": 8,
        "model.even_directions": 64,
        "model.pixels_per_patch": 4,
        "model.window": 8,
        "model.nearby": True,
        "loss.pixel": 0.5,
        "loss.perceptual": (0.1, 0.1, 0.1, 0.1, 0.0),
        "loss.initial_parts": 4.0,
        "training.batch_size": 16,
        "training.epochs": 100,
        "training.max_steps": 600,
        "training.initial_parts": True,
        "training.warmup_steps": 20,
        "training.schedule": "cosine",
        "training.held": 128,
        "cache.views": 2,
        "cache.reuse": 4,
    },
}

_PARTIMAGENET = {"data.image_size": 224, "training.group_size": 64, "training.epochs": 70,
                 "training.milestones": (50 / 70, 60 / 70), "loss.area_background": True}

# What a preset sets besides on a dataset: image size, G, the epochs with those after which the rate drops, and for
# the area form of L_f (Table 6) what Xia et al. have there.
ON_DATASET: dict[str, dict[str, dict[str, Any]]] = {
    "paper": {
        "cub": {"data.image_size": 448, "training.group_size": 8, "training.epochs": 100,
                "training.milestones": (80 / 100, 90 / 100), "loss.area_epsilon": 0.5},
        "celeba": {"data.image_size": 224, "training.group_size": 8, "training.epochs": 20,
                   "training.milestones": (15 / 20, 18 / 20), "loss.area_epsilon": 2.0},
        "partimagenet-ood": _PARTIMAGENET,
        "partimagenet-seg": _PARTIMAGENET,
    },
}


def default_preset() -> str:
    """The preset that suits the machine: `paper` with a GPU, `laptop` without."""
    import torch

    return "paper" if torch.cuda.is_available() else "laptop"


def resolve(preset: str | None = None, file: Path | None = None,
            overrides: Mapping[str, Any] | None = None) -> Config:
    """Defaults < preset < its values for the dataset < YAML file < overrides (dotted keys, values typed or as text).

    Without a preset, that of the file (a line `preset: paper`), or the one that suits the machine.
    """
    values: dict[str, Any] = {}
    for _, layer in _layers(preset, file, overrides):
        values = _merged(values, layer)
    return _validated(values, str(file or "the settings"))


def origins(preset: str | None = None, file: Path | None = None,
            overrides: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Where `resolve` takes the value of each setting from: "default", "preset paper", "preset paper on cub", the
    file's name, or "command line"."""
    resolve(preset, file, overrides)  # what cannot be read has no origin
    found = {name: "default" for name, _ in all_settings()}
    for origin, layer in _layers(preset, file, overrides):
        found |= {f"{section}.{key}": origin for section, content in layer.items() for key in content}
    return found


def _layers(preset: str | None, file: Path | None, overrides: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """(origin, settings by section), weakest first."""
    written = _sections(read_yaml(file)) if file is not None else {}
    chosen = written.pop("preset", None)
    preset = preset or chosen or default_preset()
    if not isinstance(preset, str) or preset not in PRESETS:
        raise MPAEError(f"Unknown preset '{short(preset)}'; choose one of: {', '.join(PRESETS)}.")
    given = _nested(overrides or {})
    data = _merged(_merged({"data": {}}, written), given)["data"]
    dataset = data.get("dataset") if isinstance(data, Mapping) else None
    here = ON_DATASET.get(preset, {}).get(dataset, {}) if isinstance(dataset, str) else {}
    return [(f"preset {preset}", _nested(PRESETS[preset])), (f"preset {preset} on {dataset}", _nested(here)),
            (str(file), written), ("command line", given)]


def read_settings(file: Path) -> Config:
    """A `config.yaml` that holds settings only."""
    return _validated(_sections(read_yaml(file)), str(file))


# Settings of run folders that an earlier version wrote -> their names now.
RENAMED = {"loss.seed": "loss.initial_parts", "training.warm_start": "training.initial_parts"}


def from_run(values: Mapping[str, Any], source: str) -> Config:
    """Settings of a run folder, maybe of an earlier version; ``source`` is named in errors."""
    values = {section: dict(content) if isinstance(content, Mapping) else content
              for section, content in values.items()}
    for old, new in RENAMED.items():
        section, _, key = old.partition(".")
        if isinstance(values.get(section), dict) and key in values[section]:
            values[section][new.partition(".")[2]] = values[section].pop(key)
    return _validated(values, source)


def parse_assignment(text: str) -> tuple[str, Any]:
    """``section.key=value`` of ``--set``, the value read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise MPAEError(f"--set '{short(text)}' assigns nothing; write --set section.key=value.")
    return key.strip(), parse_yaml(value, f"The value of --set {short(key)}")


def all_settings() -> Iterator[tuple[str, FieldInfo]]:
    """Every setting as (dotted name, field), in the order of this file."""
    for section, field in Config.model_fields.items():
        for key, inner in field.annotation.model_fields.items():  # type: ignore[union-attr]
            yield f"{section}.{key}", inner


def differences(before: Config, now: Config) -> list[tuple[str, Any, Any]]:
    """Settings that differ: (dotted name, value before, value now)."""
    found = []
    for name, _ in all_settings():
        section, _, key = name.partition(".")
        old, new = getattr(getattr(before, section), key), getattr(getattr(now, section), key)
        if old != new:
            found.append((name, old, new))
    return found


def _sections(content: Mapping[str, Any]) -> dict[str, Any]:
    """A section whose lines are all commented out is an empty one."""
    return {name: {} if section is None else section for name, section in content.items()}


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in values.items():
        section, _, key = name.partition(".")
        tree = _merged(tree, {section: {key: value} if key else value})
    return tree


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merged(result[key], value) if both else value
    return result


def _validated(values: Mapping[str, Any], source: str) -> Config:
    unknown = _unknown_keys(values)
    if unknown:
        raise MPAEError(unknown_options(unknown, [name for name, _ in all_settings()], source))
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise MPAEError(f"In {source}: {bad_values(error.errors(include_url=False))}.") from None
    _check_groups(config.training)
    return config


def _unknown_keys(values: Mapping[str, Any]) -> list[str]:
    unknown = []
    for section, content in values.items():
        field = Config.model_fields.get(section) if isinstance(section, str) else None
        if field is None:
            unknown.append(short(section))
        elif isinstance(content, Mapping):
            known = field.annotation.model_fields  # type: ignore[union-attr]
            unknown += [f"{section}.{short(key)}" for key in content if key not in known]
    return unknown


def nearest_multiples(value: int, of: int) -> str:
    """'448 or 462' for (450, 14): the multiples below and above, never 0."""
    below = value // of * of
    return f"{below} or {below + of}" if below else str(of)


def _check_groups(training: TrainingSettings) -> None:
    batch, group, devices = training.batch_size, training.group_size, training.devices * training.nodes
    if batch % (group * devices):
        each = f" on each of {devices} devices" if devices > 1 else ""
        raise MPAEError(f"batch_size {batch} is not a multiple of group_size {group}{each}; "
                        f"use {nearest_multiples(batch, group * devices)}.")
