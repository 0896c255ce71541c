"""`mpae fit` killed at many moments goes on with --resume and ends with the weights of a run that was never killed."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest
from forked import Child, Forked
from pictures import draw_photo
from run_files import files_in, records_of, same_weights

KILLED = -signal.SIGKILL
CACHE, CHECKPOINT, PREVIEW = "*/cache/*/*.part", "*/.last.ckpt.*.part", "*/previews/.*.part"
WEIGHTS, CONFIG, METRICS = "*/.model.safetensors.*.part", "*/.config.yaml.*.part", "*/metrics.jsonl"
MOMENTS = [  # in the order of a run: each kill is followed by the next attempt, until one ends by itself
    ("open", CONFIG, 1), ("torn", CONFIG, 1), ("open", PREVIEW, 1), ("torn", PREVIEW, 2),
    ("open", CACHE, 1), ("torn", CACHE, 4), ("rename", CACHE, 2), ("open", "*/tensorboard/events*", 1),
    ("open", METRICS, 2), ("open", CHECKPOINT, 1), ("torn", CHECKPOINT, 2), ("rename", CHECKPOINT, 1),
    ("open", PREVIEW, 1), ("torn", PREVIEW, 1), ("rename", PREVIEW, 1), ("torn", "*/.metrics.jsonl.*.part", 1),
    ("open", WEIGHTS, 1), ("torn", WEIGHTS, 1), ("rename", WEIGHTS, 1),
]


class Attempts:
    """One run, started again and again, with a cache of its own that is built under the kills."""

    def __init__(self, forked: Forked, folder: Path, photos: Path, flags: list[str]):
        self.forked, self.run, self.cache = forked, folder / "run", folder / "cache"
        self.fresh = ["fit", photos, "--set", "training.preview_minutes=1e-9", *flags,
                      "--set", f"cache.folder={self.cache}"]

    def start(self, *prepare: object) -> Child:
        words = ["fit", "--resume"] if (self.run / "config.yaml").exists() else self.fresh
        return self.forked.start(*words, "--out", self.run, prepare=prepare)

    def check(self, unbroken: Path) -> None:
        assert same_weights(self.run, unbroken)
        assert [record["step"] for record in records_of(self.run)] == list(range(1, 10))
        assert not [name for name in files_in(self.run) if name.endswith(".part")]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills") / "photos"
    folder.mkdir()
    for index in range(12):
        draw_photo(index).save(folder / f"{index}.jpg")
    return folder


@pytest.fixture(scope="module")
def unbroken(forked: Forked, photos: Path, tiny: list[str]) -> tuple[Path, float]:
    """A run that nobody kills, and the seconds of CPU that it takes."""
    attempts = Attempts(forked, photos.parent / "unbroken", photos, tiny)
    ended = attempts.start().wait()
    assert ended.returncode == 0, ended.output
    attempts.check(attempts.run)
    return attempts.run, ended.cpu


def test_killed_in_every_kind_of_write(
        forked: Forked, photos: Path, tiny: list[str], unbroken: tuple[Path, float], tmp_path: Path) -> None:
    attempts = Attempts(forked, tmp_path, photos, tiny)
    for moment in MOMENTS:
        ended = attempts.start("traps", "kill", *moment).wait()
        assert ended.returncode == KILLED, (moment, ended.output)
        assert "Traceback" not in ended.output
    ended = attempts.start().wait()
    assert ended.returncode == 0, ended.output
    attempts.check(unbroken[0])


def test_a_killed_run_keeps_its_initial_parts(forked: Forked, photos: Path, tiny: list[str], tmp_path: Path) -> None:
    """Initial parts are found once; a run that goes on takes them from its checkpoint."""
    flags = [*tiny, "--image-size", "256"]  # of 64 px there are too few patches for initial parts
    whole, broken = (Attempts(forked, tmp_path / name, photos, flags) for name in ("whole", "broken"))
    assert whole.start("traps", "agreeing").wait().returncode == 0
    assert all("initial_parts" in record for record in records_of(whole.run))
    assert broken.start("traps", "agreeing", "kill", "torn", CHECKPOINT, 3).wait().returncode == KILLED
    ended = broken.start("traps", "agreeing").wait()
    assert ended.returncode == 0, ended.output
    assert "Looking for parts" not in ended.output
    broken.check(whole.run)


def test_killed_at_random_moments(
        forked: Forked, photos: Path, tiny: list[str], unbroken: tuple[Path, float], tmp_path: Path) -> None:
    """Where the drawn moments fall depends on the machine, so runs are made until there were enough kills."""
    delays, kills, runs = random.Random(0), 0, 0
    while kills < 12:
        attempts, runs = Attempts(forked, tmp_path / str(runs), photos, tiny), runs + 1
        while True:
            ended = attempts.start("traps", "kill_after", delays.uniform(0.1, 0.45) * unbroken[1]).wait()
            kills += ended.returncode == KILLED
            assert ended.returncode in (0, KILLED), ended.output
            if ended.returncode == 0:
                break
        attempts.check(unbroken[0])


def test_drawing_previews_changes_no_weight(
        forked: Forked, photos: Path, tiny: list[str], unbroken: tuple[Path, float], tmp_path: Path) -> None:
    """The unbroken run draws one after each step; one that draws at the start and at the end alone learns the same."""
    seldom = Attempts(forked, tmp_path, photos, [*tiny, "--set", "training.preview_minutes=60"])
    ended = seldom.start().wait()
    assert ended.returncode == 0, ended.output
    seldom.check(unbroken[0])
    assert sorted(path.name for path in (seldom.run / "previews").iterdir()) == ["step-000000.png", "step-000009.png"]
    assert len(list((unbroken[0] / "previews").iterdir())) == 10


def test_the_last_batch_of_an_epoch_may_be_smaller(
        forked: Forked, photos: Path, tiny: list[str], tmp_path: Path) -> None:
    """Twelve images in batches of eight and groups of eight: the second batch is half a group, and is learned from."""
    flags = [*tiny, "--batch-size", "8", "--group-size", "8", "--set", "training.partial_batch=true",
             "--set", "cache.reuse=1"]
    ended = forked.run("fit", photos, "--out", tmp_path / "run", *flags)
    assert ended.returncode == 0, ended.output
    records = records_of(tmp_path / "run")
    assert [record["epoch"] for record in records] == [step / 2 for step in range(1, 10)]
    whole = forked.run("fit", photos, "--out", tmp_path / "whole", *flags, "--set", "training.partial_batch=false")
    assert whole.returncode == 0, whole.output
    assert [record["epoch"] for record in records_of(tmp_path / "whole")] == list(range(1, 10))
    same, other = (records_of(tmp_path / "whole")[step] for step in (0, 1))
    assert records[0]["total"] == same["total"]
    assert records[1]["total"] != other["total"]
