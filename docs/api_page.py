"""Write docs/api.md from the docstrings of singer_arrow's public names; `--check` only compares."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ForwardRef

from written_files import write_or_check

import singer_arrow

PAGE = Path(__file__).parent / "api.md"
INTRODUCTION = """# API of singer-arrow

Written by `make docs` from the docstrings. `from singer_arrow import NAME` imports each of these names when it is first
used; other names may change in any version. A whole connector is in the
[README](../singer-arrow/README.md#a-connector), a target in [add-a-target.md](add-a-target.md).
"""
SECTION = re.compile(r"(?:Args|Attributes|Raises|Returns|Yields):$")
ENTRY = re.compile(r"([\w*, .`]+): (.*)")


def page() -> str:
    """Return the text of the page."""
    parts = [INTRODUCTION]
    for name in singer_arrow.__all__:
        value = getattr(singer_arrow, name)
        parts += [f"## {name}", *_described(name, value)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _described(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield from _text(value)
        yield from _errors(value)
    elif inspect.isclass(value):
        yield f"`class {name}{_signature(value)}`"
        yield from _text(value)
        if settings := list(_settings(value)):
            yield "\n".join(["Settings:", "", *settings])
        yield from _members(value)
    elif callable(value):
        yield f"`{name}{_signature(value)}`"
        yield from _text(value)
    else:
        yield f"A mapping of names to instances of `Format`: {', '.join(f'`{key}`' for key in value)}."


def _settings(kind: type) -> Iterator[str]:
    """Return a line for each field that is a setting, as it is declared."""
    for part in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        if declared := part.metadata.get("setting"):
            words = f"- `{part.name}`: {declared.keywords['description']}"
            yield textwrap.fill(words, 120, subsequent_indent="  ", break_on_hyphens=False)


def _errors(module: ModuleType) -> Iterator[str]:
    """Return the methods of the errors that add some to those of `Exception`."""
    for name, kind in vars(module).items():
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and "__init__" in vars(kind):
            yield f"### {module.__name__.rpartition('.')[2]}.{name}"
            yield f"`class {name}{_signature(kind)}`"
            yield from _text(kind)


def _members(kind: type) -> Iterator[str]:
    """Return the public members that a class defines itself and the abstract ones that it inherits.

    What overrides a member of the SDK is part of the SDK's API.
    """
    sdk = {name for base in kind.__mro__ if not base.__module__.startswith("singer_arrow") for name in vars(base)}
    abstract = sorted(getattr(kind, "__abstractmethods__", ()))
    for name in dict.fromkeys([*abstract, *vars(kind)]):
        if not name.startswith("_") and name not in sdk and (text := _member(name, inspect.getattr_static(kind, name))):
            yield text


def _member(name: str, member: Any) -> str | None:
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    if isinstance(member, property) or hasattr(member, "attrname"):  # cached_property too
        getter = member.fget if isinstance(member, property) else member.func
        return _entry(f"{name}: {_annotation(getter)}", getter)
    return _entry(f"{name}{_signature(function)}", function) if inspect.isfunction(function) else None


def _entry(head: str, member: Any) -> str | None:
    text = inspect.getdoc(member)
    if not text:
        return None
    first = " ".join(text.partition("\n\n")[0].split())
    abstract = " *Abstract.*" if getattr(member, "__isabstractmethod__", False) else ""
    return f"- `{head}`{abstract}<br>{first}"


def _annotation(getter: Any) -> str:
    return str(getter.__annotations__.get("return", "Any"))


def _signature(value: Any) -> str:
    signature = inspect.signature(value)
    parameters = [
        parameter.replace(default=_shown(parameter.default, quoted=True), annotation=_shown(parameter.annotation))
        for name, parameter in signature.parameters.items()
        if name not in {"self", "cls"}
    ]
    returns = signature.empty if inspect.isclass(value) else _shown(signature.return_annotation)
    return str(signature.replace(parameters=parameters, return_annotation=returns))


class _Verbatim:
    """A text that `inspect` prints without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _shown(value: Any, *, quoted: bool = False) -> Any:
    """Return a default or an annotation as the source has it; functions, whose text holds an address, as `...`."""
    if value is inspect.Signature.empty:
        return value
    value = value.__forward_arg__ if isinstance(value, ForwardRef) else value  # of a named tuple
    return _Verbatim("..." if callable(value) else value if isinstance(value, str) and not quoted else repr(value))


def _text(value: Any) -> Iterator[str]:
    """Return a docstring as Markdown: sections of arguments become lists."""
    text = inspect.getdoc(value) or ""
    if dataclasses.is_dataclass(value) and text.startswith(f"{getattr(value, '__name__', '')}("):
        return
    for paragraph in text.split("\n\n"):
        first, *rest = paragraph.splitlines() or [""]
        if SECTION.match(first):
            yield f"{first[:-1]}:\n\n" + "\n".join(_items(rest))
        elif paragraph.startswith("    "):
            yield f"```\n{inspect.cleandoc(paragraph)}\n```"
        else:
            yield paragraph


def _items(lines: list[str]) -> Iterator[str]:
    for line in lines:
        entry = ENTRY.match(line.strip())
        if entry and not line.startswith("     "):
            yield f"- `{entry[1]}`: {entry[2]}"
        elif line.startswith("     "):
            yield f"  {line.strip()}"
        else:
            yield f"- {line.strip()}"


def main() -> int:
    """Write the page, or check that it is up to date."""
    return write_or_check({PAGE: page()})


if __name__ == "__main__":
    sys.exit(main())
