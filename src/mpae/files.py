"""Files: written to a temporary file and renamed, so that nobody sees half of one; YAML read as plain data."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import yaml

from mpae.errors import MPAEError, short

TEMPORARY = re.compile(r"\..+\.\d+\.part", re.DOTALL)  # names that `write_atomically` writes to before it renames
MAX_BYTES = 1_000_000  # of a YAML file


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Write to a temporary file in the same folder, then rename it: nobody ever sees half of it."""
    name = os.fsdecode(os.fsencode(path.name)[:200])  # at most 255 bytes with what is added
    temporary = path.with_name(f".{name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise cannot_write(path, error) from None
        raise


def cannot_write(path: Path, error: OSError) -> MPAEError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        now = "its last good version stays; free some space" if os.path.exists(path) else "free some space"
        return MPAEError(f"The disk is full: '{path}' could not be written; {now}.")
    return MPAEError(f"Cannot write '{path}': {error.strerror or error}.")


def write_text(path: Path, text: str) -> None:
    """Text in UTF-8; what UTF-8 cannot hold, bytes of strange file names, is written as escapes."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", errors="backslashreplace"))


def one_line(text: str) -> str:
    """Text that a line of a UTF-8 file can hold: names may have line breaks, or bytes that are no UTF-8."""
    return text if text.isprintable() else repr(text)


def write_skipped(path: Path, skipped: Sequence[tuple[str, str]]) -> None:
    """Name and reason of images that could not be read, one a line; no file if there are none."""
    if skipped:
        write_text(path, "".join(f"{one_line(name)}\t{one_line(reason)}\n" for name, reason in skipped))
    else:
        path.unlink(missing_ok=True)


def read_yaml(file: Path) -> dict[str, Any]:
    """The sections of a YAML file; an empty file has none."""
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1).decode("utf-8")
    except FileNotFoundError:
        raise MPAEError(f"No settings file '{file}'.") from None
    except UnicodeDecodeError:
        raise MPAEError(f"'{file}' is not a text file in UTF-8; expected YAML.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise MPAEError(f"Cannot read '{file}': {getattr(error, 'strerror', None) or error}.") from None
    if len(text) > MAX_BYTES:
        raise MPAEError(f"'{file}' is larger than {MAX_BYTES:,} bytes; expected a file of settings.")
    content = parse_yaml(text, f"'{file}'")
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise MPAEError(f"'{file}' holds no sections; expected lines such as 'model:' with settings below.")
    return content


def parse_yaml(text: str, source: str) -> Any:
    """Plain data from YAML text; ``source`` is named in errors."""
    try:
        return yaml.load(text, PlainLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        problem = f"{short(error.problem or error.context)}{place}"
    except RecursionError:
        problem = "it is nested too deeply"
    except Exception as error:  # PyYAML raises KeyError and more on odd tags such as `!!bool 7`
        problem = short(error)
    raise MPAEError(f"{source} is not plain YAML: {problem}.")


class PlainLoader(yaml.SafeLoader):
    """A key once, dates are text, and no aliases: a few nested ones make gigabytes of a small file."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases such as '*name' are not used here",
                                       problem_mark=self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"'{short(key.value)}' is given twice",
                                               problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}
