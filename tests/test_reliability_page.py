"""docs/reliability.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "reliability.md"
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))


def test_every_test_that_the_page_names_exists() -> None:
    missing = [f"{file}::{name}" for file, name in NAMED
               if f"\ndef {name}(" not in (TESTS / file).read_text(encoding="utf-8")]
    assert missing == []


def test_every_promise_names_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith("| Promise")]
    assert len(promises) > 40
    assert [row for row in promises if "::test_" not in row] == []
