"""`mpae name`: names, joins, colours and hidden parts of a run, from the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from mpae.cli.console import messages, results
from mpae.cli.flags import Quiet, RunFolder
from mpae.errors import MPAEError


def name(
    run: RunFolder,
    changes: Annotated[list[str] | None, typer.Argument(
        metavar="[CHANGES]...", help="3=head names part 3, 5=head joins part 5 with it, 7- hides part 7, 7+ shows it "
        "again, 3=#3cb44b colours it, 3= takes its name away; none: list the parts")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="take the last change back")] = False,
    quiet: Quiet = False,
) -> None:
    """Name, join, hide or colour the parts of a run; `predict`, `report` and the others use the names."""
    from rich.table import Table

    from mpae.hub import run_folder
    from mpae.prediction.part_names import PartNames, parse_changes
    from mpae.run import Run

    messages(quiet)
    opened = Run.open(run_folder(run))
    names = PartNames.load(opened.folder, opened.config().model.num_parts)
    if undo and changes:
        raise MPAEError("--undo takes no changes; give one or the other.")
    changed = names.undo() if undo else parse_changes(names, changes or [])
    if undo or changes:
        changed = changed.save(opened.folder, expected=names.revision)
    table = Table(header_style="bold")
    for title in ("parts", "name", "colour", ""):
        table.add_column(title)
    for part in changed.parts():
        table.add_row(" ".join(map(str, part.members)), part.name, f"[{part.hex_colour}]██[/] {part.hex_colour}",
                      "hidden" if part.hidden else "")
    results(quiet).print(table)
