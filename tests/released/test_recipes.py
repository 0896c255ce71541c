"""experiments/released: one recipe for each row of MPAE in the paper's Tables 1 to 3, with the released values."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpae.config import origins, resolve
from mpae.evaluation.paper import PAPER
from mpae.losses.restoration import restoration_weights

RECIPES = Path(__file__).resolve().parents[2] / "experiments" / "released"
ROWS = [(dataset, num_parts) for dataset, rows in PAPER.items() for num_parts in rows]


def recipe(dataset: str, num_parts: int) -> Path:
    return RECIPES / f"{dataset.replace('-', '_')}_k{num_parts}.yaml"


def test_every_row_has_a_recipe_and_every_recipe_a_row() -> None:
    assert sorted(RECIPES.glob("*.yaml")) == sorted(recipe(*row) for row in ROWS)


@pytest.mark.parametrize(("dataset", "num_parts"), ROWS)
def test_a_recipe_has_the_released_values(dataset: str, num_parts: int) -> None:
    file = recipe(dataset, num_parts)
    config = resolve(None, file)
    assert (config.data.dataset, config.model.num_parts) == (dataset, num_parts)
    assert (config.backbone.name, config.loss.vgg) == ("dinov2-vitb14-reg", "vgg19")
    assert restoration_weights(config.loss) == (0.1, (5 / 32, 5 / 16, 5 / 8, 5 / 4, 5))
    assert config.training.partial_batch
    assert config.data.image_size == (448 if dataset == "cub" else 224)
    assert config.training.group_size == (64 if dataset.startswith("partimagenet") else 8)
    written = {name for name, origin in origins(None, file).items() if origin == str(file)}
    assert written == {"data.dataset", "model.num_parts"}
