"""What the loop works with, from the settings: model, cache, losses, optimiser, batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from mpae.backbones import build_backbone
from mpae.backbones.cache import CachedBackbone, FeatureCache, default_folder
from mpae.baselines import CLASSES, MASKS, find_method
from mpae.baselines.method import PartMethod, Pixels
from mpae.config import Config
from mpae.cores import available_cores
from mpae.data.beside import Beside, Masks, class_names
from mpae.data.loading import Batch, PictureReader, read_batches
from mpae.data.source import ImageSource
from mpae.distributed import on_first_process, rank_and_size
from mpae.errors import MPAEError
from mpae.initial_parts import number
from mpae.initial_parts.find import IMAGES, InitialParts, find_initial_parts, look_at
from mpae.initial_parts.warm_start import warm_start
from mpae.losses.objective import Objective
from mpae.losses.perceptual import PerceptualNetwork
from mpae.model import MPAE, build_model
from mpae.model.evening import evening
from mpae.model.places import place_directions
from mpae.training import starts
from mpae.training.batches import StepSampler
from mpae.training.begin import load_initial_parts, parts_of_run
from mpae.training.loop import MethodLosses, StepLosses
from mpae.training.progress import Progress
from mpae.training.schedule import Plan

log = logging.getLogger("mpae")

FIRST_SIDE = 16  # patches along the side, at most, of images that tell initial parts, or what tells the place
FIRST_IMAGES = 64  # that tell how features differ, and how far the logits of random weights do
ROLLED_IMAGES = 16  # that tell which features tell the place


def new_model(config: Config, classes: int = 0) -> Any:
    """Weights drawn from the seed, around a finished backbone; the random state of others is left alone."""
    method = find_method(config.model.method)
    backbone: Any = Pixels() if method.from_pixels else build_backbone(config.backbone, config.data.image_size)
    if method.name == "mpae":
        return random_model(config, backbone, config.training.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        model = method.load()(config, backbone, classes)
        model.load_pretrained()
        return model


def random_model(config: Config, backbone: Any, seed: int) -> MPAE:
    """MPAE with weights drawn from a seed, around a finished backbone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**32)
        return build_model(config, backbone)


def own_settings(config: Config) -> Config:
    """The settings with what a comparison system has of its own: its learning rate, and nothing of what we add."""
    method = find_method(config.model.method)
    if method.name == "mpae":
        return config
    rate = config.training.learning_rate or method.load().learning_rate
    return config.with_values({"training.learning_rate": rate, "training.initial_parts": False,
                               "training.held": 0, "loss.initial_parts": 0, "loss.border": 0})


def class_numbers(config: Config, source: ImageSource) -> tuple[list[str], list[int]]:
    """All classes and the number of each image's, for a method that learns from them; nothing for another."""
    if find_method(config.model.method).supervision != CLASSES:
        return [], []
    names = class_names(config.data, source.names)
    classes = sorted(set(names))
    number = {name: place for place, name in enumerate(classes)}
    return classes, [number[name] for name in names]


def beside_of(config: Config, source: ImageSource) -> Beside | None:
    """What the method of the settings asks for beside the images of `source`; None for MPAE."""
    method = find_method(config.model.method)
    if method.name == "mpae":
        return None
    return Beside(method.load().pair, class_numbers(config, source)[1] if method.supervision == CLASSES else None,
                  Masks(config.data, source) if method.supervision == MASKS else None)


def with_cache(config: Config, backbone: Any, device: torch.device) -> Any:
    """Kept features on a CPU, where the backbone is most of the cost; on the fly with a GPU. Says which."""
    if isinstance(backbone, Pixels):
        return backbone
    enabled = config.cache.enabled if config.cache.enabled is not None else device.type == "cpu"
    if not enabled:
        log.info("Frozen features are computed in every step (%s).",
                 "as asked" if config.cache.enabled is False else "a GPU does that faster than a disk")
        return backbone
    folder = Path(config.cache.folder).expanduser() if config.cache.folder else default_folder()
    log.info("Frozen features of %d views an image are kept in '%s' (at most %g GB; --no-cache computes them in "
             "every step).", config.cache.views, folder, config.cache.limit_gb)
    return CachedBackbone(backbone, FeatureCache(folder, backbone.fingerprint, int(config.cache.limit_gb * 1e9)))


def build_losses(config: Config, source: ImageSource, model: Any, perceptual: PerceptualNetwork | None,
                 state: dict[str, Any], device: torch.device, progress: Progress,
                 begun: bool = False) -> StepLosses | MethodLosses:
    """Model and objective of a run that begins, that has `begun` with another run, or that goes on from `state`."""
    if isinstance(model, PartMethod):
        if not state:
            on_first_process(lambda: model.begin(source, features_by(model, device), config.training.seed, progress))
        return MethodLosses(model, perceptual)
    places = state.get("places")
    if state:
        kept = state.get("initial_parts") or state.get("seeds")  # "seeds": version 0.1
    elif begun:
        kept = on_first_process(
            lambda: parts_of_run(model, source, progress) if config.loss.initial_parts else None)
    else:
        kept, places, model.compress_rate = on_first_process(
            lambda: begin_new(config, source, model, device, progress))
    return StepLosses(model, Objective(config.loss, config.training.group_size, perceptual), load_initial_parts(kept),
                      places)


def find_agreement(config: Config, source: ImageSource, model: MPAE, device: torch.device,
                   progress: Progress) -> dict[int, float] | None:
    """For each number of parts, how well parts of one half of the images are found again in the other."""
    log.info("Looking for the number of parts that are found again in other images.")
    backbone: Any = with_cache(config, model.backbone, device).to(device)
    maps = [frozen.half() for _, frozen in look_at(source, lambda images: backbone(images.to(device)).cpu(),
                                                   first_size(model), number.IMAGES, progress)]
    return number.agreement_curve(torch.cat(maps), config.training.seed, progress) if maps else None


def with_number_of_parts(config: Config, curve: dict[int, float] | None) -> Config:
    """The settings with the number of parts that the curve tells; their own where there is none."""
    if curve is None:
        log.warning("These images agree on no object, so there are no parts to count: --parts auto stays at %d.",
                    config.model.num_parts)
        return config
    chosen = number.number_of_parts(curve)
    log.info("--parts auto: %d parts. Agreement between halves of the images: %s.", chosen,
             ", ".join(f"{parts}: {value:.2f}" for parts, value in curve.items()))
    return config.with_values({"model.num_parts": chosen})


def begin_new(config: Config, source: ImageSource, model: MPAE, device: torch.device,
              progress: Progress) -> tuple[dict[str, Tensor] | None, Tensor | None, float]:
    """Set the model to begin with parts that its frozen features suggest, or with soft similarity maps of random
    weights; the initial parts, where the loss stays near them, the directions (E, q) that random weights do
    without, and the rate at which features are learned.

    Done by the first process, whose weights all others get when they are wrapped.
    """
    features, found, places = features_by(model, device), None, None
    if config.loss.initial_parts or config.training.initial_parts:
        found = begin_with_initial_parts(config, source, model, features, progress)
    if found is None or not config.training.initial_parts:
        places = set_random_weights(config, source, model, features, device, progress)
    kept = dict(found.state_dict()) if found is not None and config.loss.initial_parts else None
    return kept, places, model.compress_rate


def set_random_weights(config: Config, source: ImageSource, model: MPAE, features: Callable[[Tensor], Tensor],
                       device: torch.device, progress: Progress) -> Tensor | None:
    """Random weights made ready to learn from, by what some images look like, or set to begin with what several short
    trainings agree on; the directions (E, q) that they do without."""
    settings, number = config.model, config.training.starts
    if number == 1 and not settings.place_directions and not settings.even_directions and settings.first_logits is None:
        return None
    rolled: Tensor | None = None
    looked: list[tuple[Tensor, Tensor]] = []
    for whole, frozen in look_at(source, features, model.image_size, starts.IMAGES if number > 1 else FIRST_IMAGES,
                                 progress):
        rolled = no_larger(whole[:ROLLED_IMAGES], first_size(model)) if rolled is None else rolled
        looked.append((model.for_partformer(whole), frozen.half()))
    if rolled is None:
        return None
    images, frozen = map(torch.cat, zip(*looked, strict=True))  # (n, 3, S', S'), (n, E, h, w)
    places = place_directions(features, rolled, settings.place_directions, progress) \
        if settings.place_directions else None
    few = images[:FIRST_IMAGES], frozen[:FIRST_IMAGES].float()
    make_ready(config, model, *few, places)
    if number > 1:
        log.info("Training begins with what %d short trainings from random weights agree on.", number)
        seed = starts.APART * config.training.seed + 1
        models = [random_model(config, model.backbone, seed + start) for start in range(number)]
        for each in models:
            make_ready(config, each, *few, places)
            each.to(device)
        agreed = starts.parts_of_starts(config, models, images, frozen, places, progress)
        if agreed is None:
            log.warning("The short trainings agree on no object; training begins with random weights.")
        else:
            begin_with_agreed(config, model, images, frozen, agreed, places, progress)
    return places


def make_ready(config: Config, model: MPAE, images: Tensor, frozen: Tensor, places: Tensor | None) -> None:
    """Random weights that see features alike, know no places and give soft maps, as the settings ask for it."""
    settings = config.model
    if settings.even_directions:
        model.see_through(evening(frozen, settings.even_directions))
    if places is not None:
        model.forget(places)
    if settings.first_logits is not None:
        model.soften(images, frozen, settings.first_logits)


def begin_with_agreed(config: Config, model: MPAE, images: Tensor, frozen: Tensor, agreed: Tensor,
                      places: Tensor | None, progress: Progress) -> None:
    """The model set to begin with what short trainings agree on, (n, K+1, h, w), by as many images as initial parts
    are found in; it does without the same directions (E, q) as they."""
    some = slice(None, None, -(-len(images) // IMAGES))
    frozen = frozen[some].float()  # (n', E, h, w)
    if places is not None:
        frozen = frozen - torch.einsum("eq,fq,nfhw->nehw", places, places, frozen)
    warm_start(model, images[some], frozen, agreed[some], config.training.seed, progress)


def begin_with_initial_parts(config: Config, source: ImageSource, model: MPAE, features: Callable[[Tensor], Tensor],
                             progress: Progress) -> InitialParts | None:
    """Initial parts, where there are any, and the model set to begin with them, where that is asked for."""
    log.info("Looking for parts in the frozen features of the images, to begin with.")
    looked = [(model.for_partformer(images), frozen.half())
              for images, frozen in look_at(source, features, first_size(model), IMAGES, progress)]
    if not looked:
        return None
    images, frozen = map(torch.cat, zip(*looked, strict=True))  # (n, 3, S', S'), (n, E, h, w)
    found = find_initial_parts(frozen, config.model.num_parts, config.training.seed, progress)
    if found is not None and config.training.initial_parts:
        warm_start(model, images, frozen.float(), found(frozen), config.training.seed, progress)
    return found


def no_larger(images: Tensor, side: int) -> Tensor:
    """Square images (n, 3, S, S), made smaller where their side is longer than this."""
    if images.shape[-1] <= side:
        return images
    return functional.interpolate(images, (side, side), mode="bilinear", antialias=True)


def first_size(model: MPAE) -> int:
    """Side in pixels of images for which FIRST_SIDE holds."""
    return min(model.image_size, FIRST_SIDE * model.backbone.patch_size)


def features_by(model: Any, device: torch.device) -> Callable[[Tensor], Tensor]:
    """Images -> their frozen features, made on `device`."""
    backbone = model.backbone.to(device)
    return lambda images: backbone(images.to(device)).cpu()


def build_optimizer(config: Config, model: Any, state: dict[str, Any] | None = None) -> torch.optim.Optimizer:
    if state is not None and isinstance(model, MPAE):  # which rate goes on is known to the optimiser alone
        scales = (group.get("scale", 1.0) for group in state.get("param_groups", ()))
        model.compress_rate = next((scale for scale in scales if scale != 1.0), 1.0)
    rate_of = getattr(model, "rate_of", lambda name: 1.0)
    rates: dict[float, list[Tensor]] = {}  # factor of the learning rate -> parameters
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            rates.setdefault(rate_of(name), []).append(parameter)
    groups = [{"params": parameters, "scale": scale} for scale, parameters in rates.items()]
    optimizer = torch.optim.Adam(groups, lr=config.learning_rate(), betas=getattr(model, "betas", (0.9, 0.999)),
                                 fused=config.training.precision != "16-mixed")
    if state is not None:
        try:
            optimizer.load_state_dict(state)
        except (ValueError, KeyError, TypeError) as error:
            raise MPAEError(f"The checkpoint's optimiser does not fit the model: {error}.") from None
    return optimizer


def training_batches(config: Config, source: ImageSource, model: MPAE, plan: Plan) -> Iterator[Batch]:
    """This process's share of every step that is left."""
    kept = isinstance(model.backbone, CachedBackbone)
    sampler = StepSampler(plan.first, plan.steps, *rank_and_size(), images=len(source),
                          batch_size=config.training.batch_size, views=config.cache.views if kept else None,
                          reuse=config.cache.reuse if kept else 1, seed=config.training.seed,
                          partial=config.training.partial_batch)
    workers = config.data.workers if config.data.workers is not None else min(4, available_cores())
    reader = PictureReader(source, config.data.image_size, reading=config.data.reading, seed=config.training.seed,
                           beside=beside_of(config, source), substitute=True)
    return read_batches(reader, sampler, workers)
