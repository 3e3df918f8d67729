"""Which keys of records are known, and what stands under those that are not.

News are keys of records that are neither in the schema nor known, and members of objects that their struct lacks, at
any depth. A key whose value is null is none: nothing is lost with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.formats.jsonl_rows import any_json, parse, raw_members
from singer_arrow.schema import is_json

NO_FIELD = '"\\' + "".join(map(chr, range(32)))
"""Characters that msgspec allows in no field's name."""
_RAW = pa.null()  # of a member that the quick look passes over


@dataclass(frozen=True, slots=True)
class News:
    """What is new in one line.

    Attributes:
        line: Its number.
        values: By column, the JSON of a new column's value, or of an object of the new members of a column's value.
    """

    line: int
    values: dict[str, bytes]


class Keys:
    """The keys that are known.

    Args:
        schema: The columns that are read.
        known: Columns that are not read and not new.
    """

    def __init__(self, schema: pa.Schema, known: Iterable[str]) -> None:
        self.names = frozenset(schema.names).union(known)
        self._nested = {f.name: f.type for f in schema if not is_json(f) and _has_members(f.type)}
        types = dict.fromkeys(self.names, _RAW) | {f.name: f.type for f in schema if f.name in self._nested}
        self._decoder = msgspec.json.Decoder(_object(types)) if _can_have(types) else None

    def all_known(self, data: bytes) -> bool:
        """Whether lines hold no news, as far as a quick look tells: if they do not, it may be for other reasons."""
        if self._decoder is None:
            return False
        decode = self._decoder.decode
        try:
            for line in data.split(b"\n"):
                if line and not line.isspace():
                    decode(line)
        except msgspec.MsgspecError:
            return False
        return True

    def news(self, line: bytes) -> dict[str, bytes]:
        """What is new in a record.

        Raises:
            BadRowError: It is none.
        """
        found = {}
        for name, raw in raw_members(line).items():
            if name not in self.names:
                if raw != b"null":
                    found[name] = raw
            elif name in self._nested and (extra := _extra(parse(raw), self._nested[name])) is not None:
                found[name] = any_json(extra)
        return found


def _extra(value: Any, t: pa.DataType) -> Any:
    """The members of a value that its type has no place for, where they stand; None if there are none.

    Of an array, each element's, or null; of a map, those of its items.
    """
    if pt.is_struct(t) and isinstance(value, dict):
        known = {f.name: f for f in t}
        parts = {k: _extra(v, known[k].type) if k in known and not is_json(known[k]) else v for k, v in value.items()}
        return {k: v for k, v in parts.items() if v is not None and not (k in known and is_json(known[k]))} or None
    if pt.is_list(t) and isinstance(value, list):
        items = [_extra(v, t.value_type) for v in value]
        return items if any(item is not None for item in items) else None
    if pt.is_map(t) and isinstance(value, dict):
        return {k: e for k, v in value.items() if (e := _extra(v, t.item_type)) is not None} or None
    return None


def _has_members(t: pa.DataType) -> bool:
    return pt.is_struct(t) or any(_has_members(t.field(i).type) for i in range(t.num_fields))


def _can_have(types: dict[str, pa.DataType]) -> bool:
    """Whether msgspec can have such names."""
    return all(
        not any(c in name for c in NO_FIELD) and (not _has_members(t) or _can_have(_members(t)))
        for name, t in types.items()
    )


def _members(t: pa.DataType) -> dict[str, pa.DataType]:
    if not pt.is_struct(t):
        return {"": t.value_type if pt.is_list(t) else t.item_type}
    return {f.name: _RAW if is_json(f) else f.type for f in t}


def _object(types: dict[str, pa.DataType]) -> Any:
    """Objects of some members and no others."""
    fields = [(f"f{i}", _shape(t), msgspec.Raw(b"null")) for i, t in enumerate(types.values())]
    rename = {f"f{i}": name for i, name in enumerate(types)}
    return msgspec.defstruct("Known", fields, rename=rename, gc=False, forbid_unknown_fields=True)


def _shape(t: pa.DataType) -> Any:
    """What of a value the quick look wants."""
    if not _has_members(t):
        return msgspec.Raw
    if pt.is_struct(t):
        return _object(_members(t)) | None
    inner: Any = _shape(_members(t)[""])
    return list[inner] | None if pt.is_list(t) else dict[str, inner] | None
