"""Several processes as torchrun starts them: each image once, figures of one process, and all stop together."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from forked import Ended, Forked
from miniatures import write_cub
from pictures import draw_photo
from run_files import files_in, records_of
from tiny_run import make_tiny_run

from mpae.run import Run
from mpae.training.batches import places


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_tiny_run(tmp_path_factory.mktemp("runs") / "tiny")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torchrun") / "photos"
    folder.mkdir()
    for index in range(12):
        draw_photo(index).save(folder / f"{index:02d}.jpg")
    return folder


def two_processes(forked: Forked, *words: object, prepare: tuple[object, ...] = ()) -> list[Ended]:
    """What `torchrun --nproc-per-node 2 -m mpae.cli WORDS` does, without importing everything twice."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test"}
    started = [forked.start(*words, environment=shared | {"RANK": rank, "LOCAL_RANK": rank}, prepare=prepare)
               for rank in ("0", "1")]
    return [child.wait(timeout=120) for child in started]


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files_in(folder)}


def test_torchrun_predicts_every_image_once(
        run: Run, photos: Path, forked: Forked, environment: dict[str, str], tmp_path: Path) -> None:
    (photos / "torn.jpg").write_bytes(b"\xff\xd8nothing")
    words = ["predict", str(run), str(photos), "--workers", "0", "--batch-size", "4", "--out"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "mpae.cli",
         *words, str(tmp_path / "two")], capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("12 images in") == 1  # said once, by the first process
    (photos / "torn.jpg").unlink()
    names = [json.loads(line)["name"] for line in (tmp_path / "two" / "parts.jsonl").read_text().splitlines()]
    assert names == [f"{index:02d}.jpg" for index in range(12)]
    assert (tmp_path / "two" / "skipped.txt").read_text().startswith("torn.jpg\t")


def test_two_processes_predict_what_one_predicts(run: Run, photos: Path, forked: Forked, tmp_path: Path) -> None:
    words = ["predict", run, photos, "--workers", "0", "--batch-size", "1", "--out"]
    for ended in (forked.run(*words, tmp_path / "one"), *two_processes(forked, *words, tmp_path / "two")):
        assert ended.returncode == 0, ended.output
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_two_processes_measure_exactly_what_one_measures(run: Run, forked: Forked, tmp_path: Path) -> None:
    cub = write_cub(tmp_path / "cub", images=18)
    (cub.root / "images" / cub.names("test")[1]).write_bytes(b"")
    words = ["evaluate", run, "--dataset", "cub", "--root", cub.root, "--workers", "0", "--batch-size", "1", "--json"]
    for ended in (forked.run(*words, tmp_path / "one.json"), *two_processes(forked, *words, tmp_path / "two.json")):
        assert ended.returncode == 0, ended.output
    one, two = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "two"))
    for figures in (one, two):
        del figures["seconds"], figures["model_seconds"]
    assert one == two
    assert one["images"] == len(cub.names("test")) - 1


def test_a_loss_that_is_nan_in_one_process_stops_both(
        photos: Path, forked: Forked, tiny: list[str], tmp_path: Path) -> None:
    words = ["fit", photos, "--out", tmp_path / "run", *tiny, "--batch-size", "4", "--devices", "2"]
    first, second = two_processes(forked, *words, prepare=("traps", "poison", "entropy", 3, 1))
    for ended in (first, second):
        assert ended.returncode == 2, ended.output
        assert "mpae: Loss 'entropy' became nan at step 3" in ended.output
        assert "Traceback" not in ended.output
    assert Run(tmp_path / "run").load_checkpoint()["step"] == 2


def test_figures_and_skipped_images_are_those_of_both_processes(
        photos: Path, forked: Forked, tiny: list[str], tmp_path: Path) -> None:
    figures = ("total", "restoration", "foreground", "entropy", "foreground_share", "parts_used", "largest_share")
    flags = [*tiny, "--batch-size", "4", "--set", "cache.reuse=1", "--set", "training.held=0"]
    one = forked.run("fit", photos, "--out", tmp_path / "one", *flags)
    gone = {f"{index:02d}.jpg" for index in read_by_the_second()}
    assert gone
    copy = shutil.copytree(photos, tmp_path / "photos")
    trap = ("traps", "lose", "open", "*/metrics.jsonl", 3, [str(copy / name) for name in gone])
    two = two_processes(forked, "fit", copy, "--out", tmp_path / "two", *flags, "--devices", "2", prepare=trap)
    for ended in (one, *two):
        assert ended.returncode == 0, ended.output
    alone, shared = records_of(tmp_path / "one"), records_of(tmp_path / "two")
    assert len(shared) == 9
    for one_process, both in zip(alone[:3], shared[:3], strict=True):
        assert [both[name] for name in figures] == pytest.approx([one_process[name] for name in figures], abs=1e-4)
    lines = (tmp_path / "two" / "skipped.txt").read_text().splitlines()
    assert {line.split("\t")[0] for line in lines} == gone


def read_by_the_second() -> set[int]:
    """Images that after the first epoch of three steps fall to the second of two processes alone."""
    stream = {"images": 12, "batch_size": 4, "views": 4, "seed": 0}
    chosen = [[index for index, _ in places(step, **stream)] for step in range(3, 9)]
    return {index for batch in chosen for index in batch[2:]} - {index for batch in chosen for index in batch[:2]}
