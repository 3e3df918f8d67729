"""Parquet files, column by column, with types that must be the table's own.

Redshift reads columnar files with another engine than text: it converts and skips nothing, and a value that
does not fit fails the whole load without a row in stl_load_errors. Refused here, although Redshift reads them:
nanoseconds (Redshift reads them wrongly), and bytes inside nested values.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from local_cloud.redshift.copy.columns import STRING, TEXT, YEAR_1, Column, scalar
from local_cloud.redshift.copy.json import nested
from local_cloud.redshift.copy.sources import File
from local_cloud.redshift.copy.text.pieces import Load, Piece, piece
from local_cloud.redshift.copy.text.utf8 import invalid_text, replaced
from local_cloud.redshift.errors import UNSUPPORTED, RedshiftError, spectrum

_BATCH_BYTES, _BATCH_ROWS = 16 << 20, 1 << 12
# 294276-12-31, the last day of both, and 4713-11-24 BC, the first.
_RANGES = {"date": (-2440588, 106751990), "timestamp": (-210866803200000000, 9223371331199999999)}
_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"}
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"}  # of Parquet v1, which is documented
_PLAIN = {
    "smallint": (pa.int8(), pa.int16()),
    "integer": (pa.int32(),),
    "bigint": (pa.int64(),),
    "real": (pa.float32(),),
    "double precision": (pa.float64(),),
    "boolean": (pa.bool_(),),
    "date": (pa.date32(),),
    "timestamp": (),
    "varchar": (pa.string(), pa.large_string()),
    "char": (pa.string(), pa.large_string()),
    "varbyte": (pa.binary(), pa.large_binary()),
}


def pieces(load: Load, file: File) -> Iterator[Piece]:
    """Yield the rows of a file, or fail at the first value that does not fit."""
    with load.objects.opened(file.url) as stream:
        data = pa.py_buffer(stream.read())
    try:
        # INT96 has no unit of its own; read as microseconds it differs from a timestamp in nanoseconds.
        source = pa.BufferReader(data)
        repeating = repeating_columns(pq.read_metadata(source))
        reader = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", read_dictionary=repeating)
        schema = reader.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise spectrum(15001, f"File '{file.url}' has an invalid version number or is no Parquet: {error}") from None
    check(load, file, schema)
    groups = [reader.metadata.row_group(n) for n in range(reader.metadata.num_row_groups)]
    chunks = [group.column(n) for group in groups for n in range(group.num_columns)]
    used = {c.compression for c in chunks} - _CODECS | {e for c in chunks for e in c.encodings} - _ENCODINGS
    if used:
        raise spectrum(15001, f"File '{file.url}' cannot be read: {min(used)} is not supported")
    try:
        for batch in reader.iter_batches(_rows_of(reader.metadata)):
            missing = [pa.nulls(batch.num_rows, STRING)] * (len(load.columns) - batch.num_columns)
            columns = zip(load.columns, (*batch.columns, *missing), strict=True)
            found = piece(load.columns, [_text(load, file, column, values) for column, values in columns])
            if found:
                yield found
    except (pa.ArrowException, OSError) as error:
        raise spectrum(15001, f"File '{file.url}' cannot be read: {error}") from None


def repeating_columns(metadata: pq.FileMetaData) -> list[str]:
    """Return text columns that are smaller than the sum of their values: columns with few distinct values."""
    found = []
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        chunks = [metadata.row_group(group).column(place) for group in range(metadata.num_row_groups)]
        is_text = column.logical_type.type == "STRING" and "." not in column.path
        if is_text and all(chunk.total_uncompressed_size < 4 * chunk.num_values for chunk in chunks):
            found.append(column.path)
    return found


def _rows_of(metadata: pq.FileMetaData) -> int:
    size = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    return int(max(1, min(_BATCH_ROWS, _BATCH_BYTES * max(1, metadata.num_rows) // max(1, size))))


def check(load: Load, file: File, schema: pa.Schema) -> None:
    """Refuse other columns than the table's. Columns match by position, and their types must be the same."""
    expected, found = len(load.columns), len(schema)
    if found > expected or (found < expected and not load.command.has("fillrecord")):
        raise spectrum(
            15007,
            f"Unmatched number of columns between table and file. Table columns: {expected}, Data columns: {found}, "
            f"File name: {file.url}",
        )
    for column, field in zip(load.columns, schema, strict=False):
        if column.type == "super" and not load.command.has("serializetojson"):
            raise RedshiftError(
                f"SUPER column in COPY query requires SERIALIZETOJSON option: column {column.name}", UNSUPPORTED
            )
        if not fits(column, field.type):
            raise spectrum(
                15001,
                f"File '{file.url}' has an incompatible Parquet schema for column '{file.url}.{field.name}'. "
                f"Column type: {_shown(column)}, Parquet schema: {field.type}",
            )


def fits(column: Column, kind: pa.DataType) -> bool:
    """Whether Redshift loads this type into the column. Pure."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if column.type == "timestamp":
        return bool(pa.types.is_timestamp(kind) and kind.unit in ("ms", "us"))
    if column.type == "numeric":
        same = pa.types.is_decimal(kind) and (kind.precision, kind.scale) == (column.precision, column.scale)
        return bool(same and not pa.types.is_decimal256(kind))
    if column.type == "super":
        return bool(pa.types.is_nested(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))
    return kind in _PLAIN.get(column.type, ())


def _shown(column: Column) -> str:
    return f"{column.type.upper()}({column.size})" if column.size != "0" else column.type.upper()


def _text(load: Load, file: File, column: Column, values: pa.Array) -> pa.Array:
    """Return a column in PostgreSQL's text form."""
    if values.null_count and not column.nullable:
        raise spectrum(15001, f"NULL in column {column.name}, which is NOT NULL. File name: {file.url}")
    if pa.types.is_dictionary(values.type):
        if column.type in TEXT:
            known = _characters(load, file, column, values.dictionary)
            return pa.DictionaryArray.from_arrays(values.indices, known)
        values = values.dictionary_decode()
    if column.type in TEXT:
        return _characters(load, file, column, values)
    if column.type in _RANGES:
        return _moments(file, column, values)
    if column.type == "varbyte":
        _check_lengths(file, column, values)
        return hexadecimal(values)
    if column.type == "super":
        return _json(file, column, values)
    return values.cast(STRING)


def _characters(load: Load, file: File, column: Column, values: pa.Array) -> pa.Array:
    text = values.cast(STRING, safe=False)
    bad = invalid_text(text)
    if bad is not None and load.command.invalid is not None:
        text = replaced(text, load.command.invalid)
    elif bad is not None:
        raise spectrum(15001, f"Invalid UTF-8 in column {column.name}: {bad}. File name: {file.url}")
    if pc.any(pc.match_substring(text, "\0")).as_py():
        raise spectrum(15001, f"NUL (0x00) in the text of column {column.name}. File name: {file.url}")
    if column.type == "char" and not pc.all(pc.string_is_ascii(text)).as_py():
        raise spectrum(
            15001, f"Multibyte character not supported for CHAR: column {column.name}. File name: {file.url}"
        )
    _check_lengths(file, column, text)
    return text


def _check_lengths(file: File, column: Column, values: pa.Array) -> None:
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    if column.length is not None and longest > column.length:
        raise spectrum(
            15001,
            f"The length of the data column {column.name} is longer than the length defined in the table. "
            f"Table: {column.length}, Data: {longest}, File name: {file.url}",
        )


def _moments(file: File, column: Column, values: pa.Array) -> pa.Array:
    """Return dates and timestamps as text. Arrow counts years through 0; PostgreSQL writes earlier years as "BC"."""
    if column.type == "timestamp":
        values = values.cast(pa.timestamp(values.type.unit)).cast(pa.timestamp("us"))
    numbers = values.view(pa.int32() if column.type == "date" else pa.int64())
    least, most = _RANGES[column.type]
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is None:
        return values.cast(STRING)
    if bounds["min"] < least or bounds["max"] > most:
        raise spectrum(
            15001, f"{column.type} out of range in column {column.name} (4713 BC to 294276). File name: {file.url}"
        )
    text = values.cast(STRING)
    if bounds["min"] < YEAR_1[column.type]:
        return pa.array([_before_christ(item) for item in text.to_pylist()], STRING)
    return text


def _before_christ(text: str | None) -> str | None:
    if text is None:
        return None
    year, rest = text.removeprefix("-").split("-", 1)
    number = -int(year) if text.startswith("-") else int(year)
    return text if number > 0 else f"{1 - number:04d}-{rest} BC"


def hexadecimal(values: pa.Array) -> pa.Array:
    r"""Return bytes as PostgreSQL's \x and hexadecimal digits: encodes the data once and doubles the offsets."""
    values = values.cast(pa.large_binary())
    data, ends = values.buffers()[2], values.buffers()[1]
    digits = pa.py_buffer((data.to_pybytes() if data is not None else b"").hex().encode())
    offsets = pa.Array.from_buffers(pa.int64(), values.offset + len(values) + 1, [None, ends])
    doubled = pc.multiply(offsets, 2)
    text = pa.Array.from_buffers(
        STRING, len(values), [values.buffers()[0], doubled.buffers()[1], digits], offset=values.offset
    )
    return pc.binary_join_element_wise(scalar("\\x"), text, scalar(""))


def _json(file: File, column: Column, values: pa.Array) -> pa.Array:
    try:
        text = nested.json_text(values)
    except TypeError as error:
        raise spectrum(
            15001, f"column {column.name} holds {error}, which SERIALIZETOJSON cannot write. File name: {file.url}"
        ) from None
    bad = invalid_text(text)
    if bad is not None or pc.any(pc.match_substring_regex(text, r"(^|[^\\])(\\\\)*\\u0000")).as_py():
        raise spectrum(15001, f"Invalid text inside column {column.name}: {bad or 'NUL'}. File name: {file.url}")
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    if longest > 16 << 20:
        raise spectrum(15001, f"column {column.name} holds an object of {longest} bytes, SUPER takes 16 MB")
    return text
