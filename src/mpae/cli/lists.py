"""`mpae settings`, `mpae datasets`, `mpae backbones`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from mpae.cli.settings_flags import default_text
from mpae.config import all_settings


def print_settings(console: Console) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("setting", "default", "what it is"):
        table.add_column(column, overflow="fold", no_wrap=column == "setting")
    for name, field in all_settings():
        table.add_row(name, str(default_text(name, field.default) or ""), field.description or "")
    console.print(table)


def print_datasets(console: Console) -> None:
    from mpae.data.catalogue import describe_datasets

    for entry in describe_datasets():
        console.print(f"[bold]{entry.name}[/]  {entry.description}", highlight=False)
        facts = {"annotated": entry.annotation, "from": entry.origin, "licence": entry.licence,
                 "images": ", ".join(f"{split} {size}" for split, size in entry.sizes.items())}
        for label, text in facts.items():
            console.print(f"  {label:<10}{text}", highlight=False, markup=False, soft_wrap=True)
        for path, what in entry.tree.items():
            console.print(f"  {'':<10}{path:<42} {what}", highlight=False, markup=False, soft_wrap=True)
        console.print()


def print_backbones(console: Console) -> None:
    from mpae.backbones import NAMED

    console.print("bundled              DINOv2 ViT-S/14, comes with mpae, no download", highlight=False)
    for name, timm_name in NAMED.items():
        console.print(f"{name:<20} {timm_name}", highlight=False)
    console.print("any timm ViT by its name, or a weights file: --backbone FILE", highlight=False)
