"""Writes docs/api.md from the docstrings of the library, so that the page cannot drift from the code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mpae.library import PartDiscovery, load
from mpae.prediction.parts import Part, Parts

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
HEAD = """# Python

Made from the docstrings by `python scripts/make_api_page.py`; the examples run as tests.

```python
from mpae import PartDiscovery, load
```
"""


def page() -> str:
    sections = [HEAD, *described(PartDiscovery), entry("load", load), *described(Parts), *described(Part)]
    return "\n".join(sections)


def described(cls: type[Any]) -> Iterator[str]:
    """A class, its fields, and its public methods in the order of the file."""
    yield entry(cls.__name__, cls)
    for name, member in vars(cls).items():
        if not name.startswith("_"):
            function = member.__func__ if isinstance(member, classmethod) else member
            if inspect.isfunction(function):
                yield entry(f"{cls.__name__}.{name}", function, level=3)
            elif isinstance(member, property) and member.fget and member.fget.__doc__:
                yield entry(f"{cls.__name__}.{name}", member.fget, level=3)


def entry(name: str, thing: Callable[..., Any], level: int = 2) -> str:
    """Heading, signature and docstring; Google's sections become lists, examples become code."""
    signature = "" if inspect.isclass(thing) else f"```python\n{short_name(name)}{signature_of(thing)}\n```\n\n"
    return f"{'#' * level} `{name}`\n\n{signature}{formatted(inspect.getdoc(thing) or '')}\n"


def short_name(name: str) -> str:
    return name.rpartition(".")[2]


def signature_of(function: Callable[..., Any]) -> str:
    parameters = [parameter.replace(annotation=parameter.empty)
                  for parameter in inspect.signature(function).parameters.values()
                  if parameter.name not in ("self", "cls")]
    return str(inspect.Signature(parameters))


def formatted(docstring: str) -> str:
    """Markdown of a docstring: `Args:` as a list, `>>>` examples in a code block."""
    lines, code = [], False
    for line in docstring.splitlines():
        example = line.startswith((">>>", "...")) or (code and bool(line.strip()))
        if example != code:
            lines.append("```python" if example else "```")
            code = example
        lines.append(line if example else listed(line))
    return "\n".join([*lines, "```"] if code else lines)


def listed(line: str) -> str:
    if line.strip() in ("Args:", "Returns:", "Raises:"):
        return f"**{line.strip()}**\n"
    name, colon, text = line.strip().partition(": ")
    if line.startswith("    ") and not line.startswith("     ") and colon and name.isidentifier():
        return f"- `{name}`: {text}"
    return f"  {line.strip()}" if line.startswith("        ") else line


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
