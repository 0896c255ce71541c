"""`mpae import`: files of the released program become run folders; anything else gets one sentence and no folder."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import dinov2, published
from miniatures import write_cub
from torch import Tensor
from typer.testing import CliRunner

from mpae.cli.app import app
from mpae.errors import MPAEError
from mpae.export.import_released import import_released, read_checkpoint
from mpae.export.released import to_released
from mpae.library import PartDiscovery
from mpae.run import Run


def write(folder: Path, content: Any) -> Path:
    file = folder / "CUB_K16.pth"
    torch.save(content, file)
    return file


def call(*words: Any) -> str:
    """What the command prints; it must succeed."""
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.fixture(scope="module")
def backbone() -> dict[str, Tensor]:
    return dinov2()


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory, backbone: dict[str, Tensor]) -> Path:
    """A run of full width with its backbone, at 56 px for the sake of time."""
    folder = tmp_path_factory.mktemp("imported")
    call("import", write(folder, published(56) | backbone), "--out", folder / "run")
    return folder / "run"


def test_a_published_file_with_its_backbone_predicts_without_the_hub(
        tmp_path: Path, backbone: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """At full size: ViT-B/14 with registers, 448 px, K = 16."""
    monkeypatch.setattr("mpae.backbones.fetch", None)
    file, run = write(tmp_path, published() | backbone), tmp_path / "run"
    assert "16 parts at 448 px" in call("import", file, "--out", run, "--dataset", "cub")
    file.unlink()
    assert sorted(path.name for path in run.iterdir()) == ["backbone.safetensors", "config.yaml", "model.safetensors"]
    config = Run.open(run).config()
    assert (config.data.dataset, config.model.num_parts, config.data.image_size) == ("cub", 16, 448)
    run = run.rename(tmp_path / "moved")  # the folder is complete
    birds = write_cub(tmp_path / "birds", images=4)
    call("predict", run, birds.root / "images" / birds.names("test")[0], "--out", tmp_path / "parts", "--workers", 0)
    assert len(list((tmp_path / "parts" / "masks").rglob("*.png"))) == 1


def test_an_imported_run_is_evaluated_exported_and_reported(imported: Path, tmp_path: Path, photos: Path) -> None:
    run, birds = imported, write_cub(tmp_path / "birds", images=4)
    call("evaluate", run, "--dataset", "cub", "--root", birds.root, "--limit", 1, "--no-nme", "--workers", 0)
    assert (run / "evaluations" / "cub-test" / "figures.json").is_file()
    assert "100.000%" in call("export", run, tmp_path / "parts.onnx")
    with pytest.raises(MPAEError, match=r"was imported without its training images; add --images DIR\.$"):
        call("report", run)
    call("report", run, "--images", photos, "--limit", 2)
    assert (run / "report" / "index.html").is_file()


def small(**changes: Tensor | None) -> dict[str, Tensor]:
    """A file of 56 px and 4 parts, without the backbone, with some tensors replaced or, for None, removed."""
    weights = published(56, 4) | changes
    return {name: tensor for name, tensor in weights.items() if tensor is not None}


@pytest.mark.parametrize("wrap", [
    lambda weights: weights,
    lambda weights: {f"module.{name}": tensor for name, tensor in weights.items()},
    lambda weights: {"state_dict": {name: tensor + 1 for name, tensor in weights.items()}, "best_state_dict": weights,
                     "epoch": 77, "best": np.float64(0.79), "optimizer": {"lr": 5e-4, "steps": [1, 2]}},
    lambda weights: {"state_dict": weights, "best_state_dict": None},
], ids=["state dict", "DataParallel", "own checkpoint", "own checkpoint without a best"])
def test_every_kind_of_file_is_read(tmp_path: Path, wrap: Any) -> None:
    weights = small()
    checkpoint = read_checkpoint(write(tmp_path, wrap(weights)))
    assert checkpoint.settings == {
        "model.num_parts": 4, "model.dim": 256, "data.image_size": 56, "model.pixels_per_patch": 8,
        "model.partformer_layers": 6, "model.encoder_layers": 2, "model.decoder_layers": 2}
    back = to_released(checkpoint.weights)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in back.items())


def test_without_a_backbone_the_papers_own_is_named(tmp_path: Path) -> None:
    run = import_released(read_checkpoint(write(tmp_path, small())), tmp_path / "run")
    assert run.config().backbone.name == "dinov2-vitb14-reg"
    assert run.content()["imported"] == "CUB_K16.pth"
    assert not run.backbone_file.exists()


@pytest.mark.parametrize(("content", "sentence"), [
    ({"model": torch.zeros(3)}, "is no checkpoint of the released MPAE: it has no tensor 'Transformer.pos_embed'"),
    ({}, "it has no tensor 'Transformer.pos_embed'"),
    ([1, 2], "holds a list; expected a state dict of tensors"),
    (small(**{"Decoder.norm.weight": None}), "by our names, it lacks encoder.norm.weight; fetch it again"),
    (small(**{"Decoder.blocks.1.norm1.weight": None, "Decoder.norm.bias": None}), "and 1 more such differences"),
    (small(**{"head.weight": torch.zeros(3)}), "the tensor 'head.weight' is none of the released program's"),
    (small(**{"Decoder.blocks.0.norm3.weight": torch.zeros(3)}), "the tensor 'Decoder.blocks.0.norm3.weight' is none"),
    (small(**{"Decoder.norm.bias": torch.zeros(3)}), r"encoder.norm.bias is \(3,\) and not \(256,\)"),
    (small(**{"Transformer.pos_embed": torch.zeros(1, 20, 256)}), "its 15 positions are no square of patches"),
    (small(**{"Transformer.pos_embed": torch.zeros(3)}), "its tensors have other shapes"),
    (small(**{"ArcMarginProduct.weight": torch.zeros(7, 256)}), "4 part tokens and 7 classes of parts"),
])
def test_other_files_get_one_sentence(tmp_path: Path, content: Any, sentence: str) -> None:
    with pytest.raises(MPAEError, match=sentence) as caught:
        read_checkpoint(write(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_files_that_are_damaged_or_could_run_code(tmp_path: Path) -> None:
    file = write(tmp_path, small())
    file.write_bytes(file.read_bytes()[:100_000])
    with pytest.raises(MPAEError, match="is damaged or no weights file"):
        read_checkpoint(file)
    file.write_bytes(pickle.dumps({"a": print}))
    with pytest.raises(MPAEError, match="could run code"):
        read_checkpoint(file)
    with pytest.raises(MPAEError, match="does not exist"):
        read_checkpoint(tmp_path / "none.pth")


@pytest.mark.parametrize(("words", "sentence"), [
    (["--dataset", "cub"], "was trained on images of 56 px, and cub has 448 px as released"),
    (["--dataset", "partimagenet-seg"], "has 4 parts, and the published models of partimagenet-seg have 8, 25, 50"),
    (["--dataset", "cubs"], "Unknown dataset 'cubs'; did you mean 'cub'"),
    (["--backbone", "bundled"], "gives 384 channels, and '.*' was trained on 768"),
    (["--backbone", "nothing"], "Unknown backbone 'nothing'"),
])
def test_requests_that_do_not_fit_leave_nothing(tmp_path: Path, words: list[str], sentence: str) -> None:
    file = write(tmp_path, small())
    with pytest.raises(MPAEError, match=sentence):
        call("import", file, "--out", tmp_path / "run", *words)
    assert not (tmp_path / "run").exists()


def test_a_broken_backbone_in_the_file_leaves_nothing(tmp_path: Path) -> None:
    for backbone, sentence in (({"backbone1.norm.weight": torch.ones(768)}, "is not recognised"),
                               ({"backbone1.patch_embed.proj.weight": torch.ones(768, 3, 14, 14),
                                 "backbone1.register_tokens": torch.ones(1, 4, 768), "backbone1.pos_embed": torch.ones(
                                     1, 17, 768), "backbone1.blocks.0.ls1.gamma": torch.ones(768)}, "does not fit")):
        with pytest.raises(MPAEError, match=sentence):
            import_released(read_checkpoint(write(tmp_path, small() | backbone)), tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_an_existing_run_is_kept(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(write(tmp_path, small()))
    import_released(checkpoint, tmp_path / "run")
    with pytest.raises(MPAEError, match="holds a run already; replace it with --overwrite"):
        import_released(checkpoint, tmp_path / "run")
    import_released(checkpoint, tmp_path / "run", overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(MPAEError, match="is not a run folder"):
        import_released(checkpoint, tmp_path / "other")


def test_a_copy_of_an_imported_model_has_its_backbone(imported: Path, tmp_path: Path) -> None:
    model = PartDiscovery.load(imported)
    model.save(tmp_path / "copy")
    assert Run(tmp_path / "copy").backbone_file.is_file()
    again = pickle.loads(pickle.dumps(model))
    assert again.model_.backbone.fingerprint == model.model_.backbone.fingerprint
