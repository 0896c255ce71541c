"""What people said of the parts of a run: names, joins, colours, hidden ones. Kept in RUN/parts.yaml.

    format: 1
    revision: 3          # counts the changes, so that two people who edit at once notice
    parts:
      3: {name: head}
      5: {name: head}    # the same name: 3 and 5 are one part to people, and stay two in the masks
      7: {hidden: true}
      8: {colour: '#3cb44b'}
    before:              # what undo goes back to, the latest first
    - {3: {name: head}}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from mpae.assets.trained import comes_with_mpae
from mpae.drawing.palette import part_colours, part_name
from mpae.errors import MPAEError, short, shown
from mpae.files import read_yaml, write_text

FILE = "parts.yaml"
FORMAT = 1
MAX_NAME = 40  # characters
MAX_UNDO = 50  # changes that can be taken back
COLOUR = re.compile(r"#[0-9a-f]{6}")
NUMBERED = re.compile(r"(?:part[-_ ]?)?0*([0-9]{1,4})", re.IGNORECASE)  # what means a part by its number

Entries = Mapping[int, Mapping[str, Any]]  # part -> name, colour, hidden; only what differs from the default


class ChangedMeanwhile(MPAEError):
    """Somebody else has changed the names since they were read."""


@dataclass(frozen=True)
class NamedPart:
    """A part as people see it: one of the model's, or several that were joined."""

    index: int  # the lowest of its members: its number in COCO files and on the page
    name: str
    members: tuple[int, ...]  # 1..K, values in the mask
    colour: tuple[int, int, int]
    hidden: bool

    @property
    def hex_colour(self) -> str:
        return "#{:02x}{:02x}{:02x}".format(*self.colour)


@dataclass(frozen=True)
class PartNames:
    """The names of the K parts of a run; each change gives a new one.

    >>> names = PartNames(4).rename(3, "head").rename(1, "tail").join(4, 3).hide(2)
    >>> [(part.name, part.members, part.hidden) for part in names.parts()]
    [('tail', (1,), False), ('part-02', (2,), True), ('head', (3, 4), False)]
    """

    num_parts: int
    entries: Entries = field(default_factory=dict)
    revision: int = 0
    before: tuple[Entries, ...] = ()  # for undo, the latest first

    def __post_init__(self) -> None:
        kept = {index: dict(entry) for index, entry in sorted(self.entries.items()) if entry}
        object.__setattr__(self, "entries", kept)

    # -- what there is

    def parts(self) -> list[NamedPart]:
        """The parts as people see them, in the order of their numbers; hidden ones included."""
        groups: dict[str, list[int]] = {}
        for index in range(1, self.num_parts + 1):
            groups.setdefault(self.name(index), []).append(index)
        return sorted((self._named(name, members) for name, members in groups.items()), key=lambda part: part.index)

    def shown(self) -> list[NamedPart]:
        return [part for part in self.parts() if not part.hidden]

    def name(self, index: int) -> str:
        return self.entries.get(index, {}).get("name") or part_name(index)

    def labels(self) -> list[str]:
        """A name for each of the K parts of the model, no two the same: members of a joined part keep their number."""
        joined = {index for part in self.parts() if len(part.members) > 1 for index in part.members}
        return [f"{self.name(k)} ({k})" if k in joined else self.name(k) for k in range(1, self.num_parts + 1)]

    def part_of(self, index: int) -> NamedPart:
        """The part, as people see it, that one of the model's belongs to."""
        self._check_index(index)
        return next(part for part in self.parts() if index in part.members)

    def find(self, word: str | int) -> NamedPart:
        """The part with this name or number."""
        return self.part_of(self.number(word))

    def number(self, word: str | int) -> int:
        """The number that a word means: that of a name is the first member's."""
        text = str(word).strip()
        for part in self.parts():
            if part.name.casefold() == text.casefold():
                return part.index
        number = NUMBERED.fullmatch(text)
        if number and 1 <= int(number[1]) <= self.num_parts:
            return int(number[1])
        known = ", ".join(part.name for part in self.parts()[:20])
        raise MPAEError(f"There is no part '{short(text)}'; expected one of: {known}.")

    def lookup(self) -> list[int]:
        """For each value of a mask, 0..K, the number of the part that people see there; 0 where it is hidden."""
        table = [0] * (self.num_parts + 1)
        for part in self.shown():
            for member in part.members:
                table[member] = part.index
        return table

    def seen(self, mask: np.ndarray) -> np.ndarray:
        """A mask (H, W) uint8 with the parts as people see them: joined ones are one, hidden ones background."""
        table = np.zeros(256, dtype=np.uint8)
        table[:self.num_parts + 1] = self.lookup()
        return table[mask]

    def colours(self) -> np.ndarray:
        """(K, 3) uint8, that of each of the model's parts."""
        chosen = {member: part.colour for part in self.parts() for member in part.members}
        return np.array([chosen[k] for k in range(1, self.num_parts + 1)], dtype=np.uint8).reshape(-1, 3)

    def as_text(self) -> str:
        """'3=head 5=head 7-': what differs from numbers, in one line."""
        words = []
        for index, entry in self.entries.items():
            words += [f"{index}={entry[key]}" for key in ("name", "colour") if key in entry]
            words += [f"{index}-"] if entry.get("hidden") else []
        return " ".join(words)

    def gathered(self, part_of: Sequence[int]) -> PartNames:
        """The names of fewer parts, which these are joined to: members' names, if they have some.

        >>> PartNames(4).rename(1, "beak").rename(3, "eye").gathered([0, 1, 0, 1]).all_names()
        ['beak, eye', 'part-02']
        """
        gathered = PartNames(max(part_of) + 1)
        for part in range(gathered.num_parts):
            entries = [self.entries.get(k + 1, {}) for k, its in enumerate(part_of) if its == part]
            given = list(dict.fromkeys(entry["name"] for entry in entries if "name" in entry))
            name, colours = ", ".join(given), [entry["colour"] for entry in entries if "colour" in entry]
            hidden = all(entry.get("hidden") for entry in entries)
            taken = {entry.get("name", "").casefold() for entry in gathered.entries.values()}
            gathered = gathered._with(
                part + 1, name=name if name and len(name) <= MAX_NAME and name.casefold() not in taken else None,
                colour=colours[0] if colours else None, hidden=hidden or None)
        return gathered

    def all_names(self) -> list[str]:
        """Of each of the model's parts; members of a joined part have the same."""
        return [self.name(k) for k in range(1, self.num_parts + 1)]

    # -- changes

    def rename(self, index: int, name: str) -> PartNames:
        """Name a part; with the name of another one the two are joined, with an empty one it loses its name.

        The first member of a joined part renames it whole; another member leaves it.
        """
        part = self.part_of(index)
        members = part.members if index == part.index else (index,)
        name = self.checked_name(members, name) if name.strip() else ""
        changed = self
        for member in members:
            changed = changed._with(member, name=None if name in ("", part_name(member)) else name)
        return changed

    def join(self, index: int, into: int) -> PartNames:
        """Make one part of two: the first, with all its members, gets the name and colour of the second."""
        first, second = self.part_of(index), self.part_of(into)
        if first == second:
            raise MPAEError(f"'{first.name}' cannot be joined with itself; choose another part.")
        changed = self
        for member in (*second.members, *first.members):
            changed = changed._with(member, name=None if second.name == part_name(member) else second.name)
        for member in first.members:
            changed = changed._with(member, hidden=second.hidden or None, colour=None)
        return changed._with(min(first.index, second.index), colour=second.hex_colour)

    def split(self, index: int) -> PartNames:
        """Take a joined part apart: its first member keeps the name, the others are numbered again."""
        part = self.part_of(index)
        if len(part.members) == 1:
            raise MPAEError(f"'{part.name}' is one part, not several joined ones; there is nothing to split.")
        numbered = part.name in map(part_name, part.members)
        changed = self
        for member in part.members if numbered else part.members[1:]:
            changed = changed._with(member, name=None)
        return changed

    def hide(self, index: int, hidden: bool = True) -> PartNames:
        changed = self
        for member in self.part_of(index).members:
            changed = changed._with(member, hidden=hidden or None)
        return changed

    def recolour(self, index: int, colour: str | None) -> PartNames:
        """Choose a colour such as '#3cb44b'; None is the colour that the part had at first."""
        if colour is not None and not COLOUR.fullmatch(colour.lower()):
            raise MPAEError(f"'{short(colour)}' is no colour; expected one such as '#3cb44b'.")
        part = self.part_of(index)
        return self._with(part.index, colour=colour and colour.lower())

    def undo(self) -> PartNames:
        """The names before the last change."""
        if not self.before:
            raise MPAEError("There is no change of the part names to take back.")
        return replace(self, entries=self.before[0], before=self.before[1:])

    # -- the file

    @classmethod
    def load(cls, run: Path, num_parts: int) -> PartNames:
        """The names in a run folder; the numbers of the parts where there is no file."""
        file = run / FILE
        if not file.is_file():
            return cls(num_parts)
        content = read_yaml(file)
        if content.get("format") != FORMAT or not isinstance(content.get("parts", {}), dict):
            raise MPAEError(f"'{file}' is not mpae's, or is of a newer version: expected 'format: {FORMAT}' and "
                            "'parts'; move it away to begin anew.")
        revision, before = content.get("revision", 0), content.get("before") or []
        if type(revision) is not int or not isinstance(before, list):
            raise MPAEError(f"'{file}' is damaged: revision is {shown(revision)}; move it away to begin anew.")
        names = cls(num_parts, {}, revision, tuple(_checked(entries, num_parts, file) for entries in before[:MAX_UNDO]))
        return replace(names, entries=_checked(content.get("parts") or {}, num_parts, file))

    def save(self, run: Path, expected: int | None = None) -> PartNames:
        """Write the file, whole or not at all; returns the names with their new revision.

        Args:
            expected: the revision that the change started from; another one in the file is refused.
        """
        if comes_with_mpae(run):
            raise MPAEError(f"'{run.name}' comes with mpae and is not changed; `mpae runs {run.name} --out DIR` makes "
                            "a copy whose parts can be named.")
        there = PartNames.load(run, self.num_parts)
        if expected is not None and there.revision != expected:
            raise ChangedMeanwhile("The part names were changed meanwhile, in another window or on the command line; "
                                   "look at them as they are now, and make your change again.")
        saved = replace(self, revision=there.revision + 1, before=self._history(there))
        content = {"format": FORMAT, "revision": saved.revision, "parts": {k: dict(v) for k, v in self.entries.items()},
                   "before": [{k: dict(v) for k, v in entries.items()} for entries in saved.before]}
        text = "# What people said of the parts: `mpae name` and `mpae serve` write this file.\n"
        write_text(run / FILE, text + yaml.safe_dump(content, sort_keys=False, default_flow_style=None,
                                                     allow_unicode=True, width=110))
        return saved

    def _history(self, there: PartNames) -> tuple[Entries, ...]:
        """What undo goes back to, once these names follow those in the file."""
        if there.before and self.entries == there.before[0] and self.before == there.before[1:]:
            return self.before  # this is an undo
        return (there.entries, *there.before)[:MAX_UNDO] if self.entries != there.entries else there.before

    # -- inside

    def checked_name(self, members: tuple[int, ...], name: str) -> str:
        """A name without blanks around it, or the reason why these parts cannot have it."""
        name = " ".join(name.split())
        if not name:
            raise MPAEError("The name of a part is empty; give it at least one letter.")
        if len(name) > MAX_NAME or not name.isprintable() or "=" in name:
            raise MPAEError(f"'{short(name)}' cannot be the name of a part; expected at most {MAX_NAME} printable "
                            "characters and no '='.")
        if NUMBERED.fullmatch(name) and name not in map(part_name, members):
            raise MPAEError(f"'{name}' cannot be the name of part {members[0]}: it reads like the number of a part; "
                            "choose a word.")
        if name.casefold() == "background":
            raise MPAEError("'background' is what belongs to no part; choose another name, or hide the part.")
        for other in self.parts():
            clash = other.name != name and other.name.casefold() == name.casefold()
            if clash and not set(other.members) <= set(members):
                raise MPAEError(f"'{name}' clashes with '{other.name}', which differs in capitals only; write it the "
                                "same to join the two, or choose another name.")
        return name

    def _with(self, index: int, **values: Any) -> PartNames:
        entry = {key: value for key, value in {**self.entries.get(index, {}), **values}.items() if value is not None}
        return replace(self, entries={**self.entries, index: entry})

    def _named(self, name: str, members: Iterable[int]) -> NamedPart:
        members = tuple(members)
        chosen = [self.entries.get(k, {}).get("colour") for k in members]
        colour = next((each for each in chosen if each), None)
        rgb = _rgb(colour) if colour else tuple(part_colours(members[0])[-1].tolist())
        hidden = all(self.entries.get(k, {}).get("hidden", False) for k in members)
        return NamedPart(members[0], name, members, rgb, hidden)

    def _check_index(self, index: int) -> None:
        if type(index) is not int or not 1 <= index <= self.num_parts:
            raise MPAEError(f"There is no part {shown(index)}; this run has the parts 1 to {self.num_parts}.")


def parse_changes(names: PartNames, words: Iterable[str]) -> PartNames:
    """`3=head 5=head 7- 7+ 3=#3cb44b 5=` as changes: name, join, hide, show, colour, forget the name.

    >>> changed = parse_changes(PartNames(8), ["3=head", "5=head", "7-"])
    >>> [part.name for part in changed.shown()]
    ['part-01', 'part-02', 'head', 'part-04', 'part-06', 'part-08']
    """
    for word in words:
        which, equals, value = word.partition("=")
        if equals:
            index = names.number(which)
            names = names.recolour(index, value) if value.startswith("#") else names.rename(index, value)
        elif word[-1:] in ("-", "+") and len(word) > 1:
            names = names.hide(names.find(word[:-1]).index, hidden=word.endswith("-"))
        else:
            raise MPAEError(f"'{short(word)}' is no change of a part; expected one such as 3=head (name), 7- (hide), "
                            "7+ (show again) or 3=#3cb44b (colour).")
    return names


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def _checked(entries: Any, num_parts: int, file: Path) -> Entries:
    """Entries of a file as they should be, or a sentence."""
    kinds = {"name": str, "colour": str, "hidden": bool}
    if not isinstance(entries, dict):
        raise MPAEError(f"'{file}' is damaged: {shown(entries)} is no list of parts; move it away to begin anew.")
    for index, entry in entries.items():
        good = type(index) is int and 1 <= index <= num_parts and isinstance(entry, dict) and all(
            key in kinds and isinstance(value, kinds[key]) for key, value in entry.items())
        if not good or not COLOUR.fullmatch(entry.get("colour", "#000000")) or not entry.get("name", "x").strip():
            raise MPAEError(f"'{file}' is damaged: part {shown(index)} is {shown(entry)}; expected a part from 1 to "
                            f"{num_parts} with name, colour or hidden; mend it, or move it away to begin anew.")
    return entries
