"""`mpae push`: a run folder to the Hugging Face Hub."""

from __future__ import annotations

from typing import Annotated

import typer

from mpae.cli.console import messages, results
from mpae.cli.flags import Quiet, RunFolder
from mpae.cli.progress import busy


def push(
    run: RunFolder,
    repo_id: Annotated[str, typer.Argument(metavar="USER/NAME", help="where on the Hugging Face Hub")],
    private: Annotated[bool, typer.Option("--private", help="only you can see it")] = False,
    licence: Annotated[str | None, typer.Option(help="of the trained weights, such as apache-2.0")] = None,
    preview: Annotated[bool, typer.Option("--preview/--no-preview", help="upload the last preview, which shows "
                                          "training images")] = True,
    quiet: Quiet = False,
) -> None:
    """Upload a run folder with a model card to the Hugging Face Hub."""
    from mpae import hub

    with busy(messages(quiet), "upload"):
        page = hub.push(hub.run_folder(run), repo_id, private=private, licence=licence, preview=preview)
    out = results(quiet)
    out.print(f"The run is at {page}", highlight=False, soft_wrap=True)
    out.print(f'Use it:  mpae.load("{repo_id}")  or  mpae predict hf://{repo_id} IMAGES --out DIR',
              highlight=False, soft_wrap=True)
