"""Initial parts: what the parts could be before any training, from frozen features alone (ours, not the paper's).

1. Foreground (`vote.py`). Every image is cut in two by likeness of its patches; clusters of patches vote.
2. Coordinates (`coordinates.py`). Each image's mean foreground feature is subtracted; where images show clearly
   different kinds of things, as cars and birds, the mean of the kind stays. Of what is left, a part tells one thing,
   and the species or the light another. Rough parts show which is which: how far the mean of a rough part wanders from
   image to image is what does not count, and every direction is divided by it.
3. Parts (`clusters.py`). What most of many results of k-means agree on: more clusters than parts, of which neighbours
   that are alike become one.

Training stays near them by the weight `loss.initial_parts`; `losses/initial_parts.py` is the term. What backs each
constant is in docs/studies/initial_parts.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mpae.data.loading import PictureReader, in_batches, read_batches
from mpae.data.source import ImageSource
from mpae.data.sources.subsets import spread
from mpae.devices import one_thread
from mpae.errors import MPAEError
from mpae.initial_parts.clusters import clusters_for, parts_of
from mpae.initial_parts.coordinates import (
    ROUGH,
    centred,
    coordinates,
    evened,
    find_kinds,
    in_chunks,
    principal_directions,
    unit_tokens,
)
from mpae.initial_parts.vote import Votes, find_votes, vote

log = logging.getLogger("mpae")

Backbone = Callable[[Tensor], Tensor]  # (B, 3, S, S) in [0, 1] -> (B, E, h, w)
Progress = Callable[[str, int, int], None]  # what is done, how much of it, out of how much

IMAGES = 250  # training images that are looked at, at even distances: half a minute of features
MAJORITY = 0.7  # of the votes that makes a patch foreground
SLOPE = 40.0  # log odds of foreground for a vote of 1 more
AGREED = 0.12  # share of the variance of cuts that other images explain; with less there is no common object
FEWEST = 20  # foreground patches for each cluster; where there are less, there are no initial parts
SHARPNESS = 50.0  # from squared distances between coordinates, whose mean square is 1, to logits
TENSORS = ("contexts", "shares", "sharpness", "kinds", "directions", "centres", "part_of")


class InitialParts(nn.Module):
    """Frozen features -> probabilities of K+1 parts, background last."""

    def __init__(self, tensors: Mapping[str, Tensor]):
        super().__init__()
        for name in TENSORS:
            self.register_buffer(name, tensors[name])

    @classmethod
    def load(cls, state: Mapping[str, Tensor] | None) -> InitialParts | None:
        """From a checkpoint; None where the run has no initial parts."""
        if not state:
            return None
        if "directions" in state and "kinds" not in state:  # version 0.3: one kind
            state = {**state, "kinds": torch.zeros(1, len(state["directions"]))}
        if set(state) != set(TENSORS):
            raise MPAEError("This run was begun with initial parts of an earlier version, which it cannot go on "
                            "with; it can still be used as it is, or be trained anew with --overwrite.")
        return cls(state)

    @torch.no_grad()
    def forward(self, frozen: Tensor) -> Tensor:
        """(B, E, h, w) -> (B, K+1, h, w)."""
        t: Any = self
        with torch.autocast(frozen.device.type, enabled=False):
            tokens = unit_tokens(frozen.float())  # (B, N, E)
            share = foreground(tokens, Votes(t.contexts, t.shares, t.sharpness))  # (B, N)
            points = centred(tokens, share, t.kinds) @ t.directions  # (B, N, q)
            near = SHARPNESS * (points @ t.centres.T - t.centres.square().sum(dim=1) / 2)  # (B, N, n)
            parts = gathered(near.softmax(dim=2), t.part_of)  # (B, N, K)
            share = share[:, :, None]
        return torch.cat([share * parts, 1 - share], dim=2).transpose(1, 2).unflatten(2, frozen.shape[2:])


def find_initial_parts(maps: Tensor, num_parts: int, seed: int,
                       progress: Progress = lambda *_: None) -> InitialParts | None:
    """Initial parts from the frozen features (n, E, h, w) of some training images; None where there is no foreground
    to find."""
    found = fit_initial_parts(maps, num_parts, seed, progress)
    if found is None:
        log.warning("The images agree on no object: there is none that they share, or it fills all of them, or "
                    "they are too few. Training begins without initial parts, as in the paper.")
        return None
    return InitialParts(found)


@torch.no_grad()
def look_at(source: ImageSource, backbone: Backbone, size: int, number: int,
            progress: Progress = lambda *_: None) -> Iterator[tuple[Tensor, Tensor]]:
    """Some images at even distances, whole, a batch at a time: pixels (B, 3, S, S) in [0, 1], features (B, E, h, w)."""
    indices, done = spread(len(source), number), 0
    progress("features to begin with", done, len(indices))
    for batch in read_batches(PictureReader(source, size), in_batches(indices, 16)):
        if batch.samples:
            images = batch.images.float() / 255
            yield images, backbone(images)
        done += len(batch)
        progress("features to begin with", done, len(indices))


@one_thread()
def fit_initial_parts(maps: Tensor, num_parts: int, seed: int,
                      progress: Progress = lambda *_: None) -> dict[str, Tensor] | None:
    """The tensors of `InitialParts`, from frozen features (n, E, h, w)."""
    found = find_foreground(maps, seed, clusters_for(num_parts)[0], progress)
    if found is None:
        return None
    progress("initial parts: clusters", 2, 3)
    centres, part_of = parts_of(found.points, found.inside, num_parts, found.grid, seed)
    progress("initial parts: clusters", 3, 3)
    return {**found.votes._asdict(), "kinds": found.kinds, "directions": found.directions, "centres": centres,
            "part_of": part_of}


class Foreground(NamedTuple):
    """What parts are clusters of: the foreground of n images, in coordinates that tell parts apart."""

    votes: Votes
    kinds: Tensor  # (kinds, E), mean feature of each kind of object
    directions: Tensor  # (E, q), to coordinates
    points: Tensor  # (n, N, q)
    inside: Tensor  # (n, N) bool
    grid: tuple[int, int]


def find_foreground(maps: Tensor, seed: int, clusters: int,
                    progress: Progress = lambda *_: None) -> Foreground | None:
    """Steps 1 and 2 above; None where there is no common object, or too little of it for so many clusters."""
    if maps.shape[0] * maps.shape[2] * maps.shape[3] < FEWEST * clusters:
        return None
    progress("initial parts: votes", 0, 3)
    votes, agreed = find_votes(maps, seed)
    progress("initial parts: coordinates", 1, 3)
    tokens = unit_tokens(maps)  # (n, N, E)
    share = in_chunks(lambda part: foreground(part, votes), tokens)  # (n, N)
    inside = share > 0.5
    log.debug("Images explain %.2f of each other's cuts; %.2f of the patches are foreground.", agreed,
              inside.float().mean())
    if agreed < AGREED or int(inside.sum()) < FEWEST * max(*ROUGH, clusters):
        return None
    kinds = find_kinds(tokens, share, seed)  # (kinds, E)
    if len(kinds) > 1:
        log.info("The images show %d kinds of objects.", len(kinds))
    directions = principal_directions(tokens, share, kinds)  # (E, q)
    points = coordinates(tokens, share, kinds, directions)  # (n, N, q)
    shorten = evened(points, inside, seed)  # (q, q)
    return Foreground(votes, kinds, directions @ shorten, points @ shorten, inside, (maps.shape[2], maps.shape[3]))


def foreground(tokens: Tensor, votes: Votes) -> Tensor:
    """Probability of foreground: (B, N, E) -> (B, N)."""
    return (SLOPE * (vote(tokens, votes) - MAJORITY)).sigmoid()


def gathered(near: Tensor, part_of: Tensor) -> Tensor:
    """Probabilities of parts (B, N, K) from those of the clusters they are made of, (B, N, n)."""
    return torch.stack([near[..., part_of == part].sum(dim=2) for part in range(int(part_of.max()) + 1)], dim=2)
