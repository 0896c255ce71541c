"""A trained model as one ONNX graph, checked against the model that it was made from."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mpae import __version__
from mpae.data.augment import make_view
from mpae.data.sources.synthetic import SyntheticImages
from mpae.errors import MPAEError
from mpae.extras import require
from mpae.files import write_atomically
from mpae.model import MPAE
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
        """(B, 3, S, S) in [0, 1] -> logits (B, K+1, h, w), descriptors (B, K+1, C)."""
        logits, descriptors = self.model.describe(images)
        return logits, descriptors


def export_onnx(model: MPAE, file: Path, *, int8: bool = False, names: PartNames | None = None) -> Exported:
    """Write backbone and PartFormer as one self-contained file, for any batch size.

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
    size = model.image_size
    example = torch.rand(2, 3, size, size, device=model.mean.device)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # the tracer tells of every shape that it takes as given
        # The newer exporter (dynamo=True) gives the same graph and needs twenty times as long for it.
        torch.onnx.export(Inference(model).eval(), (example,), str(file), input_names=[INPUT],
                          output_names=list(OUTPUTS), opset_version=OPSET, dynamo=False,
                          dynamic_axes={name: {0: "batch"} for name in (INPUT, *OUTPUTS)})
        shapes = [tuple(output.shape) for output in model.describe(example)]
    graph = onnx.load(str(file))
    for output, shape in zip(graph.graph.output, shapes, strict=True):  # the tracer names some sizes, others not
        for axis, length in zip(output.type.tensor_type.shape.dim[1:], shape[1:], strict=True):
            axis.dim_value = length
    onnx.helper.set_model_props(graph, {METADATA: json.dumps(metadata_of(model, shapes, names))})
    graph.producer_name, graph.producer_version = "mpae", __version__
    onnx.save(graph, str(file))


def metadata_of(model: MPAE, shapes: list[tuple[int, ...]], names: PartNames) -> dict[str, Any]:
    """What a program that has only the file needs to know: how pictures go in, and what comes out."""
    size, num_parts = model.image_size, model.num_parts
    colours, hidden = names.colours().tolist(), [label == 0 for label in names.lookup()[1:]]
    return {
        "version": __version__,
        "input": {"name": INPUT, "shape": ["batch", 3, size, size], "type": "float32", "colours": "RGB",
                  "range": [0, 1], "resize": "the whole picture squashed to the shape, bilinear with antialiasing",
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
    # 7 of 8 bits: processors without VNNI add products in 16 bits, which would overflow.
    quantize_dynamic(str(prepared), str(file), weight_type=QuantType.QInt8, per_channel=True, reduce_range=True,
                     op_types_to_quantize=["MatMul", "Gemm"], extra_options={"MatMulConstBOnly": True})


def agreement(model: MPAE, file: Path) -> float:
    """Share of the pixels of drawn pictures that ONNX Runtime and the model label alike, one picture and several."""
    onnxruntime = _require("onnxruntime")
    source = SyntheticImages(CHECKED_IMAGES, split="test")
    pixels = np.stack([make_view(source[index], view=0, size=model.image_size) for index in range(len(source))])
    images = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), dtype=np.float32) / 255  # (B, 3, S, S)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    theirs = np.concatenate([session.run(["logits"], {INPUT: some})[0] for some in (images[:1], images[1:])])
    with torch.inference_mode():
        ours = model.part_logits(torch.from_numpy(images).to(model.mean.device)).cpu()
    return float((labels(ours) == labels(torch.from_numpy(theirs))).float().mean())


def labels(logits: Tensor) -> Tensor:
    """(B, K+1, h, w) -> (B, 224, 224), the channel that wins each pixel."""
    return F.interpolate(logits, (LABEL_SIZE, LABEL_SIZE), mode="bilinear", align_corners=False).argmax(dim=1)


def _require(name: str) -> Any:
    return require(name, "onnx", "Exporting")
