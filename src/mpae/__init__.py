"""Finds the parts of things in pictures that nobody has labelled."""

__version__ = "0.1.0"
