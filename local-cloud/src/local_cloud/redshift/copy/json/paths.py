"""A jsonpaths file, and the values at its paths inside a JSON object. Pure."""

import json
import re
from collections.abc import Sequence
from typing import Any

from local_cloud.redshift.errors import RedshiftError, detailed

Path = tuple[str | int, ...]
Span = tuple[int, int]

_STEP = re.compile(r"""\.(?P<name>[^.\[\]'"]+)|\[(?:(?P<index>\d+)|'(?P<single>[^']*)'|"(?P<double>[^"]*)")\]""")
_BLANK = re.compile(r"[ \t\n\r]*")


class _Number(str):
    """A number as written."""

    __slots__ = ()


def no_constant(constant: str) -> None:
    """Refuse NaN and infinity, which Python reads."""
    raise ValueError(f"{constant} is no JSON")


DECODER = json.JSONDecoder(parse_constant=no_constant, parse_float=_Number, parse_int=_Number)


def paths(data: bytes, url: str, columns: int) -> list[Path]:
    """Return the paths of a jsonpaths file, one for each column."""
    try:
        found = json.loads(data)["jsonpaths"]
        steps = [_path(text) for text in found]
    except (ValueError, KeyError, TypeError) as error:
        raise detailed(f"Invalid JSONPath format: {error}", 8001, url) from None
    if len(steps) != columns:
        raise RedshiftError(
            "Number of jsonpaths and the number of columns should match. "
            f"JSONPath size: {len(steps)}, Number of columns in table or column list: {columns}"
        )
    return steps


def _path(text: str) -> Path:
    found: list[str | int] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            break
        name = step["name"] or step["single"] or step["double"] or ""
        found.append(int(step["index"]) if step["index"] else name)
        at = step.end()
    if not text.startswith("$") or at < len(text):
        raise ValueError(f"'{text}' is no path in dot or bracket notation")
    return tuple(found)


def blank(text: str, at: int) -> int:
    """Return the position after white space."""
    match = _BLANK.match(text, at)
    return match.end() if match else at


def span(text: str, at: int, path: Sequence[str | int]) -> Span | None:
    """Return the span of the value at a path, or None if there is none."""
    if not path:
        return at, DECODER.raw_decode(text, at)[1]
    inside: dict[str, Span] | dict[int, Span] = {}
    if text[at] in "{[":
        inside = members(text, at) if text[at] == "{" else elements(text, at)
    found = next((place for step, place in inside.items() if step == path[0]), None)
    return span(text, found[0], path[1:]) if found else None


def members(text: str, at: int) -> dict[str, Span]:
    """Return the spans of an object's values. The text must be valid JSON."""
    found: dict[str, Span] = {}
    at = blank(text, at + 1)
    while text[at] != "}":
        name, at = json.decoder.scanstring(text, at + 1, True)  # type: ignore[attr-defined]
        at = blank(text, blank(text, at) + 1)
        end = DECODER.raw_decode(text, at)[1]
        found[name] = (at, end)
        at = blank(text, end)
        at = blank(text, at + 1) if text[at] == "," else at
    return found


def elements(text: str, at: int) -> dict[int, Span]:
    """Return the spans of an array's elements. The text must be valid JSON."""
    found: dict[int, Span] = {}
    at = blank(text, at + 1)
    while text[at] != "]":
        end = DECODER.raw_decode(text, at)[1]
        found[len(found)] = (at, end)
        at = blank(text, end)
        at = blank(text, at + 1) if text[at] == "," else at
    return found


def is_number(value: Any) -> bool:
    """Whether a decoded value is a number, which is kept as its text."""
    return isinstance(value, _Number)
