from __future__ import annotations

from pathlib import Path

from tiny_run import make_tiny_run

from mpae.data.sources.synthetic import SyntheticImages
from mpae.evaluation.comparison import SHOWN, TITLES, Chance, draw_side_by_side, measure
from mpae.model.load import load_model


def test_chance_scores_near_nothing() -> None:
    figures = dict(zip(("nmi", "ari", "keypoint nmi", "keypoint ari", "iou"), measure(Chance(3, 32), 4, print),
                       strict=True))
    assert len(figures) == len(TITLES)
    assert figures["nmi"] < 10
    assert abs(figures["ari"]) < 5
    assert figures["iou"] > 1  # a random mask meets the object by its area


def test_a_picture_has_a_column_for_the_image_and_each_system(tmp_path: Path) -> None:
    source = SyntheticImages(SHOWN, size=64)
    model = load_model(make_tiny_run(tmp_path / "run").folder)
    one = draw_side_by_side(source, {"chance": Chance(3, 32)})
    two = draw_side_by_side(source, {"chance": Chance(3, 32), "tiny": model})
    assert two.height == one.height >= 4 * 64  # two images a row
    assert two.width > 6 * 64 > one.width > 4 * 64
