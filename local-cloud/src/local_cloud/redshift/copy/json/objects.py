"""Reader of JSON objects with any white space between them.

A block of objects is read at once. Where an object differs from the first (a number or a nested value in a text
column, another spelling of a name, an error), the block is read object by object. Numbers for DECIMAL columns pass
through a double and lose the digits beyond the scale, as Redshift warns; decimals in quotes stay exact. The last of
duplicate names counts. The position of a field in its object is not reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from local_cloud.redshift.copy import errors
from local_cloud.redshift.copy.columns import TEXT, Column
from local_cloud.redshift.copy.errors import BadValue, unsupported
from local_cloud.redshift.copy.json import blocks as json_blocks
from local_cloud.redshift.copy.json import paths as jsonpaths
from local_cloud.redshift.copy.json.blocks import members, through_double
from local_cloud.redshift.copy.sources import File, split
from local_cloud.redshift.copy.text import blocks, utf8
from local_cloud.redshift.copy.text.blocks import Block
from local_cloud.redshift.copy.text.pieces import Load, Piece
from local_cloud.redshift.copy.text.records import Record, careful, quick

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
    texts = json_blocks.at_once(load, block.data) if plain else None
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
