"""InitialParts: what the parts could be before any training, from frozen features alone (ours, not the paper's).

k-means, each time on what the last left over:

1. Foreground. Patches are cut into many clusters. A cluster that is rare on the outermost ring of patches belongs
   to the object: branches, ground and water run out of the picture, objects seldom do.
2. Coordinates. Each image's mean foreground feature is subtracted. Of what is left, a part tells one thing, and the
   kind of bird or the light another. Rough parts show which is which: how far the mean of a rough part wanders from
   image to image is what does not count, and every direction is divided by it.
3. Outline. Patches on the edge of the object show object and background, and would become a part that runs all
   around it. A part is compact: a cluster that is nearly as spread out in its image as the whole object is outline,
   and goes to the background. What is left gets its coordinates and loses its outline once more.
4. Parts. Clusters in the last coordinates; up to K = 8, twice as many, joined in pairs of neighbours. A few large
   clusters at once are another thing: the whole head is one then, though most differs there.

Training stays near them by the weight `loss.initial_parts`; `losses/initial_parts.py` is the term.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as nnf
from torch import Tensor, nn

from mpae.data.loading import PictureReader, in_batches, read_batches
from mpae.data.source import ImageSource
from mpae.data.sources.subsets import spread
from mpae.initial_parts.clusters import clusters, joined, side_by_side, uneven_clusters
from mpae.initial_parts.coordinates import (
    ROUGH,
    centred,
    coordinates,
    evened,
    in_chunks,
    nearness,
    principal_directions,
    unit_tokens,
)

log = logging.getLogger("mpae")

Backbone = Callable[[Tensor], Tensor]  # (B, 3, S, S) in [0, 1] -> (B, E, h, w)
Progress = Callable[[str, int, int], None]  # what is done, how much of it, out of how much

IMAGES = 1500  # training images that are looked at, at even distances
CONTEXTS = 256  # clusters of all patches
RARE = 0.3  # a context is foreground if it is met on the ring less than this often, against everywhere
PIECES = 32  # clusters of the foreground among which outlines are looked for
COMPACT = 0.6  # a piece with more than this share of the object's variance of position is outline
FINEST = 16  # clusters that parts are joined from, at most; where there are more parts, none is joined
DOUBT = 5.0  # log odds from which a patch is foreground: training widens parts a little
FEWEST = 20  # foreground patches for each cluster; where there are less for the K parts, there are no initial_parts


class InitialParts(nn.Module):
    """Frozen features -> probabilities of K+1 parts, background last."""

    def __init__(self, tensors: Mapping[str, Tensor]):
        super().__init__()
        for name, value in tensors.items():
            self.register_buffer(name, value)

    @classmethod
    def load(cls, state: Mapping[str, Tensor] | None) -> InitialParts | None:
        """From a checkpoint; None where the run has no initial_parts."""
        return cls(state) if state else None

    @torch.no_grad()
    def forward(self, frozen: Tensor) -> Tensor:
        """(B, E, h, w) -> (B, K+1, h, w)."""
        t: Any = self
        with torch.autocast(frozen.device.type, enabled=False):
            tokens = unit_tokens(frozen.float())  # (B, N, E)
            logit = foreground_logit(tokens, t.contexts, t.is_object)  # (B, N)
            for directions, pieces, is_outline in zip(t.directions, t.pieces, t.is_outline, strict=True):
                points = centred(tokens, logit) @ directions  # (B, N, q)
                logit = without_outline(logit, nearness(points, pieces), is_outline)  # (B, N)
            parts = gathered_logits(nearness(points, t.parts), t.part_of).softmax(dim=2)  # (B, N, K)
            share = (logit - DOUBT).sigmoid()[:, :, None]
        return torch.cat([share * parts, 1 - share], dim=2).transpose(1, 2).unflatten(2, frozen.shape[2:])


def find_initial_parts(source: ImageSource, backbone: Backbone, num_parts: int, size: int,
                       seed: int, progress: Progress = lambda *_: None) -> InitialParts | None:
    """Initial parts from some of the training images; None where there is no foreground to find."""
    maps = [frozen.half() for _, frozen in look_at(source, backbone, size, IMAGES, progress)]
    found = fit_initial_parts(torch.cat(maps), num_parts, seed, progress) if maps else None
    if found is None:
        log.warning("No foreground can be told by where it lies in these %d images, so training begins without "
                    "initial_parts.", len(source))
        return None
    return InitialParts(found)


@torch.no_grad()
def look_at(source: ImageSource, backbone: Backbone, size: int, number: int,
            progress: Progress = lambda *_: None) -> Iterator[tuple[Tensor, Tensor]]:
    """Some images at even distances, whole, a batch at a time: pixels (B, 3, S, S) in [0, 1], features (B, E, h, w)."""
    indices, done = spread(len(source), number), 0
    progress("features for initial parts", done, len(indices))
    for batch in read_batches(PictureReader(source, size), in_batches(indices, 16)):
        if batch.samples:
            images = batch.images.float() / 255
            yield images, backbone(images)
        done += len(batch)
        progress("features for initial parts", done, len(indices))


def fit_initial_parts(maps: Tensor, num_parts: int, seed: int,
                      progress: Progress = lambda *_: None) -> dict[str, Tensor] | None:
    """The tensors of `InitialParts`, from frozen features (n, E, h, w)."""
    progress("clusters for initial parts", 0, 4)
    tokens = unit_tokens(maps)  # (n, N, E)
    grid = maps.shape[2], maps.shape[3]
    flat = tokens.flatten(0, 1)
    contexts = clusters(flat, min(CONTEXTS, len(flat) // 4), seed, most=20_000)
    progress("clusters for initial parts", 1, 4)
    is_object = rare_on_ring(tokens, contexts, grid)
    if is_object.all() or not is_object.any():
        return None
    logit = in_chunks(lambda part: foreground_logit(part, contexts, is_object), tokens)  # (n, N)

    rounds = []
    number_of_pieces = min(PIECES, int((logit > 0).sum()) // FEWEST)
    for last in (False, True):
        inside = logit > 0
        if int(inside.sum()) < FEWEST * max(ROUGH, num_parts):
            return None
        directions = principal_directions(tokens, logit)  # (E, q)
        points = coordinates(tokens, logit, directions)  # (n, N, q)
        if last:  # rough parts would be outlines before
            shorten = evened(points, inside, seed)  # (q, q)
            directions, points = directions @ shorten, points @ shorten
        pieces = clusters(points[inside], number_of_pieces, seed)
        near = nearness(points, pieces)  # (n, N, PIECES)
        is_outline = relative_spread(near.argmax(2), inside, len(pieces), grid) > COMPACT
        if is_outline.all():
            return None
        logit = without_outline(logit, near, is_outline)  # (n, N)
        rounds.append((directions, pieces, is_outline))
        progress("clusters for initial parts", 1 + len(rounds), 4)

    number = clusters_for(num_parts)
    if int((logit > 0).sum()) < FEWEST * number:
        return None
    parts = uneven_clusters(points[logit > 0], number, seed)
    progress("clusters for initial parts", 4, 4)
    labels = torch.where(logit > 0, nearness(points, parts).argmax(2), -1).unflatten(1, grid)  # (n, h, w)
    part_of = joined(side_by_side(labels, number), number - num_parts)
    directions, pieces, is_outline = (torch.stack(each) for each in zip(*rounds, strict=True))
    return {"contexts": contexts, "is_object": is_object, "directions": directions, "pieces": pieces,
            "is_outline": is_outline, "parts": parts, "part_of": part_of}


def clusters_for(num_parts: int) -> int:
    """How many clusters K parts are made from."""
    return max(num_parts, min(2 * num_parts, FINEST))


def foreground_logit(tokens: Tensor, contexts: Tensor, is_object: Tensor) -> Tensor:
    """Log odds of foreground: (B, N, E) -> (B, N)."""
    near = nearness(tokens, contexts)  # (B, N, M)
    return near[..., is_object].logsumexp(dim=2) - near[..., ~is_object].logsumexp(dim=2)


def without_outline(logit: Tensor, near: Tensor, is_outline: Tensor) -> Tensor:
    """Log odds of foreground that is not outline: (B, N), from those of foreground and logits of pieces (B, N, n)."""
    if not is_outline.any():
        return logit
    outline = near[..., is_outline].logsumexp(dim=2) - near[..., ~is_outline].logsumexp(dim=2)
    both = (nnf.logsigmoid(logit) + nnf.logsigmoid(-outline)).clamp_max(-1e-6)  # log probability
    return both - torch.log1p(-both.exp())


def gathered_logits(near: Tensor, part_of: Tensor) -> Tensor:
    """Logits of parts (B, N, K) from those of the clusters they are made of, (B, N, n)."""
    return torch.stack([near[..., part_of == part].logsumexp(dim=2) for part in range(int(part_of.max()) + 1)], dim=2)


def rare_on_ring(tokens: Tensor, contexts: Tensor, grid: tuple[int, int]) -> Tensor:
    """Which clusters are met on the outermost ring of patches less than RARE as often as everywhere: (M,) bool."""
    ring = torch.ones(grid, dtype=torch.bool)
    ring[1:-1, 1:-1] = False
    labels = in_chunks(lambda part: nearness(part, contexts).argmax(2), tokens)  # (n, N)
    everywhere = torch.bincount(labels.flatten(), minlength=len(contexts)) / labels.shape[1]
    on_ring = torch.bincount(labels[:, ring.flatten()].flatten(), minlength=len(contexts)) / ring.sum()
    return on_ring < RARE * everywhere


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
