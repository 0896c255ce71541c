"""The decoder: windows, and where attention begins to look."""

from __future__ import annotations

import torch

from mpae.model.restoration import Decoder
from mpae.model.transformer import sincos_positions


def test_a_decoder_of_windows_restores_an_image_from_overlapping_windows() -> None:
    torch.manual_seed(0)
    decoder = Decoder((7, 6), dim=16, heads=2, pixels_per_patch=2, window=4)
    filled = torch.randn(2, 42, 16)
    places = torch.arange(42).view(7, 6)
    sums, weights = torch.zeros(2, 3, 14, 12), torch.zeros(14, 12)
    for top in (0, 2, 3):
        for left in (0, 2):
            window = places[top : top + 4, left : left + 4].reshape(1, -1).expand(2, -1)
            restored = decoder(filled, window)
            for y in range(8):
                for x in range(8):
                    weight = min(y + 1, 8 - y) * min(x + 1, 8 - x)
                    sums[:, :, 2 * top + y, 2 * left + x] += weight * restored[:, :, y, x]
                    weights[2 * top + y, 2 * left + x] += weight
    assert torch.allclose(decoder(filled), sums / weights, atol=1e-5)


def test_a_window_as_large_as_the_image_is_the_image() -> None:
    torch.manual_seed(0)
    decoder = Decoder((4, 4), dim=16, heads=2, window=4)
    filled = torch.randn(1, 16, 16)
    assert torch.allclose(decoder(filled), decoder(filled, torch.arange(16)[None]), atol=1e-6)


def test_attention_begins_nearby() -> None:
    torch.manual_seed(0)
    plain, nearby = (Decoder((8, 8), dim=64, heads=4, nearby=each) for each in (False, True))
    positions = sincos_positions((8, 8), 64)[None]  # (1, N, C)
    places = torch.cartesian_prod(torch.arange(8.0), torch.arange(8.0))  # (N, 2)
    distance = torch.cdist(places, places)
    with torch.no_grad():
        without, attention = (decoder.layers[0].attention(positions, 64)[0] for decoder in (plain, nearby))  # (N, N)
    assert (attention * distance).sum() < 0.85 * (without * distance).sum()
    assert torch.equal(attention.argmax(dim=1), torch.arange(64))  # most of all at the patch itself
