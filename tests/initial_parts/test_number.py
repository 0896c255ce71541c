"""The number of parts of features made on the spot: a disc of four quarters."""

from __future__ import annotations

import pytest
from test_initial_parts import scenes

from mpae.initial_parts import number
from mpae.initial_parts.number import agreement_curve, number_of_parts


@pytest.mark.parametrize("seed", [0, 1])
def test_four_quarters_are_four_parts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number, "NUMBERS", (2, 3, 4, 5, 6, 8))
    curve = agreement_curve(scenes(60, seed=1)[0].half(), seed)
    assert curve is not None
    assert curve[4] > 0.95
    assert curve[8] < 0.8
    assert number_of_parts(curve) == 4
    assert curve == agreement_curve(scenes(60, seed=1)[0].half(), seed)


def test_without_a_common_object_there_is_no_number() -> None:
    maps = scenes(60, seed=1)[0]
    assert agreement_curve(maps[:1].half(), 0) is None
