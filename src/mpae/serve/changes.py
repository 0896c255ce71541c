"""What the page asks to be changed of the part names, as changes of `PartNames`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpae.errors import MPAEError, shown
from mpae.prediction.part_names import PartNames

Change = Callable[[PartNames], PartNames]
KINDS: Mapping[str, tuple[tuple[str, type], ...]] = {  # each with what it needs to know
    "name": (("part", int), ("name", str)),
    "join": (("part", int), ("into", int)),
    "split": (("part", int),),
    "hide": (("part", int), ("hidden", bool)),
    "colour": (("part", int), ("colour", str)),
    "undo": (),
}


def parse_change(content: Mapping[str, Any]) -> Change:
    """A function that makes the change; what is not as expected is told before anything is touched."""
    kind = content.get("change")
    if not isinstance(kind, str) or kind not in KINDS:
        raise MPAEError(f"Unknown change {shown(kind)}; expected one of: {', '.join(KINDS)}.")
    for key, expected in KINDS[kind]:
        if type(content.get(key)) is not expected:
            raise MPAEError(f"The change '{kind}' has {key} = {shown(content.get(key))}; expected {expected.__name__}.")
    part = content.get("part", 0)
    if kind == "name":
        return lambda names: rename(names, part, content["name"])
    if kind == "join":
        return lambda names: names.join(part, content["into"])
    if kind == "split":
        return lambda names: names.split(part)
    if kind == "hide":
        return lambda names: names.hide(part, content["hidden"])
    if kind == "colour":
        return lambda names: names.recolour(part, content["colour"])
    return PartNames.undo


def rename(names: PartNames, part: int, name: str) -> PartNames:
    """On the page a name that is taken may be a slip: it is told, and two parts are joined by dragging."""
    wanted = " ".join(name.split())
    if not wanted:
        raise MPAEError("The name is empty; give the part at least one letter.")
    for other in names.parts():
        if other.name.casefold() == wanted.casefold() and part not in other.members:
            raise MPAEError(f"'{other.name}' is the name of another part already; choose another name, or join the "
                            "two.")
    return names.rename(part, name)
