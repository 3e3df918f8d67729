"""Keys of JSON records that are unknown, and their values.

Unknown keys are those that are neither in the schema nor in `ReadOptions.known_columns`, and members of objects that
their struct lacks, at any depth, unless they are excluded. Keys whose value is null are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_json import BadRowError, parse, raw_members, to_json_bytes
from singer_arrow.enforcement.enforce import exclude_from_json, exclude_members, paths_with_exclusions
from singer_arrow.schema.arrow_schema import is_json

NO_FIELD = '"\\' + "".join(map(chr, range(32)))
"""Characters that msgspec does not allow in the name of a field."""
_RAW = pa.null()  # type of a member that the fast check skips


class KnownKeys:
    """Known keys of records and of objects within: columns that are read, and others that are `known`."""

    def __init__(self, schema: pa.Schema, known: frozenset[str], excluded: frozenset[str]) -> None:
        self.names, self._excluded = known.union(schema.names), excluded
        self._nested = {f.name: f.type for f in schema if not is_json(f) and _has_members(f.type)}
        types = dict.fromkeys(self.names, _RAW) | {f.name: f.type for f in schema if f.name in self._nested}
        self._decoder = msgspec.json.Decoder(_object(types, excluded)) if _are_allowed(types) else None

    def all_known(self, data: bytes) -> bool:
        """Return whether lines are certain to have only known keys, by a fast check."""
        if self._decoder is None:
            return False
        decode = self._decoder.decode
        try:
            for line in data.split(b"\n"):
                if line and not line.isspace():
                    decode(line)
        except (msgspec.MsgspecError, RecursionError):
            return False
        return True

    def count(self, lines: Iterable[bytes]) -> Counter[str]:
        """Return how often records hold each unknown key, by its path; lines that are no records are passed over."""
        counts = Counter[str]()
        for line in lines:
            try:
                found = self.unknown(line) if line and not line.isspace() else {}
            except BadRowError:
                continue
            for name, raw in found.items():
                counts.update([name] if name not in self._nested else _paths(parse(raw), self._nested[name], name))
        return counts

    def count_of(self, record: Mapping[str, Any]) -> Counter[str]:
        """Return what `count` does for one record that is parsed."""
        counts = Counter(name for name, value in record.items() if value is not None and name not in self.names)
        for name in self._nested.keys() & record.keys():
            if (extra := _extra(record[name], self._nested[name], self._excluded, name)) is not None:
                counts.update(_paths(extra, self._nested[name], name))
        return counts

    def count_below(self, member: str, data: bytes) -> Counter[str]:
        """Return what `count` does for records that are a member of the objects of whole lines."""
        if self._decoder is not None:
            line = msgspec.defstruct("Line", [("record", self._decoder.type)], rename={"record": member}, gc=False)
            with suppress(msgspec.MsgspecError, RecursionError):
                msgspec.json.Decoder(line).decode_lines(data)
                return Counter()
        return self.count(raw_members(line)[member] for line in data.split(b"\n") if line and not line.isspace())

    def count_in(self, found: Mapping[str, pa.Array], schema: pa.Schema) -> Counter[str]:
        """Return what `count` does, from the columns that Arrow's reader made of all keys; `schema` are those read."""
        counts = Counter[str]()
        for name, column in found.items():
            if name not in self.names:
                counts[name] += len(column) - column.null_count
            elif name in self._nested:
                _count_members(column, schema.field(name), name, counts)
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


def _count_members(column: pa.Array, field: pa.Field, path: str, counts: Counter[str]) -> None:
    t, own = column.type, field.type
    if is_json(field) or not _has_members(own):
        return
    if pt.is_list(t) and pt.is_list(own):
        _count_members(column.flatten(), own.value_field, path, counts)
    elif pt.is_struct(t) and pt.is_map(own):
        for part in column.flatten():
            _count_members(part, own.item_field, path, counts)
    elif pt.is_struct(t) and pt.is_struct(own):
        known = {f.name: f for f in own}
        for member, part in zip(t, column.flatten(), strict=True):
            at = f"{path}.{member.name}"
            if member.name in known:
                _count_members(part, known[member.name], at, counts)
            else:
                counts[at] += len(part) - part.null_count


def types_within(t: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and all types within it."""
    yield t
    for i in range(t.num_fields):
        yield from types_within(t.field(i).type)


def _has_members(t: pa.DataType) -> bool:
    return any(map(pt.is_struct, types_within(t)))


def _are_allowed(types: dict[str, pa.DataType]) -> bool:
    """Return whether msgspec allows all names."""
    return all(
        not any(c in name for c in NO_FIELD) and (not _has_members(t) or _are_allowed(_members(t)))
        for name, t in types.items()
    )


def _members(t: pa.DataType) -> dict[str, pa.DataType]:
    if not pt.is_struct(t):
        return {"": t.value_type if pt.is_list(t) else t.item_type}
    return {f.name: _RAW if is_json(f) else f.type for f in t}


def _object(types: dict[str, pa.DataType], excluded: frozenset[str], path: str | None = None) -> Any:
    """Return a type for objects with the given and the excluded members, and no others."""
    more = () if path is None else paths_with_exclusions(excluded).get(path, ())
    types = dict.fromkeys((name for name in more if not any(c in name for c in NO_FIELD)), _RAW) | types
    below = "" if path is None else f"{path}."
    fields = [
        (f"f{i}", _shape(t, excluded, f"{below}{name}"), msgspec.Raw(b"null"))
        for i, (name, t) in enumerate(types.items())
    ]
    rename = {f"f{i}": name for i, name in enumerate(types)}
    return msgspec.defstruct("Known", fields, rename=rename, gc=False, forbid_unknown_fields=True)


def _shape(t: pa.DataType, excluded: frozenset[str], path: str) -> Any:
    """Return the type by which the fast check decodes a value."""
    if not _has_members(t):
        return msgspec.Raw
    if pt.is_struct(t):
        return _object(_members(t), excluded, path) | None
    inner: Any = _shape(_members(t)[""], excluded, path)
    return list[inner] | None if pt.is_list(t) else dict[str, inner] | None
