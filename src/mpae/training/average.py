"""A running mean of the weights: it is shown, measured and kept, while training goes on with its own weights.

At the full learning rate parts wander from step to step; their mean does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """mean <- d mean + (1 - d) weights after each step, with d = min(decay, (1 + n) / (10 + n)) after n steps: the mean
    of the first steps forgets the weights that training began with.

    Args:
        decay: of a step; with 0 the mean is the weights themselves.
        state: of a checkpoint.
    """

    def __init__(self, model: nn.Module, decay: float, state: Mapping[str, Tensor] | None = None):
        self.decay = decay
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.means = {name: (state[name] if state else weight.detach()).to(weight.device, copy=True)
                      for name, weight in self.weights.items()} if decay else {}

    @torch.no_grad()
    def update(self, steps: int) -> None:
        """Take in the weights after so many steps."""
        if self.means:
            decay = min(self.decay, (1 + steps) / (10 + steps))
            torch._foreach_lerp_(list(self.means.values()), list(self.weights.values()), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While this lasts, the model has the mean as its weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def adopt(self) -> None:
        """The model has the mean as its weights from now on."""
        self._swap()

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self.means)

    @torch.no_grad()
    def _swap(self) -> None:
        for name, mean in self.means.items():
            own = self.weights[name]
            kept = own.clone()
            own.copy_(mean)
            mean.copy_(kept)
