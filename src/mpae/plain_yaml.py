"""YAML files as plain data: what a stranger's file holds is read, never run, and cannot blow up."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from mpae.errors import MPAEError
from mpae.wording import short

MAX_BYTES = 1_000_000


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
