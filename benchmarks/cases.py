"""What is measured: each case builds a piece of work, ours or plain, on the same random inputs and weights."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from PIL import Image
from torch import Tensor

from benchmarks.measure import Work
from benchmarks.plain import PlainMPAE, PlainObjective, copy_weights
from mpae.assets.trained import RUNS
from mpae.backbones import FrozenViT
from mpae.backbones.cache import CachedBackbone, FeatureCache, pixel_key
from mpae.config import Config, resolve
from mpae.data.augment import make_view
from mpae.data.source import Picture
from mpae.data.sources.synthetic import drawn_images
from mpae.drawing.overlay import viewing_size
from mpae.export.int8 import quantised
from mpae.losses import Objective, PerceptualNetwork
from mpae.metrics.clustering import PartClusteringMetric
from mpae.model import MPAE, build_model
from mpae.model.load import load_model
from mpae.model.masking import random_mask, random_window
from mpae.prediction.masks import segment
from mpae.prediction.outline import refine
from mpae.prediction.predictor import PartPredictor
from mpae.training.assemble import build_optimizer


@dataclass(frozen=True)
class Sizes:
    """How large everything is: as in the figures that are to be reached, or tiny."""

    base: str = "vit_base_patch14_reg4_dinov2"
    small: str = "vit_small_patch14_dinov2"
    vit: dict[str, Any] = field(default_factory=dict)  # what makes these smaller
    image_size: int = 224
    many_parts: int = 50
    few_parts: int = 8
    batch: int = 16
    vgg_width: int = 64
    large_mask: int = 2048
    labels: int = 40_000_000
    grown_images: int = 192
    grown: dict[str, Any] = field(default_factory=dict)  # settings of the models that see twice the images
    rounds: int = 5
    fresh: bool = True  # whether memory is measured in processes of their own

    def config(self, preset: str, num_parts: int, **values: Any) -> Config:
        """Settings of a preset at these sizes, its dataset-independent choices left as they are."""
        return resolve(preset, overrides={"model.num_parts": num_parts, "data.image_size": self.image_size, **values})


UNCUT = {"model.partformer_size": None, "model.window": None, "loss.perceptual": None}  # the whole step of `laptop`
FINE_IMAGES = 8  # of twice the size
FULL = Sizes()
QUICK = Sizes(vit={"embed_dim": 32, "depth": 2, "num_heads": 2}, image_size=56, many_parts=5, few_parts=3,
              batch=8, vgg_width=4, large_mask=96, labels=100_000, grown_images=8,
              grown={"model.dim": 32, "model.partformer_layers": 2}, rounds=1, fresh=False)


def random_vit(architecture: str, sizes: Sizes) -> FrozenViT:
    model = timm.create_model(architecture, num_classes=0, img_size=sizes.image_size, dynamic_img_size=True,
                              **sizes.vit)
    return FrozenViT(model, "random weights")


def models(config: Config, backbone: Any) -> tuple[MPAE, PlainMPAE]:
    """Both with the same weights."""
    ours, plain = build_model(config, backbone), PlainMPAE(config.model, backbone, config.data.image_size)
    copy_weights(ours, plain)
    return ours, plain


def training(variant: str, preset: str, architecture: str, num_parts: int, batch: int | None, sizes: Sizes) -> Work:
    """A step of training; ours finds the backbone's maps in a warm cache on disk.

    Args:
        variant: "ours", "plain", or "uncut": ours without the cuts of the laptop preset.
        batch: images a step; as the preset has it if None.
    """
    torch.manual_seed(0)
    config = sizes.config(preset, num_parts, **(UNCUT if variant == "uncut" else {}))
    batch = batch or config.training.batch_size
    images = torch.rand(batch, 3, sizes.image_size, sizes.image_size)
    vgg = PerceptualNetwork(sizes.vgg_width)
    backbone = random_vit(architecture, sizes)
    arguments = config.loss, config.training.group_size, vgg
    side = sizes.image_size // backbone.patch_size
    window = None if variant == "plain" or config.model.window is None else min(config.model.window, side)
    model = models(config, backbone)[1] if variant == "plain" else build_model(config, warm(backbone, images))
    objective = PlainObjective(*arguments) if variant == "plain" else Objective(*arguments)
    optimizer = build_optimizer(config, model)
    del vgg, backbone

    def step() -> dict[str, float]:
        mask = random_mask(batch, side**2, config.model.mask_ratio)
        output = model(images, mask) if window is None else model(
            images, mask, window=random_window(batch, (side, side), window))
        terms = objective(output, output.target)
        optimizer.zero_grad()
        terms["total"].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.training.clip_norm)
        optimizer.step()
        return {name: value.item() for name, value in terms.items()}

    return step


def warm(backbone: FrozenViT, images: Tensor) -> CachedBackbone:
    """The backbone with a cache that holds maps (random ones) of these images, until the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="mpae-bench-")
    cache = FeatureCache(Path(folder.name), backbone.fingerprint, limit_bytes=10**10)
    side = images.shape[-1] // backbone.patch_size
    for image in images.numpy():
        cache.put(pixel_key(image), np.random.default_rng(0).standard_normal(
            (backbone.dim, side, side)).astype(np.float16))
    cached = CachedBackbone(backbone, cache)
    cached.folder = folder  # type: ignore[assignment]  # it goes with the backbone
    return cached


def prediction(variant: str, architecture: str, batch: int, mask_size: int, sizes: Sizes) -> Work:
    """Images to masks; the variants are "ours", "int8" and "plain"."""
    torch.manual_seed(0)
    ours, plain = models(sizes.config("paper", sizes.many_parts), random_vit(architecture, sizes))
    ours, plain = ours.eval(), plain.eval()
    pixels = np.random.default_rng(0).integers(0, 256, (batch, sizes.image_size, sizes.image_size, 3), np.uint8)
    if variant == "plain":
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
        return lambda: plain.masks(images, (mask_size, mask_size))
    predictor = PartPredictor(quantised(ours) if variant == "int8" else ours)
    return lambda: [segment(logits, (mask_size, mask_size)) for logits in predictor.describe(pixels)[0]]


def fine_prediction(variant: str, sizes: Sizes, run: str = "birds", pictures: Sequence[Picture] | None = None) -> Work:
    """Pictures, drawn birds if none are given, to masks by a run that comes with the package: how much of an image
    needs a close look is up to what it shows.

    Args:
        variant: "ours", "exact" (every patch is looked at closely), "four at once" (in the backbone, on all cores);
            each alone or as "int8, ours" or "bfloat16, ours".
    """
    pictures = pictures or list(drawn_images("bird", FINE_IMAGES))  # drawn once
    model: Any = load_model(RUNS / run, sizes.image_size, "bfloat16" if variant.startswith("bfloat16") else None).eval()
    if variant.startswith("int8"):
        model = quantised(model)
    if not variant.endswith("four at once"):
        predictor = PartPredictor(model, exact=variant.endswith("exact"))
        return lambda: [parts.mask for parts in predictor.predict(pictures)]

    def all_at_once() -> list[np.ndarray]:
        pixels = np.stack([make_view(picture, view=0, size=sizes.image_size) for picture in pictures])
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
        with torch.inference_mode():
            found = torch.cat([model.describe(some).logits for some in images.split(4)]).numpy()
        return [segment(refine(logits, picture.image.resize(viewing_size(picture.image.size), Image.Resampling.BICUBIC),
                               picture.image.size), picture.image.size)[0]
                for picture, logits in zip(pictures, found, strict=True)]

    return all_at_once


def agreement(found: Any, exact: Any) -> float:
    """Share of pixels with the same label, the mean of the images."""
    return float(np.mean([(ours == theirs).mean() for ours, theirs in zip(found, exact, strict=True)]))


def clustering(variant: str, sizes: Sizes) -> Work:
    """NMI and ARI of labels that come in batches of images of 128 x 128 pixels."""
    random = torch.Generator().manual_seed(0)
    per_batch = min(32 * 128 * 128, sizes.labels)
    batches = sizes.labels // per_batch
    labels = torch.randint(0, sizes.many_parts + 1, (per_batch,), generator=random)
    target = (labels + torch.randint(0, 20, (per_batch,), generator=random)) % 41

    def streaming() -> dict[str, float]:
        metric = PartClusteringMetric(sizes.many_parts + 1, 41)
        for _ in range(batches):
            metric.update(labels, target)
        return metric.compute()

    def concatenated() -> dict[str, float]:
        from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

        both = torch.cat([labels] * batches).numpy(), torch.cat([target] * batches).numpy()
        return {"nmi": 100 * normalized_mutual_info_score(*both), "ari": 100 * adjusted_rand_score(*both)}

    return streaming if variant == "ours" else concatenated
