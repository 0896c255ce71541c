"""Finds the parts of things in pictures that nobody has labelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpae.library import PartDiscovery, load

__all__ = ["PartDiscovery", "__version__", "load"]
__version__ = "0.14.0"


def __getattr__(name: str) -> Any:
    """The library is imported when it is first used, so that `import mpae` and the command stay light."""
    if name in ("PartDiscovery", "load"):
        from mpae.extras import check_versions

        check_versions()
        from mpae import library

        return getattr(library, name)
    raise AttributeError(f"module 'mpae' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
