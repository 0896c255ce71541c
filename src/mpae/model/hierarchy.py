"""How the parts of a run join: K parts become K-1, K-2, ... 2, each level made of the one before (ours).

The two parts that are told apart least become one, by the rule that makes parts of clusters (`joining.py`): what tells
parts apart is the mean of the K logits where each of them lies.

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
import torch.nn.functional as nnf
from torch import Tensor

from mpae.data.loading import PictureReader, in_batches, read_batches
from mpae.data.source import ImageSource
from mpae.data.sources.subsets import spread
from mpae.distributed import on_first_process
from mpae.errors import MPAEError
from mpae.files import read_yaml, write_text
from mpae.model.joining import contacts_of, costs_of, least_pair
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
    indices, number, done = spread(len(source), IMAGES), model.num_parts, 0
    sums, contacts = torch.zeros(2, number, number)
    shown = [torch.zeros(0, number, dtype=torch.bool)]
    progress("how parts join", done, len(indices))
    for batch in read_batches(PictureReader(source, model.image_size), in_batches(indices, 16)):
        if batch.samples:
            logits = model.part_logits(batch.images.to(device).float() / 255).float().cpu()  # (B, K+1, h, w)
            contacts += contacts_of(logits.argmax(dim=1), number)
            means, there = means_of(logits)
            sums += means.sum(dim=0)
            shown.append(there)
        done += len(batch)
        progress("how parts join", done, len(indices))
    everywhere = torch.cat(shown)  # (images, K)
    return find_hierarchy(sums / everywhere.sum(dim=0).clamp_min(1)[:, None], everywhere, contacts)


def means_of(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (B, K+1, h, w) -> the mean of the first K where each part is the most likely (B, K, K), 0 where it is not
    there, and which parts are there (B, K) bool."""
    values = logits[:, :-1].flatten(2)  # (B, K, N)
    values = values - values.mean(dim=1, keepdim=True)  # a softmax knows differences alone
    member = nnf.one_hot(logits.flatten(2).argmax(dim=1), logits.shape[1])[..., :-1].float()  # (B, N, K)
    counts = member.sum(dim=1)  # (B, K)
    return torch.einsum("bnk,bcn->bkc", member, values) / counts.clamp_min(1)[..., None], counts > 0


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


def find_hierarchy(means: Tensor, shown: Tensor, contacts: Tensor) -> Hierarchy:
    """Step by step the two parts that it costs least to join.

    Args:
        means: (K, q), what tells parts apart, the mean of each.
        shown: (images, K) bool, which images show each; those that none shows are joined first.
        contacts: (K, K), how often two of them lie side by side.
    """
    part_of, joins = torch.arange(len(means)), []
    for _ in range(len(means) - FEWEST):
        joined = least_pair(costs_of(part_of, means, shown, contacts))[part_of]
        lowest = [int((part_of == group).nonzero()[0]) for group in range(int(part_of.max()) + 1)]
        joins.append(next((i + 1, j + 1) for j in lowest for i in lowest if i < j and joined[i] == joined[j]))
        part_of = joined
    return Hierarchy(len(means), tuple(joins))
