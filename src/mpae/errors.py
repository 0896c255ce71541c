"""The one exception for what a user can mend, and how mistakes are put into words: one sentence, never long."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

MAX_LISTED = 20  # mistakes in one message

# What pydantic calls a mistake -> what was expected.
EXPECTED = {
    "greater_than_equal": "at least {ge}", "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}", "less_than": "less than {lt}",
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "int_parsing_size": "a whole number",
    "float_type": "a number", "float_parsing": "a number", "finite_number": "a finite number",
    "bool_type": "true or false", "bool_parsing": "true or false",
    "string_type": "text (in quotes, if it looks like a number)", "literal_error": "{expected}",
    "tuple_type": "a list of numbers", "missing": "more numbers in the list",
    "too_long": "fewer numbers in the list", "model_type": "a section with settings",
    "value_error": "{error}",
}


class MPAEError(Exception):
    """A mistake that the user can mend: what was found, what was expected, what to do.

    The command line prints it as one sentence and exits with code 2; anything else is a bug and keeps
    its traceback.
    """


def bad_values(details: Sequence[Mapping[str, Any]]) -> str:
    """'training.epochs is 0, expected at least 1; …' from pydantic's errors."""
    return "; ".join(list(dict.fromkeys(_bad_value(detail) for detail in details))[:MAX_LISTED])


def _bad_value(detail: Mapping[str, Any]) -> str:
    found = f"{'.'.join(str(part) for part in detail['loc'][:2])} is {shown(detail['input'])}"
    expected = EXPECTED.get(detail["type"])
    if expected is None:
        return f"{found}: {detail['msg'][0].lower()}{detail['msg'][1:]}"
    return f"{found}, expected {expected.format(**detail.get('ctx', {}))}"


def unknown_options(names: Sequence[str], known: Sequence[str], source: str) -> str:
    """One sentence for all unknown names, each with the known one that it may have meant."""
    if len(names) == 1:
        near = nearest(names[0], known)
        hint = f"did you mean '{near}'?" if near else "`mpae settings` lists all."
        return f"Unknown option '{names[0]}' in {source}; {hint}"
    listed = []
    for name in names[:MAX_LISTED]:
        near = nearest(name, known)
        listed.append(f"'{name}' (did you mean '{near}'?)" if near else f"'{name}'")
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"Unknown options in {source}: {', '.join(listed)}{more}; `mpae settings` lists all."


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The dotted setting, or its section, that is most like a name that may lack its section."""
    targets: dict[str, str] = {}
    for full in known:
        section, _, key = full.partition(".")
        targets |= {key: full, section: section, full: full}
    for wanted in (name, name.rpartition(".")[2]):
        near = difflib.get_close_matches(wanted, targets, n=1)
        if near:
            return targets[near[0]]
    return None


def shown(value: Any) -> str:
    """A value as Python writes it, but never long."""
    try:
        return short(reprlib.repr(value))
    except ValueError:  # Python does not print whole numbers of thousands of digits
        return "a very long number"


def short(value: Any) -> str:
    """Text on one line, but never long."""
    try:
        words = " ".join(str(value).split())
    except ValueError:
        return "a very long number"
    return words if len(words) <= 100 else f"{words[:97]}..."
