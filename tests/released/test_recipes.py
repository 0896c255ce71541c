"""experiments/released: one recipe for each row of MPAE in the paper's Tables 1 to 3, with the released values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from miniatures import write_celeba, write_cub, write_partimagenet_ood, write_partimagenet_seg
from typer.testing import CliRunner

from mpae.cli.app import app
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


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A miniature copy of each benchmark."""
    folder = tmp_path_factory.mktemp("benchmarks")
    written = {"cub": write_cub, "celeba": write_celeba, "partimagenet-ood": write_partimagenet_ood,
               "partimagenet-seg": write_partimagenet_seg}
    return {name: write(folder / name).root for name, write in written.items()}  # type: ignore[operator]


@pytest.mark.parametrize(("dataset", "num_parts"), ROWS)
def test_a_dry_run_says_what_would_be_trained(dataset: str, num_parts: int, roots: dict[str, Path],
                                              tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = CliRunner(env={"COLUMNS": "200"}).invoke(
        app, ["fit", "--config", str(recipe(dataset, num_parts)), "--root", str(roots[dataset]), "--out", str(out),
              "--dry-run"], catch_exceptions=False)
    assert done.exit_code == 0
    epochs = {"cub": 100, "celeba": 20}.get(dataset, 70)
    found = re.search(r"(\d+) images found, (\d+) steps", done.output)
    assert found is not None
    assert int(found[1]) >= 2
    assert int(found[2]) % epochs == 0
    assert f"preset paper on {dataset}" in done.output
    assert not out.exists()
