"""Check the shape of SCHEMA messages and catalogs before they are used. Pure.

The readers of JSON Schema assume the types of its keywords, for example that `properties` is an object. Without these
checks they would fail with a Python error that does not name the property.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singer_arrow.casting.from_json import json_kind
from singer_arrow.casting.from_text import shorten
from singer_arrow.errors import DataError, SchemaError

LARGEST = (1 << 63) - 1
_BRANCHES = ("anyOf", "oneOf", "allOf")


def check_schema(stream: str, schema: Any, keys: Any) -> None:
    """Check the shape of a SCHEMA message; the SchemaError names the property."""
    what = f"SCHEMA of stream {stream!r}"
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        raise SchemaError(f"{what} has no properties; a table needs at least one column")
    if not (keys is None or (isinstance(keys, list) and all(isinstance(k, str) for k in keys))):
        raise SchemaError(f"{what} has key_properties {shorten(keys)}; they must be a list of names")
    _check(schema, what, "")


def is_unicode_text(value: Any) -> bool:
    """Return whether a value is text that UTF-8 can encode; JSON can contain lone surrogates, which it cannot."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def check_version(version: Any) -> None:
    """Check that the version of an ACTIVATE_VERSION message is an integer that a column can hold."""
    if not isinstance(version, int) or isinstance(version, bool) or not -LARGEST - 1 <= version <= LARGEST:
        msg = f"'version' must be an integer of 64 bits, it is {shorten(version)}; this is an error of the tap"
        raise DataError(msg)


def _check(node: Mapping[str, Any], what: str, path: str) -> None:
    def refuse(key: str, expected: str) -> SchemaError:
        of = f" of property {path!r}" if path else ""
        return SchemaError(
            f"{what}: {key!r}{of} must be {expected}, it is {json_kind(node[key])}; correct it in the tap"
        )

    properties = node.get("properties", {})
    if not isinstance(properties, Mapping):
        raise refuse("properties", "an object")
    for branch in _BRANCHES:
        if not isinstance(node.get(branch, []), list):
            raise refuse(branch, "a list")
    kinds = node.get("type", [])
    if not isinstance(kinds, str) and not (isinstance(kinds, list) and all(isinstance(kind, str) for kind in kinds)):
        raise refuse("type", "text or a list of texts")
    if not isinstance(node.get("format", ""), str | None):
        raise refuse("format", "text")
    for name, inner in properties.items():
        inside = f"{path}.{name}" if path else name
        if not is_unicode_text(name):
            raise SchemaError(f"{what}: the name {name!r} of a property is no Unicode; correct it in the tap")
        if isinstance(inner, Mapping):
            _check(inner, what, inside)
    others = [node.get("items"), *(b for branch in _BRANCHES for b in node.get(branch, []))]
    for inner in others:
        if isinstance(inner, Mapping):
            _check(inner, what, path)
