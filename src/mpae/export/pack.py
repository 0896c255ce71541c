"""A run packed for prediction: PartFormer, the 1x1 convolution and the settings, in 8 bits.

What restores images is left out, and so is what training leaves behind. A packed run is a run folder like any other,
a twentieth of its size; `load_model` reads it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import yaml

from mpae.assets.int8 import pack
from mpae.data.loading import PictureReader, in_batches, read_batches
from mpae.data.source import ImageSource
from mpae.errors import MPAEError
from mpae.export.onnx import labels
from mpae.files import write_text
from mpae.model import MPAE
from mpae.model.load import load_model
from mpae.run import Run

NEEDED = ("partformer.", "compress.")
BYTES = 4_000_000  # of the weights, at most
AGREEMENT = 0.995  # share of pixels on which the packed run gives the label of the run it was made from, at least
BATCH = 4


@dataclass(frozen=True)
class Packed:
    """What `pack_run` wrote."""

    run: Run
    bytes: int  # of the weights
    agreement: float  # mean over the images
    lowest: float  # that of the image with the lowest


def pack_run(run: Run, out: Path, source: ImageSource, about: str, kind: str | None = None,
             progress: Callable[[str, int, int], None] = lambda *_: None) -> Packed:
    """Write a packed run to a new folder, where it is small enough and agrees with the run on these images.

    Args:
        about: one line that `mpae runs` shows.
        kind: of drawn images that it is shown on where there is no photo.
    """
    if out.exists():
        raise MPAEError(f"'{out}' exists already; choose another folder.")
    weights = {name: value for name, value in run.load_weights().items() if name.startswith(NEEDED)}
    packed = Run(out)
    try:
        content = {key: value for key, value in run.shared_content().items() if key != "images_digest"}
        write_text(packed.config_file, yaml.safe_dump({"about": about, "kind": kind, **content}, sort_keys=False))
        packed.save_weights(pack(weights), {"packed": "int8"})
        if run.parts_file.is_file():
            shutil.copy(run.parts_file, packed.parts_file)
        size = packed.weights_file.stat().st_size
        if size > BYTES:
            raise MPAEError(f"'{run}' has {size:,} bytes of weights when packed, and {BYTES:,} are the most; train it "
                            "with fewer model.partformer_layers or a smaller model.dim.")
        shares = agreement(load_model(run.folder), load_model(packed.folder), source, progress)
        if shares.mean() < AGREEMENT:
            raise MPAEError(f"Packed, '{run}' gives its own label on {shares.mean():.2%} of pixels only, and "
                            f"{AGREEMENT:.1%} are wanted.")
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    return Packed(packed, size, float(shares.mean()), float(shares.min()))


@torch.inference_mode()
def agreement(model: MPAE, other: MPAE, source: ImageSource,
              progress: Callable[[str, int, int], None] = lambda *_: None) -> np.ndarray:
    """Share of the pixels of each image that two models of one backbone label alike: (n,)."""
    shares: list[float] = []
    reader = PictureReader(source, model.image_size)
    for batch in read_batches(reader, in_batches(range(len(source)), BATCH), workers=0):
        if batch.samples:
            pixels = torch.from_numpy(np.stack([sample.pixels for sample in batch.samples]))
            images = pixels.permute(0, 3, 1, 2).float() / 255  # (B, 3, S, S)
            frozen = model.backbone(images)  # (B, E, h, w)
            ours, theirs = (labels(each.describe(images, frozen).logits) for each in (model, other))
            shares += (ours == theirs).float().mean(dim=(1, 2)).tolist()
        progress("compare", len(shares), len(source))
    if not shares:
        raise MPAEError("No image to compare the packed run on can be read; pass a folder of images.")
    return np.array(shares)
