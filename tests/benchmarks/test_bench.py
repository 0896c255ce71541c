from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import mpae
from mpae.cli import bench as verb
from mpae.errors import MPAEError

bench, cases, measure = (verb.load_benchmarks(name) for name in ("bench", "cases", "measure"))


def test_works_alternate_and_the_first_round_does_not_count() -> None:
    calls: list[str] = []
    seconds = measure.alternate({"ours": lambda: calls.append("ours"), "plain": lambda: calls.append("plain")}, 2)
    assert calls == ["ours", "plain"] * 3
    assert {name: len(times) for name, times in seconds.items()} == {"ours": 2, "plain": 2, "matmul": 2}


def test_ratios_are_taken_within_rounds() -> None:
    assert measure.ratio([2.0, 20.0, 3.0], [1.0, 10.0, 1.0]) == 2.0  # the slow round changes nothing
    matmul = 2 * measure.PEAK_SIDE**3
    assert measure.share_of_peak(matmul, seconds=[2.0], matmul=[1.0]) == 0.5


def test_operations_see_into_attention() -> None:
    query = torch.randn(1, 2, 8, 4)
    attention = torch.nn.functional.scaled_dot_product_attention
    assert measure.operations(lambda: attention(query, query, query)) == 2 * (2 * 2 * 8 * 8 * 4)


def test_memory_of_a_fresh_process() -> None:
    held = measure.peak_memory(hold, 200)
    assert 190e6 < held < 300e6


def hold(megabytes: int) -> object:
    return lambda: bytearray(b"x") * (megabytes * 10**6)


@pytest.mark.parametrize("variant", ["ours", "plain"])
def test_training_step(variant: str) -> None:
    step = cases.training(variant, "paper", cases.QUICK.base, num_parts=3, batch=8, sizes=cases.QUICK)
    before, after = step(), step()
    assert all(math.isfinite(value) for value in after.values())
    assert before["total"] != after["total"]  # the optimiser moved


def test_both_cluster_alike() -> None:
    ours, plain = (cases.clustering(variant, cases.QUICK)() for variant in ("ours", "plain"))
    assert ours == pytest.approx(plain)
    assert ours["nmi"] > 1


def test_all_predict_alike() -> None:
    size = cases.QUICK.image_size
    ours, int8, plain = (cases.prediction(variant, cases.QUICK.base, 2, size, cases.QUICK)()
                         for variant in ("ours", "int8", "plain"))
    for (mask, _), (rounded, _), expected in zip(ours, int8, plain, strict=True):
        assert (torch.from_numpy(mask) == expected).float().mean() > 0.99
        assert (torch.from_numpy(rounded) == expected).float().mean() > 0.5


def test_table_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [bench.row("speed", "here", 3.0, 2.0, {"ours": [1.0]}, share=0.5),
            bench.row("memory", "there", 0.7, 0.5, {"ours": 7}, at_most=True)]
    result = {"quick": True, "machine": bench.machine(), "rows": rows}
    monkeypatch.setattr(bench, "run", lambda quick, only, tell: result)
    verb.bench(tmp_path / "table.txt", tmp_path / "figures.json", quick=True)
    text = (tmp_path / "table.txt").read_text()
    assert "at least 2" in text
    assert "at most 0.5" in text
    assert "50%" in text
    stored = json.loads((tmp_path / "figures.json").read_text())
    assert [row["reached"] for row in stored["rows"]] == [True, False]


def test_a_missing_folder_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(MPAEError, match="There is no folder"):
        verb.bench(None, tmp_path / "none" / "figures.json", quick=True)


def test_an_installed_package_has_no_benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpae, "__file__", str(tmp_path / "site-packages" / "mpae" / "__init__.py"))
    with pytest.raises(MPAEError, match="come with the source tree"):
        verb.load_benchmarks("bench")


def test_one_measurement_alone(tmp_path: Path) -> None:
    verb.bench(None, tmp_path / "figures.json", quick=True, only="NMI")
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert rows
    assert all("NMI" in row["what"] for row in rows)


def test_an_unknown_measurement_is_told() -> None:
    with pytest.raises(MPAEError, match="there are: training, laptop preset"):
        verb.bench(quick=True, only="nothing")


def test_operations_are_counted_in_inference_mode() -> None:
    layer, inputs = torch.nn.Linear(8, 4), torch.randn(3, 8)

    @torch.inference_mode()
    def work() -> object:
        return layer(inputs)

    assert measure.operations(work) == 2 * 3 * 8 * 4
