"""The command: one verb a file. Parse, call, print."""

from mpae.cli.app import main

__all__ = ["main"]
