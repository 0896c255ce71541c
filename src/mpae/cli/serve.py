"""`mpae serve`: a local web page to look at parts, name them, search by them and find what looks wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpae.cli.console import messages, results
from mpae.cli.flags import Quiet, RunFolder


def serve(
    run: RunFolder,
    images: Annotated[Path | None, typer.Argument(metavar="[IMAGES]", help="a folder of images, a .txt list of them, "
                                                  "or a folder that `mpae predict` wrote")] = None,
    host: Annotated[str, typer.Option(help="address to listen at; another one than this machine's own gets a token "
                                      "into the page's address")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="else the first free one from 8765")] = None,
    open_page: Annotated[bool, typer.Option("--open", help="open the page in the browser")] = False,
    quiet: Quiet = False,
) -> None:
    """A local web page: look at parts, name, join and search them, find what looks wrong."""
    from mpae.hub import run_folder
    from mpae.serve import server

    messages(quiet)
    folder = run_folder(run)

    def announce(address: str) -> None:
        print(address, flush=True)
        results(quiet).print("Ctrl-C ends it.", highlight=False)
        if open_page:
            import webbrowser

            webbrowser.open(address)

    server.serve(folder, images, host=host, port=port, announce=announce)
