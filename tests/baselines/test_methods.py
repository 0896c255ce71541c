"""Every method through fit, predict, evaluate, report and resume, on a backbone of a few thousand weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from miniatures import Cub, write_cub
from safetensors.torch import save_file
from tiny_run import tiny_settings
from typer.testing import CliRunner, Result

from mpae.baselines import CLASSES, MASKS, METHODS, UNSUPERVISED, find_method
from mpae.baselines.method import PartMethod
from mpae.cli.app import app
from mpae.config import Config, resolve
from mpae.data.catalogue import open_images
from mpae.errors import MPAEError
from mpae.model.load import load_model
from mpae.run import Run
from mpae.training.fit import fit

RECIPES = Path(__file__).resolve().parents[2] / "experiments" / "systems"
TRAINED = [name for name in METHODS if name != "mpae"]


@pytest.fixture(scope="module")
def cub(tmp_path_factory: pytest.TempPathFactory) -> Cub:
    return write_cub(tmp_path_factory.mktemp("cub"), images=16)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def settings_of(base: Path, cub: Cub, method: str, **values: Any) -> Config:
    chosen = {"model.method": method, "data.dataset": "cub", "data.root": str(cub.root), "model.num_parts": 3,
              "training.max_steps": 2, "cache.folder": str(base / "cache")}
    if method == "pdisconet":
        chosen |= {"backbone.name": str(tiny_resnet(base)), "backbone.architecture": "test_resnet.r160_in1k"}
    return resolve("laptop", None, tiny_settings(base) | chosen | values)


def tiny_resnet(base: Path) -> Path:
    """Random weights of a ResNet of a few thousand, in a file."""
    file = base / "resnet.safetensors"
    if not file.exists():
        torch.manual_seed(0)
        save_file(timm.create_model("test_resnet", num_classes=0).state_dict(), file)
    return file


def command(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module", params=TRAINED)
def run(request: pytest.FixtureRequest, base: Path, cub: Cub) -> Run:
    """A tiny run of the method."""
    config = settings_of(base, cub, request.param)
    return fit(config, open_images(config.data), base / request.param).run


def test_the_run_folder_says_method_and_supervision(run: Run) -> None:
    content = run.content()
    method = METHODS[run.config().model.method]
    assert (content["method"], content["supervision"]) == (method.name, method.supervision)
    assert ("classes" in content) == (method.supervision == CLASSES)
    assert len(list(run.previews.glob("*.png"))) >= 1


def test_the_model_comes_back_as_it_was(run: Run) -> None:
    model = load_model(run.folder)
    assert isinstance(model, METHODS[run.config().model.method].load())
    images = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        logits, descriptors = model.describe(images)
        assert logits.shape[:2] == (2, 4)
        assert descriptors.shape[:2] == (2, 4)
        assert torch.isfinite(logits).all()
        assert torch.allclose(model.part_logits(images), logits, rtol=1e-3, atol=1e-3)


def test_predict_evaluate_and_report(run: Run, cub: Cub, tmp_path: Path) -> None:
    method = METHODS[run.config().model.method]
    photo = cub.root / "images" / cub.names("test")[0]
    done = command("predict", run, photo, "--out", tmp_path / "out", "--workers", 0)
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "out" / "masks").rglob("*.png"))) == 1
    done = command("evaluate", run, "--dataset", "cub", "--root", cub.root, "--workers", 0, "--no-nme", "--limit", 3)
    assert done.exit_code == 0, done.output
    assert method.name in "".join(done.output.split())  # a title is folded anywhere
    assert method.supervision.replace(" ", "") in "".join(done.output.split())
    last = list(run.records())[-1]
    assert (last["system"], last["supervision"]) == (method.name, method.supervision)
    assert command("report", run, "--limit", 3).exit_code == 0
    assert method.tag in run.report.read_text()


@pytest.mark.parametrize("method", ["pdiscoformer"])
def test_a_resumed_run_is_an_unbroken_one(method: str, base: Path, cub: Cub, tmp_path: Path) -> None:
    """One step, then two more, give the weights of three."""
    whole = settings_of(base, cub, method, **{"training.max_steps": 3, "training.milestones": []})
    source = open_images(whole.data)
    expected = fit(whole, source, tmp_path / "whole").model.trainable_state()
    part = fit(whole.with_values({"training.max_steps": 1}), source, tmp_path / "part")
    content = part.run.config_file.read_text().replace("max_steps: 1", "max_steps: 3")
    part.run.config_file.write_text(content)
    found = fit(whole, source, tmp_path / "part", resume=True)
    for name, value in found.model.trainable_state().items():
        assert torch.allclose(value.float(), expected[name].float(), atol=1e-6), name


@pytest.mark.parametrize("name", TRAINED)
def test_each_says_what_it_learns_from(name: str) -> None:
    method = METHODS[name]
    assert method.supervision in (UNSUPERVISED, CLASSES, MASKS)
    assert issubclass(method.load(), PartMethod)
    assert method.tag == f"{name} ({method.supervision})"


@pytest.mark.parametrize("name", TRAINED)
def test_each_has_a_recipe_of_its_published_setting(name: str) -> None:
    config = resolve(None, RECIPES / f"{name}.yaml")
    assert (config.model.method, config.model.num_parts, config.data.dataset) == (name, 8, "cub")


def test_every_recipe_is_of_a_method() -> None:
    assert {file.stem for file in RECIPES.glob("*.yaml")} == set(TRAINED)


def test_an_unknown_method_lists_them_with_their_supervision(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(MPAEError, match="Unknown method 'x'; choose one of: mpae ") as caught:
        find_method("x")
    assert all(method.tag in str(caught.value) for method in METHODS.values())
    config = resolve("laptop", None, {"model.method": "x", "data.root": str(photos)})
    with pytest.raises(MPAEError, match="Unknown method 'x'"):
        fit(config, open_images(config.data), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("method", "sentence"), [
    ("pdiscoformer", r"Class labels are missing: .* put each image into a sub-folder"),
    ("contrastive-reconstruction", r"Foreground masks are missing: expected '.*' .* put a PNG of the same name into")])
def test_labels_that_are_missing_change_nothing_on_disk(method: str, sentence: str, tmp_path: Path,
                                                        photos: Path) -> None:
    config = resolve("laptop", None, tiny_settings(tmp_path) | {"model.method": method, "data.root": str(photos)})
    with pytest.raises(MPAEError, match=sentence):
        fit(config, open_images(config.data), tmp_path / "run")
    assert not (tmp_path / "run").exists()
