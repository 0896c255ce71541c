"""Which evaluation of a run is quoted."""

from __future__ import annotations

from mpae.evaluation.result import final_evaluations, title_of


def test_figures_of_different_evaluations_are_not_mixed() -> None:
    small = {"evaluation": "cub", "split": "test", "images": 5794, "image_size": 224, "weights": "b", "nmi": 60.0}
    large = small | {"image_size": 448, "nmi": 70.0, "nme": 6.0}
    sample = large | {"images": 2000, "nmi": 75.0}
    before = large | {"weights": "a", "nmi": 50.0}
    train = small | {"split": "train"}
    assert final_evaluations([before, large, small, sample, train]) == [large, train]
    steps = [{"evaluation": "validation", "images": 9, "nmi": nmi} for nmi in (3.0, 2.0)]
    assert final_evaluations(steps) == steps[1:]  # the last of equals
    assert final_evaluations([{"step": 1, "total": 2.0}]) == []


def test_outlines_of_pixels_stand_beside_those_of_patches_and_say_so() -> None:
    patch = {"evaluation": "cub", "split": "test", "images": 9, "weights": "b", "outline": "patch"}
    pixel = patch | {"outline": "pixel"}
    before = pixel | {"weights": "a"}
    assert final_evaluations([before, patch, pixel]) == [patch, pixel]
    assert final_evaluations([before, patch]) == [patch]  # not of weights that are no more
    assert [title_of(record) for record in (patch, pixel)] == ["cub test", "cub test, pixel outlines"]
