"""One step of training, as a Lightning module."""

from __future__ import annotations

import math
from collections.abc import Mapping

import lightning
import torch
import torch.distributed as distributed
from torch import Tensor

from mpae.config import Config
from mpae.data.loading import Batch
from mpae.distributed import gather_items
from mpae.errors import MPAEError
from mpae.initial_parts.find import InitialParts
from mpae.losses.objective import Objective
from mpae.model import MPAE
from mpae.model.masking import random_mask

GO_ON = ("the last good checkpoint stays. Try a lower training.learning_rate, more training.warmup_steps, or "
         "precision 32-true.")


class TrainingModule(lightning.LightningModule):
    """Model, objective and optimiser; `step` counts over all sessions of the run."""

    def __init__(self, config: Config, model: MPAE, objective: Objective, step: int = 0,
                 optimizer_state: dict | None = None, initial_parts: InitialParts | None = None):
        super().__init__()
        self.settings = config
        self.model = model
        self.objective = objective
        self.initial_parts = initial_parts
        self.step = step
        self.optimizer_state = optimizer_state
        self.rate = 0.0  # the learning rate of the present step
        # Of the last step, over all processes: every loss term and how the parts are used; unreadable images.
        self.figures: dict[str, float] = {}
        self.skipped: dict[str, str] = {}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        trainable = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.Adam(trainable, lr=self.settings.learning_rate())
        if self.optimizer_state is not None:
            try:
                optimizer.load_state_dict(self.optimizer_state)
            except (ValueError, KeyError, TypeError) as error:
                raise MPAEError(f"The checkpoint's optimiser does not fit the model: {error}.") from None
        return optimizer

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch  # its images are, in the step

    def training_step(self, batch: Batch, _: int) -> Tensor:
        images = batch.images.to(self.device).float() / 255  # (B, 3, S, S)
        mask = self.step_mask(len(images)).to(images.device)  # (B, N)
        frozen = self.model.backbone(images)  # (B, E, h, w)
        output = self.model(images, mask, frozen)
        initial_parts = self.initial_parts(frozen) if self.initial_parts else None  # (B, K+1, h, w)
        terms: dict[str, Tensor] = self.objective(output, output.target, initial_parts)
        self._note(terms, part_counts(output.similarity),
                   {each.name: each.reason for each in batch.unreadable})
        check_finite(self.figures, self.step + 1)
        return terms["total"]

    @torch.no_grad()
    def _note(self, terms: Mapping[str, Tensor], counts: Tensor, skipped: dict[str, str]) -> None:
        """Figures of the whole batch. All processes have the same, so that all stop at a loss that is no number:
        where one alone stops, the others wait for it."""
        losses = torch.stack([term.float() for term in terms.values()])
        processes = self.trainer.world_size
        if processes > 1:
            sums = torch.cat([losses, counts, counts.new_tensor([len(skipped)])])
            distributed.all_reduce(sums)
            losses, counts = sums[: len(losses)] / processes, sums[len(losses) : -1]
            skipped = dict(gather_items(list(skipped.items()))) if sums[-1] else skipped
        self.figures = dict(zip(terms, losses.tolist(), strict=True)) | part_usage(counts)
        self.skipped = skipped

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, gradient_clip_val: float | None = None,
                                    gradient_clip_algorithm: str | None = None) -> None:
        """Clip, and stop before a gradient that is no number reaches the weights."""
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.training.clip_norm).item()
        if not math.isfinite(norm) and self.settings.training.precision != "16-mixed":  # fp16 scaling skips these
            raise MPAEError(f"The gradient became {norm} at step {self.step + 1}; {GO_ON}")

    def step_mask(self, batch: int) -> Tensor:
        """This process's share of the masks of this step, drawn from the seed and the step alone."""
        generator = torch.Generator().manual_seed(self.settings.training.seed * 1_000_003 + self.step)
        grid_h, grid_w = self.model.decoder.grid
        whole = random_mask(batch * self.trainer.world_size, grid_h * grid_w, self.settings.model.mask_ratio, generator)
        return whole[self.global_rank * batch : (self.global_rank + 1) * batch]


@torch.no_grad()
def part_counts(similarity: Tensor) -> Tensor:
    """(B, K+1, h, w) -> (K+1,): positions of a batch where each part is the most likely."""
    return torch.bincount(similarity.argmax(dim=1).flatten(), minlength=similarity.shape[1]).float()


def part_usage(counts: Tensor) -> dict[str, float]:
    """How the parts are used in a batch: share of foreground, parts found at all, share of the largest."""
    shares = counts / counts.sum()
    return {
        "foreground_share": 1 - shares[-1].item(),
        "parts_used": float((counts[:-1] > 0).sum()),
        "largest_share": shares.max().item(),
    }


def check_finite(figures: Mapping[str, float], step: int) -> None:
    """Stop at the first loss that is no number, by its name: the last good checkpoint stays."""
    bad = [name for name, value in figures.items() if not math.isfinite(value) and name != "total"]
    if bad or not math.isfinite(figures["total"]):
        name = bad[0] if bad else "total"
        raise MPAEError(f"Loss '{name}' became {figures[name]} at step {step}; {GO_ON}")
