"""Write JSON Lines: RFC 3339 timestamps, ISO dates, exact decimals as numbers, base64 bytes, null for NaN.

polars encodes most types. Decimals, JSON text, maps, and nested columns with one of them are encoded here, as columns
of JSON text that are then joined with the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib
from pyarrow import types as pt

from singer_arrow.casting.to_json import check_years, is_list, iso_texts, json_texts, printable
from singer_arrow.errors import ConfigError, DataError, SchemaError
from singer_arrow.formats.base import PLAIN, WriteOptions
from singer_arrow.schema.arrow_schema import is_json

if TYPE_CHECKING:
    import polars as pl


_SLICE_BYTES = 8 << 20
_GZIP_LEVEL = 1
_FRACTIONS = {"s": "", "ms": "%.3f", "us": "%.6f", "ns": "%.9f"}


class JsonLinesWriting:
    """The method `write` of the format `jsonl`."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, options: WriteOptions = PLAIN
    ) -> int:
        """Write a file as `WritableFormat.write` does; compressed by gzip unless `none`. Nulls are written."""
        codec = options.compression or "gzip"
        if codec not in ("gzip", "none"):
            raise ConfigError(f"compression {codec!r} is not possible for JSONL batch files; use gzip or none")
        encoder, rows, most = JsonEncoder(schema), 0, min(options.held_bytes, _SLICE_BYTES)
        with path.open("wb") as file:
            packer = isal_zlib.compressobj(_GZIP_LEVEL, wbits=31) if codec == "gzip" else None
            for batch in batches:
                step = max(1, batch.num_rows * most // max(1, batch.nbytes))
                for start in range(0, batch.num_rows, step):
                    lines = encoder.lines(batch.slice(start, step))
                    file.write(lines if packer is None else packer.compress(lines))
                rows += batch.num_rows
            if packer is not None:
                file.write(packer.flush())
        return rows


class JsonEncoder:
    """Encoder of batches of one schema; a SchemaError if JSON has no counterpart of a type."""

    def __init__(self, schema: pa.Schema) -> None:
        for field in schema:
            _check_type(field.type, field.name)
        self._with_nul = [f.name for f in schema if _has_nul(f)]
        self._schema = pa.schema([f for f in schema if f.name not in self._with_nul])
        self._encoded_here = {f.name for f in self._schema if _needs_text(f)}
        self._corrections: list[pl.Expr] | None = None

    def lines(self, batch: pa.RecordBatch, before: str = "", after: str = "") -> memoryview:
        """Return one line for each row: its record, between `before` and `after`.

        Raises DataError if a date or timestamp lies outside the years 1 to 9999, JSON text is not JSON, or a column has
        values and NUL in its name.
        """
        import polars as pl

        for name in self._with_nul:
            if batch.column(name).null_count < batch.num_rows:
                reason = "it has values, and the character NUL in its name or a member's"
                raise DataError(reason, column=name, hint="Leave it out by selection, or rename it at the source")
        if self._with_nul:
            batch = batch.select(self._schema.names)
        if not self._schema.names or not batch.num_rows:
            return memoryview(f"{before}{{}}{after}\n".encode() * batch.num_rows)
        for field, column in zip(self._schema, batch.columns, strict=True):
            check_years(column, field.name)
        columns = list[pa.Array]()
        for field, column in zip(self._schema, batch.columns, strict=True):
            if field.name in self._encoded_here:
                columns.append(pc.fill_null(json_texts(column, field), "null"))
            elif pt.is_timestamp(field.type) or pt.is_time(field.type):
                columns.append(iso_texts(column))
            else:
                columns.append(printable(column))
        frame = pl.DataFrame(pa.RecordBatch.from_arrays(columns, names=self._schema.names))
        if self._corrections is None:
            types = zip(frame.schema.items(), self._schema, strict=True)
            found = [(name, _corrected_column(pl.nth(i), dtype, f.type)) for i, ((name, dtype), f) in enumerate(types)]
            self._corrections = [expr.alias(name) for name, expr in found if expr is not None]
        lines = pl.concat_str(pl.lit(before), *self._record(), pl.lit(f"{after}\n"))
        texts = frame.with_columns(self._corrections).select(lines).to_series().to_arrow().cast(pa.large_string())
        _, offsets, data = texts.buffers()
        ends = memoryview(offsets).cast("q")
        return memoryview(data.slice(ends[texts.offset], ends[texts.offset + len(texts)] - ends[texts.offset]))

    def _record(self) -> list[pl.Expr]:
        """Return the text of the record: runs of columns that polars encodes, and columns encoded here."""
        import polars as pl

        if not self._encoded_here:
            return [pl.struct(pl.all()).struct.json_encode()]
        parts, run, between = [pl.lit("{")], list[pl.Expr](), ""

        def close_run() -> None:
            nonlocal between
            if run:
                body = pl.struct(run).struct.json_encode().str.strip_prefix("{").str.strip_suffix("}")
                parts.extend([pl.lit(between), body])
                between = ","
                run.clear()

        for i, name in enumerate(self._schema.names):  # by number: `pl.col` takes some names for patterns
            if name not in self._encoded_here:
                run.append(pl.nth(i))
                continue
            close_run()
            parts.extend([pl.lit(between + json.dumps(name, ensure_ascii=False) + ":"), pl.nth(i)])
            between = ","
        close_run()
        return [*parts, pl.lit("}")]


def _needs_text(field: pa.Field) -> bool:
    """Return whether polars cannot encode the field."""
    t = field.type
    if is_json(field) or pt.is_map(t) or pt.is_decimal(t):
        return True
    if pt.is_struct(t):
        # polars takes some names of members for patterns of names.
        is_odd = any(name == "*" or (name.startswith("^") and name.endswith("$")) for name in (f.name for f in t))
        return t.num_fields == 0 or is_odd or any(map(_needs_text, t))
    return bool(is_list(t) and _needs_text(t.value_field))


def _corrected_column(expr: pl.Expr, dtype: Any, t: pa.DataType) -> pl.Expr | None:
    """Return an expression with the values that polars encodes correctly; None if it does already."""
    import polars as pl

    if isinstance(dtype, pl.Datetime) and dtype.time_zone != "UTC":  # without a zone polars writes no T
        return expr.dt.replace_time_zone("UTC") if dtype.time_zone is None else expr.dt.convert_time_zone("UTC")
    if dtype == pl.Binary:  # makes polars panic
        return expr.bin.encode("base64")
    if dtype.is_float() and dtype != pl.Float64:  # with fewer digits it would be another number in a float64
        return expr.cast(pl.Float64)
    if isinstance(dtype, pl.Array):
        return _corrected_column(expr.arr.to_list(), pl.List(dtype.inner), t) or expr.arr.to_list()
    if isinstance(dtype, pl.List):
        inner = _corrected_part(pl.element(), dtype.inner, t.value_type)
        return None if inner is None else expr.list.eval(inner)
    if isinstance(dtype, pl.Struct):
        parts = zip(dtype.fields, t, strict=True)
        corrected = [(f.name, _corrected_part(expr.struct.field(f.name), f.dtype, part.type)) for f, part in parts]
        changed = [e.alias(name) for name, e in corrected if e is not None]
        return expr.struct.with_fields(changed) if changed else None
    return None


def _corrected_part(expr: pl.Expr, dtype: Any, t: pa.DataType) -> pl.Expr | None:
    """Correct a nested value: a warehouse may keep its text, which must be the same in all messages."""
    if pt.is_timestamp(t):
        in_utc = _corrected_column(expr, dtype, t)
        return (expr if in_utc is None else in_utc).dt.strftime(f"%Y-%m-%dT%H:%M:%S{_FRACTIONS[t.unit]}Z")
    if pt.is_time(t):
        return expr.dt.strftime(f"%H:%M:%S{_FRACTIONS[t.unit]}")
    return _corrected_column(expr, dtype, t)


def _check_type(t: pa.DataType, name: str) -> None:
    if isinstance(t, pa.BaseExtensionType) or pt.is_union(t) or pt.is_interval(t) or pt.is_run_end_encoded(t):
        msg = f"Column {name!r} is of type {t}, which has no counterpart in JSON; leave it out by selection"
        raise SchemaError(msg)
    for i in range(t.num_fields):
        _check_type(t.field(i).type, name)


def _has_nul(field: pa.Field) -> bool:
    """Return whether a name in a field has the character NUL, where polars would cut it."""
    return "\0" in field.name or any(_has_nul(field.type.field(i)) for i in range(field.type.num_fields))
