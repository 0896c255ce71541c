"""A run that begins with the parts of another, and one that goes on with more photos."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from pictures import draw_photo
from tiny_run import make_tiny_run, tiny_settings
from typer.testing import CliRunner

from mpae import PartDiscovery
from mpae.cli.app import app
from mpae.data.sources.folder import FolderImages
from mpae.data.sources.in_memory import InMemoryImages
from mpae.errors import MPAEError
from mpae.export.pack import pack_run
from mpae.prediction.part_names import PartNames
from mpae.run import Run
from mpae.training.fit import fit

QUICK = {"training.max_steps": 1, "loss.perceptual": [0, 0, 0, 0, 0], "cache.enabled": False}


@pytest.fixture
def before(tmp_path: Path) -> Run:
    run = make_tiny_run(tmp_path / "before")
    PartNames(3).rename(2, "beak").save(run.folder)
    return run


def test_weights_numbers_and_names_are_those_of_the_other_run(before: Run, photos: Path, tmp_path: Path) -> None:
    settings = QUICK | {"training.learning_rate": 1e-12}  # so that one step changes nothing that can be seen
    model = PartDiscovery(parts=3, preset="laptop", settings=settings).fit(photos, out=tmp_path / "new",
                                                                            begin_with=before.folder)
    for name, weight in Run(tmp_path / "new").load_weights().items():
        torch.testing.assert_close(weight, before.load_weights()[name], atol=1e-6, rtol=1e-4)
    content = model.run_.content()
    assert content["begun_with"] == str(before)
    assert model.run_.load_checkpoint()["initial_parts"]["weights"].shape == (4, 64)  # what training stays near
    photo = draw_photo(40)
    assert (model.predict(photo).mask == PartDiscovery.load(before.folder).predict(photo).mask).all()
    assert PartNames.load(model.run_.folder, 3).name(2) == "beak"


def test_a_packed_run_can_be_begun_with(before: Run, photos: Path, tmp_path: Path) -> None:
    packed = pack_run(before, tmp_path / "packed", InMemoryImages([draw_photo(1)]), "owls")
    model = PartDiscovery(parts=3, preset="laptop", settings=QUICK).fit(photos, begin_with=packed.run.folder)
    assert model.model_.decoder is not None


def test_what_does_not_go_together(before: Run, photos: Path, tmp_path: Path) -> None:
    for words, sentence in (
            (["--parts", "5"], "has model.num_parts 3, and 5 is asked for"),
            (["--image-size", "128"], "has data.image_size 64, and 128 is asked for"),
            (["--set", "model.partformer_layers=1"], "has model.partformer_layers 2, and 1 is asked for"),
            (["--resume"], "--resume and --from exclude each other")):
        done = CliRunner().invoke(app, ["fit", str(photos), "--out", str(tmp_path / "new"), "--from", str(before),
                                        "--preset", "laptop", *words])
        assert isinstance(done.exception, MPAEError)
        assert sentence in str(done.exception)
    with pytest.raises(MPAEError, match=r"has model\.num_parts 3, and 8 is asked for"):
        PartDiscovery(preset="laptop").fit(photos, begin_with=before.folder)
    assert not (tmp_path / "new").exists()


def test_a_plan_says_what_is_kept(before: Run, photos: Path) -> None:
    done = CliRunner().invoke(app, ["fit", str(photos), "--from", str(before), "--preset", "laptop", "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "model.num_parts" in done.output


def test_a_run_goes_on_with_more_photos(photos: Path, tmp_path: Path) -> None:
    from mpae.config import resolve

    config = resolve("laptop", None, tiny_settings(tmp_path) | QUICK | {
        "model.num_parts": 3, "training.initial_parts": False, "loss.initial_parts": 0})
    fit(config, FolderImages(photos), tmp_path / "run")
    for index in range(20, 24):
        draw_photo(index).save(photos / f"photo-{index}.jpg")
    longer = config.with_values({"training.max_steps": 3})
    result = fit(longer, FolderImages(photos), tmp_path / "run", resume=True)
    assert result.steps == 3
    content = Run(tmp_path / "run").content()
    assert (content["images"], content["settings"]["training"]["max_steps"]) == (16, 3)
    (photos / "photo-20.jpg").unlink()
    with pytest.raises(MPAEError, match="there were 16, now there are 15"):
        fit(longer, FolderImages(photos), tmp_path / "run", resume=True)


def test_random_weights_begin_with_soft_maps_if_asked(photos: Path, tmp_path: Path) -> None:
    from mpae.config import resolve

    entropy = {}
    for logits in (0.01, 30.0):
        config = resolve("laptop", None, tiny_settings(tmp_path) | QUICK | {
            "model.num_parts": 3, "training.initial_parts": False, "loss.initial_parts": 0,
            "model.first_logits": logits})
        fit(config, FolderImages(photos), tmp_path / str(logits))
        entropy[logits] = next(Run(tmp_path / str(logits)).records())["entropy"]
    assert entropy[0.01] == pytest.approx(math.log(4), rel=1e-3)  # of three parts and background, all alike
    assert entropy[30.0] < 0.5
