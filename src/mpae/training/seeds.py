"""Seeds: what the parts could be before any training, from frozen features alone (ours, not the paper's).

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

Training stays near them by the weight `loss.seed`; `losses/seed.py` is the term.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

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
DIRECTIONS = 96  # principal directions of centred features that are kept, each divided by the root of its deviation
ROUGH = 8  # parts that show what changes with the image
PIECES = 32  # clusters of the foreground among which they are
COMPACT = 0.6  # a piece with more than this share of the object's variance of position is outline
FINEST = 16  # clusters that parts are joined from, at most; where there are more parts, none is joined
RESTARTS = 8  # of their k-means
SQUARES = 10.0  # what the sum of squares counts in the choice between them, against the entropy of their sizes
SHARPNESS = 50.0  # from squared distances between unit features to logits
DOUBT = 5.0  # log odds from which a patch is foreground: training widens parts a little
FEWEST = 20  # foreground patches for each cluster; where there are less for the K parts, there are no seeds
CHUNK = 64  # images at once


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
            logit = foreground_logit(tokens, t.contexts, t.is_object)  # (B, N)
            for directions, pieces, is_outline in zip(t.directions, t.pieces, t.is_outline, strict=True):
                points = centred(tokens, logit) @ directions  # (B, N, q)
                logit = without_outline(logit, nearness(points, pieces), is_outline)  # (B, N)
            parts = gathered_logits(nearness(points, t.parts), t.part_of).softmax(dim=2)  # (B, N, K)
            share = (logit - DOUBT).sigmoid()[:, :, None]
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
    contexts = clusters(flat, min(CONTEXTS, len(flat) // 4), seed, most=20_000)
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
        if last:  # rough parts would be outlines before
            directions = directions @ evened(tokens, logit, directions, seed)
        points = in_chunks(lambda part, its: centred(part, its) @ directions, tokens, logit)  # (n, N, q)  # noqa: B023
        pieces = clusters(points[inside], number_of_pieces, seed)
        near = nearness(points, pieces)  # (n, N, PIECES)
        is_outline = relative_spread(near.argmax(2), inside, len(pieces), grid) > COMPACT
        if is_outline.all():
            return None
        logit = without_outline(logit, near, is_outline)  # (n, N)
        rounds.append((directions, pieces, is_outline))

    number = most_clusters(num_parts)
    if int((logit > 0).sum()) < FEWEST * number:
        return None
    parts = uneven_clusters(points[logit > 0], number, seed)
    labels = torch.where(logit > 0, nearness(points, parts).argmax(2), -1).unflatten(1, grid)  # (n, h, w)
    part_of = joined(side_by_side(labels, number), number - num_parts)
    directions, pieces, is_outline = (torch.stack(each) for each in zip(*rounds, strict=True))
    return {"contexts": contexts, "is_object": is_object, "directions": directions, "pieces": pieces,
            "is_outline": is_outline, "parts": parts, "part_of": part_of}


def most_clusters(num_parts: int) -> int:
    """How many clusters K parts are made from."""
    return max(num_parts, min(2 * num_parts, FINEST))


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


def principal_directions(tokens: Tensor, logit: Tensor) -> Tensor:
    """Of centred foreground features, each divided by the root of its deviation: (E, q)."""
    second = sum(((points := centred(part.float(), its)[its > 0]).T @ points
                  for part, its in zip(tokens.split(CHUNK), logit.split(CHUNK), strict=True)),
                 start=torch.zeros(tokens.shape[2], tokens.shape[2]))
    values, vectors = torch.linalg.eigh(second)  # rising
    values, vectors = values[-DIRECTIONS:].clamp_min(1e-12), vectors[:, -DIRECTIONS:]
    return vectors / (values / values[-1]) ** 0.25


def evened(tokens: Tensor, logit: Tensor, directions: Tensor, seed: int) -> Tensor:
    """What makes coordinates shorter as far as the means of rough parts wander in them between images: (q, q).

    Within-class covariance normalisation, it is called where classes are known.
    """
    points = in_chunks(lambda part, its: centred(part, its) @ directions, tokens, logit)  # (n, N, q)
    inside = logit > 0
    rough = clusters(points[inside], ROUGH, seed, restarts=2)
    wandering = between_images(points, nearness(points, rough).argmax(2), inside, ROUGH)  # (q, q)
    values, vectors = torch.linalg.eigh(wandering)
    shorten = vectors / (values / values.mean() + 0.02).sqrt() @ vectors.T  # (q, q)
    return shorten * points[inside].norm() / (points[inside] @ shorten).norm()  # the mean square stays


def between_images(points: Tensor, labels: Tensor, inside: Tensor, number: int) -> Tensor:
    """How the mean of a cluster within an image differs from its mean over all: covariance (q, q).

    Args:
        points: (n, N, q).
        labels: (n, N) cluster of each patch.
        inside: (n, N) bool, the patches that count; images with less than two of a cluster are left out.
    """
    member = nnf.one_hot(labels, number).float() * inside[:, :, None]  # (n, N, number)
    count = member.sum(dim=1)  # (n, number)
    means = torch.einsum("bnk,bnq->bkq", member, points) / count.clamp_min(1)[:, :, None]
    weight = count * (count >= 2)
    centre = (means * weight[:, :, None]).sum(dim=0) / weight.sum(dim=0).clamp_min(1)[:, None]
    away = (means - centre).flatten(0, 1)  # (n*number, q)
    weight = weight.flatten()
    return (away * weight[:, None]).T @ away / weight.sum().clamp_min(1)


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


def clusters(points: Tensor, number: int, seed: int, restarts: int = 1, most: int = 30_000) -> Tensor:
    """Centres (number, q) of points (m, q)."""
    chosen = subsample(points.numpy(), most, seed).astype(np.float32)
    return torch.from_numpy(k_means(chosen, number, seed, restarts, most).centres)


def uneven_clusters(points: Tensor, number: int, seed: int) -> Tensor:
    """Of several results of k-means one whose clusters differ much in size.

    k-means would have all alike; beak and eye are small and wing is large. By the sum of squares alone, the results
    are hardly told apart (docs/laptop.md).
    """
    found = [clusters(points, number, seed * RESTARTS + restart) for restart in range(RESTARTS)]
    distances = [torch.cdist(points, centres) for centres in found]  # each (m, number)
    squares = torch.stack([each.amin(dim=1).square().mean() for each in distances])
    costs = SQUARES * squares / squares.min() + torch.stack([entropy_of_sizes(each) for each in distances])
    return found[int(costs.argmin())]


def entropy_of_sizes(distances: Tensor) -> Tensor:
    """Of the clusters, from the distances of points to their centres (m, n)."""
    sizes = torch.bincount(distances.argmin(dim=1), minlength=distances.shape[1]) / len(distances)
    return torch.special.entr(sizes).sum()


def side_by_side(labels: Tensor, number: int) -> Tensor:
    """How much of its contacts with others each cluster has with each other one, the geometric mean of both views:
    (number, number), 0 with itself.

    Args:
        labels: (n, h, w), the cluster of each patch, -1 on the background.
    """
    contacts = torch.zeros(number, number)
    for first, second in ((labels[:, 1:], labels[:, :-1]), (labels[:, :, 1:], labels[:, :, :-1])):
        both = (first >= 0) & (second >= 0) & (first != second)
        counts = torch.bincount(first[both] * number + second[both], minlength=number**2).float()
        contacts += counts.unflatten(0, (number, number))
    contacts = contacts + contacts.T
    total = contacts.sum(dim=1).clamp_min(1)
    return contacts / (total[:, None] * total).sqrt()


def joined(nearby: Tensor, most: int) -> Tensor:
    """The nearest pairs become one, `most` of them at most: how near (n, n) -> (n,), the new number of each.

    Each is in one pair at most, so that none swallows all the others.
    """
    import networkx

    graph = networkx.Graph()
    graph.add_weighted_edges_from((i, j, float(nearby[i, j])) for i in range(len(nearby)) for j in range(i))
    matching = networkx.max_weight_matching(graph, maxcardinality=True)
    becomes = torch.arange(len(nearby))
    for i, j in sorted(map(sorted, matching), key=lambda pair: -float(nearby[pair[0], pair[1]]))[:most]:
        becomes[j] = i
    return becomes.unique(return_inverse=True)[1]


def in_chunks(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """A function of images, CHUNK at a time and in single precision: what it makes on the way is large."""
    pieces = zip(*(tensor.split(CHUNK) for tensor in tensors), strict=True)
    return torch.cat([function(*(piece.float() for piece in group)) for group in pieces])
