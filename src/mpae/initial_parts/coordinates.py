"""Coordinates in which parts are told apart: directions of frozen features that differ between parts, not images."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as nnf
from torch import Tensor

from mpae.initial_parts.k_means import centres_of, k_means

DIRECTIONS = 96  # principal directions of centred features that are kept, each divided by the root of its deviation
ROUGH = (8, 10, 12, 14, 16) * 2  # numbers of parts of the rough clusterings that show what changes with the image
LEAST = 0.2  # wandering, against its mean over directions, below which it does not lengthen one any more
KINDS = 8  # of objects that are looked for, at most
CLEAR = 0.25  # mean silhouette of the images' means; with less there are no kinds, only more and less alike
RARE = 0.05  # of the images; fewer are no kind
CHUNK = 64  # images at once


def unit_tokens(maps: Tensor) -> Tensor:
    """(n, E, h, w) -> (n, N, E) of unit length."""
    return nnf.normalize(maps.flatten(2).transpose(1, 2), dim=2)


def image_means(tokens: Tensor, share: Tensor) -> Tensor:
    """Mean of each image's foreground, whose probability is `share` (B, N): (B, N, E) -> (B, E)."""
    weight = share[:, :, None]
    return (tokens * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1e-3)


def find_kinds(tokens: Tensor, share: Tensor, seed: int) -> Tensor:
    """Kinds of objects that have other parts, as cars and birds have: the mean feature of each, (kinds, E).

    Clusters of the images' means, as many as have the highest silhouette. Where they are not clear there is one kind,
    whose mean may as well be 0.
    """
    from sklearn.metrics import silhouette_score

    one = torch.zeros(1, tokens.shape[2])
    means = in_chunks(image_means, tokens, share)[(share > 0.5).any(dim=1)]  # (n, E)
    found, best = one, CLEAR
    for number in range(2, min(KINDS, len(means) - 1) + 1):
        centres = torch.from_numpy(k_means(means.numpy(), number, seed).centres)  # (number, E)
        labels = nearest(means, centres)
        if labels.bincount(minlength=number).min() >= RARE * len(means):
            clear = float(silhouette_score(means.numpy(), labels.numpy()))
            found, best = (centres, clear) if clear > best else (found, best)
    return found


def centred(tokens: Tensor, share: Tensor, kinds: Tensor) -> Tensor:
    """Tokens (B, N, E) with the mean of their image's foreground moved to that of its kind (kinds, E)."""
    means = image_means(tokens, share)  # (B, E)
    return tokens - (means - kinds[nearest(means, kinds)])[:, None]


def principal_directions(tokens: Tensor, share: Tensor, kinds: Tensor) -> Tensor:
    """Of centred foreground features, each divided by the root of its deviation: (E, q)."""
    second = sum(((points := centred(part.float(), its, kinds)[its > 0.5]).T @ points
                  for part, its in zip(tokens.split(CHUNK), share.split(CHUNK), strict=True)),
                 start=torch.zeros(tokens.shape[2], tokens.shape[2]))
    values, vectors = torch.linalg.eigh(second)  # rising
    values, vectors = values[-DIRECTIONS:].clamp_min(1e-12), vectors[:, -DIRECTIONS:]
    return vectors / (values / values[-1]) ** 0.25


def coordinates(tokens: Tensor, share: Tensor, kinds: Tensor, directions: Tensor) -> Tensor:
    """Centred features along directions (E, q): (n, N, q)."""
    return in_chunks(lambda part, its: centred(part, its, kinds) @ directions, tokens, share)


def evened(points: Tensor, inside: Tensor, seed: int) -> Tensor:
    """What makes coordinates shorter as far as the means of rough parts wander in them between images: (q, q).

    Within-class covariance normalisation, it is called where classes are known. Here they are not, so it is the mean
    over several rough clusterings: one alone would decide with its luck. Coordinates get a mean square of 1.

    Args:
        points: (n, N, q).
        inside: (n, N) bool, the foreground.
    """
    wandering = torch.zeros(points.shape[2], points.shape[2])
    for repetition, number in enumerate(ROUGH):
        rough = centres_of(points[inside], number, seed + repetition, most=8_000)
        away = between_images(points, in_chunks(lambda part: nearest(part, rough), points), inside, number)  # noqa: B023
        wandering += away / away.trace().clamp_min(1e-12)
    values, vectors = torch.linalg.eigh(wandering)
    shorten = vectors / (values / values.mean() + LEAST).sqrt() @ vectors.T  # (q, q)
    return shorten / (points[inside] @ shorten).square().sum(dim=1).mean().sqrt()


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


def nearest(points: Tensor, centres: Tensor) -> Tensor:
    """(.., q) and (n, q) -> (..), the number of the nearest centre."""
    return (points @ centres.T - centres.square().sum(dim=1) / 2).argmax(dim=-1)


def in_chunks(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """A function of images, CHUNK at a time and in single precision: what it makes on the way is large."""
    pieces = zip(*(tensor.split(CHUNK) for tensor in tensors), strict=True)
    return torch.cat([function(*(piece.float() if piece.is_floating_point() else piece for piece in group))
                      for group in pieces])
