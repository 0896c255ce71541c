"""`mpae settings`: every setting of --set and --config."""

from __future__ import annotations

from rich.table import Table

from mpae.cli.console import results
from mpae.cli.settings_flags import default_text
from mpae.config import all_settings


def settings() -> None:
    """List every setting with its default, for --set and --config."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("setting", "default", "what it is"):
        table.add_column(column, overflow="fold", no_wrap=column == "setting")
    for name, field in all_settings():
        table.add_row(name, str(default_text(name, field.default) or ""), field.description or "")
    results().print(table)
