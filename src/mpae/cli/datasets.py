"""`mpae datasets`: what can be trained on and evaluated against."""

from __future__ import annotations

from mpae.cli.console import results


def datasets() -> None:
    """List the datasets: the folder tree each expects, where to get it, its licence and splits."""
    from mpae.data.catalogue import describe_datasets

    out = results()
    for entry in describe_datasets():
        out.print(f"[bold]{entry.name}[/]  {entry.description}", highlight=False)
        facts = {"annotated": entry.annotation, "from": entry.origin, "licence": entry.licence,
                 "images": ", ".join(f"{split} {size}" for split, size in entry.sizes.items())}
        for label, text in facts.items():
            out.print(f"  {label:<10}{text}", highlight=False, markup=False, soft_wrap=True)
        for path, what in entry.tree.items():
            out.print(f"  {'':<10}{path:<42} {what}", highlight=False, markup=False, soft_wrap=True)
        out.print()
