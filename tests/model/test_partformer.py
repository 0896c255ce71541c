from __future__ import annotations

import torch

from mpae.model.partformer import PartFormer
from mpae.model.transformer import Layer, sincos_positions


def tiny(num_parts: int = 3) -> PartFormer:
    return PartFormer(num_parts, patch_size=4, grid=(3, 5), dim=16, layers=2, heads=2).eval()


def test_gives_one_descriptor_a_part_and_one_for_the_background() -> None:
    assert tiny()(torch.rand(2, 3, 12, 20)).shape == (2, 4, 16)


def test_last_layer_on_part_tokens_alone_changes_nothing() -> None:
    layer, tokens = Layer(16, 4), torch.randn(2, 9, 16)
    assert torch.allclose(layer(tokens, outputs=4), layer(tokens)[:, :4], atol=1e-6)


def test_layer_is_attention_as_written_in_the_book() -> None:
    layer, tokens = Layer(8, 2).double(), torch.randn(1, 5, 8, dtype=torch.float64)
    normed = layer.norm_attention(tokens)[0]
    query, key, value = layer.query_key_value(normed).split(8, dim=1)
    heads = []
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        weights = (query[:, part] @ key[:, part].T / 2.0).softmax(1)
        heads.append(weights @ value[:, part])
    after = tokens + layer.project(torch.cat(heads, dim=1))
    assert torch.allclose(layer(tokens), after + layer.mlp(layer.norm_mlp(after)))


def test_attention_of_part_tokens_can_be_read_out() -> None:
    attention = tiny().attention(torch.rand(2, 3, 12, 20))
    assert attention.shape == (2, 4, 15)
    assert (attention >= 0).all()
    assert (attention.sum(2) < 1).all()  # the rest goes to the part tokens themselves


def test_part_tokens_see_the_image() -> None:
    model = tiny()
    first, second = model(torch.rand(1, 3, 12, 20)), model(torch.rand(1, 3, 12, 20))
    assert not torch.allclose(first, second)


def test_positions_differ_and_are_columns_then_rows() -> None:
    table = sincos_positions((3, 5), 16)
    assert table.shape == (15, 16)
    assert len({tuple(row.tolist()) for row in table}) == 15
    assert torch.equal(table[2, :8], table[7, :8])  # same column
    assert torch.equal(table[0, 8:], table[4, 8:])  # same row
