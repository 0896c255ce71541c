"""`mpae backbones`: frozen feature extractors that have a name."""

from __future__ import annotations

from mpae.cli.console import results


def backbones() -> None:
    """List the backbones that have a name."""
    from mpae.backbones import NAMED

    out = results()
    out.print("bundled              DINOv2 ViT-S/14, comes with mpae, no download", highlight=False)
    for name, timm_name in NAMED.items():
        out.print(f"{name:<20} {timm_name}", highlight=False)
    out.print("any timm ViT by its name, or a weights file: --backbone FILE", highlight=False)
