"""JSON: objects with any white space between them.

A block of objects is read by Arrow at once, into the types that the first object has; where an object is otherwise
(a number in a text column, nested values, other letters in a name, something wrong), the block is read object by
object. Numbers for DECIMAL columns go through a double and lose what lies beyond the scale, as Redshift warns;
decimals in quotes stay exact. Of a name that an object has twice the last value counts.
"""

import decimal
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from local_cloud.redshift.copy import blocks, errors, jsonpaths, utf8, values
from local_cloud.redshift.copy.blocks import Block
from local_cloud.redshift.copy.columns import INTEGERS, TEXT, Column
from local_cloud.redshift.copy.errors import BadValue, unsupported
from local_cloud.redshift.copy.pieces import Load, Piece
from local_cloud.redshift.copy.records import Record, careful, quick
from local_cloud.redshift.copy.sources import File, split

LONGEST_OBJECT = 4 << 20
_EXACT_IN_DOUBLE = 2**53
_KINDS = {"real": pa.float64(), "double precision": pa.float64(), "numeric": pa.float64(), "boolean": pa.bool_()}


def pieces(load: Load, file: File) -> Iterator[Piece]:
    """The rows of a file; wrong objects are noted.

    Raises:
        RedshiftError: there were too many wrong objects, or the file cannot be read.
    """
    for column in load.columns:
        if column.type == "varbyte":
            raise unsupported(f"VARBYTE from JSON (column {column.name}); Redshift takes CSV and Parquet")
    paths = _paths(load)
    for block in blocks.blocks(load, file, blocks.last_object):
        found = _rows(load, file, block, paths) if block.data.strip() else None
        if found:
            yield found


def _paths(load: Load) -> list[jsonpaths.Path] | None:
    """Where each column's value is in an object; None: by its name."""
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
        mended = block.data.decode("utf-8", utf8.replace_with(load.command.invalid)).encode()
        block, valid = Block(mended, block.line, block.last), True
    plain = valid and paths is None and len(block.data) <= LONGEST_OBJECT
    texts = _at_once(load, block.data) if plain and not any(column.type == "super" for column in load.columns) else None
    if texts is not None:
        found, right = quick(load, texts)
        if right:
            return found
    return careful(load, file, list(records(load, block, paths)))


def _at_once(load: Load, data: bytes) -> list[pa.Array] | None:
    """The columns, if Arrow reads the block exactly as Redshift does."""
    text = data[: data.find(b"\n") + 1 or len(data)].decode(errors="replace")
    try:
        first, _ = jsonpaths.DECODER.raw_decode(text, jsonpaths.blank(text, 0))
    except ValueError:
        return None
    if not isinstance(first, dict):
        return None
    names = _names(load, first)
    if names is None:
        return None
    fields = [pa.field(name, _kind(column, first.get(name))) for name, column in zip(names, load.columns, strict=True)]
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
    if {name.lower() for name in table.column_names if name not in names} & {name.lower() for name in names}:
        return None
    found = []
    for name, column in zip(names, load.columns, strict=True):
        texts = _texts(load, column, table.column(name).combine_chunks())
        if texts is None:
            return None
        found.append(texts)
    return found


def _names(load: Load, first: Mapping[str, Any]) -> list[str] | None:
    """How the keys of the columns are spelled in an object; None if one is there in two ways."""
    if load.command.json == "auto":
        return [column.name for column in load.columns]
    spelled: dict[str, str] = {}
    for name in first:
        if spelled.setdefault(name.lower(), name) != name:
            return None
    return [spelled.get(column.name.lower(), column.name) for column in load.columns]


def _kind(column: Column, value: object) -> pa.DataType:
    """The type to read a column as, given its first value."""
    if column.type in INTEGERS and not (isinstance(value, str) and not jsonpaths.is_number(value)):
        return pa.int64()
    if isinstance(value, str) and not jsonpaths.is_number(value):
        return pa.string()
    return _KINDS.get(column.type, pa.string())


def _texts(load: Load, column: Column, found: pa.Array) -> pa.Array | None:
    """The column as text, if that is what Redshift would read."""
    if pa.types.is_string(found.type):
        texts = found.cast(values.STRING)
        null = load.command.null_text
        return texts if null is None else pc.if_else(pc.equal(texts, null), pa.scalar(None, values.STRING), texts)
    if column.type == "numeric":
        if (pc.max(pc.abs(found)).as_py() or 0) >= _EXACT_IN_DOUBLE:
            return None
        coded = found.dictionary_encode()
        digits = pa.array([_digits(number) for number in coded.dictionary.to_pylist()], values.STRING)
        return digits.take(coded.indices) if len(digits) else pa.nulls(len(found), values.STRING)
    return found.cast(values.STRING)


def _digits(number: float) -> str:
    """Exactly what a double holds."""
    return f"{decimal.Decimal(number):f}"


def records(load: Load, block: Block, paths: Sequence[jsonpaths.Path] | None) -> Iterator[Record]:
    """The objects one by one."""
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
        said = getattr(error, "msg", str(error))
        end = text.find("\n", at) + 1 or len(text)
        return Record(line, text[at:end].rstrip(), wrong=BadValue(errors.INVALID_LINE, f"Invalid JSON: {said}")), end
    raw = text[at:end]
    if not isinstance(found, dict) and not (paths and isinstance(found, list)):
        wrong = BadValue(errors.INVALID_LINE, "Invalid JSON: not an object")
        return Record(line, raw, wrong=wrong), end
    if end - at > LONGEST_OBJECT // 4 and len(raw.encode(errors="surrogateescape")) > LONGEST_OBJECT:
        wrong = BadValue(errors.INVALID_LINE, f"The JSON object is longer than {LONGEST_OBJECT} bytes")
        return Record(line, raw, wrong=wrong), end
    fields, starts = (
        _by_name(load, raw, found) if isinstance(found, dict) and paths is None else _by_path(load, raw, paths or ())
    )
    return _checked(load, Record(line, raw, fields, starts)), end


def _by_path(load: Load, raw: str, paths: Sequence[jsonpaths.Path]) -> tuple[list[str | None], list[int]]:
    spans = [jsonpaths.span(raw, 0, path) for path in paths]
    fields = [_field(load, column, raw, found) for column, found in zip(load.columns, spans, strict=True)]
    return fields, [found[0] if found else 0 for found in spans]


def _by_name(load: Load, raw: str, found: Mapping[str, Any]) -> tuple[list[str | None], Sequence[int]]:
    folding = load.command.json == "auto ignorecase"
    by_name = {name.lower(): value for name, value in found.items()} if folding else found
    wanted = [by_name.get(column.name) for column in load.columns]
    if not any(
        column.type == "super" or isinstance(value, dict | list)
        for column, value in zip(load.columns, wanted, strict=True)
    ):
        return [_scalar(load, column, value) for column, value in zip(load.columns, wanted, strict=True)], ()
    spans = jsonpaths.members(raw, 0)
    named = {name.lower(): span for name, span in spans.items()} if folding else spans
    places = [named.get(column.name) for column in load.columns]
    fields = [_field(load, column, raw, place) for column, place in zip(load.columns, places, strict=True)]
    return fields, [place[0] if place else 0 for place in places]


def _field(load: Load, column: Column, raw: str, place: jsonpaths.Span | None) -> str | None:
    """The text of a value, given where it is."""
    if place is None or raw.startswith("null", place[0]):
        return None
    if column.type == "super" or raw[place[0]] in "{[":
        return raw[place[0] : place[1]]
    return _scalar(load, column, jsonpaths.DECODER.raw_decode(raw, place[0])[0])


def _scalar(load: Load, column: Column, value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    text = str(value)
    if jsonpaths.is_number(value):
        return _through_double(text) if column.type == "numeric" else text
    return None if text == load.command.null_text else text


def _through_double(text: str) -> str:
    if re.fullmatch(r"-?\d{1,15}", text):
        return text
    if re.fullmatch(r"-?\d+", text) and -(2**63) <= int(text) < 2**63:
        return text
    number = float(text)
    return _digits(number) if abs(number) < float("inf") else text


def _checked(load: Load, record: Record) -> Record:
    """The record, wrong where a text cannot be told in UTF-8."""
    if "\\u" not in record.raw and utf8.bad_text(record.raw) is None:
        return record
    for place, field in enumerate(record.fields):
        bad = utf8.bad_text(field or "")
        if bad is None:
            continue
        if load.command.invalid is not None and load.columns[place].type in TEXT:
            return _checked(load, _mended(record, place, load.command.invalid))
        wrong = BadValue(errors.UTF8, utf8.reason(bad))
        shown = [(text or "").encode(errors="replace").decode() for text in record.fields]
        return Record(record.line, record.raw, shown, record.starts, wrong, place)
    return record


def _mended(record: Record, place: int, character: str) -> Record:
    fields = list(record.fields)
    text = fields[place] or ""
    fields[place] = "".join(character if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    return Record(record.line, record.raw, fields, record.starts)
