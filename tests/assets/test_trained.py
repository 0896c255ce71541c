"""Trained runs that come with the package: found by name, read and never written to; and how one is made."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from pictures import draw_photo
from tiny_run import make_tiny_run

import pack_run
from mpae import PartDiscovery, hub
from mpae.assets import trained
from mpae.cli.name import name
from mpae.cli.report import report
from mpae.cli.runs import runs
from mpae.data.sources.in_memory import InMemoryImages
from mpae.errors import MPAEError
from mpae.export import pack
from mpae.model.load import load_model
from mpae.prediction.part_names import PartNames
from mpae.run import Run

BYTES = 4_000_000


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = make_tiny_run(tmp_path_factory.mktemp("trained"))
    PartNames(3).rename(2, "beak").save(run.folder)
    return run


@pytest.fixture(scope="module")
def source() -> InMemoryImages:
    return InMemoryImages([draw_photo(index) for index in range(5)])


@pytest.fixture(scope="module")
def packed(trained_run: Run, source: InMemoryImages, tmp_path_factory: pytest.TempPathFactory) -> pack.Packed:
    return pack.pack_run(trained_run, tmp_path_factory.mktemp("packed") / "owls", source, "3 parts of owls")


@pytest.fixture
def owls(packed: pack.Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pack.Packed:
    """A run `owls` that comes with the package."""
    monkeypatch.setattr(trained, "RUNS", tmp_path / "assets")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(packed.run.folder, tmp_path / "assets" / "owls")
    return replace(packed, run=Run(tmp_path / "assets" / "owls"))


def test_a_packed_run_gives_the_masks_of_its_run(owls: pack.Packed, trained_run: Run) -> None:
    assert owls.agreement >= pack.AGREEMENT
    photo = draw_photo(7)
    before, now = PartDiscovery.load(trained_run.folder).predict(photo), PartDiscovery.load("owls").predict(photo)
    assert (before.mask == now.mask).mean() >= 0.99
    assert [part.name for part in now.present] == [part.name for part in before.present]
    np.testing.assert_allclose(now.descriptors, before.descriptors, rtol=0.1, atol=0.1)


def test_it_holds_what_prediction_needs_and_nothing_else(owls: pack.Packed, trained_run: Run) -> None:
    assert {file.name for file in owls.run.folder.iterdir()} == {"config.yaml", "model.safetensors", "parts.yaml"}
    assert owls.bytes < trained_run.weights_file.stat().st_size / 4
    model = load_model(owls.run.folder)
    assert model.encoder is None
    assert model.decoder is None
    settings = yaml.safe_load(owls.run.config_file.read_text())["settings"]
    assert "root" not in settings["data"]
    assert model.attention(torch.rand(1, 3, 64, 64)).shape == (1, 4, 4, 4)


def test_a_run_folder_of_the_same_name_goes_first(owls: pack.Packed, tmp_path: Path,
                                                 caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="mpae")
    assert hub.run_folder("owls") == hub.run_folder(Path("owls")) == owls.run.folder
    (tmp_path / "owls").mkdir()  # photos of owls
    assert hub.run_folder("owls") == owls.run.folder
    assert "is the run that comes with mpae" in caplog.text
    make_tiny_run(tmp_path / "owls")
    assert hub.run_folder("owls") == Path("owls")
    assert "is the run folder here" in caplog.text
    assert not hub.is_read_only("owls")
    assert hub.is_read_only(owls.run.folder)


def test_an_unknown_name_lists_the_known_ones(owls: pack.Packed, monkeypatch: pytest.MonkeyPatch,
                                             tmp_path: Path) -> None:
    with pytest.raises(MPAEError, match=r"No run folder 'owl', and no run of that name comes with mpae \(owls; did you "
                                        r"mean owls\?\); `mpae fit IMAGES --out owl` makes one."):
        PartDiscovery.load("owl")
    monkeypatch.setattr(trained, "RUNS", tmp_path / "nothing")
    with pytest.raises(MPAEError, match="runs that come with mpae are missing here: install it again"):
        PartDiscovery.load("owls")


def test_lost_weights_are_told(owls: pack.Packed) -> None:
    owls.run.weights_file.unlink()
    with pytest.raises(MPAEError, match="'owls' that comes with mpae has lost its weights; install mpae again"):
        PartDiscovery.load("owls")


def test_it_is_never_written_to(owls: pack.Packed, tmp_path: Path) -> None:
    with pytest.raises(MPAEError, match="'owls' comes with mpae and is not changed; `mpae runs owls --out DIR`"):
        name(Path("owls"), ["3=wing"])
    with pytest.raises(MPAEError, match="training images of 'owls' are not here; add --images DIR"):
        report(Path("owls"))
    draw_photo(1).save(tmp_path / "photo.jpg")
    (tmp_path / "photos").mkdir()
    draw_photo(1).save(tmp_path / "photos" / "photo.jpg")
    report(Path("owls"), images=tmp_path / "photos", limit=1, quiet=True)
    assert (tmp_path / "owls-report" / "index.html").is_file()
    assert not owls.run.report.exists()


def test_runs_are_listed_and_copied(owls: pack.Packed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_tiny_run(tmp_path / "runs" / "mine")
    runs()
    listed = capsys.readouterr().out
    assert "3 parts of owls" in listed
    assert "runs/mine" in listed
    runs("owls", tmp_path / "copy")
    name(tmp_path / "copy", ["3=wing"], quiet=True)
    assert PartDiscovery.load(tmp_path / "copy").run_.config().model.num_parts == 3
    (owls.run.folder / "README.md").write_text("# owls\n")
    runs("owls")
    assert capsys.readouterr().out.splitlines()[-3:] == ["# owls", "", str(owls.run.folder / "README.md")]
    for words, sentence in ((("owls", tmp_path / "copy"), "exists already"), (("owl",), "did you mean"),
                            ((None, tmp_path / "new"), "Give the run to copy too")):
        with pytest.raises(MPAEError, match=sentence):
            runs(*words)


def test_what_does_not_agree_or_fit_is_not_written(trained_run: Run, source: InMemoryImages, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "BYTES", 1000)
    with pytest.raises(MPAEError, match="bytes of weights when packed, and 1,000 are the most"):
        pack.pack_run(trained_run, tmp_path / "large", source, "")
    monkeypatch.undo()
    monkeypatch.setattr(pack, "pack", lambda weights: {key: torch.randn_like(value) for key, value in weights.items()})
    with pytest.raises(MPAEError, match=r"gives its own label on .* of pixels only"):
        pack.pack_run(trained_run, tmp_path / "wrong", source, "")
    assert not list(tmp_path.glob("large*")) + list(tmp_path.glob("wrong*"))


def test_the_script_writes_a_card_from_what_the_run_has_noted(trained_run: Run, photos: Path, tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [Run(shutil.copytree(trained_run.folder, tmp_path / f"seed-{seed}")) for seed in range(3)]
    for run, nmi in zip(runs, (60.0, 61.0, 65.0), strict=True):
        run.log({"step": 40, "minutes": 3.2})
        run.log({"evaluation": "cub", "split": "test", "image_size": 448, "images": 100, "nmi": nmi})
    words = ["pack_run", runs[0], "owls", "--images", photos, "--about", "3 parts of owls", "--kind", "bird",
             "--seeds", *runs[1:], "--out", tmp_path / "out"]
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    pack_run.main()
    packed = Run(tmp_path / "out" / "owls")
    assert packed.content()["kind"] == "bird"
    card = (packed.folder / "README.md").read_text()
    for part in ("# owls", "mpae predict owls PHOTOS", "12 images, 40 steps, 3 minutes, unsupervised", "- beak: 2",
                 "on 12 images", "| cub test, 100 images, 448 px | 60.00 |",
                 "| the same, mean of 3 random seeds | 62.00 ± 2.65 |", "## Limits"):
        assert part in card
    assert (packed.folder / "parts.jpg").stat().st_size < 200_000


@pytest.mark.parametrize("run", trained.trained_runs())
def test_runs_in_the_package(run: str) -> None:
    folder = trained.trained_runs()[run]
    assert {file.name for file in folder.iterdir()} <= {"config.yaml", "model.safetensors", "parts.yaml", "README.md",
                                                        "parts.jpg"}
    assert (folder / "model.safetensors").stat().st_size <= BYTES
    settings = yaml.safe_load((folder / "config.yaml").read_text())["settings"]
    assert settings["backbone"]["name"] == "bundled"
    assert not settings["data"].get("root")
    card = (folder / "README.md").read_text()
    for heading in ("## What it is", "## Parts", "## Figures", "## Limits", "licence of these weights"):
        assert heading in card
    parts = PartDiscovery.load(run).predict(draw_photo(3))
    assert parts.num_parts == settings["model"]["num_parts"]
