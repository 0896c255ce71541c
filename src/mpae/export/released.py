"""Weights of the released program and ours: one table of names, read both ways.

Its blocks are called `compress_layer` (the 1x1 convolution), `Transformer` (PartFormer) and `Decoder` (encoder of the
visible patches and decoder); the frozen DINOv2 is `backbone1`. Values are the same but for their layout: patches are
embedded by a convolution, part and patch positions are one table, and a restored pixel's colours lie side by side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from mpae.errors import MPAEError

BACKBONE = "backbone1."
UNUSED = ("ArcMarginProduct.weight", "Decoder.cls_token", "Decoder.mask_token")  # in its files, and never used
POSITIONS = "Transformer.pos_embed"  # (1, K+1+N, C): our part_positions, then our patch_positions
PAINT = ("decoder.paint.weight", "decoder.paint.bias")

# Ours -> theirs. "#" is the number of a layer.
NAMES = {
    "compress.weight": "compress_layer.weight",
    "partformer.embed.weight": "Transformer.conv1.weight",
    "partformer.part_tokens": "Transformer.class_embedding",
    "partformer.norm_input": "Transformer.ln_pre",
    "partformer.layers.#.norm_attention": "Transformer.transformer.resblocks.#.ln_1",
    "partformer.layers.#.query_key_value.weight": "Transformer.transformer.resblocks.#.attn.in_proj_weight",
    "partformer.layers.#.query_key_value.bias": "Transformer.transformer.resblocks.#.attn.in_proj_bias",
    "partformer.layers.#.project": "Transformer.transformer.resblocks.#.attn.out_proj",
    "partformer.layers.#.norm_mlp": "Transformer.transformer.resblocks.#.ln_2",
    "partformer.layers.#.mlp.0": "Transformer.transformer.resblocks.#.mlp.c_fc",
    "partformer.layers.#.mlp.2": "Transformer.transformer.resblocks.#.mlp.c_proj",
    "partformer.norm_output": "Transformer.ln_post",
    "partformer.project.weight": "Transformer.proj.weight",
    "encoder.embed": "Decoder.patch_embed.proj",
    "encoder.positions": "Decoder.pos_embed",
    "encoder.layers.#.norm_attention": "Decoder.blocks.#.norm1",
    "encoder.layers.#.query_key_value": "Decoder.blocks.#.attn.qkv",
    "encoder.layers.#.project": "Decoder.blocks.#.attn.proj",
    "encoder.layers.#.norm_mlp": "Decoder.blocks.#.norm2",
    "encoder.layers.#.mlp.0": "Decoder.blocks.#.mlp.fc1",
    "encoder.layers.#.mlp.2": "Decoder.blocks.#.mlp.fc2",
    "encoder.norm": "Decoder.norm",
    "encoder.project": "Decoder.decoder_embed",
    "decoder.positions": "Decoder.decoder_pos_embed",
    "decoder.layers.#.norm_attention": "Decoder.decoder_blocks.#.norm1",
    "decoder.layers.#.query_key_value": "Decoder.decoder_blocks.#.attn.qkv",
    "decoder.layers.#.project": "Decoder.decoder_blocks.#.attn.proj",
    "decoder.layers.#.norm_mlp": "Decoder.decoder_blocks.#.norm2",
    "decoder.layers.#.mlp.0": "Decoder.decoder_blocks.#.mlp.fc1",
    "decoder.layers.#.mlp.2": "Decoder.decoder_blocks.#.mlp.fc2",
    "decoder.norm": "Decoder.decoder_norm",
    "decoder.paint": "Decoder.decoder_pred",
}
WHOLE = {f"{ours}{end}": f"{theirs}{end}" for ours, theirs in NAMES.items()
         for end in ("", ".weight", ".bias")}  # of a layer by its name, or of one tensor
_THEIRS = {theirs: ours for ours, theirs in WHOLE.items()}


def from_released(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our trainable weights from theirs; names that are not the released program's are told."""
    positions, part_tokens = weights[POSITIONS][0], weights["Transformer.class_embedding"][0]
    ours = {"partformer.part_positions": positions[: len(part_tokens)],
            "partformer.patch_positions": positions[len(part_tokens) :]}
    for theirs, tensor in weights.items():
        if theirs == POSITIONS or theirs in UNUSED or theirs.startswith(BACKBONE):
            continue
        name = _renamed(theirs, _THEIRS)
        if name is None:
            raise MPAEError(f"the tensor '{theirs}' is none of the released program's")
        if theirs.endswith(("conv1.weight", "patch_embed.proj.weight")):  # (C, 3, p, p) -> (C, 3p²)
            tensor = tensor.flatten(1)
        elif tensor.ndim == 3:  # (1, n, C)
            tensor = tensor[0]
        ours[name] = _colours_first(tensor) if name in PAINT else tensor
    return {name: tensor.float().contiguous() for name, tensor in ours.items()}


def to_released(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their weights from our trainable ones, but for those that they never use."""
    theirs = {POSITIONS: torch.cat([weights["partformer.part_positions"], weights["partformer.patch_positions"]])[None]}
    for ours, tensor in weights.items():
        if ours in ("partformer.part_positions", "partformer.patch_positions"):
            continue
        name = _renamed(ours, WHOLE)
        if name is None:
            raise ValueError(f"'{ours}' is not in the table of names")
        if name.endswith(("conv1.weight", "patch_embed.proj.weight")):
            side = int((tensor.shape[1] / 3) ** 0.5)
            tensor = tensor.unflatten(1, (3, side, side))
        elif name.endswith(("pos_embed", "class_embedding")):
            tensor = tensor[None]
        theirs[name] = _colours_last(tensor) if ours in PAINT else tensor
    return theirs


def _renamed(name: str, table: Mapping[str, str]) -> str | None:
    """The other name of a tensor, or None where the table has none."""
    number = re.search(r"(?<=\.)\d+(?=\.)", name) if "layers." in name or "blocks." in name else None
    if number is None:
        return table.get(name)
    other = table.get(f"{name[: number.start()]}#{name[number.end() :]}")
    return None if other is None else other.replace("#", number.group())


def _colours_first(values: Tensor) -> Tensor:
    """What paints the pixels of a patch, (p'²·3, ...) -> (3·p'², ...)."""
    return values.unflatten(0, (-1, 3)).transpose(0, 1).flatten(0, 1)


def _colours_last(values: Tensor) -> Tensor:
    return values.unflatten(0, (3, -1)).transpose(0, 1).flatten(0, 1)
