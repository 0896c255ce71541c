from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_run import make_run, make_tiny_run, tiny_settings
from torch.nn.functional import interpolate

from mpae.config import resolve
from mpae.drawing.palette import part_colours
from mpae.errors import MPAEError
from mpae.export import onnx as export
from mpae.export.onnx import export_onnx
from mpae.export.resize import cubic, resize, triangle
from mpae.model import MPAE
from mpae.model.load import load_model

onnx = pytest.importorskip("onnx", reason="the extra mpae[onnx] is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra mpae[onnx] is not installed")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> MPAE:
    """Its PartFormer sees a smaller image than its backbone."""
    folder = tmp_path_factory.mktemp("export")
    config = resolve("laptop", None, tiny_settings(folder) | {"model.num_parts": 3, "model.partformer_size": 32})
    return export.load_for_export(make_run(folder / "run", config).folder)


@pytest.fixture(scope="module")
def exported(model: MPAE, tmp_path_factory: pytest.TempPathFactory) -> export.Exported:
    return export_onnx(model, tmp_path_factory.mktemp("onnx") / "parts.onnx")


@pytest.mark.parametrize(("batch", "height", "width"), [(1, 64, 64), (5, 64, 64), (2, 128, 96), (1, 32, 160)])
def test_onnx_runtime_gives_our_logits_and_descriptors(
        model: MPAE, exported: export.Exported, batch: int, height: int, width: int) -> None:
    images = torch.rand(batch, 3, height, width)
    session = onnxruntime.InferenceSession(str(exported.file), providers=["CPUExecutionProvider"])
    logits, descriptors = session.run(["logits", "descriptors"], {"images": images.numpy()})
    with torch.no_grad():
        ours = model.describe(images)
    assert logits == pytest.approx(ours.logits.numpy(), abs=1e-3)
    assert descriptors == pytest.approx(ours.descriptors.numpy(), abs=1e-3)


def test_agreement_is_measured(model: MPAE, exported: export.Exported, tmp_path: Path) -> None:
    assert exported.agreement == exported.exact_agreement >= 0.999
    other = load_model(make_tiny_run(tmp_path / "run").folder)
    with torch.no_grad():
        other.compress.weight.neg_()
    assert export.agreement(other, exported.file) < 0.9


def test_the_file_is_alone_and_describes_itself(exported: export.Exported) -> None:
    assert [path.name for path in exported.file.parent.iterdir()] == ["parts.onnx"]
    assert exported.megabytes == pytest.approx(exported.file.stat().st_size / 1e6)
    graph = onnx.load(str(exported.file))
    shapes = {value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
              for value in [*graph.graph.input, *graph.graph.output]}
    assert shapes == {"images": ["batch", 3, "height", "width"], "logits": ["batch", 4, "rows", "columns"],
                      "descriptors": ["batch", 4, 32]}
    about = json.loads({entry.key: entry.value for entry in graph.metadata_props}["mpae"])
    assert about["input"]["shape"] == ["batch", 3, 64, 64]  # the size of training
    assert about["input"]["sizes"].startswith("any multiple of 16")
    assert about["outputs"]["logits"]["shape"] == ["batch", 4, 4, 4]
    assert about["background"] == about["num_parts"] == 3
    assert [part["name"] for part in about["parts"]] == ["part-01", "part-02", "part-03"]
    assert [part["colour"] for part in about["parts"]] == part_colours(3).tolist()
    assert not any(tensor.external_data for tensor in graph.graph.initializer)


def test_int8_is_smaller_and_tells_how_far_it_agrees(
        model: MPAE, exported: export.Exported, tmp_path: Path) -> None:
    small = export_onnx(model, tmp_path / "int8.onnx", int8=True)
    assert small.megabytes < 0.6 * exported.megabytes
    assert small.exact_agreement >= 0.999
    assert 0.5 < small.agreement <= 1
    graph = onnx.load(str(small.file))
    assert any(tensor.data_type == onnx.TensorProto.INT8 for tensor in graph.graph.initializer)
    assert "mpae" in {entry.key for entry in graph.metadata_props}
    session = onnxruntime.InferenceSession(str(small.file), providers=["CPUExecutionProvider"])
    assert session.run(["logits"], {"images": np.zeros((3, 3, 64, 96), np.float32)})[0].shape == (3, 4, 4, 6)


def test_a_graph_that_disagrees_is_not_written(
        model: MPAE, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "agreement", lambda model, file: 0.98)
    with pytest.raises(MPAEError, match=r"on 98\.00% of pixels only, so .* was not written"):
        export_onnx(model, tmp_path / "parts.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_with_the_way_out(
        model: MPAE, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MPAEError, match=rf"needs the package {package}; .* pip install 'mpae\[onnx\]'"):
        export_onnx(model, tmp_path / "parts.onnx")


@pytest.mark.parametrize(("kernel", "mode"), [(triangle, "bilinear"), (cubic, "bicubic")])
@pytest.mark.parametrize("size", [(16, 16), (64, 50), (37, 29), (10, 40)])
def test_resizing_by_matrices_is_that_of_torch(kernel: Any, mode: str, size: tuple[int, int]) -> None:
    images = torch.rand(2, 3, 37, 29)
    theirs = interpolate(images, size, mode=mode, antialias=True)
    torch.testing.assert_close(resize(images, size, kernel), theirs, atol=5e-6, rtol=0)


def test_positions_are_those_of_every_size(model: MPAE) -> None:
    """The graph's table at 128 px is that of a model that is loaded at 128 px."""
    assert model.backbone.model.patch_embed.grid_size == (10, 10)  # as test_vit comes: 160 px
    assert model.image_size == 64
