"""A trained model as one ONNX graph, checked against the model that it was made from."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from timm.models import vision_transformer
from torch import Tensor, nn

from mpae import __version__
from mpae.data.augment import make_view
from mpae.data.sources.synthetic import SyntheticImages
from mpae.errors import MPAEError
from mpae.export.resize import cubic, resize
from mpae.extras import require
from mpae.files import write_atomically
from mpae.model import MPAE
from mpae.model.load import load_model
from mpae.model.matching import part_logits
from mpae.prediction.part_names import PartNames

OPSET = 17  # the first with LayerNormalization, so that runtimes of 2022 and later read the graph
INPUT, OUTPUTS = "images", ("logits", "descriptors")
METADATA = "mpae"  # the key of the JSON text in the file's metadata
LABEL_SIZE = 224  # pixels along the side at which masks are compared
AGREEMENT = 0.999  # share of pixels on which an exact graph gives our label
CHECKED_IMAGES = 8


@dataclass(frozen=True)
class Exported:
    """What `export_onnx` wrote."""

    file: Path
    megabytes: float
    agreement: float  # share of pixels on which ONNX Runtime gives our label, as written
    exact_agreement: float  # the same before int8


class Inference(nn.Module):
    """What inference uses of a model, as a module whose `forward` is traced."""

    def __init__(self, model: MPAE):
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 3, H, W) in [0, 1] -> logits (B, K+1, h, w), descriptors (B, K+1, C): `MPAE.describe` in operations
        that a graph has."""
        model, seen = self.model, self.model.partformer
        view = resize(images, [side * seen.patch_size for side in seen.grid])
        descriptors = seen(model.normalise(view))  # (B, K+1, C)
        return part_logits(descriptors, model.compress(model.backbone(images))), descriptors


def is_any_size(model: MPAE) -> bool:
    """Whether the graph takes images of any size: its backbone has a table of positions, which is resized inside."""
    vit = getattr(model.backbone, "model", None)
    return isinstance(vit, vision_transformer.VisionTransformer) and bool(vit.dynamic_img_size) \
        and vit.pos_embed is not None and not hasattr(vit, "rope")


def resized_positions(table: Tensor, new_size: Any, old_size: Any = None, num_prefix_tokens: int = 1,
                      **_: Any) -> Tensor:
    """timm's `resample_abs_pos_embed` in operations that a graph has: (1, prefix + n, E) -> (1, prefix + h·w, E)."""
    prefix, grid = table[:, :num_prefix_tokens], table[:, num_prefix_tokens:]
    side = tuple(old_size) if old_size is not None else (math.isqrt(grid.shape[1]),) * 2
    maps = resize(grid.transpose(1, 2).unflatten(2, side), new_size, cubic)  # (1, E, h, w)
    return torch.cat([prefix, maps.flatten(2).transpose(1, 2)], dim=1)


@contextmanager
def positions_in_the_graph(any_size: bool) -> Iterator[None]:
    """While a model is traced, its table of positions is resized by products with matrices."""
    theirs = vision_transformer.resample_abs_pos_embed
    if any_size:
        vision_transformer.resample_abs_pos_embed = resized_positions
    try:
        yield
    finally:
        vision_transformer.resample_abs_pos_embed = theirs


def load_for_export(folder: str | Path) -> MPAE:
    """The model of a run with its backbone's own table of positions, from which those of any size are made."""
    model = load_model(folder, precision="float32")
    if is_any_size(model):
        size, native = model.image_size, int(model.backbone.model.pretrained_cfg["input_size"][-1])
        model = load_model(folder, native - native % model.backbone.patch_size, "float32")
        model.image_size = size
    return model


def export_onnx(model: MPAE, file: Path, *, int8: bool = False, names: PartNames | None = None) -> Exported:
    """Write backbone and PartFormer as one self-contained file, for any batch size and, where `is_any_size`, any
    size of images.

    The graph normalises colours itself; what else a program needs to know is JSON under the key ``mpae`` of the
    file's metadata. Before it is written, ONNX Runtime has given our masks from it.

    Args:
        names: that people gave the parts; joined ones have the same.
        int8: store the weights of matrix products in 8 bits and multiply in 8 bits: a quarter of the size, often
            faster, not exact.
    """
    onnx = _require("onnx")
    _require("onnxruntime")
    with tempfile.TemporaryDirectory(prefix="mpae-onnx-") as folder:
        exact = Path(folder) / "exact.onnx"
        write_graph(model, exact, names or PartNames(model.num_parts))
        onnx.checker.check_model(str(exact), full_check=True)
        exact_agreement = agreement(model, exact)
        if exact_agreement < AGREEMENT:
            raise MPAEError(f"ONNX Runtime gives the label of this model on {exact_agreement:.2%} of pixels only, so "
                            f"'{file}' was not written; try another version of onnxruntime.")
        final, final_agreement = exact, exact_agreement
        if int8:
            final = Path(folder) / "int8.onnx"
            quantise_graph(exact, final)
            final_agreement = agreement(model, final)
        write_atomically(file, lambda temporary: shutil.copyfile(final, temporary))
    return Exported(file, file.stat().st_size / 1e6, final_agreement, exact_agreement)


def write_graph(model: MPAE, file: Path, names: PartNames) -> None:
    onnx = _require("onnx")
    size, any_size = model.image_size, is_any_size(model)
    # Sides that differ, and from those of training: what the tracer takes as given would show in the check.
    sides = (size + model.backbone.patch_size, size + 2 * model.backbone.patch_size) if any_size else (size, size)
    example = torch.rand(2, 3, *sides, device=model.mean.device)
    axes: dict[str, dict[int, str]] = {name: {0: "batch"} for name in (INPUT, *OUTPUTS)}
    if any_size:
        axes[INPUT] |= {2: "height", 3: "width"}
        axes["logits"] |= {2: "rows", 3: "columns"}
    with warnings.catch_warnings(), torch.inference_mode(), positions_in_the_graph(any_size):
        warnings.simplefilter("ignore")  # the tracer tells of every shape that it takes as given
        # The newer exporter (dynamo=True) gives the same graph and needs twenty times as long for it.
        torch.onnx.export(Inference(model).eval(), (example,), str(file), input_names=[INPUT],
                          output_names=list(OUTPUTS), opset_version=OPSET, dynamo=False,
                          dynamic_axes=axes)
        shapes = [tuple(output.shape) for output in model.describe(example[:, :, :size, :size])]
    graph = onnx.load(str(file))
    for output, shape in zip(graph.graph.output, shapes, strict=True):  # the tracer names some sizes, others not
        for number, (axis, length) in enumerate(zip(output.type.tensor_type.shape.dim, shape, strict=True)):
            if number not in axes[output.name]:
                axis.dim_value = length
    onnx.helper.set_model_props(graph, {METADATA: json.dumps(metadata_of(model, shapes, names))})
    graph.producer_name, graph.producer_version = "mpae", __version__
    onnx.save(graph, str(file))


def metadata_of(model: MPAE, shapes: list[tuple[int, ...]], names: PartNames) -> dict[str, Any]:
    """What a program that has only the file needs to know: how pictures go in, and what comes out."""
    size, num_parts = model.image_size, model.num_parts
    colours, hidden = names.colours().tolist(), [label == 0 for label in names.lookup()[1:]]
    sizes = f"any multiple of {model.backbone.patch_size}; larger gives finer masks"
    return {
        "version": __version__,
        "input": {"name": INPUT, "shape": ["batch", 3, size, size], "type": "float32", "colours": "RGB",
                  "range": [0, 1], "sizes": sizes if is_any_size(model) else "this one",
                  "resize": "the whole picture squashed to the shape, bilinear with antialiasing",
                  "normalisation": "inside the graph"},
        "outputs": {
            "logits": {"shape": ["batch", *shapes[0][1:]],
                       "channels": "parts 1..K in order, then the background",
                       "mask": "resize bilinearly (half-pixel centres) to the picture's size, then argmax over the "
                               "channels; softmax over the channels gives probabilities"},
            "descriptors": {"shape": ["batch", *shapes[1][1:]], "rows": "as the channels of the logits"}},
        "num_parts": num_parts,
        "background": num_parts,
        "parts": [{"channel": index, "label": index + 1, "name": names.name(index + 1), "colour": colour,
                   "hidden": hidden[index]} for index, colour in enumerate(colours)],
    }


def quantise_graph(exact: Path, file: Path) -> None:
    """Matrix products with 8-bit weights, by output channel, and inputs that are rounded to 8 bits as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = file.with_name("prepared.onnx")
    quant_pre_process(str(exact), str(prepared), skip_symbolic_shape=True)
    graph = _require("onnx").load(str(prepared)).graph
    tables = {tensor.name for tensor in graph.initializer if len(tensor.dims) > 2}  # positions, resized by a product
    kept = [node.name for node in graph.node if node.op_type == "MatMul" and tables & set(node.input)]
    # 7 of 8 bits: processors without VNNI add products in 16 bits, which would overflow.
    quantize_dynamic(str(prepared), str(file), weight_type=QuantType.QInt8, per_channel=True, reduce_range=True,
                     op_types_to_quantize=["MatMul", "Gemm"], nodes_to_exclude=kept,
                     extra_options={"MatMulConstBOnly": True})


def agreement(model: MPAE, file: Path) -> float:
    """Share of the pixels of drawn pictures that ONNX Runtime and the model label alike: one picture and several, and
    one of twice the size where the graph takes it."""
    onnxruntime = _require("onnxruntime")
    source, side = SyntheticImages(CHECKED_IMAGES, split="test"), model.image_size
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    alike = []
    for size, count in ((side, len(source)), *([(2 * side, 1)] if is_any_size(model) else [])):
        pixels = np.stack([make_view(source[index], view=0, size=size) for index in range(count)])
        images = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), dtype=np.float32) / 255  # (B, 3, S, S)
        theirs = np.concatenate([session.run(["logits"], {INPUT: some})[0] for some in (images[:1], images[1:])
                                 if len(some)])
        with torch.inference_mode():
            ours = model.part_logits(torch.from_numpy(images).to(model.mean.device)).cpu()
        alike.append(labels(ours) == labels(torch.from_numpy(theirs)))
    return float(torch.cat(alike).float().mean())


def labels(logits: Tensor) -> Tensor:
    """(B, K+1, h, w) -> (B, 224, 224), the channel that wins each pixel."""
    return F.interpolate(logits, (LABEL_SIZE, LABEL_SIZE), mode="bilinear", align_corners=False).argmax(dim=1)


def _require(name: str) -> Any:
    return require(name, "onnx", "Exporting")
