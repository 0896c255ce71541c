"""What all verbs have in common: one file each, light to list, one sentence for a mistake."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mpae import cli
from mpae.cli.app import VERBS

Command = Callable[..., subprocess.CompletedProcess]
HELPERS = {"__init__", "__main__", "app", "console", "flags", "progress", "settings_flags"}


def test_a_verb_is_one_file_and_one_line_of_the_registry() -> None:
    files = {path.stem for path in Path(cli.__file__).parent.glob("*.py")}
    assert files - HELPERS == {name if (name in files) else f"{name}_" for name in VERBS}


def test_help_imports_nothing_heavy() -> None:
    code = ("import sys; from mpae.cli import app; "
            "print(sorted({'torch', 'PIL', 'sklearn', 'timm', 'lightning'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_lists_every_verb_and_each_explains_itself(mpae: Command) -> None:
    listed = mpae("--help")
    assert listed.returncode == 0
    for name in VERBS:
        assert f" {name} " in listed.stdout
    for words in (("fit", "--batch-size", "laptop: 16"), ("predict", "--write", "masks,overlays,parts,coco,")):
        helped = mpae(words[0], "--help")
        assert helped.returncode == 0
        for word in words[1:]:
            assert word in helped.stdout


@pytest.mark.parametrize(("words", "expected"), [
    (("fitt",), "No such command 'fitt'"), (("fit", "--nothing"), "No such option"),
    (("evaluate",), "Missing option '--dataset'")])
def test_a_mistake_on_the_command_line_is_one_sentence(mpae: Command, words: tuple[str, ...], expected: str) -> None:
    done = mpae(*words)
    assert done.returncode == 2
    assert expected in done.stderr
    assert done.stderr.startswith("mpae: ")
    assert done.stderr.count("\n") == 1
