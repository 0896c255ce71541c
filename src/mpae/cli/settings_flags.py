"""Command-line flags made from the settings, so that help, YAML and Python cannot drift apart."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Optional, Union, get_args, get_origin

import typer

from mpae.config import PRESETS, Config, all_settings

AUTO, PARTS, AUTO_PARTS = "auto", "model.num_parts", "training.auto_parts"


def with_settings(sections: Iterable[str] = tuple(Config.model_fields)) -> Callable[[Callable], Callable]:
    """Give a verb one flag for each setting that has one; the verb receives those that were used as `settings`."""
    chosen = [(name, field) for name, field in all_settings()
              if name.partition(".")[0] in sections and (field.json_schema_extra or {}).get("flag")]  # type: ignore

    def decorate(verb: Callable) -> Callable:
        own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.name != "settings"]
        flags = {name.replace(".", "_"): name for name, _ in chosen}
        made = [inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY, default=None,
                                  annotation=_annotation(name, dict(chosen)[name]))
                for parameter, name in flags.items()]

        @functools.wraps(verb)
        def wrapper(**values: Any) -> Any:
            values_of = {flags[key]: values.pop(key) for key in flags}
            if values_of.get(PARTS) == AUTO:
                values_of |= {PARTS: None, AUTO_PARTS: True}
            return verb(**values, settings={name: value for name, value in values_of.items() if value is not None})

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + made
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
        del wrapper.__wrapped__
        return wrapper

    return decorate


def _annotation(name: str, field: Any) -> Any:
    flag = field.json_schema_extra["flag"]
    default = default_text(name, field.default)
    words: dict[str, Any] = {"parser": parts_or_auto, "metavar": f"INTEGER|{AUTO}"} if name == PARTS else {}
    option = typer.Option(flag, help=f"{field.description} ({name})", show_default=default,
                          rich_help_panel=f"Settings: {name.partition('.')[0]}", **words)
    return Annotated[Optional[plain_type(field.annotation)], option]  # noqa: UP045  built at run time


def parts_or_auto(text: str) -> int | str:
    """The one flag that is a number or a word; the word sets another setting."""
    try:
        return text if text == AUTO else int(text)
    except ValueError:
        raise typer.BadParameter(f"'{text}' is not a valid integer, nor {AUTO}.") from None


def default_text(name: str, default: Any) -> str | bool:
    """'64' or '64; laptop: 32', from the settings and the presets."""
    base = "" if default is None else str(default)
    other = [f"{preset}: {values[name]}" for preset, values in PRESETS.items()
             if name in values and values[name] != default]
    return "; ".join(([base] if base else []) + other) or False


def plain_type(annotation: Any) -> Any:
    """`int | None` -> int: what the text of a flag is read as."""
    if get_origin(annotation) in (Union, types.UnionType):
        return next(part for part in get_args(annotation) if part is not type(None))
    return annotation
