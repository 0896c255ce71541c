"""The real command, on a backbone of a few thousand weights."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from forked import Forked


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights of timm's `test_vit` (patch 16, width 64) in a local file."""
    import timm
    from safetensors.torch import save_file

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(timm.create_model("test_vit", num_classes=0).state_dict(), path)
    return path


@pytest.fixture(scope="session")
def small(tiny_backbone: Path) -> list[str]:
    """Flags that make a run take seconds."""
    return ["--preset", "laptop", "--backbone", str(tiny_backbone), "--set", "backbone.architecture=test_vit",
            "--image-size", "64", "--batch-size", "4", "--group-size", "2", "--workers", "0", "--parts", "3",
            "--set", "model.dim=32", "--set", "model.partformer_layers=2", "--set", "model.partformer_heads=2",
            "--set", "model.pixels_per_patch=4", "--set", "loss.perceptual=[0.5,0.5,0.5,0,0]"]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    cache = str(tmp_path_factory.mktemp("cache"))
    return os.environ | {"XDG_CACHE_HOME": cache, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


@pytest.fixture(scope="session")
def mpae(forked: Forked) -> Callable[..., subprocess.CompletedProcess]:
    """Runs `mpae WORDS` to its end in a process of its own that need not import everything again."""
    def run(*words: object) -> subprocess.CompletedProcess:
        ended = forked.start(*words, apart=True).wait()
        return subprocess.CompletedProcess(words, ended.returncode, ended.output, ended.errors)

    return run


@pytest.fixture(scope="session")
def fresh_mpae(environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess]:
    """The same in a new interpreter, which takes seconds: for what depends on how it was started."""
    def run(*words: object) -> subprocess.CompletedProcess:
        return subprocess.run(command(words), capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL,
                              env=environment)

    return run


@pytest.fixture(scope="session")
def start_mpae(environment: dict[str, str]) -> Callable[..., subprocess.Popen]:
    """Starts `mpae WORDS` in a new interpreter, and does not wait for it."""
    def start(*words: object) -> subprocess.Popen:
        return subprocess.Popen(command(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                stdin=subprocess.DEVNULL, env=environment)

    return start


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[Forked]:
    """Starts and traps processes that need not import everything again."""
    if not hasattr(os, "fork"):
        pytest.skip("processes cannot be forked here")
    runner = Forked(tmp_path_factory.mktemp("forked"), environment)
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def tiny(small: list[str]) -> list[str]:
    """Flags of a run whose steps take a twentieth of a second: six make an epoch of twelve images."""
    settings = ("model.partformer_layers=1", "model.encoder_layers=1", "model.decoder_layers=1",
                "loss.perceptual=[0,0,0,0,0]", "training.max_steps=9", "training.checkpoint_minutes=1e-9")
    return [*small, "--batch-size", "2", *(word for setting in settings for word in ("--set", setting))]


def command(words: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-m", "mpae.cli", *map(str, words)]
