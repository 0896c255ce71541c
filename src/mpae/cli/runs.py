"""`mpae runs`: the trained runs that come with mpae, and those in the folder `runs` here."""

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
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="a run that comes with mpae, for --out")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", "-o", help="copy it to this folder, to name its "
                                                    "parts or to look into it")] = None,
) -> None:
    """List the trained runs that come with mpae, and those in the folder `runs` here."""
    from mpae.assets.trained import trained_runs, unknown_name
    from mpae.cli.settings import new_table
    from mpae.run import Run

    trained, out = trained_runs(), results()
    if name is not None or out_folder is not None:
        if name is None or out_folder is None:
            raise MPAEError("Give both a run and a folder to copy it to: mpae runs NAME --out DIR.")
        if name not in trained:
            raise MPAEError(f"'{name}' is not copied, {unknown_name(name)}.")
        copy(trained[name], out_folder)
        out.print(f"'{out_folder}' is a copy of '{name}'.", highlight=False, soft_wrap=True)
        return
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


def copy(folder: Path, out: Path) -> None:
    if os.path.lexists(out):
        raise MPAEError(f"'{out}' exists already; choose another folder.")
    try:
        shutil.copytree(folder, out)
    except OSError as error:
        raise MPAEError(f"Cannot write '{out}': {error.strerror or error}.") from None
