"""`mpae settings`, `mpae datasets`, `mpae backbones`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from mpae.cli_settings import default_text
from mpae.config import all_settings


def print_settings(console: Console) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("setting", "default", "what it is"):
        table.add_column(column, overflow="fold", no_wrap=column == "setting")
    for name, field in all_settings():
        table.add_row(name, str(default_text(name, field.default) or ""), field.description or "")
    console.print(table)
