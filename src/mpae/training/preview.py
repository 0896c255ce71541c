"""Pictures of a run as it goes on: image | parts | restoration, always of the same images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
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

    def __init__(self, source: ImageSource, model: MPAE, mask_ratio: float, count: int = 8):
        spread = np.linspace(0, len(source) - 1, min(count, len(source))).round().astype(int)
        self.pictures = [first_readable(source, int(index))[0] for index in spread]
        pixels = np.stack([make_view(picture, 0, model.image_size) for picture in self.pictures])
        self.images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255  # (n, 3, S, S)
        self.frozen: torch.Tensor | None = None
        grid_h, grid_w = model.decoder.grid
        self.mask = random_mask(len(pixels), grid_h * grid_w, mask_ratio, torch.Generator().manual_seed(0))

    @torch.no_grad()
    def draw(self, model: MPAE) -> Image.Image:
        device = next(model.partformer.parameters()).device
        images = self.images.to(device)
        if self.frozen is None:
            self.frozen = model.backbone(images)
        output = model(images, self.mask.to(device), self.frozen)
        logits = output.similarity.clamp_min(1e-9).log().cpu()  # (n, K+1, h, w)
        restored = (model.colours(output.restored) * 255).byte().permute(0, 2, 3, 1).cpu().numpy()
        trios: list[list[Image.Image]] = []
        for picture, maps, pixels in zip(self.pictures, logits, restored, strict=True):
            image = fitted(picture)
            wide = functional.interpolate(maps[None], (image.height, image.width), mode="bilinear")[0]
            labels = wide.argmax(dim=0).numpy()  # 0..K-1 parts, K background
            mask = np.where(labels == model.num_parts, 0, labels + 1).astype(np.uint8)
            back = Image.fromarray(pixels).resize(image.size, Image.Resampling.BICUBIC)
            trios.append([squared(image), squared(paint_parts(image, mask)), squared(back)])
        rows = [[*trios[i], *(trios[i + 1] if i + 1 < len(trios) else ())] for i in range(0, len(trios), 2)]
        return preview_grid(rows, titles=("image", "parts", "restoration") * min(2, len(trios)))

    def save(self, model: MPAE, path: Path) -> None:
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
