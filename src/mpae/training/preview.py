"""Pictures of a run as it goes on: image | parts | restoration, always of the same images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn import functional

from mpae.data.augment import make_view
from mpae.data.loading import first_readable
from mpae.data.source import ImageSource, Picture
from mpae.drawing.overlay import paint_parts, preview_grid
from mpae.files import write_atomically
from mpae.model import MPAE
from mpae.model.masking import random_mask

CELL = 240  # pixels along the longer side of a picture


class Previewer:
    """Some images of the training set, spread over it, and their frozen maps, which are computed once."""

    def __init__(self, source: ImageSource, model: Any, mask_ratio: float, count: int = 8):
        spread = np.linspace(0, len(source) - 1, min(count, len(source))).round().astype(int)
        self.pictures = [first_readable(source, int(index))[0] for index in spread]
        pixels = np.stack([make_view(picture, 0, model.image_size) for picture in self.pictures])
        self.images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255  # (n, 3, S, S)
        self.frozen: torch.Tensor | None = None
        self.mask_ratio = mask_ratio

    @torch.no_grad()
    def draw(self, model: Any) -> Image.Image:
        images = self.images.to(model.mean.device)
        if self.frozen is None:
            self.frozen = model.backbone(images)
        logits, restored = self.look(model, images)
        cells: list[list[Image.Image]] = []
        for place, (picture, maps) in enumerate(zip(self.pictures, logits, strict=True)):
            image = fitted(picture)
            wide = functional.interpolate(maps[None], (image.height, image.width), mode="bilinear")[0]
            labels = wide.argmax(dim=0).numpy()  # 0..K-1 parts, K background
            mask = np.where(labels == model.num_parts, 0, labels + 1).astype(np.uint8)
            cells.append([squared(image), squared(paint_parts(image, mask))])
            if restored is not None:
                back = Image.fromarray(restored[place]).resize(image.size, Image.Resampling.BICUBIC)
                cells[-1].append(squared(back))
        rows = [[*cells[i], *(cells[i + 1] if i + 1 < len(cells) else ())] for i in range(0, len(cells), 2)]
        return preview_grid(rows, titles=("image", "parts", "restoration")[: len(cells[0])] * min(2, len(cells)))

    def look(self, model: Any, images: Tensor) -> tuple[Tensor, np.ndarray | None]:
        """Logits (n, K+1, h, w), and of MPAE the restored images (n, H', W', 3) uint8."""
        if not isinstance(model, MPAE):
            return model.describe(images, self.frozen).logits.cpu(), None
        grid_h, grid_w = model.decoder.grid
        mask = random_mask(len(images), grid_h * grid_w, self.mask_ratio, torch.Generator().manual_seed(0))
        output = model(images, mask.to(images.device), self.frozen)
        restored = (model.colours(output.restored) * 255).byte().permute(0, 2, 3, 1).cpu().numpy()
        return output.similarity.clamp_min(1e-9).log().cpu(), restored

    def save(self, model: Any, path: Path) -> None:
        """Drawing leaves weights, random state and the model's mode as they are."""
        training = model.training
        picture = self.draw(model.eval())
        model.train(training)
        write_atomically(path, lambda temporary: picture.save(temporary, format="PNG"))


def fitted(picture: Picture) -> Image.Image:
    """The picture at preview size, its aspect kept."""
    width, height = picture.image.size
    factor = CELL / max(width, height)
    size = max(1, round(width * factor)), max(1, round(height * factor))
    return picture.image.resize(size, Image.Resampling.BILINEAR)


def squared(picture: Image.Image) -> Image.Image:
    """Centred on white, so that upright and wide pictures share a grid."""
    return ImageOps.pad(picture, (CELL, CELL), color="white")
