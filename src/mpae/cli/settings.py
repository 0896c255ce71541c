"""`mpae settings`: every setting of --set and --config, its default, or the value that `mpae fit` would use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from mpae.cli.console import results
from mpae.cli.flags import Assignments, ConfigFile, Preset
from mpae.cli.settings_flags import default_text
from mpae.config import Config, all_settings, origins, parse_assignment, resolve


def settings(
    preset: Preset = None,
    dataset: Annotated[str | None, typer.Option(help="which dataset; `mpae datasets` lists them")] = None,
    config_file: ConfigFile = None,
    assignments: Assignments = None,
) -> None:
    """List every setting with its default; with flags, the value that `mpae fit` would use and where it is from."""
    chosen = dict(parse_assignment(text) for text in assignments or []) | ({"data.dataset": dataset} if dataset else {})
    if preset or config_file or chosen:
        config, origin = resolve(preset, config_file, chosen), origins(preset, config_file, chosen)
        results().print(values_table(config, origin, [name for name, _ in all_settings()]))
        return
    table = new_table("setting", "default", "what it is")
    for name, field in all_settings():
        table.add_row(name, str(default_text(name, field.default) or ""), field.description or "")
    results().print(table)


def values_table(config: Config, origin: dict[str, str], names: list[str]) -> Table:
    """The values of these settings, where each is from, and what it is."""
    table, described = new_table("setting", "value", "from", "what it is"), dict(all_settings())
    for name in names:
        section, _, key = name.partition(".")
        value = getattr(getattr(config, section), key)
        table.add_row(name, "" if value is None else str(value), Path(origin[name]).name,
                      described[name].description or "")
    return table


def new_table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("setting", "from"),
                         min_width=20 if column == "value" else None, max_width=32 if column == "value" else None)
    return table
