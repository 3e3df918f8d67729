"""Keys of JSON records that are unknown, and their values.

Unknown keys are those that are neither in the schema nor in `ReadOptions.known_columns`, and members of objects that
their struct lacks, at any depth, unless they are excluded. Keys whose value is null are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_json import BadRowError, parse, raw_members, to_json_bytes
from singer_arrow.enforcement.enforce import exclude_from_json, exclude_members
from singer_arrow.schema.arrow_schema import is_json


class KnownKeys:
    """Known keys of records and of objects within: columns that are read, and others that are `known`."""

    def __init__(self, schema: pa.Schema, known: frozenset[str], excluded: frozenset[str]) -> None:
        self.names, self._excluded = known.union(schema.names), excluded
        self._nested = {f.name: f.type for f in schema if not is_json(f) and _has_members(f.type)}

    def has_unknown_members(self, name: str, raw: bytes) -> bool:
        """Return whether the JSON of a column's value has members that have no place."""
        nested = self._nested.get(name)
        return nested is not None and _extra(parse(raw), nested, self._excluded, name) is not None

    def count(self, lines: Iterable[bytes]) -> Counter[str]:
        """Return how often records hold each unknown key, by its path; lines that are no records are passed over."""
        counts = Counter[str]()
        for line in lines:
            with suppress(BadRowError):
                record = parse(line)
                counts += self.count_of(record) if isinstance(record, dict) else {}
        return counts

    def count_of(self, record: Mapping[str, Any]) -> Counter[str]:
        """Return what `count` does for one record that is parsed."""
        counts = Counter[str]()
        for name, value in record.items():
            if name in self._nested and (extra := _extra(value, self._nested[name], self._excluded, name)) is not None:
                counts.update(_paths(extra, self._nested[name], name))
            elif name not in self.names:
                kept = exclude_members(value, None, self._excluded, name)
                counts[name] += kept is not None and (bool(kept) or not value)
        return +counts

    def unknown(self, line: bytes) -> dict[str, bytes]:
        """Return the JSON of a record's unknown values, by column; of a known one an object of its unknown members."""
        found = {}
        for name, raw in raw_members(line).items():
            if name not in self.names:
                kept = exclude_from_json(raw, None, self._excluded, name)
                if kept != b"null" and (kept == raw or kept != b"{}"):
                    found[name] = kept
            elif name in self._nested:
                extra = _extra(parse(raw), self._nested[name], self._excluded, name)
                if extra is not None:
                    found[name] = to_json_bytes(extra)
        return found


def _extra(value: Any, t: pa.DataType, excluded: frozenset[str], path: str) -> Any:
    """Return the unknown members of a value, nested as in the value; None if there are none.

    For an array a list with those of each element, or null; for a map those of its items.
    """
    if pt.is_struct(t) and isinstance(value, dict):
        known, parts = {f.name: f for f in t}, {}
        for name, member in value.items():
            at = f"{path}.{name}"
            if name in known:
                parts[name] = None if is_json(known[name]) else _extra(member, known[name].type, excluded, at)
            elif at not in excluded:
                kept = exclude_members(member, None, excluded, at)
                parts[name] = kept if kept or not member else None
        return {name: part for name, part in parts.items() if part is not None} or None
    if pt.is_list(t) and isinstance(value, list):
        items = [_extra(v, t.value_type, excluded, path) for v in value]
        return items if any(item is not None for item in items) else None
    if pt.is_map(t) and isinstance(value, dict):
        parts = {k: _extra(v, t.item_type, excluded, path) for k, v in value.items()}
        return {k: part for k, part in parts.items() if part is not None} or None
    return None


def _paths(value: Any, t: pa.DataType, path: str) -> Iterator[str]:
    """Yield the path of each unknown member of a result of `_extra`."""
    if pt.is_struct(t):
        known = {f.name: f.type for f in t}
        for name, member in value.items():
            yield from _paths(member, known[name], f"{path}.{name}") if name in known else [f"{path}.{name}"]
        return
    item = t.value_type if pt.is_list(t) else t.item_type
    for member in value if pt.is_list(t) else value.values():
        if member is not None:
            yield from _paths(member, item, path)


def types_within(t: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and all types within it."""
    yield t
    for i in range(t.num_fields):
        yield from types_within(t.field(i).type)


def _has_members(t: pa.DataType) -> bool:
    return any(map(pt.is_struct, types_within(t)))
