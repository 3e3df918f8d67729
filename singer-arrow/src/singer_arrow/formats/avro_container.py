"""Avro: header and blocks of a container file; Arrow schema <-> Avro schema."""

from __future__ import annotations

import bz2
import json
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.compression import read_varint
from singer_arrow.errors import ConfigError, DataError, SchemaError
from singer_arrow.formats.base import too_large
from singer_arrow.schema.arrow_schema import UTC_MICROSECONDS, is_json, json_field

# Avro container files: a header with the schema, then blocks of encoded rows, each followed by the file's marker.
#
# Blocks are decompressed and joined as bytes, without decoding rows. See the Avro specification, "Object Container
# Files".

MAGIC = b"Obj\x01"
MARKER = bytes.fromhex("5e1f8a0c77d24b3f9a6c21e0b4d8f356")
"""Marker of files that we write; constant, so that the same rows give the same file."""
_LARGEST_BLOCK, _PIECE = 1 << 30, 4 << 20
MOST_WITHOUT_BYTES = 1 << 20
"""Rows of a file that take no byte, as all their values are null by their type."""


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a container file."""

    schema: dict[str, Any]
    codec: str
    marker: bytes


class Source(Protocol):
    """A source of bytes that returns fewer than requested only at its end."""

    def read(self, n: int) -> bytes:
        """Return the next `n` bytes."""
        ...


def write_header(schema: dict[str, Any], codec: str) -> bytes:
    """Return the header of a container with the marker `MARKER`."""
    metadata = {"avro.codec": codec.encode(), "avro.schema": json.dumps(schema).encode()}
    out = [MAGIC, _long(len(metadata))]
    for key, value in metadata.items():
        out += [_long(len(key)), key.encode(), _long(len(value)), value]
    return b"".join([*out, _long(0), MARKER])


def write_block(rows: int, data: bytes | memoryview, codec: str) -> bytes:
    """Return a block of `rows` encoded rows."""
    packed = compress_block(data, codec)
    return b"".join((_long(rows), _long(len(packed)), packed, MARKER))


def read_header(source: Source, url: object = None) -> Header:
    """Read the header; a DataError if it is invalid or truncated."""
    if _take(source, 4, url) != MAGIC:
        raise DataError("it is not an Avro file", url=url)
    metadata: dict[str, bytes] = {}
    while count := _read_long(source, url):
        if count < 0:  # a negative count is followed by the size of the entries in bytes
            _read_long(source, url)
        for _ in range(abs(count)):
            key = _take(source, _read_long(source, url), url).decode()
            metadata[key] = _take(source, _read_long(source, url), url)
    try:
        schema = json.loads(metadata["avro.schema"])
    except (KeyError, ValueError):
        raise DataError("its header holds no schema", url=url) from None
    return Header(schema, metadata.get("avro.codec", b"null").decode(), _take(source, 16, url))


def read_blocks(
    source: Source, header: Header, url: object = None, *, most: int = _LARGEST_BLOCK
) -> Iterator[tuple[int, bytes]]:
    """Yield the following blocks, decompressed: number of rows, and their bytes, of which `most` are allowed."""
    while (first := source.read(1)) != b"":
        rows = _read_long(source, url, first)
        size = _read_long(source, url)
        if not (rows >= 0 and 0 <= size <= _LARGEST_BLOCK):
            raise _damaged(url)
        data = _take(source, size, url)
        if _take(source, 16, url) != header.marker:
            raise _damaged(url)
        yield rows, decompress_block(data, header.codec, url, most=most)


def possible_blocks(blocks: Iterable[tuple[int, bytes]], schema: Any, url: object) -> Iterator[tuple[int, bytes]]:
    """Yield blocks; DataError if one has fewer bytes than its rows take, or all have very many rows that take none."""
    row_size, without_bytes = least_size(schema), 0
    for rows, data in blocks:
        if rows * row_size > len(data):
            raise _damaged(url)
        without_bytes += 0 if row_size else rows
        if without_bytes > MOST_WITHOUT_BYTES:
            reason = f"it has {without_bytes:,} rows or more that take no byte; {MOST_WITHOUT_BYTES:,} are read at most"
            raise DataError(reason, url=url, hint="Leave the file out")
        yield rows, data


def split_blocks(container: memoryview, start: int) -> Iterator[tuple[int, memoryview]]:
    """Yield the blocks of an uncompressed container in memory from `start`, without a copy."""
    while start < len(container):
        rows, start = _long_at(container, start)
        size, start = _long_at(container, start)
        yield rows, container[start : start + size]
        start += size + 16


def header_size(container: memoryview) -> int:
    """Return the offset of the first block of a container in memory."""
    at = len(MAGIC)
    while True:
        count, at = _long_at(container, at)
        if not count:
            return at + 16
        for _ in range(2 * count):
            size, at = _long_at(container, at)
            at += size


def compress_block(data: bytes | memoryview, codec: str) -> bytes:
    """Compress a block; a ConfigError if the codec is not supported."""
    if codec == "null":
        return bytes(data)
    if codec == "deflate":
        squeezer = zlib.compressobj(1, wbits=-15)
        return squeezer.compress(data) + squeezer.flush()
    if codec == "snappy":  # the specification adds the checksum of the uncompressed bytes
        packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
        return packed + zlib.crc32(data).to_bytes(4, "big")
    if codec == "zstandard":
        squeezed: bytes = pa.Codec("zstd", compression_level=1).compress(data, asbytes=True)
        return squeezed
    raise ConfigError(f"Avro files are not written with the codec {codec!r}; use null, deflate, snappy or zstandard")


def decompress_block(data: bytes, codec: str, url: object = None, *, most: int = _LARGEST_BLOCK) -> bytes:
    """Decompress a block; a DataError if it is damaged or above `most` bytes, soon after which this stops."""
    try:
        plain = _decompressed(data, codec, most + 1)
    except (zlib.error, OSError, ValueError, IndexError, EOFError, lzma.LZMAError):
        raise _damaged(url) from None
    if plain is None:
        raise DataError(f"its blocks are compressed with the codec {codec!r}, which is not known", url=url)
    if len(plain) > most:
        raise too_large("a block of rows", len(plain), most, url=url)
    return plain


def _decompressed(data: bytes, codec: str, most: int) -> bytes | None:
    """Return the first `most` bytes of a block, verified if it has no more; None if the codec is unknown."""
    match codec:
        case "null":
            return data
        case "deflate":
            return _inflated(zlib.decompressobj(wbits=-15), data, most)
        case "snappy":
            size, _ = read_varint(memoryview(data), 0)
            if size >= most:
                return bytes(most)
            plain: bytes = pa.Codec("snappy").decompress(data[:-4], decompressed_size=size, asbytes=True)
            if zlib.crc32(plain).to_bytes(4, "big") != data[-4:]:
                raise ValueError("its checksum is another")
            return plain
        case "zstandard":
            stream, found, left = pa.CompressedInputStream(pa.BufferReader(data), "zstd"), list[bytes](), most
            while left > 0 and (piece := stream.read(min(left, _PIECE))):  # it makes room for all that is requested
                found.append(piece)
                left -= len(piece)
            return b"".join(found)
        case "bzip2":
            return _inflated(bz2.BZ2Decompressor(), data, most)
        case "xz":
            return _inflated(lzma.LZMADecompressor(), data, most)
    return None


def _inflated(unpacker: Any, data: bytes, most: int) -> bytes:
    plain: bytes = unpacker.decompress(data, most)
    if len(plain) < most and not unpacker.eof:
        raise EOFError("it ends before its end")
    return plain


def repack(header: Header, blocks: Iterable[tuple[int, bytes]], schema: dict[str, Any] | None = None) -> bytes:
    """Return a container of uncompressed blocks, optionally with another schema of the same encoding."""
    return b"".join(
        (write_header(schema or header.schema, "null"), *(write_block(rows, data, "null") for rows, data in blocks))
    )


def _damaged(url: object) -> DataError:
    return DataError("a block of the Avro file is damaged or broken off", url=url, hint="Write the file again")


def _take(source: Source, n: int, url: object) -> bytes:
    data = source.read(n) if n > 0 else b""
    if n < 0 or len(data) != n:
        raise _damaged(url)
    return data


def _read_long(source: Source, url: object, first: bytes = b"") -> int:
    value = shift = 0
    byte = first or _take(source, 1, url)
    while True:
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        byte = _take(source, 1, url)


def _long_at(data: memoryview, at: int) -> tuple[int, int]:
    value, at = read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _long(value: int) -> bytes:
    """Encode a number as a zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# How many bytes values take at least. Pure.

_SIZES = {"null": 0, "float": 4, "double": 8, "boolean": 1, "int": 1, "long": 1, "bytes": 1, "string": 1, "enum": 1}


def least_size(schema: Any) -> int:
    """Return how many bytes a value of an Avro schema takes at least."""
    return _least_size(schema, {})


def _least_size(schema: Any, named: dict[str, int]) -> int:
    if isinstance(schema, list):
        return 1 + min((_least_size(branch, named) for branch in schema), default=0)
    if isinstance(schema, str):
        return _SIZES.get(schema, named.get(schema, named.get(schema.rpartition(".")[2], 0)))
    kind, name = schema["type"], schema.get("name", "")
    if kind == "fixed":
        named[name] = int(schema["size"])
        return named[name]
    if kind in ("array", "map"):
        return 1
    if kind in ("record", "error"):
        named[name] = 0  # within itself
        named[name] = sum(_least_size(field["type"], named) for field in schema["fields"])
        return named[name]
    named[name] = _least_size(kind, named)
    return named[name]


def refuse_lists_without_bytes(schema: Any, url: object) -> None:
    """Raise DataError for lists whose items take no byte: a few bytes would make any number of items."""

    def check(part: Any, path: str, named: dict[str, int]) -> None:
        if isinstance(part, list):
            for branch in part:
                check(branch, path, named)
        elif isinstance(part, Mapping):
            if part["type"] == "array" and _least_size(part["items"], named) == 0:
                reason = "its items take no byte, as they are null by their type, and such lists are not read"
                raise DataError(reason, url=url, column=path, hint="Write the file without it")
            for field in part.get("fields", ()):
                check(field["type"], f"{path}.{field['name']}" if path else field["name"], named)
            for inner in ("type", "items", "values"):
                if isinstance(part.get(inner), (list, Mapping)):
                    check(part[inner], path, named)

    named: dict[str, int] = {}
    _least_size(schema, named)  # which fills in the sizes of names
    check(schema, "", named)


# Arrow schema <-> Avro schema. Pure.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_MILLISECONDS, _NANOSECONDS = pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC")
_COMPLEX = ("record", "error", "enum", "fixed", "array", "map")
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): _MILLISECONDS,
    ("long", "timestamp-micros"): UTC_MICROSECONDS,
    ("long", "timestamp-nanos"): _NANOSECONDS,
    ("long", "local-timestamp-millis"): _MILLISECONDS,
    ("long", "local-timestamp-micros"): UTC_MICROSECONDS,
    ("long", "local-timestamp-nanos"): _NANOSECONDS,
}
"""Arrow types of logical types that are stored as integers; on other types they are ignored."""


def to_avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Return the Avro schema of an Arrow schema; every column is nullable, array items are not.

    Dates, times and timestamps are logical types of microseconds, decimals logical types of bytes, and JSON text is a
    string that BigQuery loads as JSON (`sqlType`). A name or type that Avro does not allow is a SchemaError.
    """
    return _record("row", list(schema))


def _record(name: str, fields: list[pa.Field]) -> dict[str, Any]:
    for field in fields:
        if not _NAME.fullmatch(field.name):
            msg = f"Column {field.name!r} cannot be written to Avro: its name may hold letters, digits and _ only"
            raise SchemaError(msg)
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f.name, "type": ["null", _type(f, f"{name}_{f.name}")], "default": None} for f in fields],
    }


def _type(field: pa.Field, path: str) -> Any:
    t = field.type
    if is_json(field):
        return {"type": "string", "sqlType": "JSON"}
    if pt.is_struct(t):
        return _record(path, list(t))
    if pt.is_list(t) or pt.is_large_list(t):
        return {"type": "array", "items": _type(t.value_field, f"{path}_item")}
    if pt.is_map(t):
        return {"type": "map", "values": _type(t.item_field, f"{path}_value")}
    if pt.is_uint64(t):
        return {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}
    if pt.is_decimal(t):
        return {"type": "bytes", "logicalType": "decimal", "precision": t.precision, "scale": max(0, t.scale)}
    if pt.is_integer(t):
        return "long"
    if pt.is_floating(t):
        return "double"
    if pt.is_timestamp(t):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if pt.is_time(t):
        return {"type": "long", "logicalType": "time-micros"}
    if pt.is_date(t):
        return {"type": "int", "logicalType": "date"}
    if pt.is_boolean(t):
        return "boolean"
    if pt.is_binary(t) or pt.is_large_binary(t) or pt.is_fixed_size_binary(t):
        return "bytes"
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_null(t):
        return "string"
    raise SchemaError(f"Column {field.name!r} is of type {t}, which Avro cannot hold")


def from_avro_schema(schema: Any, url: object = None) -> pa.Schema:
    """Return the Arrow schema of a file; unions of several types become JSON text."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise DataError("its rows are not records", url=url)
    named: dict[str, Any] = {}
    return pa.schema(list(_read_record(schema, named)))


def _read_record(schema: Mapping[str, Any], named: dict[str, Any]) -> pa.StructType:
    fields = []
    named[schema["name"]] = None  # a record within itself has no Arrow type
    for field in schema["fields"]:
        t = _read(field["type"], named)
        fields.append(json_field(field["name"]) if t is None else pa.field(field["name"], t))
    named[schema["name"]] = pa.struct(fields)
    return named[schema["name"]]


def _read(schema: Any, named: dict[str, Any]) -> pa.DataType | None:
    """Return the Arrow type; None for JSON text."""
    if isinstance(schema, list):
        branches = [b for b in schema if b != "null"]
        return _read(branches[0], named) if len(branches) == 1 else None
    if isinstance(schema, str):
        return _PRIMITIVES[schema] if schema in _PRIMITIVES else named.get(schema, named.get(schema.rpartition(".")[2]))
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema["precision"], schema.get("scale", 0)
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    if (of_integers := _LOGICAL.get((kind, logical)) if isinstance(kind, str) else None) is not None:
        return of_integers
    if kind == "record":
        return _read_record(schema, named)
    if kind == "array":
        items = _read(schema["items"], named)
        return None if items is None else pa.list_(items)
    if kind == "map":
        values = _read(schema["values"], named)
        return None if values is None else pa.map_(pa.string(), values)
    if kind in ("enum", "fixed"):
        named[schema["name"]] = pa.string() if kind == "enum" else pa.binary()
        return named[schema["name"]]
    return _read(kind, named)


def without_logical_types(schema: Any) -> Any:
    """Return the Avro schema without logical types stored as integers or text, so that decoders return stored values.

    Dates and times within unions of several types are kept, because these become JSON text. All are kept if such a
    union names a type defined elsewhere.
    """
    return _stripped(schema, temporal=not _has_named_union(schema))


def _stripped(schema: Any, *, temporal: bool) -> Any:
    if isinstance(schema, list):
        return [_stripped(b, temporal=temporal and not _is_mixed(schema)) for b in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {k: _stripped(schema[k], temporal=temporal) for k in ("items", "values") if k in schema}
    if "fields" in schema:
        inner["fields"] = [{**f, "type": _stripped(f["type"], temporal=temporal)} for f in schema["fields"]]
    if not isinstance(schema["type"], str):
        inner["type"] = _stripped(schema["type"], temporal=temporal)
    logical = schema.get("logicalType")
    dropped = logical == "uuid" or (temporal and (schema["type"], logical) in _LOGICAL if logical else False)
    return {k: v for k, v in {**schema, **inner}.items() if not (dropped and k == "logicalType")}


def _is_mixed(union: list[Any]) -> bool:
    return len([b for b in union if b != "null"]) > 1


def _has_named_union(schema: Any, *, mixed: bool = False) -> bool:
    """Return whether a union of several types names a type defined elsewhere, at any depth."""
    if isinstance(schema, list):
        return any(_has_named_union(b, mixed=mixed or _is_mixed(schema)) for b in schema)
    if isinstance(schema, Mapping):
        parts = [schema[k] for k in ("type", "items", "values") if k in schema and schema[k] not in _COMPLEX]
        return any(_has_named_union(p, mixed=mixed) for p in (*parts, *(f["type"] for f in schema.get("fields", ()))))
    return mixed and schema not in _PRIMITIVES
