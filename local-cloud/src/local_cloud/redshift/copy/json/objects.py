"""Reader of JSON objects with any white space between them.

A block of objects is read at once. Where an object differs from the first (a number or a nested value in a text
column, another spelling of a name, an error), the block is read object by object. Numbers for DECIMAL columns pass
through a double and lose the digits beyond the scale, as Redshift warns; decimals in quotes stay exact. The last of
duplicate names counts. The position of a field in its object is not reported.
"""

import decimal
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from local_cloud.redshift import errors
from local_cloud.redshift.copy.columns import INTEGERS, STRING, TEXT, Column
from local_cloud.redshift.copy.json import paths as jsonpaths
from local_cloud.redshift.copy.sources import File, split
from local_cloud.redshift.copy.text import blocks, utf8
from local_cloud.redshift.copy.text.blocks import Block
from local_cloud.redshift.copy.text.pieces import Load, Piece
from local_cloud.redshift.copy.text.records import Record, careful, quick
from local_cloud.redshift.errors import BadValue, unsupported

# Blocks of JSON objects, read at once (vectorised) where the result is certainly Redshift's.

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
    return {name: pa.array([found.get(name) for found in cut], STRING) for name in names}


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
        texts = found.cast(STRING)
        null = load.command.null_text
        return texts if null is None else pc.if_else(pc.equal(texts, null), pa.scalar(None, STRING), texts)
    if column.type == "numeric":
        if (pc.max(pc.abs(found)).as_py() or 0) >= _EXACT_IN_DOUBLE:
            return None
        coded = found.dictionary_encode()
        exact = pa.array([digits(number) for number in coded.dictionary.to_pylist()], STRING)
        return exact.take(coded.indices) if len(exact) else pa.nulls(len(found), STRING)
    return found.cast(STRING)


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


# Objects one by one.

LONGEST_OBJECT = 4 << 20


def pieces(load: Load, file: File) -> Iterator[Piece]:
    """Yield the rows of a file and record wrong objects."""
    for column in load.columns:
        if column.type == "varbyte":
            raise unsupported(f"VARBYTE from JSON (column {column.name}); Redshift takes CSV and Parquet")
    paths = _paths(load)
    for block in blocks.blocks(load, file, blocks.last_object):
        found = _rows(load, file, block, paths) if block.data.strip() else None
        if found:
            yield found


def _paths(load: Load) -> list[jsonpaths.Path] | None:
    """Return the path of each column's value in an object, or None if values are found by name."""
    option = load.command.json
    if option == "noshred":
        if len(load.columns) != 1 or load.columns[0].type != "super":
            raise errors.RedshiftError("JSON 'noshred' needs a single SUPER column", errors.UNSUPPORTED)
        return [()]
    if not option.startswith("s3://"):
        return None
    if not split(option)[1]:
        raise errors.RedshiftError(f"Invalid JSONPath format: {option} is no object")
    with load.objects.opened(option) as stream:
        return jsonpaths.paths(stream.read(), option, len(load.columns))


def _rows(load: Load, file: File, block: Block, paths: Sequence[jsonpaths.Path] | None) -> Piece | None:
    valid = utf8.bad_bytes(block.data) is None
    if not valid and load.command.invalid is not None:
        replaced = block.data.decode("utf-8", utf8.replace_with(load.command.invalid)).encode()
        block, valid = Block(replaced, block.line), True
    plain = valid and paths is None and len(block.data) <= LONGEST_OBJECT
    texts = at_once(load, block.data) if plain else None
    if texts is not None:
        found, right = quick(load, texts)
        if right:
            return found
    return careful(load, file, list(records(load, block, paths)))


def records(load: Load, block: Block, paths: Sequence[jsonpaths.Path] | None) -> Iterator[Record]:
    """Yield the objects one by one."""
    text = block.data.decode("utf-8", "surrogateescape")
    at = jsonpaths.blank(text, 0)
    line = block.line + text.count("\n", 0, at)
    while at < len(text):
        record, end = _record(load, text, at, line, paths)
        yield record
        end = jsonpaths.blank(text, end)
        line += text.count("\n", at, end)
        at = end


def _record(load: Load, text: str, at: int, line: int, paths: Sequence[jsonpaths.Path] | None) -> tuple[Record, int]:
    try:
        found, end = jsonpaths.DECODER.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", str(error))
        end = text.find("\n", at) + 1 or len(text)
        return Record(line, text[at:end].rstrip(), wrong=BadValue(errors.INVALID_LINE, f"Invalid JSON: {reason}")), end
    raw = text[at:end]
    if not isinstance(found, dict) and not (paths and isinstance(found, list)):
        wrong = BadValue(errors.INVALID_LINE, "Invalid JSON: not an object")
        return Record(line, raw, wrong=wrong), end
    if end - at > LONGEST_OBJECT // 4 and len(raw.encode(errors="surrogateescape")) > LONGEST_OBJECT:
        wrong = BadValue(errors.INVALID_LINE, f"The JSON object is longer than {LONGEST_OBJECT} bytes")
        return Record(line, raw, wrong=wrong), end
    if isinstance(found, dict) and paths is None:
        fields = _by_name(load, raw, found)
    else:
        fields = _by_path(load, raw, paths or ())
    return _checked(load, Record(line, raw, fields)), end


def _by_path(load: Load, raw: str, paths: Sequence[jsonpaths.Path]) -> list[str | None]:
    fields: list[str | None] = []
    for column, path in zip(load.columns, paths, strict=True):
        span = jsonpaths.span(raw, 0, path)
        value = jsonpaths.DECODER.raw_decode(raw, span[0])[0] if span else None
        whole = span is not None and value is not None and (column.type == "super" or isinstance(value, dict | list))
        fields.append(raw[slice(*span)] if span and whole else _scalar(load, column, value))
    return fields


def _by_name(load: Load, raw: str, found: Mapping[str, Any]) -> list[str | None]:
    folding = load.command.json == "auto ignorecase"
    spelled = {name.lower(): name for name in found} if folding else {}
    fields: list[str | None] = []
    for column in load.columns:
        name = spelled.get(column.name, column.name)
        value = found.get(name)
        whole = value is not None and (column.type == "super" or isinstance(value, dict | list))
        fields.append(members(raw, [name])[name] if whole else _scalar(load, column, value))
    return fields


def _scalar(load: Load, column: Column, value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    text = str(value)
    if jsonpaths.is_number(value):
        return through_double(text) if column.type == "numeric" else text
    return None if text == load.command.null_text else text


def _checked(load: Load, record: Record) -> Record:
    """Return the record, marked as wrong if a text cannot be encoded in UTF-8."""
    if "\\u" not in record.raw and utf8.bad_text(record.raw) is None:
        return record
    for place, field in enumerate(record.fields):
        bad = utf8.bad_text(field or "")
        if bad is None:
            continue
        if load.command.invalid is not None and load.columns[place].type in TEXT:
            return _checked(load, _replaced(record, place, load.command.invalid))
        wrong = BadValue(errors.UTF8, utf8.reason(bad))
        shown = [(text or "").encode(errors="replace").decode() for text in record.fields]
        return Record(record.line, record.raw, shown, (), wrong, place)
    return record


def _replaced(record: Record, place: int, character: str) -> Record:
    fields = list(record.fields)
    text = fields[place] or ""
    fields[place] = "".join(character if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    return Record(record.line, record.raw, fields)
