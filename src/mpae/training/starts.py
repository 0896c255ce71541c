"""Random weights begin with what several short trainings agree on (ours, not the paper's).

Which parts come out of random weights is decided in the first steps, by luck: one training cuts the head in three and
leaves legs to the background, another does the opposite, and length mends neither. What several short ones agree on is
better than nearly all of them, and takes less luck.

1. Train (`short_training`). Each has random weights of its own and takes a hundred steps on the same few hundred
   images, whose features are kept in memory. Its objective is that of the run without L_r, which costs most of a step
   and tells little of the parts in so few (docs/studies/heart.md).
2. Agree (`agreed`). What all of them say of a patch is one vector, M (K+1) probabilities. Foreground is what most call
   so; parts are clusters of these vectors in it.
3. Begin. The model of the run is set to begin with these maps, as `initial_parts/warm_start.py` does it, and trains by
   its own objective from there; nothing holds it to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from mpae.config import Config
from mpae.devices import map_on_cores, one_thread
from mpae.initial_parts.k_means import centres_of
from mpae.losses.objective import Objective
from mpae.model import MPAE
from mpae.model.matching import part_logits
from mpae.model.mpae import MPAEOutput
from mpae.training.schedule import learning_rate

IMAGES = 480  # that all short trainings see
STEPS = 100  # of each
BATCH = 16  # images a step, or a group of Eq. 4 where that is more
WARMUP = 20  # steps over which the learning rate rises
RESTARTS = 20  # of the k-means that finds what they agree on
APART = 7919  # between the random seeds of two runs
SHARPNESS = 10.0  # from mean squared distances, at most 2, to logits

Progress = Callable[[str, int, int], None]  # what is done, how much of it, out of how much


def parts_of_starts(config: Config, models: Sequence[MPAE], images: Tensor, frozen: Tensor, places: Tensor | None,
                    progress: Progress) -> Tensor | None:
    """What short trainings of these models agree on, (n, K+1, h, w); None where they agree on no foreground.

    Args:
        models: with random weights that are ready to learn from, all on one device; they are trained here.
        images: (n, 3, S', S') in [0, 1], as PartFormer sees them.
        frozen: (n, E, h, w) in half precision, their features.
        places: directions (E, q) that the models do without.
    """
    done, seed = 0, APART * config.training.seed

    def train(number: int) -> Tensor:
        nonlocal done
        short_training(config, models[number], images, frozen, places, seed + number)
        found = similarity_of(models[number], images, frozen)
        done += 1
        progress("short trainings from random weights", done, len(models))
        return found

    progress("short trainings from random weights", done, len(models))
    on_cpu = next(models[0].parameters()).device.type == "cpu"
    cores = torch.get_num_threads() if on_cpu else 1
    with one_thread():
        pool = ThreadPoolExecutor(cores)  # one training to a core
        try:
            maps = list(pool.map(train, range(len(models))))
        finally:
            pool.shutdown(cancel_futures=True)  # Ctrl-C waits for those that have begun alone
    return agreed(maps, config.training.seed)


def short_training(config: Config, model: MPAE, images: Tensor, frozen: Tensor, places: Tensor | None,
                   seed: int) -> None:
    """STEPS steps by the objective of the run without L_r, at the learning rate of its reading, along half a cosine."""
    config = config.with_values({"loss.restoration": 0.0, "loss.initial_parts": 0.0, "training.learning_rate": None})
    training, device = config.training, next(model.parameters()).device
    objective = Objective(config.loss, training.group_size, None).to(device)
    learned = {name: weight for name, weight in model.named_parameters()
               if name.startswith(("partformer.", "compress."))}
    optimizer = torch.optim.Adam([{"params": [weight], "scale": model.rate_of(name)}
                                  for name, weight in learned.items()])
    random = torch.Generator().manual_seed(seed)
    batch = max(BATCH, training.group_size)
    for step in range(STEPS):
        chosen = torch.randint(len(images), (batch,), generator=random)
        output = maps_of(model, images[chosen].to(device), frozen[chosen].to(device).float())
        rate = learning_rate(config.learning_rate(), step, step / STEPS, WARMUP, (), 1.0, schedule="cosine")
        for group in optimizer.param_groups:
            group["lr"] = rate * group["scale"]
        optimizer.zero_grad()
        objective(output, output.target)["total"].backward()
        torch.nn.utils.clip_grad_norm_(learned.values(), training.clip_norm)
        optimizer.step()
        if places is not None:
            model.forget(places.to(device))


def maps_of(model: MPAE, images: Tensor, frozen: Tensor) -> MPAEOutput:
    """What the constraints look at; nothing is restored."""
    descriptors, features = model.descriptors(images), model.compress(frozen)  # (B, K+1, C), (B, C, h, w)
    nothing = images.new_zeros(0)
    return MPAEOutput(part_logits(descriptors, features).softmax(dim=1), descriptors, features, nothing, nothing)


@torch.no_grad()
def similarity_of(model: MPAE, images: Tensor, frozen: Tensor) -> Tensor:
    """Similarity maps of all images on the CPU, (n, K+1, h, w)."""
    device = next(model.parameters()).device
    pairs = zip(images.split(BATCH), frozen.split(BATCH), strict=True)
    return torch.cat([maps_of(model, some.to(device), their.to(device).float()).similarity.cpu()
                      for some, their in pairs])


def agreed(maps: Sequence[Tensor], seed: int) -> Tensor | None:
    """What similarity maps (n, K+1, h, w) of several models agree on, of the same shape; their parts have the same
    numbers by chance alone. Maps that are no numbers are left out; None where hardly anything is foreground."""
    maps = [each for each in maps if each.isfinite().all()]
    if not maps:
        return None
    num_parts = maps[0].shape[1] - 1
    share = 1 - torch.stack([each[:, -1] for each in maps]).mean(dim=0)  # (n, h, w), of foreground
    points = torch.cat(list(maps), dim=1).permute(0, 2, 3, 1)  # (n, h, w, M (K+1))
    inside = points[share > 0.5]
    if len(inside) < num_parts:
        return None
    centres = centres_of(inside, num_parts, seed, RESTARTS)  # (K, M (K+1))
    near = torch.cat(map_on_cores(lambda some: 2 * some @ centres.T, points.split(BATCH)))
    parts = (SHARPNESS / len(maps) * (near - centres.square().sum(dim=1))).softmax(dim=3)  # (n, h, w, K)
    share = share[..., None]
    return torch.cat([share * parts, 1 - share], dim=3).permute(0, 3, 1, 2)
