"""The command `mpae`: its verbs, and what happens where one fails."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any

import typer

from mpae import __version__
from mpae.errors import MPAEError

# The verbs in the order of `mpae --help`, each with the panel that lists it. A verb is the function of its name
# in cli/NAME.py, which declares its flags (with a _ behind it where Python uses the word itself: import_).
VERBS = {
    "demo": "Verbs",
    "fit": "Verbs",
    "predict": "Verbs",
    "evaluate": "Verbs",
    "report": "Verbs",
    "export": "Verbs",
    "import": "Verbs",
    "study": "Verbs",
    "show": "Verbs",
    "serve": "Verbs",
    "name": "Verbs",
    "search": "Verbs",
    "outliers": "Verbs",
    "push": "Verbs",
    "bench": "Verbs",
    "runs": "Lists",
    "datasets": "Lists",
    "settings": "Lists",
    "backbones": "Lists",
}

app = typer.Typer(
    name="mpae", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Finds the parts of things in pictures that nobody has labelled.",
    context_settings={"help_option_names": ["-h", "--help"]})

for name, panel in VERBS.items():
    word = f"{name}_" if iskeyword(name) else name
    app.command(name, rich_help_panel=panel)(getattr(import_module(f"mpae.cli.{word}"), word))


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"mpae {__version__}")
        raise typer.Exit


@app.callback()
def root(version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True,
                                               help="print the version")] = False) -> None:
    pass


UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> None:
    """A user's mistake: one sentence, exit code 2. Ctrl-C: 130. A bug keeps its traceback."""
    warnings.filterwarnings("ignore", module="PIL")  # of odd files; those that cannot be read are listed
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except MPAEError as error:
        message = str(error)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.exit(2)
        message = error.format_message()
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    print(f"mpae: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
