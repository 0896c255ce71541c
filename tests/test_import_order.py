"""Imports point one way: from the command down to files and errors (CONTRIBUTING.md has the map)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mpae

ROOT = Path(mpae.__file__).parent

# A module imports only from the layers below its own ...
LAYERS = (
    ("cli",),
    ("library", "hub"),
    ("training", "prediction", "evaluation", "studies", "export", "report", "serve"),
    ("model", "losses", "metrics", "initial_parts", "baselines"),
    ("backbones", "data", "drawing"),
    ("config", "run", "files", "errors", "distributed", "devices", "cores", "assets", "extras"),
)
# ... and inside its layer only along these edges.
WITHIN = {
    "library": ("hub",),
    "evaluation": ("prediction",),
    "report": ("prediction", "evaluation"),
    "studies": ("training", "evaluation", "report", "prediction"),  # each of its runs is trained, measured and shown
    "export": ("prediction",),
    "serve": ("prediction",),
    "baselines": ("initial_parts", "losses", "model"),
    "model": ("baselines",),  # load.py finds the class of a run's method; the list of methods imports none of them
    "initial_parts": ("model",),
    "run": ("config", "files", "errors", "assets"),
    "config": ("files", "errors"),
    "files": ("errors",),
    "distributed": ("errors",),
    "devices": ("errors",),
    "assets": ("errors",),
    "extras": ("errors",),
}
LAYER_OF = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}


def room_of(module: str) -> str | None:
    """'prediction' for mpae.prediction.masks; None for mpae itself, which has the version."""
    return module.split(".")[1] if module.count(".") else None


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and module of every import of mpae: at the top, inside functions, and for type checkers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names if name.name.split(".")[0] == "mpae")
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "relative"
        elif isinstance(node, ast.ImportFrom) and node.module == "mpae":
            yield from ((node.lineno, f"mpae.{name.name}") for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mpae."):
            yield node.lineno, str(node.module)


def mistake(importer: str, imported: str | None) -> str | None:
    """Why a room may not import from another; None where it may."""
    if imported is None or imported.startswith("__") or imported == importer:
        return None
    if imported not in LAYER_OF:
        return f"the room '{imported}' is in none of the layers"
    if LAYER_OF[imported] > LAYER_OF[importer] or imported in WITHIN.get(importer, ()):
        return None
    if LAYER_OF[imported] == LAYER_OF[importer]:
        return f"'{importer}' does not import its neighbour '{imported}'"
    return f"'{imported}' is above '{importer}'"


def mistakes() -> list[str]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        importer = relative.parts[0].removesuffix(".py")
        if importer == "__init__":  # offers the library under the package's own name
            continue
        for line, module in imports(ast.parse(path.read_text(encoding="utf-8"))):
            if module == "relative":
                found.append(f"src/mpae/{relative.as_posix()}:{line}: write the whole name of the module")
            elif reason := mistake(importer, room_of(module)):
                found.append(f"src/mpae/{relative.as_posix()}:{line} imports {module}: {reason}")
    return found


def test_every_module_has_a_layer() -> None:
    rooms = {path.name.removesuffix(".py") for path in ROOT.iterdir()
             if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))}
    assert rooms - set(LAYER_OF) == {"__init__"}


def test_imports_point_down() -> None:
    found = mistakes()
    assert not found, "\n".join(["imports against the order of the layers:", *found])


@pytest.mark.parametrize(("line", "module"), [
    ("import mpae.training.fit", "mpae.training.fit"),
    ("from mpae import hub", "mpae.hub"),
    ("def late():\n    from mpae.cli.fit import fit", "mpae.cli.fit"),
    ("if TYPE_CHECKING:\n    from mpae.report.write import Page", "mpae.report.write"),
    ("from . import cli", "relative"),
])
def test_no_import_goes_unseen(line: str, module: str) -> None:
    assert [name for _, name in imports(ast.parse(line))] == [module]


@pytest.mark.parametrize(("importer", "imported", "reason"), [
    ("data", "training", "above"), ("model", "losses", "neighbour"), ("library", "nowhere", "none of the layers"),
    ("report", "evaluation", None), ("cli", "errors", None), ("run", "__version__", None)])
def test_what_is_a_mistake(importer: str, imported: str, reason: str | None) -> None:
    found = mistake(importer, imported)
    assert found is None if reason is None else reason in str(found)
