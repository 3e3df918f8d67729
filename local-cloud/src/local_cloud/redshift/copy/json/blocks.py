"""Blocks of JSON objects, read at once (vectorised) where the result is certainly Redshift's.

Arrow reads the scalars, in the types that the first object has. The texts of SUPER values are cut out of the lines.
"""

import decimal
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from local_cloud.redshift.copy.columns import INTEGERS, Column
from local_cloud.redshift.copy.json import paths as jsonpaths
from local_cloud.redshift.copy.text import values
from local_cloud.redshift.copy.text.pieces import Load

_EXACT_IN_DOUBLE = 2**53
_KINDS = {"real": pa.float64(), "double precision": pa.float64(), "numeric": pa.float64(), "boolean": pa.bool_()}
_DEEPER = re.compile(r"[\[\]{}]")


def at_once(load: Load, data: bytes) -> list[pa.Array] | None:
    """Return the columns of a block as text, or None if it must be read object by object."""
    text = data[: data.find(b"\n") + 1 or len(data)].decode(errors="replace")
    try:
        first, _ = jsonpaths.DECODER.raw_decode(text, jsonpaths.blank(text, 0))
    except ValueError:
        return None
    names = _names(load, first) if isinstance(first, dict) else None
    if names is None:
        return None
    trees = [column.name for column in load.columns if column.type == "super"]
    if trees and (len(trees) == len(load.columns) or load.command.json != "auto"):
        return None
    table = _scalars(load, data, names, first)
    cut = _trees(data.decode(), trees, table.num_rows) if table is not None and trees else {}
    if table is None or cut is None:
        return None
    found = [
        cut[column.name] if column.name in cut else _texts(load, column, table.column(name).combine_chunks())
        for name, column in zip(names, load.columns, strict=True)
    ]
    return None if any(column is None for column in found) else found


def _scalars(load: Load, data: bytes, names: Sequence[str], first: Mapping[str, Any]) -> pa.Table | None:
    """Return the columns that are not SUPER, or None if Arrow cannot read them or a key has another spelling."""
    fields = [
        pa.field(name, _kind(column, first.get(name)))
        for name, column in zip(names, load.columns, strict=True)
        if column.type != "super"
    ]
    folding = load.command.json == "auto ignorecase"
    try:
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(block_size=len(data) + 1),
            arrow_json.ParseOptions(
                explicit_schema=pa.schema(fields), unexpected_field_behavior="infer" if folding else "ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    others = {name.lower() for name in table.column_names if name not in names}
    return None if others & {name.lower() for name in names} else table


def _trees(text: str, names: Sequence[str], rows: int) -> dict[str, pa.Array] | None:
    """Return the texts of the members of these names, or None unless there is one object a line."""
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    if len(lines) != rows:
        return None
    try:
        cut = [members(line, names) for line in lines]
    except (ValueError, IndexError, RecursionError):
        return None
    return {name: pa.array([found.get(name) for found in cut], values.STRING) for name in names}


def members(line: str, names: Sequence[str]) -> dict[str, str]:
    """Return the texts of some members of an object as written, without null and absent ones."""
    found: dict[str, str] = {}
    places = sorted((line.find(f'"{name}"'), name) for name in names)
    at = line.index("{") + 1
    for start, name in places:
        # Certain: a name that occurs once, without a bracket since the object began or the last value ended.
        colon = jsonpaths.blank(line, start + len(name) + 2)
        if start < 0 or line.count(f'"{name}"') > 1 or line[colon] != ":" or _DEEPER.search(line, at, start):
            return _members(line, names)
        begin = jsonpaths.blank(line, colon + 1)
        at = jsonpaths.DECODER.raw_decode(line, begin)[1]
        found[name] = line[begin:at]
    return {name: text for name, text in found.items() if text != "null"}


def _members(line: str, names: Sequence[str]) -> dict[str, str]:
    spans = jsonpaths.members(line, line.index("{"))
    texts = {name: line[slice(*spans[name])] for name in names if name in spans}
    return {name: text for name, text in texts.items() if text != "null"}


def _names(load: Load, first: Mapping[str, Any]) -> list[str] | None:
    """Return the spelling of the columns' keys in an object, or None if one key has two spellings."""
    if load.command.json == "auto":
        return [column.name for column in load.columns]
    spelled: dict[str, str] = {}
    for name in first:
        if spelled.setdefault(name.lower(), name) != name:
            return None
    return [spelled.get(column.name.lower(), column.name) for column in load.columns]


def _kind(column: Column, value: object) -> pa.DataType:
    """Return the type to read a column as, given its first value."""
    if column.type in INTEGERS and not (isinstance(value, str) and not jsonpaths.is_number(value)):
        return pa.int64()
    if isinstance(value, str) and not jsonpaths.is_number(value):
        return pa.string()
    return _KINDS.get(column.type, pa.string())


def _texts(load: Load, column: Column, found: pa.Array) -> pa.Array | None:
    """Return the column as text, or None if that may differ from Redshift."""
    if pa.types.is_string(found.type):
        texts = found.cast(values.STRING)
        null = load.command.null_text
        return texts if null is None else pc.if_else(pc.equal(texts, null), pa.scalar(None, values.STRING), texts)
    if column.type == "numeric":
        if (pc.max(pc.abs(found)).as_py() or 0) >= _EXACT_IN_DOUBLE:
            return None
        coded = found.dictionary_encode()
        exact = pa.array([digits(number) for number in coded.dictionary.to_pylist()], values.STRING)
        return exact.take(coded.indices) if len(exact) else pa.nulls(len(found), values.STRING)
    return found.cast(values.STRING)


def digits(number: float) -> str:
    """Return the exact decimal digits of a double."""
    return f"{decimal.Decimal(number):f}"


def through_double(text: str) -> str:
    if re.fullmatch(r"-?\d{1,15}", text):
        return text
    if re.fullmatch(r"-?\d+", text) and -(2**63) <= int(text) < 2**63:
        return text
    number = float(text)
    return digits(number) if abs(number) < float("inf") else text
