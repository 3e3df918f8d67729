"""Converted rows -> files that COPY reads: Parquet by default, gzip JSON Lines or gzip CSV where it is set."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit
from singer_arrow.errors import DataError
from singer_arrow.formats import WRITABLE
from target_redshift.sql import NULL_TEXT

_SLICE_BYTES = 8 << 20
_GZIP_LEVEL = 1


@dataclass(frozen=True, slots=True)
class UploadEncoding:
    """Parquet with zstd as batch files have it, one JSON object a line in gzip, or CSV in gzip.

    CSV has commas, double quotes and no header; binary is in base64.
    """

    file_format: str
    schema: pa.Schema

    @property
    def suffix(self) -> str:
        return {"parquet": ".parquet", "jsonl": ".jsonl.gz", "csv": ".csv.gz"}[self.file_format]

    def write(self, batches: Iterable[pa.RecordBatch], path: Path) -> int:
        if self.file_format == "parquet":
            return WRITABLE["parquet"].write(fit_batches(batches, self.schema), self.schema, path, compression="zstd")
        if self.file_format == "jsonl":
            spelled = fit_batches((_spelled(batch) for batch in batches), self.schema)
            return WRITABLE["jsonl"].write(spelled, self.schema, path, compression="gzip")
        from isal import igzip

        opened: Any = igzip.open  # it has no types
        rows = 0
        with opened(path, "wb", compresslevel=_GZIP_LEVEL) as out:
            for batch in fit_batches(batches, self.schema):
                step = max(1, batch.num_rows * _SLICE_BYTES // max(1, batch.nbytes))
                for start in range(0, batch.num_rows, step):
                    out.write(_csv(batch.slice(start, step)))
                rows += batch.num_rows
        return rows


def fit_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches in exactly that schema, column by column."""
    for batch in batches:
        pairs = zip(batch.columns, schema, strict=True)
        arrays = [array if array.type == field.type else fit(array, field) for array, field in pairs]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _spelled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with numbers as text: infinity of floats as a whole word, decimals with all digits.

    Arrow writes small decimals with an exponent, which COPY does not take.
    """
    import polars as pl

    for i, array in enumerate(batch.columns):
        if pt.is_floating(array.type):
            text = pc.replace_substring(array.cast(pa.string()), "inf", "Infinity")
        elif pt.is_decimal(array.type):
            text = pl.Series(pl.from_arrow(array)).cast(pl.String).to_arrow().cast(pa.string())
        else:
            continue
        batch = batch.set_column(i, batch.schema.field(i).with_type(pa.string()), text)
    return batch


def _csv(batch: pa.RecordBatch) -> Any:
    import polars as pl

    out = io.BytesIO()
    series = {}
    for i, array in enumerate(_spelled(batch).columns):
        column = pl.Series(pl.from_arrow(_printable(array)))
        series[f"c{i}"] = column.bin.encode("base64") if column.dtype == pl.Binary else column
    pl.DataFrame(series).write_csv(
        out,
        include_header=False,
        null_value=NULL_TEXT,
        quote_style="necessary",
        datetime_format="%Y-%m-%d %H:%M:%S%.6f",
    )
    return out.getbuffer()


def _printable(column: pa.Array) -> pa.Array:
    """Return dates as Arrow prints them, and instants without their zone, which is UTC; no text may be `NULL_TEXT`."""
    if pt.is_string(column.type) and pc.any(pc.equal(column, NULL_TEXT)).as_py():
        reason = f"a text is {NULL_TEXT!r}, which means null in CSV"
        raise DataError(reason, hint="Set load_format: auto")
    if pt.is_date(column.type):
        return column.cast(pa.string())
    if pt.is_timestamp(column.type):
        return column.cast(pa.timestamp("us"))
    return column
