"""Optional packages: imported when something needs them, and missed in one sentence."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mpae.errors import MPAEError


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
