"""`mpae runs`: the trained runs that come with mpae, and those in the folder `runs` here; the card of one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from mpae.cli.console import results
from mpae.errors import MPAEError

HERE = Path("runs")  # where `mpae fit` puts runs


def runs(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="a run that comes with mpae, to read "
                                                                     "its card")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", "-o", help="copy it to this folder, to name its "
                                                    "parts or to look into it")] = None,
) -> None:
    """List the trained runs that come with mpae, and those in the folder `runs` here."""
    from mpae.assets.trained import trained_runs, unknown_name
    from mpae.cli.settings import new_table
    from mpae.run import Run

    trained, out = trained_runs(), results()
    if name is not None:
        if name not in trained:
            raise MPAEError(f"'{name}' has no card here, {unknown_name(name)}.")
        if out_folder is None:
            print(card(trained[name]))
        else:
            copy(trained[name], out_folder)
            out.print(f"'{out_folder}' is a copy of '{name}'.", highlight=False, soft_wrap=True)
        return
    if out_folder is not None:
        raise MPAEError("Give the run to copy too: mpae runs NAME --out DIR.")
    table = new_table("run", "parts", "size", "what it is")
    found = trained | {str(file.parent): file.parent for file in sorted(HERE.glob("*/config.yaml"))}
    for label, folder in found.items():
        try:
            content, config = Run(folder).content(), Run(folder).config()
        except MPAEError as error:
            table.add_row(label, "", "", str(error))
            continue
        about = content.get("about") or f"trained here on {content.get('images', 'some')} images"
        table.add_row(label, str(config.model.num_parts), f"{config.data.image_size} px", str(about))
    if not trained:
        out.print("The runs that come with mpae are missing here; install it again.", highlight=False)
    out.print(table)


def card(folder: Path) -> str:
    file = folder / "README.md"
    try:
        return f"{file.read_text(encoding='utf-8')}\n{file}"
    except OSError:
        raise MPAEError(f"The card '{file}' is missing; install mpae again.") from None


def copy(folder: Path, out: Path) -> None:
    if os.path.lexists(out):
        raise MPAEError(f"'{out}' exists already; choose another folder.")
    try:
        shutil.copytree(folder, out)
    except OSError as error:
        raise MPAEError(f"Cannot write '{out}': {error.strerror or error}.") from None
