"""Foreground by vote: what hangs together in each image, and what all images agree on.

1. Cut. The patches of one image are split in two by a normalised cut (Shi and Malik, 2000) of the graph whose edges
   join patches with like features. The side that holds less of the outermost ring of patches is called the object.
   One cut is often wrong.
2. Vote. Patches of all images are put into many clusters, and a cluster takes the mean of the cuts of its patches.
   What is right in most images wins, wherever it lies: a dog that fills the picture is made of the same clusters as
   one that does not.
3. Agreement. How well the votes of other images foretell the cuts of an image. Where there is no common object, or
   where the object is all there is, cuts fall anywhere and agreement is low.

The limits are shares (of pairs, of votes, of variance) and so have no scale: they do not depend on the backbone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import Tensor

from mpae.initial_parts.coordinates import in_chunks, nearest, unit_tokens
from mpae.initial_parts.k_means import centres_of

CONTEXTS = 256  # clusters of all patches
ROUNDS = 20  # of the k-means that finds them, at most
PER_CONTEXT = 40  # patches for each of them at least
PAIRS = (0.5, 0.6, 0.7)  # shares of an image's pairs of patches that are not joined by an edge; one cut for each
FAINT = 1e-5  # weight of the other pairs, so that the graph is connected
SIDE = 16  # patches along the side of the map that is cut, at most: the time grows with its sixth power
SOFTNESS = 3.5  # a patch asks the contexts around it, as exp(- SOFTNESS d² / mean d² to the nearest)


class Votes(NamedTuple):
    """What is needed to tell the vote of a patch."""

    contexts: Tensor  # (M, E)
    shares: Tensor  # (M,) in 0..1, the mean cut of each
    sharpness: Tensor  # (), from squared distances to logits


def find_votes(maps: Tensor, seed: int) -> tuple[Votes, float]:
    """The votes of contexts, and how far images agree on them, from frozen features (n, E, h, w)."""
    tokens = unit_tokens(maps)  # (n, N, E)
    cuts = in_chunks(cut, maps)  # (n, N)
    flat = tokens.flatten(0, 1)
    contexts = centres_of(flat, max(min(CONTEXTS, len(flat) // PER_CONTEXT), 2), seed, rounds=ROUNDS)  # (M, E)
    labels = in_chunks(lambda part: nearest(part, contexts), tokens)  # (n, N)
    sums, counts = sums_of_images(labels, cuts, len(contexts))  # (n, M)
    shares = sums.sum(dim=0) / counts.sum(dim=0).clamp_min(1)
    away = in_chunks(lambda part, its: (part - contexts[its]).square().sum(dim=2), tokens, labels)  # (n, N)
    sharpness = 2 * SOFTNESS / away.mean().clamp_min(1e-12)
    return Votes(contexts, shares, sharpness), agreement(labels, cuts, len(contexts))


def vote(tokens: Tensor, votes: Votes) -> Tensor:
    """Unit tokens (B, N, E) -> (B, N) in 0..1."""
    contexts = votes.contexts
    near = votes.sharpness * (tokens @ contexts.T - contexts.square().sum(dim=1) / 2)  # (B, N, M)
    return near.softmax(dim=2) @ votes.shares


def cut(maps: Tensor) -> Tensor:
    """Share of normalised cuts that call a patch object: (n, E, h, w) -> (n, N)."""
    grid = maps.shape[2], maps.shape[3]
    small = min(grid[0], SIDE), min(grid[1], SIDE)
    tokens = unit_tokens(nnf.adaptive_avg_pool2d(maps, small))  # (n, N', E)
    likeness = tokens @ tokens.transpose(1, 2)  # (n, N', N')
    sides = torch.stack([object_side(halves(likeness > limit), small) for limit in limits_of(likeness)])
    shares = sides.float().mean(dim=0).unflatten(1, small)[:, None]  # (n, 1, h', w')
    return nnf.interpolate(shares, size=grid, mode="nearest")[:, 0].flatten(1)


def limits_of(likeness: Tensor) -> Tensor:
    """What the shares PAIRS of each image's pairs stay below: (n, N, N) -> (len(PAIRS), n, 1, 1)."""
    flat = likeness.flatten(1).numpy()
    places = [int(share * (flat.shape[1] - 1)) for share in PAIRS]
    return torch.from_numpy(np.partition(flat, places, axis=1)[:, places].T.copy())[:, :, None, None]  # no sorting


def halves(edges: Tensor) -> Tensor:
    """The two sides of a normalised cut: edges (n, N, N) bool -> (n, N) bool.

    The eigenvector of the second largest eigenvalue of D^-1/2 W D^-1/2, split at its mean.
    """
    weights = torch.where(edges, 1.0, FAINT)
    degree = weights.sum(dim=2)  # (n, N)
    scale = degree.rsqrt()
    second = second_eigenvectors(scale[:, :, None] * weights * scale[:, None, :]) * scale
    return second > (second * degree).sum(dim=1, keepdim=True) / degree.sum(dim=1, keepdim=True)


def second_eigenvectors(matrices: Tensor) -> Tensor:
    """Eigenvector of the second largest eigenvalue of each symmetric matrix: (n, N, N) -> (n, N).

    SciPy finds one eigenvector; torch would find all of them, and takes many times as long in several threads.
    """
    from scipy.linalg import eigh
    from threadpoolctl import threadpool_limits

    place = matrices.shape[1] - 2
    with threadpool_limits(1):
        found = [eigh(matrix, subset_by_index=(place, place))[1][:, 0] for matrix in matrices.numpy()]
    return torch.from_numpy(np.stack(found))


def object_side(side: Tensor, grid: tuple[int, int]) -> Tensor:
    """The side that holds less of the outermost ring of patches: (n, N) bool -> (n, N) bool."""
    ring = torch.ones(grid, dtype=torch.bool)
    ring[1:-1, 1:-1] = False
    most = side[:, ring.flatten()].float().mean(dim=1, keepdim=True) > 0.5
    return side ^ most


def agreement(labels: Tensor, cuts: Tensor, number: int) -> float:
    """How much of the variance of cuts the votes of *other* images explain, at most 1; 0 or less if nothing.

    Args:
        labels: (n, N), the context of each patch. One that no other image shows foretells the mean of all.
        cuts: (n, N) in 0..1.
    """
    sums, counts = sums_of_images(labels, cuts, number)  # (n, number)
    others, of = sums.sum(dim=0) - sums, counts.sum(dim=0) - counts
    foretold = torch.where(of > 0, others / of.clamp_min(1), cuts.mean()).gather(1, labels)  # (n, N)
    return 1 - float((cuts - foretold).square().mean() / cuts.var(correction=0).clamp_min(1e-12))


def sums_of_images(labels: Tensor, values: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Sum of values (n, N) and number of patches of each cluster in each image: two of (n, number)."""
    zeros = values.new_zeros(len(labels), number)
    return zeros.scatter_add(1, labels, values), zeros.scatter_add(1, labels, torch.ones_like(values))
