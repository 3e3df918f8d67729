"""JSON Lines, written: RFC 3339 timestamps, ISO dates, exact decimals as numbers, base64 bytes, null for NaN.

polars prints what it prints right. Decimals, JSON text, maps, and nested columns that hold one of them are printed
here, as columns of JSON text that are then set between the others.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib
from pyarrow import types as pt

from singer_arrow.errors import ConfigError, DataError, SchemaError
from singer_arrow.schema import is_json

if TYPE_CHECKING:
    import polars as pl

_SLICE_BYTES = 8 << 20
_GZIP_LEVEL = 1
_ENCODER = msgspec.json.Encoder()
_LAST_YEAR = (-62135596800, 253402300800)  # seconds from 1970 to the years 1 and 10000


class JsonLinesWriting:
    """The writing half of the format."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, *, compression: str | None = None
    ) -> int:
        """See `WritableFormat.write`; gzip by default, or none. Each record holds all columns, null or not."""
        codec = compression or "gzip"
        if codec not in ("gzip", "none"):
            msg = f"compression {compression!r} is none that JSONL batch files can have; use gzip or none"
            raise ConfigError(msg)
        encoder, rows = JsonEncoder(schema), 0
        with path.open("wb") as file:
            sink: _Sink = _Gzip(file) if codec == "gzip" else file
            for batch in batches:
                for part in _slices(batch):
                    sink.write(encoder.lines(part))
                    rows += part.num_rows
            sink.flush()
        return rows


class _Sink(Protocol):
    def write(self, data: Any, /) -> Any: ...
    def flush(self) -> None: ...


class _Gzip:
    """A gzip member, streamed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._compressor = isal_zlib.compressobj(_GZIP_LEVEL, wbits=31)

    def write(self, data: Any) -> None:
        self._file.write(self._compressor.compress(data))

    def flush(self) -> None:
        self._file.write(self._compressor.flush())


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * _SLICE_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


class JsonEncoder:
    """Encodes batches of one schema.

    Raises:
        SchemaError: A column's type has no counterpart in JSON.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        for field in schema:
            _check_type(field.type, field.name)
        self._printed_here = {f.name for f in schema if _needs_text(f)}

    def lines(self, batch: pa.RecordBatch) -> Any:
        """One line for each row, as bytes or a view of some.

        Raises:
            DataError: A date or timestamp lies outside the years 1 to 9999, or JSON text is not JSON.
        """
        import polars as pl

        if not self._schema.names:
            return b"{}\n" * batch.num_rows
        for field, column in zip(self._schema, batch.columns, strict=True):
            _check_years(column, field.name)
        frame = pl.DataFrame({f.name: self._series(c, f) for f, c in zip(self._schema, batch.columns, strict=True)})
        out = io.BytesIO()
        if self._printed_here:
            frame.select(self._line()).write_csv(out, include_header=False, quote_style="never")
        else:
            frame.write_ndjson(out)
        return out.getbuffer()

    def _series(self, column: pa.Array, field: pa.Field) -> pl.Series:
        import polars as pl

        if field.name in self._printed_here:
            return pl.Series(field.name, pl.from_arrow(pc.fill_null(_texts(column, field), "null")))
        series = pl.Series(field.name, pl.from_arrow(_plain(column)))
        mended = _mended(pl.col(field.name), series.dtype)
        return series if mended is None else series.to_frame().select(mended.alias(field.name)).to_series()

    def _line(self) -> pl.Expr:
        """The record's text: runs of columns that polars prints, and between them those printed here."""
        import polars as pl

        parts, run, between = [pl.lit("{")], list[str](), ""

        def close_run() -> None:
            nonlocal between
            if run:
                body = pl.struct(run).struct.json_encode().str.slice(1).str.head(-1)
                parts.extend([pl.lit(between), body])
                between = ","
                run.clear()

        for name in self._schema.names:
            if name not in self._printed_here:
                run.append(name)
                continue
            close_run()
            parts.extend([pl.lit(between + json.dumps(name, ensure_ascii=False) + ":"), pl.col(name)])
            between = ","
        close_run()
        return pl.concat_str(*parts, pl.lit("}"))


def _needs_text(field: pa.Field) -> bool:
    """Whether polars prints the field not as JSON should be."""
    t = field.type
    if is_json(field) or pt.is_map(t) or pt.is_decimal(t):
        return True
    if pt.is_struct(t):
        return t.num_fields == 0 or any(_needs_text(f) for f in t)
    return bool(_is_list(t) and _needs_text(t.value_field))


def _plain(column: pa.Array) -> pa.Array:
    """The column in a type that polars takes as it is."""
    t = column.type
    if pt.is_dictionary(t):
        return column.dictionary_decode()
    if pt.is_float16(t):
        return column.cast(pa.float32())
    if pt.is_duration(t):
        return column.cast(pa.int64())
    if pt.is_timestamp(t) and t.unit == "s":
        return column.cast(pa.timestamp("ms", t.tz))
    if pt.is_time(t):
        return column.cast(pa.time64("ns"))
    if pt.is_fixed_size_binary(t):
        return column.cast(pa.binary())
    return column


def _mended(expr: pl.Expr, dtype: Any) -> pl.Expr | None:
    """What makes a column print as it should; None if it does already."""
    import polars as pl

    if isinstance(dtype, pl.Datetime) and dtype.time_zone != "UTC":  # without a zone it has no T
        return expr.dt.replace_time_zone("UTC") if dtype.time_zone is None else expr.dt.convert_time_zone("UTC")
    if dtype == pl.Binary:  # makes polars panic
        return expr.bin.encode("base64")
    if isinstance(dtype, pl.Array):
        return _mended(expr.arr.to_list(), pl.List(dtype.inner)) or expr.arr.to_list()
    if isinstance(dtype, pl.List):
        inner = _mended(pl.element(), dtype.inner)
        return None if inner is None else expr.list.eval(inner)
    if isinstance(dtype, pl.Struct):
        mended = [(f.name, _mended(expr.struct.field(f.name), f.dtype)) for f in dtype.fields]
        changed = [e.alias(name) for name, e in mended if e is not None]
        return expr.struct.with_fields(changed) if changed else None
    return None


def _texts(column: pa.Array, field: pa.Field) -> pa.Array:
    """The JSON text of each value."""
    if pt.is_decimal(field.type):
        return column.cast(pa.string())
    return pa.array([_ENCODER.encode(value).decode() for value in _values(column, field)], pa.string())


def _values(column: pa.Array, field: pa.Field) -> list[Any]:
    """The values as msgspec encodes them to the JSON that they should be."""
    t = field.type
    if is_json(field):
        return [_raw_json(text, field.name) for text in column.to_pylist()]
    if pt.is_decimal(t):
        return [None if text is None else msgspec.Raw(text.encode()) for text in column.cast(pa.string()).to_pylist()]
    if pt.is_struct(t):
        members = [_values(part, f) for f, part in zip(t, column.flatten(), strict=True)]
        names, valid = [f.name for f in t], column.is_valid().to_pylist()
        rows = zip(*members, strict=True) if members else [()] * len(column)
        return [dict(zip(names, row, strict=True)) if ok else None for row, ok in zip(rows, valid, strict=True)]
    if pt.is_map(t):
        keys = column.keys.cast(pa.string()).to_pylist()
        items = _values(column.items, t.item_field)
        return [None if r is None else dict(zip(keys[r], items[r], strict=True)) for r in _ranges(column)]
    if pt.is_fixed_size_list(t):
        return _values(column.cast(pa.list_(t.value_field)), field.with_type(pa.list_(t.value_field)))
    if _is_list(t):
        items = _values(column.values, t.value_field)
        return [None if r is None else items[r] for r in _ranges(column)]
    return _scalars(_plain(column))


def _ranges(column: Any) -> list[slice | None]:
    offsets, valid = column.offsets.to_pylist(), column.is_valid().to_pylist()
    return [slice(a, b) if ok else None for a, b, ok in zip(offsets, offsets[1:], valid, strict=False)]


def _scalars(column: pa.Array) -> list[Any]:
    t = column.type
    if pt.is_timestamp(t):
        text = pc.replace_substring(column.cast(pa.timestamp(t.unit, "UTC")).cast(pa.string()), " ", "T")
        return list(text.to_pylist())
    if pt.is_date(t) or pt.is_time(t):
        return list(column.cast(pa.string()).to_pylist())
    if pt.is_binary(t) or pt.is_large_binary(t):
        return [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
    if pt.is_floating(t):
        return [v if v is not None and math.isfinite(v) else None for v in column.to_pylist()]
    return list(column.to_pylist())


def _raw_json(text: str | None, column: str) -> msgspec.Raw | None:
    if text is None:
        return None
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        reason = f"{text[:60]!r} is not JSON ({error})"
        raise DataError(reason, column=column) from None
    if "\n" in text or "\r" in text:  # stand between tokens only
        text = text.replace("\n", " ").replace("\r", " ")
    return msgspec.Raw(text.encode())


def _check_type(t: pa.DataType, name: str) -> None:
    if isinstance(t, pa.BaseExtensionType) or pt.is_union(t) or pt.is_interval(t) or pt.is_run_end_encoded(t):
        msg = f"Column {name!r} is of type {t}, which has no counterpart in JSON; leave it out by selection"
        raise SchemaError(msg)
    for i in range(t.num_fields):
        _check_type(t.field(i).type, name)


def _check_years(column: pa.Array, name: str) -> None:
    t = column.type
    if pt.is_struct(t):
        for part in column.flatten():
            _check_years(part, name)
    elif pt.is_map(t):
        _check_years(column.items, name)
    elif _is_list(t):
        _check_years(column.flatten(), name)
    elif pt.is_date(t) or pt.is_timestamp(t):
        unit = pa.date32() if pt.is_date(t) else pa.timestamp("s", t.tz)
        found = pc.min_max(column.cast(unit, safe=False))
        per_day = 86400 if pt.is_date(t) else 1
        low, high = (found[k].value for k in ("min", "max"))
        if low is not None and not (_LAST_YEAR[0] <= low * per_day and high * per_day < _LAST_YEAR[1]):
            reason = "a date lies outside the years 1 to 9999, which JSON's timestamps cannot hold"
            raise DataError(reason, column=name)


def _is_list(t: pa.DataType) -> bool:
    return bool(pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t))
