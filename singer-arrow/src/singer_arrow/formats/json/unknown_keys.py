"""Find the keys of records that are unknown, and their values.

Unknown keys are those that are neither in the schema nor in `ReadOptions.known_columns`, and members of objects that
their struct lacks, at any depth, unless they are excluded. Keys whose value is null are ignored.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_json import parse, raw_members, to_json_bytes
from singer_arrow.enforcement.excluded_members import exclude_from_json, exclude_members
from singer_arrow.enforcement.schema_drift import paths_with_exclusions
from singer_arrow.schema.arrow_schema import is_json

NO_FIELD = '"\\' + "".join(map(chr, range(32)))
"""Characters that msgspec does not allow in the name of a field."""
_RAW = pa.null()  # type of a member that the fast check skips


class KnownKeys:
    """Keys of records and of objects within that are known.

    Args:
        schema: Columns that are read.
        known: Other columns that are known.
        excluded: As `ReadOptions.excluded_members`.
    """

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

    def unknown(self, line: bytes) -> dict[str, bytes]:
        """Return the JSON of unknown values, by column; of a known column an object of its unknown members.

        Raises:
            BadRowError: The line is not a record.
        """
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


def _has_members(t: pa.DataType) -> bool:
    return pt.is_struct(t) or any(_has_members(t.field(i).type) for i in range(t.num_fields))


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
