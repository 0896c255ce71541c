"""build_backbone: from the package, from a file, from the hub, and each mistake in one sentence."""

from __future__ import annotations

import hashlib
import re
import socket
import time
from types import SimpleNamespace

import huggingface_hub
import pytest
import timm
import torch
from safetensors.torch import save_file

from mpae import backbones
from mpae.backbones import NAMED, build_backbone
from mpae.backbones.download import fetch
from mpae.config import BackboneSettings
from mpae.errors import MPAEError


@pytest.fixture
def test_vit_file(tmp_path):
    """timm's tiny `test_vit` as its repository on the hub holds it, classifier included."""
    file = tmp_path / "model.safetensors"
    save_file(timm.create_model("test_vit").state_dict(), file)
    return file


@pytest.fixture
def no_network(monkeypatch):
    """Every name is unknown, as on a machine without a connection; nothing is in the cache."""
    def fail(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *args, **kwargs: None)


def test_bundled_at_two_sizes():
    for_224, for_448 = (build_backbone(BackboneSettings(), size) for size in (224, 448))
    assert (for_224.name, for_224.dim, for_224.patch_size) == ("bundled", 384, 14)
    assert for_224.fingerprint == for_448.fingerprint
    assert for_448.model.pos_embed.shape == (1, 1 + 32 * 32, 384)  # fitted once, not in each pass
    assert for_224(torch.rand(1, 3, 224, 224)).shape == (1, 384, 16, 16)
    assert for_448(torch.rand(1, 3, 448, 448)).shape == (1, 384, 32, 32)


def test_building_leaves_the_random_state_alone(test_vit_file):
    before = torch.get_rng_state()
    build_backbone(BackboneSettings(name=str(test_vit_file), architecture="test_vit"), 64)
    build_backbone(BackboneSettings(), 56)
    backbones.create_vit(NAMED["dinov3-vits16"], 64)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_file_of_a_named_architecture(test_vit_file):
    backbone = build_backbone(BackboneSettings(name=str(test_vit_file), architecture="test_vit"), 64)
    model = timm.create_model("test_vit", img_size=160, dynamic_img_size=True).eval()
    timm.models.load_checkpoint(model, str(test_vit_file))
    images = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        expected = model.forward_features((images - 0.5) / 0.5)[:, 1:].transpose(1, 2).reshape(2, 64, 4, 4)
    torch.testing.assert_close(backbone(images), expected)


def test_a_file_of_no_known_architecture(test_vit_file):
    with pytest.raises(MPAEError, match=r"^The architecture of '.*model\.safetensors' is not recognised; name the "
                                        r"timm model .* --set backbone\.architecture=NAME\.$"):
        build_backbone(BackboneSettings(name=str(test_vit_file)), 64)


def test_a_small_dinov2_with_registers_from_a_file_is_recognised(tmp_path):
    file = tmp_path / "dinov2.pth"
    torch.save(timm.create_model(NAMED["dinov2-vits14-reg"], img_size=224).state_dict(), file)
    backbone = build_backbone(BackboneSettings(name=str(file)), 56)
    assert backbone(torch.rand(1, 3, 56, 56)).shape == (1, 384, 4, 4)
    assert backbone.model.num_prefix_tokens == 5


def test_hub_weights_are_those_of_timms_repository(test_vit_file, monkeypatch):
    asked = []

    def stand_in(repository, filename, revision, name, flags):
        asked.append((repository, filename, revision, name))
        return test_vit_file

    monkeypatch.setattr(backbones, "fetch", stand_in)
    hub = build_backbone(BackboneSettings(name="test_vit"), 64)
    file = build_backbone(BackboneSettings(name=str(test_vit_file), architecture="test_vit"), 64)

    assert asked == [("timm/test_vit.r160_in1k", "model.safetensors", None, "test_vit")]
    assert hub.fingerprint == file.fingerprint
    images = torch.rand(1, 3, 64, 64)
    assert torch.equal(hub(images), file(images))


def test_revisions_are_commits_of_named_models():
    assert set(backbones.REVISIONS) <= set(NAMED.values())
    assert all(re.fullmatch("[0-9a-f]{40}", revision) for revision in backbones.REVISIONS.values())


def test_every_name_is_a_model_with_weights_on_the_hub():
    for architecture in NAMED.values():
        assert timm.get_pretrained_cfg(architecture).hf_hub_id.startswith("timm/")


@pytest.mark.usefixtures("no_network")
def test_a_hub_out_of_reach_is_told_at_once_with_the_way_out():
    start = time.monotonic()
    with pytest.raises(MPAEError, match=(
            r"^Cannot fetch the weights of 'dinov2-vitb14-reg' from the hub \(.*\); get the file model\.safetensors "
            r"of the repository timm/vit_base_patch14_reg4_dinov2\.lvd142m by other means and pass it with "
            r"--backbone FILE\.$")):
        build_backbone(BackboneSettings(name="dinov2-vitb14-reg"), 224)
    assert time.monotonic() - start < 10


@pytest.mark.usefixtures("no_network")
def test_a_model_that_a_file_does_not_tell_is_named_in_the_way_out():
    with pytest.raises(MPAEError, match=r"--backbone FILE --set backbone\.architecture=test_vit\.r160_in1k\.$"):
        build_backbone(BackboneSettings(name="test_vit"), 64)


@pytest.fixture
def hub_of(monkeypatch, tmp_path):
    """A hub that announces one SHA-256 and delivers one content."""
    def make(etag, content=b"weights"):
        file = tmp_path / "delivered"
        file.write_bytes(content)
        announced = SimpleNamespace(etag=etag, commit_hash="c" * 40)
        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *args, **kwargs: None)
        monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda *args, **kwargs: announced)
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *args, **kwargs: str(file))
        return file
    return make


def test_a_download_is_verified_by_its_hash(hub_of):
    file = hub_of(hashlib.sha256(b"weights").hexdigest())
    assert fetch("timm/x", "model.safetensors", None, "x", "") == file
    file = hub_of("0" * 64)
    with pytest.raises(MPAEError, match=f"where the hub announced {'0' * 64}; it was removed, try again"):
        fetch("timm/x", "model.safetensors", None, "x", "")
    assert not file.exists()


def test_a_cached_file_needs_no_network(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *args, **kwargs: str(tmp_path / "cached"))
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", None)
    assert fetch("timm/x", "model.safetensors", None, "x", "") == tmp_path / "cached"


@pytest.mark.parametrize(("name", "size", "message"), [
    ("bundled", 450, r"^image_size 450 is not a multiple of patch_size 14; use 448 or 462\.$"),
    ("bundled", 5, r"^image_size 5 is not a multiple of patch_size 14; use 14\.$"),
    ("dinov3-vits16", 250, r"^image_size 250 is not a multiple of patch_size 16; use 240 or 256\.$"),
    ("sam-vitb16", 250, r"^image_size 250 is not a multiple of patch_size 16; use 240 or 256\.$"),
    ("dinov2-vitb14-regs", 224,
     r"^Unknown backbone 'dinov2-vitb14-regs' \(nearest: dinov2-vitb14-reg\); choose bundled, dinov2-vits14, .*, "
     r"any timm ViT by its name, or a weights file\.$"),
    ("zzz", 224, "^Unknown backbone 'zzz'; choose bundled, "),
    ("vit_small_patch14_dinov2.tag", 224, "^Unknown backbone 'vit_small_patch14_dinov2.tag' "),
    ("test_resnet", 224, "^timm's 'test_resnet.*' is not a vision transformer with one map of features; choose "),
    ("beit_base_patch16_224", 448, "^timm's 'beit_base.*' takes images of 224 px alone; use image_size 224.$"),
    ("nowhere/weights.pt", 224, "^The weights file 'nowhere/weights.pt' does not exist; "),
])
def test_mistakes_are_told_before_anything_is_fetched(name, size, message, monkeypatch):
    monkeypatch.setattr(backbones, "fetch", None)
    with pytest.raises(MPAEError, match=message):
        build_backbone(BackboneSettings(name=name), size)
