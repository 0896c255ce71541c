"""Which VGG-19 L_r looks through: bundled, from the hub, or a file; and the weights that go with each."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch

from mpae.config import LossSettings, resolve
from mpae.errors import MPAEError
from mpae.losses import perceptual
from mpae.losses.perceptual import PerceptualNetwork, load_perceptual
from mpae.losses.restoration import restoration_weights


def plain_file(folder: Path) -> Path:
    """Torchvision's file: the layers of `features` to the end, and the classifier."""
    weights = PerceptualNetwork().state_dict() | {"features.30.weight": torch.zeros(512, 512, 3, 3),
                                                  "classifier.0.bias": torch.zeros(4096)}
    torch.save(weights, folder / "vgg19-dcbb9e9d.pth")
    return folder / "vgg19-dcbb9e9d.pth"


@pytest.mark.parametrize(("vgg", "reading", "expected"), [
    ("bundled", "released", (0.1, (0.5,) * 5)), ("vgg19", "released", (0.1, (5 / 32, 5 / 16, 5 / 8, 5 / 4, 5))),
    ("my.pth", "released", (0.1, (5 / 32, 5 / 16, 5 / 8, 5 / 4, 5))), ("vgg19", "paper", (0.5, (0.1,) * 5))])
def test_each_vgg_has_its_weights(vgg: str, reading: Any, expected: tuple) -> None:
    assert restoration_weights(LossSettings(vgg=vgg, reading=reading)) == expected


def test_weights_that_are_set_are_used() -> None:
    assert restoration_weights(LossSettings(pixel=0, perceptual=(1, 0, 0, 0, 0))) == (0, (1, 0, 0, 0, 0))


def test_presets() -> None:
    assert (resolve("paper").loss.vgg, resolve("laptop").loss.vgg) == ("vgg19", "bundled")


def test_a_file_of_torchvision_is_read(tmp_path: Path) -> None:
    file = plain_file(tmp_path)
    network = load_perceptual(LossSettings(vgg=str(file)))
    assert network is not None
    assert torch.equal(network.state_dict()["features.28.weight"], torch.load(file)["features.28.weight"])
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_the_hub_is_asked_for_the_plain_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(perceptual, "fetch", lambda *words: asked.append(words) or plain_file(tmp_path))
    assert load_perceptual(LossSettings(vgg="vgg19")) is not None
    assert asked[0][:2] == ("timm/vgg19.tv_in1k", "model.safetensors")


def test_no_network_is_loaded_that_is_not_used() -> None:
    assert load_perceptual(LossSettings(vgg="nowhere.pth", restoration=0)) is None
    assert load_perceptual(LossSettings(vgg="nowhere.pth", perceptual=(0, 0, 0, 0, 0))) is None


def test_without_the_hub_one_sentence_names_file_and_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", fail)
    with pytest.raises(MPAEError, match=r"^Cannot fetch the weights of 'vgg19' from the hub \(.*\); get the file "
                       r"model.safetensors of the repository timm/vgg19.tv_in1k by other means and pass it with --set "
                       r"loss.vgg=FILE \(or take the VGG that comes with mpae: --set loss.vgg=bundled\)\.$"):
        load_perceptual(LossSettings(vgg="vgg19"))


@pytest.mark.parametrize(("content", "sentence"), [
    ({"a": torch.zeros(3)}, r"features\.0\.weight is missing, expected \(64, 3, 3, 3\)"),
    ({"features.0.weight": torch.zeros(8, 3, 3, 3)}, r"features\.0\.weight is \(8, 3, 3, 3\), expected"),
])
def test_files_of_something_else(tmp_path: Path, content: dict, sentence: str) -> None:
    torch.save(content, tmp_path / "other.pth")
    with pytest.raises(MPAEError, match=sentence):
        load_perceptual(LossSettings(vgg=str(tmp_path / "other.pth")))
    with pytest.raises(MPAEError, match=r"^Unknown loss\.vgg 'vgg16'; choose bundled, vgg19, or a file"):
        load_perceptual(LossSettings(vgg="vgg16"))
