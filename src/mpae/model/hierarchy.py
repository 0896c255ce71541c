"""How the parts of a run join: K parts become K-1, K-2, ... 2, each level made of the one before (ours).

Two parts that touch more than others become one: how often they lie side by side in images, against how often each of
them lies beside any part. What touches is counted once; joined parts have the sum of their members' contacts.

RUN/hierarchy.yaml:
    format: 1
    weights: '3f0c..'        # of which weights these are
    joins: [[3, 7], [1, 3]]  # the first pair becomes one first; a joined part goes by its lowest number
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mpae.data.loading import PictureReader, in_batches, read_batches
from mpae.data.source import ImageSource
from mpae.data.sources.subsets import spread
from mpae.distributed import on_first_process
from mpae.errors import MPAEError
from mpae.files import read_yaml, write_text
from mpae.model.protocol import PartModel
from mpae.run import Run

Progress = Callable[[str, int, int], None]  # what is done, images done, images in all

FORMAT = 1
FEWEST = 2  # parts at the last level
IMAGES = 100  # that are looked at


@dataclass(frozen=True)
class Hierarchy:
    """The joins of K parts, in their order; numbers are 1..K as in masks.

    >>> four = Hierarchy(4, ((2, 4), (1, 2)))
    >>> four.part_of(3), four.part_of(2)
    ([0, 1, 2, 1], [0, 0, 1, 0])
    """

    num_parts: int
    joins: tuple[tuple[int, int], ...]

    def part_of(self, number: int) -> list[int]:
        """The part, 0..number-1, that each of the K becomes where there are so many: (K,).

        Parts are numbered in the order of their lowest members.
        """
        self.check(number)
        lowest = list(range(1, self.num_parts + 1))
        for first, second in self.joins[: self.num_parts - number]:
            lowest = [first if each == second else each for each in lowest]
        order = sorted(set(lowest))
        return [order.index(each) for each in lowest]

    def check(self, number: int) -> None:
        """A sentence where there is no level with so many parts."""
        if not min(FEWEST, self.num_parts) <= number <= self.num_parts:
            raise MPAEError(f"This run has {self.num_parts} parts, which cannot become {number}; ask for "
                            f"{FEWEST} to {self.num_parts}." if self.num_parts > FEWEST else
                            f"This run has {self.num_parts} parts, which are not joined; leave out --parts.")

    def save(self, run: Run) -> None:
        """In the run folder, whole or not at all."""
        joins = ", ".join(f"[{first}, {second}]" for first, second in self.joins)
        write_text(run.hierarchy_file, "# How the parts join to fewer: `mpae predict --parts` reads this file.\n"
                   f"format: {FORMAT}\nweights: '{run.weights_digest()}'\njoins: [{joins}]\n")

    @classmethod
    def load(cls, run: Run, num_parts: int) -> Hierarchy | None:
        """That of a run's weights as they are; None where there is none, or one of other weights."""
        if not run.hierarchy_file.is_file():
            return None
        content = read_yaml(run.hierarchy_file)
        joins: Any = content.get("joins")
        if content.get("format") != FORMAT or not is_nested(joins, num_parts):
            raise MPAEError(f"'{run.hierarchy_file}' is damaged or not mpae's; remove it, and it is made again.")
        if str(content.get("weights")) != run.weights_digest():
            return None
        return cls(num_parts, tuple((first, second) for first, second in joins))


@torch.no_grad()
def look_for_hierarchy(model: PartModel, source: ImageSource, device: torch.device,
                       progress: Progress = lambda *_: None) -> Hierarchy:
    """The hierarchy of a model's parts, from some images at even distances."""
    indices, number = spread(len(source), IMAGES), model.num_parts
    contacts, done = torch.zeros(number, number), 0
    progress("how parts join", done, len(indices))
    for batch in read_batches(PictureReader(source, model.image_size), in_batches(indices, 16)):
        if batch.samples:
            logits = model.part_logits(batch.images.to(device).float() / 255)  # (B, K+1, h, w)
            contacts += contacts_of(logits.float().cpu().argmax(dim=1), number)
        done += len(batch)
        progress("how parts join", done, len(indices))
    return find_hierarchy(contacts)


def joined_parts(run: Run, model: PartModel, parts: int | None, images: Callable[[], ImageSource],
                 device: torch.device, progress: Progress = lambda *_: None) -> list[int] | None:
    """Which of so many parts each of a run's K parts is, (K,); None where all K are asked for.

    Args:
        images: are looked at where training left no hierarchy; the one that they show is kept in the run folder.
    """
    if parts is None or parts == model.num_parts:
        return None
    Hierarchy(model.num_parts, ()).check(parts)

    def find() -> Hierarchy:
        found = Hierarchy.load(run, model.num_parts)
        if found is None:
            found = look_for_hierarchy(model, images(), device, progress)
            with suppress(MPAEError):  # a run that cannot be written to is used all the same
                found.save(run)
        return found

    return on_first_process(find).part_of(parts)


def is_nested(joins: Any, num_parts: int) -> bool:
    """Whether these are K-2 joins, each of two parts that are still there, the lower number first."""
    left = set(range(1, num_parts + 1))
    if not isinstance(joins, list) or len(joins) != max(num_parts - FEWEST, 0):
        return False
    for pair in joins:
        if not (isinstance(pair, list) and len(pair) == 2 and set(pair) <= left and pair[0] < pair[1]):
            return False
        left.remove(pair[1])
    return True


def find_hierarchy(contacts: Tensor) -> Hierarchy:
    """From how often each part lies beside each other: (K, K), symmetric, 0 with itself.

    Parts that touch none, because no image shows them, are joined first.
    """
    contacts, number = contacts.double().clone(), len(contacts)
    left, joins = list(range(number)), []
    while len(left) > FEWEST:
        there = contacts[left][:, left]  # (n, n)
        first, second = nearest_pair(there)
        keep, gone = left[first], left.pop(second)
        joins.append((keep + 1, gone + 1))
        contacts[keep] += contacts[gone]
        contacts[:, keep] += contacts[:, gone]
        contacts[keep, keep] = 0
    return Hierarchy(number, tuple(joins))


def nearest_pair(contacts: Tensor) -> tuple[int, int]:
    """The two that become one, the lower first: (n, n) -> places; of equals the first."""
    alone = contacts.sum(dim=1) == 0
    if alone.any():
        place = int(alone.nonzero()[0])
        return (0, place) if place else (0, 1)
    near = closeness(contacts).triu(1)
    place = int((near == near.max()).flatten().nonzero()[0])
    return place // len(near), place % len(near)


def closeness(contacts: Tensor) -> Tensor:
    """How much of its contacts each has with each other one, the geometric mean of both views: (n, n) -> (n, n)."""
    total = contacts.sum(dim=1).clamp_min(1)
    return contacts / (total[:, None] * total).sqrt()


def contacts_of(labels: Tensor, number: int) -> Tensor:
    """How often two parts lie side by side, (number, number), 0 with itself.

    Args:
        labels: (n, h, w) in 0..number-1; anything else is background and does not count.
    """
    contacts = torch.zeros(number, number)
    for first, second in ((labels[:, 1:], labels[:, :-1]), (labels[:, :, 1:], labels[:, :, :-1])):
        both = (first >= 0) & (second >= 0) & (first < number) & (second < number) & (first != second)
        counts = torch.bincount(first[both] * number + second[both], minlength=number**2).float()
        contacts += counts.unflatten(0, (number, number))
    return contacts + contacts.T
