"""Descriptions of a stream and its properties from its SCHEMA, for tables and columns. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str, ...]
"""The name of a property, after those of the objects that it is in; items of lists have their list's."""
MOST_OF_TABLE, MOST_OF_COLUMN = 16_384, 1_024
"""Characters that BigQuery takes; what is longer is cut, for all warehouses alike."""


@dataclass(frozen=True, slots=True)
class Descriptions:
    """Descriptions of a table and of its columns; none is empty."""

    table: str | None = None
    columns: Mapping[Path, str] = field(default_factory=dict)


def descriptions_of(schema: Mapping[str, Any]) -> Descriptions:
    """Return the `description` of a SCHEMA, and those of its properties at every depth."""
    return Descriptions(_text(schema, MOST_OF_TABLE), dict(_within(schema, ())))


def _within(node: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if not isinstance(node, Mapping):
        return
    for name, inner in node.get("properties", {}).items():
        if isinstance(inner, Mapping) and (text := _text(inner, MOST_OF_COLUMN)):
            yield (*path, name), text
        yield from _within(inner, (*path, name))
    for inner in (node.get("items"), *node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from _within(inner, path)


def _text(node: Mapping[str, Any], most: int) -> str | None:
    given = node.get("description")
    text = given.replace("\0", "").strip() if isinstance(given, str) else ""
    return shortened(text, most) or None


def shortened(text: str, most: int) -> str:
    """Return a text cut to at most so many characters, with an ellipsis where it is cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
