"""The command `mpae`: its verbs, and what happens where one fails."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from keyword import iskeyword
from pkgutil import get_data
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mpae import __version__
from mpae.errors import MPAEError
from mpae.extras import check_versions

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
    "doctor": "Lists",
}


class Verbs(TyperGroup):
    """Imports a verb when it is run; lists it by the first line of its docstring, which is read from its source."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return as_command(cmd_name, lambda: None, docstring(cmd_name)) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        module = module_of(str(name))
        return name, as_command(str(name), getattr(import_module(f"mpae.cli.{module}"), module)), rest


def as_command(name: str, function: Callable[..., Any], help: str | None = None) -> Any:
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, rich_help_panel=VERBS[name], help=help)(function)
    return typer.main.get_command(alone)


def module_of(verb: str) -> str:
    return f"{verb}_" if iskeyword(verb) else verb


def docstring(verb: str) -> str:
    module = module_of(verb)
    tree = ast.parse(get_data("mpae.cli", f"{module}.py") or b"")
    found = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == module)
    return ast.get_docstring(found) or ""


app = typer.Typer(
    name="mpae", cls=Verbs, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Finds the parts of things in pictures that nobody has labelled.",
    context_settings={"help_option_names": ["-h", "--help"]})


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
        check_versions()
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
