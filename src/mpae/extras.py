"""Packages that are too old, and optional ones: imported when something needs them, and missed in one sentence."""

from __future__ import annotations

import re
import sys
from importlib import import_module, metadata
from typing import Any

from mpae.errors import MPAEError

OLDEST = {"Python": (3, 10), "torch": (2, 4)}  # as pyproject.toml has them


def require(package: str, extra: str, what: str) -> Any:
    """The module of an optional package.

    Args:
        extra: of mpae that brings it.
        what: needs it, as the beginning of a sentence: "Exporting".
    """
    try:
        return import_module(package)
    except ImportError:
        raise MPAEError(f"{what} needs the package {package}; install it with: pip install 'mpae[{extra}]'.") from None


def check_versions() -> None:
    """What is too old would fail later, in a traceback that says nothing of that."""
    found = {"Python": sys.version.split()[0]}
    try:
        found["torch"] = metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise MPAEError("mpae needs torch, which is not installed here; pip install torch.") from None
    for name, oldest in OLDEST.items():
        if tuple(int(number) for number in re.findall(r"\d+", found[name])[:2]) < oldest:
            raise MPAEError(f"mpae needs {name} {'.'.join(map(str, oldest))} or newer, and this is {found[name]}; "
                            "upgrade it.")
