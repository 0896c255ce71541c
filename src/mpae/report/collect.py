"""What the report says, gathered from a run and some images: numbers and small pictures, no HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mpae.config import RENAMED
from mpae.data.geometry import Size
from mpae.data.loading import PictureReader, Sample, in_batches, read_batches
from mpae.data.source import ImageSource
from mpae.model import MPAE
from mpae.model.masking import random_mask
from mpae.prediction.masks import segment
from mpae.prediction.parts import Part

BATCH = 16  # pictures at once
GALLERY = 8  # pictures of each part
SIDE_BY_SIDE = 12  # originals with parts and restoration
ATTENTION = 4  # images whose attention maps are shown
LONGEST = 480  # pixels along the longer side of a picture in the report
RARE = 0.02  # a part that fewer images show is called out
# Losses that an earlier version logged under another name; a loss is called as the setting of its weight.
FORMER = {old.removeprefix("loss."): new.removeprefix("loss.") for old, new in RENAMED.items()
          if old.startswith("loss.")}


@dataclass
class Seen:
    """One image as the model sees it."""

    name: str
    image: Image.Image  # reduced to LONGEST
    mask: np.ndarray  # (H, W) uint8 at that size
    present: list[Part]
    restored: Image.Image | None = None
    attention: np.ndarray | None = None  # (K+1, h, w)


@dataclass
class PartUse:
    """How one part is used over all images, and where it is most certain."""

    index: int  # 1..K
    images: int = 0
    share: float = 0.0  # of the images
    area: float = 0.0  # mean share of the picture where present
    confidence: float = 0.0
    best: list[tuple[float, Seen, Part]] = field(default_factory=list)  # by falling confidence

    @property
    def unused(self) -> bool:
        return self.share < RARE


@dataclass
class Findings:
    num_parts: int
    images: int
    skipped: int
    parts: list[PartUse]
    parts_per_image: list[int]  # how many images show 0, 1, ..., K parts
    together: np.ndarray  # (K, K) share of the images with the row's part that show the column's too
    rows: list[Seen]  # original, parts, restoration
    attention: list[Seen]

    @property
    def mean_parts(self) -> float:
        counts = np.array(self.parts_per_image)
        return float((counts * np.arange(len(counts))).sum() / max(1, counts.sum()))


def examine(model: Any, source: ImageSource, limit: int, mask_ratio: float,
            progress: Callable[[str, int, int], None]) -> Findings:
    """Look at up to `limit` images, spread over the source, on the device where the model is."""
    chosen = np.linspace(0, len(source) - 1, min(limit, len(source))).round().astype(int)
    K = model.num_parts
    uses = [PartUse(index) for index in range(1, K + 1)]
    presence = np.zeros((len(chosen), K), dtype=bool)
    shown = set(np.linspace(0, len(chosen) - 1, min(SIDE_BY_SIDE, len(chosen))).round().astype(int).tolist())
    rows: list[Seen] = []
    done = 0
    for batch in see_batches(model, source, chosen.tolist(), BATCH, fitting_size):
        for seen, pixels in batch:
            for part in seen.present:
                presence[done, part.index - 1] = True
                count_use(uses[part.index - 1], seen, part)
            if done in shown:
                if isinstance(model, MPAE):
                    explain(model, seen, pixels, mask_ratio)
                rows.append(seen)
            done += 1
        progress("report", done, len(chosen))
    presence = presence[:done]
    for use in uses:
        use.share = use.images / max(1, done)
        use.area /= max(1, use.images)
        use.confidence /= max(1, use.images)
    counts = np.bincount(presence.sum(1), minlength=K + 1).tolist()
    both = presence.T.astype(float) @ presence
    together = both / np.maximum(1, presence.sum(0))[:, None]
    return Findings(K, done, len(chosen) - done, uses, counts, together, rows,
                    [row for row in rows if row.attention is not None][:ATTENTION])


def fitting_size(size: tuple[int, int]) -> tuple[int, int]:
    """A picture of `size` (width, height) reduced to LONGEST, where it is larger."""
    factor = min(1.0, LONGEST / max(size))
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def see_batches(model: Any, source: ImageSource, indices: Sequence[int], size: int,
                shown_size: Callable[[Size], Size]) -> Iterator[list[tuple[Seen, Tensor]]]:
    """The parts of some images, `size` at a time, each with its pixels (1, 3, S, S) on the device of the model."""
    device = next(model.parameters()).device
    reader = PictureReader(source, model.image_size, shown_size=shown_size)
    for batch in read_batches(reader, in_batches(indices, size)):
        if batch.samples:
            pixels = batch.images.to(device).float() / 255  # (B, 3, S, S)
            with torch.inference_mode():
                logits = model.part_logits(pixels).float().cpu()  # (B, K+1, h, w)
            yield [(see_parts(sample, maps), image) for sample, maps, image in
                   zip(batch.samples, logits, pixels.split(1), strict=True)]


def see_parts(sample: Sample, logits: Tensor) -> Seen:
    """The parts of one picture, at the size at which it is shown."""
    assert sample.shown is not None
    image = Image.fromarray(sample.shown)
    mask, present = segment(logits.numpy(), image.size)
    return Seen(sample.name, image, mask, present)


def count_use(use: PartUse, seen: Seen, part: Part) -> None:
    """Count a part of a picture, and keep the pictures in which the part is most certain; specks do not count."""
    use.images += 1
    use.area += part.share
    use.confidence += part.confidence
    if part.share >= 0.002:
        use.best.append((part.confidence, seen, part))
        use.best.sort(key=lambda entry: -entry[0])
        del use.best[GALLERY:]


@torch.inference_mode()
def explain(model: MPAE, seen: Seen, pixels: Tensor, mask_ratio: float) -> None:
    """Add what the network restores from the parts, and where its part tokens look."""
    seen.attention = model.attention(pixels)[0].float().cpu().numpy()
    if model.decoder is None:  # a packed run only predicts
        return
    grid_h, grid_w = model.decoder.grid
    mask = random_mask(1, grid_h * grid_w, mask_ratio, torch.Generator().manual_seed(0)).to(pixels.device)
    restored = model.colours(model(pixels, mask).restored)[0]
    values = (restored * 255).byte().permute(1, 2, 0).cpu().numpy()
    seen.restored = Image.fromarray(values).resize(seen.image.size, Image.Resampling.BICUBIC)


def curves(records: list[dict[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Each figure that was logged in training, by step, under its name of today."""
    found: dict[str, list[tuple[int, float]]] = {}
    for record in records:
        if "evaluation" in record or "step" not in record:
            continue
        for name, value in record.items():
            if name not in ("step", "epoch", "minutes") and isinstance(value, (int, float)):
                found.setdefault(FORMER.get(name, name), []).append((record["step"], float(value)))
    return found
