"""Names and texts within SQL. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from singer_arrow.errors import SchemaError


def quoted(*parts: str) -> str:
    """Quote a name with double quotes: `quoted("s", "t")` is `"s"."t"`. A NUL in it is an error."""
    return ".".join('"{}"'.format(_checked(part).replace('"', '""')) for part in parts)


def literal(text: str) -> str:
    """Quote a text with single quotes; Redshift takes a backslash in it as an escape. A NUL in it is an error."""
    return "'{}'".format(_checked(text).replace("\\", "\\\\").replace("'", "''"))


def _checked(text: str) -> str:
    if "\0" in text:
        msg = f"{text!r} holds a NUL, which Redshift takes in no name and no text; remove it"
        raise SchemaError(msg)
    return text


def listed(names: Iterable[str]) -> str:
    """Names in double quotes, with commas between them."""
    return ", ".join(quoted(n) for n in names)
