"""From a study to its runs: which there are, their settings, and by what a run is known."""

from __future__ import annotations

import pytest

from mpae.errors import MPAEError
from mpae.studies.conduct import share
from mpae.studies.expand import Request, distinct, expand
from mpae.studies.study import Study, find_study, parse_study


def study(**content: object) -> Study:
    return parse_study({"title": "x", "datasets": {"synthetic": [2, 4]}, "settings": {"training.epochs": 7}, "rows": [
        {"name": "plain", "reference": True}, {"name": "half", "settings": {"model.mask_ratio": 0.5}}], **content}, "x")


def test_groups_rows_seeds() -> None:
    runs = expand(study(), Request(seeds=2))
    assert [(run.group.parts, run.row.name, run.seed) for run in runs] == [
        (parts, name, seed) for parts in (2, 4) for name in ("plain", "half") for seed in (0, 1)]
    assert {(run.config.model.num_parts, run.config.training.seed) for run in runs} == {(2, 0), (2, 1), (4, 0), (4, 1)}


def test_the_row_wins_over_the_command_line_and_that_over_the_study() -> None:
    runs = expand(study(), Request(settings={"training.epochs": 9, "loss.border": 0.5}, max_minutes=3, parts=(8,)))
    assert [run.config.model.mask_ratio for run in runs] == [0.9, 0.5]
    assert all(run.config.training.epochs == 9 and run.config.training.max_minutes == 3 for run in runs)
    assert all(run.config.loss.border == 0.5 and run.config.model.num_parts == 8 for run in runs)


def test_a_run_is_known_by_its_settings_wherever_it_lies() -> None:
    request = Request(roots={"synthetic": "here"})
    before = [run.name for run in expand(study(), request)]
    elsewhere = request.model_copy(update={"roots": {"synthetic": "there"}, "settings": {
        "data.workers": 3, "cache.folder": "x", "training.accelerator": "cpu", "training.preview_minutes": 9}})
    assert [run.name for run in expand(study(title="renamed"), elsewhere)] == before
    in_rows = study(settings={}, rows=[{"name": name, "settings": {"training.epochs": 7} | more}
                                       for name, more in (("a", {}), ("b", {"model.mask_ratio": 0.5}))])
    assert [run.name for run in expand(in_rows, request)] == before  # a setting of the study is one of each row
    other = request.model_copy(update={"settings": {"loss.border": 0.25}})
    assert not set(before) & {run.name for run in expand(study(), other)}
    assert not set(before) & {run.name for run in expand(study(), request.model_copy(update={"preset": "paper"}))}


def test_rows_with_the_same_settings_share_a_run() -> None:
    _, table10 = find_study("table10")
    runs = expand(table10, Request(seeds=2))
    assert len(runs) == 2 * 15
    assert len(distinct(runs)) == 2 * 13  # the three reference rows are one run
    reference = {run.name for run in runs if run.row.reference and run.seed == 0}
    _, table5 = find_study("table5")
    assert reference == {run.name for run in expand(table5, Request()) if run.row.reference}  # other studies' too


def test_a_batch_grows_to_a_whole_group() -> None:
    _, table13 = find_study("table13")
    runs = {run.row.name: run.config.training for run in expand(table13, Request(dataset="cub"))}
    assert {name: (each.group_size, each.batch_size) for name, each in runs.items()} == {
        "G = 4": (4, 16), "G = 8": (8, 16), "G = 16": (16, 16), "G = 32": (32, 32)}


def test_rows_of_the_largest_k_alone() -> None:
    _, figures = find_study("figures")
    runs = expand(figures, Request(dataset="cub"))
    assert [run.group.parts for run in runs if run.row.name == "full model"] == [4, 8, 16]
    assert {run.group.parts for run in runs if run.row.name != "full model"} == {16}


def test_methods_that_are_not_here_have_no_run() -> None:
    _, table2 = find_study("table2")
    assert "mpae" in {run.row.method for run in expand(table2, Request())}
    stranger = study(rows=[{"name": "a"}, {"name": "b", "method": "somebody's"}])
    assert {run.row.name for run in expand(stranger, Request())} == {"a"}


@pytest.mark.parametrize(("request_", "said"), [
    (Request(settings={"model.mask_ratio": 0.3}), "This study varies model.mask_ratio; leave it out of --set."),
    (Request(settings={"training.seed": 3}), "use --seeds instead"),
    (Request(settings={"model.mask_ration": 0}), "Row 'plain' on synthetic, K = 2: Unknown option 'model.mask_ration'"),
    (Request(dataset="sinthetic"), "did you mean 'synthetic'?"),
    (Request(preset="poster"), "Unknown preset 'poster'"),
])
def test_wrong_requests_get_one_sentence(request_: Request, said: str) -> None:
    with pytest.raises(MPAEError) as error:
        expand(study(), request_)
    assert said in str(error.value)


def test_an_array_shares_the_runs_out() -> None:
    runs = expand(study(), Request(seeds=2))
    shares = [share(runs, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(run.name for each in shares for run in each) == sorted(run.name for run in runs)
    assert [len(each) for each in shares] == [3, 3, 2]
    for wrong in ("0/3", "4/3", "1", "a/b", "1/0"):
        with pytest.raises(MPAEError, match="expected I/N"):
            share(runs, wrong)
