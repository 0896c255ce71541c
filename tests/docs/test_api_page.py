"""docs/api.md is what the docstrings say."""

from __future__ import annotations

from make_api_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python scripts/make_api_page.py`"
