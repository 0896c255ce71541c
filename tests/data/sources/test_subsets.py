"""How training images are divided into those for training and those for validation."""

from __future__ import annotations

import numpy as np
import pytest

from mpae.data.sources.subsets import divide, spread


@pytest.mark.parametrize(("count", "share", "held"), [
    (10, 0.2, [2, 7]), (5994, 0.1, None), (2, 0.01, [1]), (3, 0.89, [0, 2]), (1, 0.5, []), (10, 0.0, []),
])
def test_division_is_complete_and_spread(count: int, share: float, held: list[int] | None) -> None:
    train, validation = divide(count, share)
    assert sorted(train + validation) == list(range(count))
    if held is not None:
        assert validation == held
    else:
        assert len(validation) == round(share * count)
        assert set(np.diff(validation)) <= {9, 10, 11}


def test_spread_takes_even_distances() -> None:
    assert list(spread(10, None)) == list(spread(10, 10)) == list(spread(10, 99)) == list(range(10))
    assert list(spread(10, 4)) == [0, 2, 5, 7]
