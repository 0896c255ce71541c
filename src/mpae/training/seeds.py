"""Seeds: what the parts could be before any training, from frozen features alone (ours, not the paper's).

Three times k-means, each time on what the last left over:

1. Foreground. Patches are cut into many clusters. A cluster that is rare on the outermost ring of patches belongs
   to the object: branches, ground and water run out of the picture, objects seldom do.
2. Outline. Patches on the edge of the object show object and background, and would become a part that runs all
   around it. A part is compact: a cluster that is nearly as spread out in its image as the whole object is outline,
   and goes to the background.
3. Parts. Each image's mean foreground feature is subtracted. What is left tells a head from a tail; what is gone
   told one kind of bird, or one light, from another. Its clusters are the K seeds.

Training stays near them by the weight `loss.seed`; `losses/seed.py` is the term.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import Tensor, nn

from mpae.baselines.clusters import k_means, subsample
from mpae.data.source import ImageSource
from mpae.inference.reading import Input, read_batches
from mpae.inference.samples import spread

log = logging.getLogger("mpae")

Backbone = Callable[[Tensor], Tensor]  # (B, 3, S, S) in [0, 1] -> (B, E, h, w)

IMAGES = 1500  # training images that are looked at, at even distances
CONTEXTS = 256  # clusters of all patches
RARE = 0.3  # a context is foreground if it is met on the ring less than this often, against everywhere
PIECES = 24  # clusters of the foreground among which outlines are looked for
COMPACT = 0.7  # a piece with more than this share of the object's variance of position is outline
DIRECTIONS = 64  # principal directions of centred features that are kept ...
FLATTENING = 6.0  # ... each divided by its deviation to the power of this over K, 1/2 at most: where parts are few,
#                   beak and legs, which are small, need more weight to get one
SHARPNESS = 50.0  # from squared distances between unit features to logits
DOUBT = 4.0  # log odds from which a patch is foreground: training widens parts a little
FEWEST = 20  # foreground patches for each cluster; where there are less for the K parts, there are no seeds
CHUNK = 64  # images at once


class Projection(NamedTuple):
    """Centred features (.., E) -> coordinates, and the clusters in them."""

    directions: Tensor  # (E, q)
    centres: Tensor  # (n, q)

    def logits(self, centred: Tensor) -> Tensor:
        """(.., E) -> (.., n)."""
        return nearness(centred @ self.directions, self.centres)


class Seeds(nn.Module):
    """Frozen features -> probabilities of K+1 parts, background last."""

    def __init__(self, tensors: Mapping[str, Tensor]):
        super().__init__()
        for name, value in tensors.items():
            self.register_buffer(name, value)

    @classmethod
    def load(cls, state: Mapping[str, Tensor] | None) -> Seeds | None:
        """From a checkpoint; None where the run has no seeds."""
        return cls(state) if state else None

    @torch.no_grad()
    def forward(self, frozen: Tensor) -> Tensor:
        """(B, E, h, w) -> (B, K+1, h, w)."""
        t: Any = self
        with torch.autocast(frozen.device.type, enabled=False):
            tokens = unit_tokens(frozen.float())  # (B, N, E)
            whole = foreground_logit(tokens, t.contexts, t.is_object)  # (B, N)
            inner = without_outline(tokens, whole, Projection(t.piece_directions, t.pieces), t.is_outline)  # (B, N)
            parts = Projection(t.part_directions, t.parts).logits(centred(tokens, inner)).softmax(dim=2)  # (B, N, K)
            share = (inner - DOUBT).sigmoid()[:, :, None]
        return torch.cat([share * parts, 1 - share], dim=2).transpose(1, 2).unflatten(2, frozen.shape[2:])


def find_seeds(source: ImageSource, backbone: Backbone, num_parts: int, size: int, seed: int) -> Seeds | None:
    """Seeds from some of the training images; None where there is no foreground to find."""
    maps = [frozen.half() for _, frozen in look_at(source, backbone, size, IMAGES)]
    found = fit_seeds(torch.cat(maps), num_parts, seed) if maps else None
    if found is None:
        log.warning("No foreground can be told by where it lies in these %d images, so training begins without "
                    "seeds.", len(source))
        return None
    return Seeds(found)


@torch.no_grad()
def look_at(source: ImageSource, backbone: Backbone, size: int, number: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Some images at even distances, whole, a batch at a time: pixels (B, 3, S, S) in [0, 1], features (B, E, h, w)."""
    for batch in read_batches(source, spread(len(source), number), size, 16, 0, with_view=False):
        pixels = [torch.tensor(item.pixels) for item in batch if isinstance(item, Input)]
        if pixels:
            images = torch.stack(pixels).permute(0, 3, 1, 2).float() / 255
            yield images, backbone(images)


def fit_seeds(maps: Tensor, num_parts: int, seed: int) -> dict[str, Tensor] | None:
    """The tensors of `Seeds`, from frozen features (n, E, h, w)."""
    tokens = unit_tokens(maps)  # (n, N, E)
    grid = maps.shape[2], maps.shape[3]
    flat = tokens.flatten(0, 1)
    contexts = clusters(flat, min(CONTEXTS, len(flat) // 4), seed, restarts=1, most=20_000)
    is_object = rare_on_ring(tokens, contexts, grid)
    if is_object.all() or not is_object.any():
        return None
    whole = in_chunks(lambda part: foreground_logit(part, contexts, is_object), tokens)  # (n, N)

    enough = max(1, int((whole > 0).sum()) // FEWEST)
    pieces = project_and_cluster(tokens, whole, min(PIECES, enough), seed)
    if pieces is None:
        return None
    labels = in_chunks(lambda part, logit: pieces.logits(centred(part, logit)).argmax(2), tokens, whole)  # (n, N)
    is_outline = relative_spread(labels, whole > 0, len(pieces.centres), grid) > COMPACT
    if is_outline.all():
        return None
    inner = in_chunks(lambda part, logit: without_outline(part, logit, pieces, is_outline), tokens, whole)  # (n, N)

    parts = project_and_cluster(tokens, inner, num_parts, seed)
    if parts is None:
        return None
    return {"contexts": contexts, "is_object": is_object, "piece_directions": pieces.directions,
            "pieces": pieces.centres, "is_outline": is_outline, "part_directions": parts.directions,
            "parts": parts.centres}


def unit_tokens(maps: Tensor) -> Tensor:
    """(n, E, h, w) -> (n, N, E) of unit length."""
    return nnf.normalize(maps.flatten(2).transpose(1, 2), dim=2)


def nearness(points: Tensor, centres: Tensor) -> Tensor:
    """(.., q) and (n, q) -> (.., n): logits that fall with the squared distance, up to a constant of each point."""
    return SHARPNESS * (points @ centres.T - centres.square().sum(dim=1) / 2)


def foreground_logit(tokens: Tensor, contexts: Tensor, is_object: Tensor) -> Tensor:
    """Log odds of foreground: (B, N, E) -> (B, N)."""
    near = nearness(tokens, contexts)  # (B, N, M)
    return near[..., is_object].logsumexp(dim=2) - near[..., ~is_object].logsumexp(dim=2)


def centred(tokens: Tensor, logit: Tensor) -> Tensor:
    """Tokens (B, N, E) without the mean of their image's foreground, whose log odds are (B, N)."""
    share = logit.sigmoid()[:, :, None]
    return tokens - (tokens * share).sum(dim=1, keepdim=True) / share.sum(dim=1, keepdim=True).clamp_min(1e-3)


def without_outline(tokens: Tensor, logit: Tensor, pieces: Projection, is_outline: Tensor) -> Tensor:
    """Log odds of foreground that is not outline: (B, N)."""
    if not is_outline.any():
        return logit
    near = pieces.logits(centred(tokens, logit))  # (B, N, n)
    outline = near[..., is_outline].logsumexp(dim=2) - near[..., ~is_outline].logsumexp(dim=2)
    both = (nnf.logsigmoid(logit) + nnf.logsigmoid(-outline)).clamp_max(-1e-6)  # log probability
    return both - torch.log1p(-both.exp())


def rare_on_ring(tokens: Tensor, contexts: Tensor, grid: tuple[int, int]) -> Tensor:
    """Which clusters are met on the outermost ring of patches less than RARE as often as everywhere: (M,) bool."""
    ring = torch.ones(grid, dtype=torch.bool)
    ring[1:-1, 1:-1] = False
    labels = in_chunks(lambda part: nearness(part, contexts).argmax(2), tokens)  # (n, N)
    everywhere = torch.bincount(labels.flatten(), minlength=len(contexts)) / labels.shape[1]
    on_ring = torch.bincount(labels[:, ring.flatten()].flatten(), minlength=len(contexts)) / ring.sum()
    return on_ring < RARE * everywhere


def project_and_cluster(tokens: Tensor, logit: Tensor, number: int, seed: int) -> Projection | None:
    """Principal directions and clusters of the centred foreground; None where there is too little of it."""
    chosen = [centred(part.float(), its)[its > 0] for part, its in zip(tokens.split(CHUNK), logit.split(CHUNK),
                                                                       strict=True)]
    points = torch.cat(chosen)  # (m, E)
    if len(points) < FEWEST * number:
        return None
    values, vectors = torch.linalg.eigh(points.T @ points / len(points))  # rising
    values, vectors = values[-DIRECTIONS:].clamp_min(1e-12), vectors[:, -DIRECTIONS:]
    deviations = (values / values[-1]).sqrt()
    directions = vectors / deviations ** min(0.5, FLATTENING / number)  # (E, q)
    return Projection(directions, clusters(points @ directions, number, seed))


def relative_spread(labels: Tensor, foreground: Tensor, number: int, grid: tuple[int, int]) -> Tensor:
    """Variance of position of each cluster within an image, against that of the whole foreground: (number,).

    Mean over the images that show at least three patches of it.

    Args:
        labels: (n, N) cluster of each patch.
        foreground: (n, N) bool.
    """
    place = torch.cartesian_prod(torch.arange(grid[0]), torch.arange(grid[1])).float()  # (N, 2)
    member = nnf.one_hot(labels, number).float() * foreground[:, :, None]  # (n, N, number)
    variance, count = _variance(member, place)
    whole, _ = _variance(foreground[:, :, None].float(), place)
    seen = count >= 3
    ratio = torch.where(seen, variance / whole.clamp_min(1e-6), 0.0)
    return ratio.sum(dim=0) / seen.sum(dim=0).clamp_min(1)


def _variance(member: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """Variance of position (n, number) and patches (n, number) of each cluster in each image."""
    count = member.sum(dim=1)
    mean = torch.einsum("bnk,nd->bkd", member, place) / count.clamp_min(1)[:, :, None]
    square = torch.einsum("bnk,n->bk", member, place.square().sum(dim=1)) / count.clamp_min(1)
    return square - mean.square().sum(dim=2), count


def clusters(points: Tensor, number: int, seed: int, restarts: int = 4, most: int = 50_000) -> Tensor:
    """Centres (number, q) of points (m, q)."""
    chosen = subsample(points.numpy(), most, seed).astype(np.float32)
    return torch.from_numpy(k_means(chosen, number, seed, restarts, most).centres)


def in_chunks(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """A function of images, CHUNK at a time and in single precision: what it makes on the way is large."""
    pieces = zip(*(tensor.split(CHUNK) for tensor in tensors), strict=True)
    return torch.cat([function(*(piece.float() for piece in group)) for group in pieces])
