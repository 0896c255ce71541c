"""8-bit storage: what comes back is what went in, to half a step of its scale."""

from __future__ import annotations

import pytest
import torch

from mpae.assets import int8


@pytest.mark.parametrize("shape", [(4, 32), (6, 64), (8, 32, 3, 3), (1, 96)])
@pytest.mark.parametrize("size", [1e-4, 0.05, 8.0])
def test_round_trip_is_within_half_a_step(shape, size):
    weight = torch.randn(shape) * size
    values, scale = int8.quantise(weight)
    error = (int8.restore(values, scale) - weight).abs().reshape(*scale.shape, -1)  # (O, groups, group)

    assert values.dtype == torch.int8
    assert values.shape == weight.shape
    assert scale.shape == (shape[0], weight[0].numel() // int8.GROUP)
    rounding = scale.float() * (0.5 + int8.LARGEST * 2**-11) + int8.LARGEST * 2**-25  # of values, and of the scale
    assert (error <= rounding.unsqueeze(2)).all()


def test_a_large_weight_costs_only_its_own_group_accuracy():
    weight = torch.randn(2, 64) * 0.01
    weight[0, 3] = 10.0
    restored = int8.restore(*int8.quantise(weight))

    torch.testing.assert_close(restored[0, 32:], weight[0, 32:], rtol=0, atol=3e-4)
    torch.testing.assert_close(restored[1], weight[1], rtol=0, atol=3e-4)
    assert (restored[0, :32] - weight[0, :32]).abs().max() > 3e-3


def test_zeros_stay_zeros():
    values, scale = int8.quantise(torch.zeros(3, 32))
    assert torch.equal(int8.restore(values, scale), torch.zeros(3, 32))


def test_pack_stores_matrices_with_8_bits_and_all_else_as_fp16():
    weights = {"fc.weight": torch.randn(8, 64), "fc.bias": torch.randn(8), "odd.weight": torch.randn(8, 37),
               "first.weight": torch.randn(8, 64)}
    packed = int8.pack(weights, keep=("first.",))

    assert {name: value.dtype for name, value in packed.items()} == {
        "fc.weight": torch.int8, "fc.weight.scale": torch.half, "fc.bias": torch.half,
        "odd.weight": torch.half, "first.weight": torch.half}
    restored = int8.unpack(packed)
    assert list(restored) == list(weights)
    for name, weight in weights.items():
        assert restored[name].dtype == torch.float32
        torch.testing.assert_close(restored[name], weight, rtol=1e-2, atol=2e-2)
