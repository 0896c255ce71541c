"""The code blocks of README and documentation run as they are written, on a tiny model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from miniatures import write_cub
from pictures import draw_photo
from tiny_run import make_tiny_run, tiny_settings

from mpae import config
from mpae.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/tutorial.md", "docs/predictions.md")
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a test does not do: install, draw hundreds of images, reach the hub, show a page for ever, benchmark.
ELSEWHERE = ("make", "pip", "torchrun", "srun", ".", "git")
OTHER_VERBS = ("demo", "push", "bench", "serve", "import")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the blocks run, one after the other: photos, a miniature of CUB, presets of a tiny model."""
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "photos").mkdir()
    for index in range(12):
        draw_photo(index).save(folder / "photos" / f"{index:03d}.jpg")
    for name in ("heron", "a", "b"):
        draw_photo(20).save(folder / "photos" / f"{name}.jpg")
        draw_photo(21).save(folder / f"{name}.jpg")
    write_cub(folder / "CUB_200_2011", images=24)
    (folder / "experiments").symlink_to(ROOT / "experiments")
    tiny = {**tiny_settings(folder), "training.max_steps": 2, "cache.folder": str(folder / "cache")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(config.PRESETS, "laptop", config.PRESETS["laptop"] | tiny)
        patch.setattr(config, "default_preset", lambda: "laptop")
        patch.setattr("mpae.library.default_preset", lambda: "laptop")
        yield folder


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of each block of a page."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def commands(block: str) -> list[list[str]]:
    """The words of each line of a shell block; a line that ends in a backslash goes on."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    ran = 0
    for language, block in blocks(page):
        if language == "python":
            exec(compile(shorter(block), page, "exec"), {})
            ran += 1
            continue
        for words in commands(block):
            assert words[0] in (*ELSEWHERE, "mpae"), f"{page} has the command {words[0]}, which no test knows"
            if words[:2] == ["mpae", "import"]:  # tests/released has checkpoints to import; here a run stands for it
                make_tiny_run(Path(words[words.index("--out") + 1]))
            if words[0] == "mpae" and words[1] not in OTHER_VERBS:
                app(tiny_words(words[1:]), standalone_mode=False)
                ran += 1
    assert ran


def shorter(block: str) -> str:
    """Drawing two hundred images takes a while; twelve show as much."""
    return block.replace("SyntheticImages(200)", "SyntheticImages(12)")


def tiny_words(words: list[str]) -> list[str]:
    """The same command, into the same places, with a model and images that a test has time for."""
    smaller = {"--image-size": "112", "--parts": "3"}
    kept = [smaller.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    steps = ["--set", "training.max_steps=2"] if words[0] == "fit" else []
    return [*kept, *steps, *(["--overwrite"] if words[0] in ("fit", "predict", "export") else [])]


def test_pages_name_no_file_that_is_not_there() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    missing = [f"{page.relative_to(ROOT)}: {target}" for page in pages
               for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
               if "://" not in target and not (page.parent / target).exists()]
    assert not missing


def test_the_index_links_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "index.md" and f"({page})" not in index] == []
