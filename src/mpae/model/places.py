"""Features that do not tell the place in the picture (ours, not the paper's).

A ViT adds an embedding of the place to its patches, and some of it is left in its last features. Parts can live on
that: "the right edge of the picture" is in every image, smooth and easily told from the rest, so all constraints are
content with it, and no object is needed.

Images that are rolled around by random offsets show anything anywhere. What their mean feature still differs by from
position p to position is the place:

    A_p = mean_i F(roll_i I_i)_p,    A - mean_p A_p = U S V'.

Features lose their components along the first columns of U. The 1x1 convolution W that follows is linear, so it is
kept free of them instead, W = W - W U U', and nothing else has to know.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ROLLED = 12  # times that each image is rolled


@torch.no_grad()
def place_directions(backbone: Callable[[Tensor], Tensor], images: Tensor, number: int,
                     progress: Callable[[str, int, int], None] = lambda *_: None) -> Tensor:
    """The first columns of U: images (n, 3, S, S) -> (E, number)."""
    generator = torch.Generator().manual_seed(0)
    means = []  # (E, h, w) each
    for time in range(ROLLED):
        progress("features that tell the place", time, ROLLED)
        means.append(backbone(rolled(images, generator)).float().mean(dim=0))
    progress("features that tell the place", ROLLED, ROLLED)
    mean = torch.stack(means).mean(dim=0)
    away = mean.flatten(1) - mean.mean(dim=(1, 2))[:, None]  # (E, N)
    return torch.linalg.svd(away, full_matrices=False).U[:, :number]


def rolled(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image (3, S, S) rolled down and across by an offset of its own; what leaves on one side enters on the
    other."""
    offsets = torch.randint(images.shape[-1], (len(images), 2), generator=generator).tolist()
    return torch.stack([torch.roll(image, offset, dims=(1, 2)) for image, offset in zip(images, offsets, strict=True)])
