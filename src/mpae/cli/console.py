"""Where the command writes: results on stdout, messages and progress on stderr."""

from __future__ import annotations

import logging

from rich.console import Console


def results(quiet: bool = False) -> Console:
    """For what a verb was asked for, such as a table; it can be piped."""
    return Console(quiet=quiet)


def messages(quiet: bool) -> Console:
    """For what a verb says on the way, with the library's own messages; only errors if quiet."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("mpae")
    logger.handlers = [handler]
    logger.setLevel(logging.ERROR if quiet else logging.INFO)
    return Console(stderr=True, quiet=quiet)
