"""Weights files: read as data, recognised, loaded whole or refused in one sentence."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

from mpae.backbones.weights import ARCHITECTURES, infer_architecture, is_weights_file, load_weights, read_weights
from mpae.errors import MPAEError

SMALL = {"embed_dim": 32, "depth": 2, "num_heads": 2}


def small(name: str = "vit_small_patch14_reg4_dinov2", size: int = 56) -> torch.nn.Module:
    model = timm.create_model(name, img_size=size, dynamic_img_size=True, num_classes=0, **SMALL).eval()
    torch.nn.init.normal_(model.cls_token)
    torch.nn.init.normal_(model.pos_embed)
    return model


def original_names(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A timm DINOv2 with registers under the names of its authors, whose class token has a position."""
    weights = dict(model.state_dict())
    weights["register_tokens"] = weights.pop("reg_token")
    first = torch.randn(1, 1, 32)
    weights["cls_token"] = weights["cls_token"] - first
    weights["pos_embed"] = torch.cat([first, weights["pos_embed"]], dim=1)
    weights["mask_token"] = torch.zeros(1, 32)
    return weights


@pytest.mark.parametrize("architecture", ARCHITECTURES.values())
def test_every_known_architecture_is_recognised_by_its_weights(architecture):
    with torch.device("meta"):
        weights = timm.create_model(architecture, depth=1).state_dict()
    assert infer_architecture(weights) == architecture


def test_a_classifier_is_not_taken_for_dino():
    with torch.device("meta"):
        weights = timm.create_model("vit_small_patch16_224").state_dict()
    assert infer_architecture(weights) is None


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth"])
def test_files_are_read(tmp_path, suffix):
    model = small()
    file = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        save_file(model.state_dict(), file)
    else:
        torch.save(model.state_dict(), file)
    weights = read_weights(file)
    assert set(weights) == set(model.state_dict())
    assert torch.equal(weights["pos_embed"], model.state_dict()["pos_embed"])


@pytest.mark.parametrize("wrap", [
    lambda weights: {"model": weights},
    lambda weights: {"state_dict": {f"module.{key}": value for key, value in weights.items()}},
    lambda weights: {"student": {}, "epoch": 3,
                     "teacher": {f"backbone.{key}": value for key, value in weights.items()}
                     | {"head.mlp.0.weight": torch.zeros(3)}},
])
def test_checkpoints_are_unwrapped(tmp_path, wrap):
    model = small()
    torch.save(wrap(model.state_dict()), tmp_path / "checkpoint.pth")
    assert set(read_weights(tmp_path / "checkpoint.pth")) == set(model.state_dict())


def test_names_of_dinov2s_authors_are_understood(tmp_path):
    model, other = small(), small()
    torch.save(original_names(model), tmp_path / "dinov2.pth")
    load_weights(other, read_weights(tmp_path / "dinov2.pth"), "dinov2.pth")
    images = torch.rand(1, 3, 56, 56)
    torch.testing.assert_close(other(images), model(images))


def test_half_precision_is_loaded_as_float():
    model = small()
    load_weights(model, {key: value.half() for key, value in small().state_dict().items()}, "half.safetensors")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_positions_are_fitted_once_as_timm_does_in_each_pass():
    large, fitted = small(size=140), small(size=56)
    load_weights(fitted, large.state_dict(), "large")
    images = torch.rand(1, 3, 56, 56)
    torch.testing.assert_close(fitted(images), large(images))


def test_heads_are_left_out_and_nothing_else():
    model = small()
    weights = small().state_dict()
    load_weights(model, weights | {"head.weight": torch.zeros(10, 32)}, "file")
    with pytest.raises(MPAEError, match=r"'file' does not fit .*dinov2 \(it has also blocks\.2\.norm1\.weight\)"):
        load_weights(model, weights | {"blocks.2.norm1.weight": torch.zeros(32)}, "file")


@pytest.mark.parametrize(("change", "detail"), [
    (lambda weights: weights.pop("blocks.1.mlp.fc2.bias"), r"it lacks blocks\.1\.mlp\.fc2\.bias"),
    (lambda weights: [weights.pop("norm.weight"), weights.pop("norm.bias")], r"it lacks norm\.weight and 1 more"),
    (lambda weights: weights.update({"norm.weight": torch.zeros(31)}), "its tensors have other shapes"),
    (lambda weights: weights.update({"patch_embed.proj.weight": torch.zeros(32, 3, 16, 16)}),
     r"its first layer is \(32, 3, 16, 16\) and not \(32, 3, 14, 14\)"),
])
def test_weights_of_another_model_are_refused(change, detail):
    weights = small().state_dict()
    change(weights)
    with pytest.raises(MPAEError, match=rf"'file' does not fit timm's vit_small_patch14_reg4_dinov2 \({detail}\); "
                                        r"name the model .* --set backbone\.architecture=NAME\.$"):
        load_weights(small(), weights, "file")


class Payload:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("plain_pickle", [True, False])
def test_code_in_a_file_is_never_run(tmp_path, legacy, plain_pickle, recwarn):
    file, mark = tmp_path / "weights.pt", tmp_path / "ran"
    content = {"patch_embed.proj.weight": torch.zeros(3), "model": Payload(mark)}
    if plain_pickle:
        file.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, file, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(MPAEError, match=r"could run code, and was not opened; pass .*\.$"):
        read_weights(file)
    assert not mark.exists()
    assert not recwarn.list


def test_damaged_files_are_named(tmp_path):
    model = small().state_dict()
    whole, safe = tmp_path / "whole.pt", tmp_path / "whole.safetensors"
    torch.save(model, whole)
    save_file(model, safe)
    for name, content in {"half.pt": whole.read_bytes()[:20000], "half.safetensors": safe.read_bytes()[:20000],
                          "empty.pth": b"", "empty.safetensors": b"", "text.safetensors": b"<html>" * 9}.items():
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(MPAEError, match=rf"{name}' is damaged or no weights file \(\w+\); fetch it again"):
            read_weights(file)


def test_files_without_a_vit_are_named(tmp_path):
    torch.save({"conv1.weight": torch.zeros(3)}, tmp_path / "resnet.pt")
    torch.save([torch.zeros(3)], tmp_path / "list.pt")
    with pytest.raises(MPAEError, match=r"resnet\.pt' holds no vision transformer"):
        read_weights(tmp_path / "resnet.pt")
    with pytest.raises(MPAEError, match=r"list\.pt' holds a list; expected a state dict of tensors\."):
        read_weights(tmp_path / "list.pt")


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(MPAEError, match=r"none\.pt' does not exist; pass"):
        read_weights(tmp_path / "none.pt")
    with pytest.raises(MPAEError, match="is a folder; pass"):
        read_weights(tmp_path)


def test_names_and_files_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").touch()
    assert all(map(is_weights_file, ["a.pt", "a.pth", "a.safetensors", "./a", "C:\\a", "checkpoint"]))
    assert not any(map(is_weights_file, ["vit_small_patch16_224.dino", "dinov2-vits14", "", "a" * 5000]))
