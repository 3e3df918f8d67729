"""Why a COPY failed, or what a staging table holds that the table cannot: which file, row, column and value."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.batch.reader import read_file
from singer_arrow.errors import DataError, LoadError, SingerArrowError
from singer_arrow.schema.arrow_schema import json_field
from singer_arrow.storage.storage import Storage
from target_redshift.connection import resources
from target_redshift.connection.client import Redshift
from target_redshift.conversion import (
    MAX_BASE64,
    ConvertibleTextError,
    LongTextError,
    UnloadableValue,
    first_unloadable,
    holds_json,
)
from target_redshift.load.copy_batch import CopyBatch, StagingTables
from target_redshift.tables import staging_columns as staging
from target_redshift.tables.types import MAX_VARBYTE, MAX_VARCHAR, Column

_ABOUT_TEXT = re.compile(r"UTF-?8|length exceeds|NUL|too long|longer than", re.IGNORECASE)
logger = logging.getLogger("target-redshift")


def failed_copy(
    client: Redshift, tables: StagingTables, copy_batch: CopyBatch, storage: Storage, error: LoadError
) -> SingerArrowError:
    """Return the error of the last COPY into staging tables, with file, row, column and value where they can be found.

    Redshift's tables of load errors name file, line and column. For text that does not fit, and for
    columnar files, they hold little; then the text and binary values of the files are checked.
    """
    long = (staging.TEXT, staging.BYTES)
    texts = [c.column for c in copy_batch.layout.columns if c.column and (c.type in long or c.column.kind == "SUPER")]
    most_binary = MAX_VARBYTE if copy_batch.layout.file_format == "parquet" else MAX_BASE64
    load_errors = client.load_errors(tables.session, tables.last)
    if load_errors and not any(_ABOUT_TEXT.search(bad.reason) for bad in load_errors):
        return resources.with_load_errors(error, load_errors)
    try:
        too_long = long_text([copy_batch], texts, storage, MAX_VARCHAR, most_binary=most_binary)
        return too_long or resources.with_load_errors(error, load_errors)
    except DataError as bad:  # the file is invalid: the better error
        return bad
    except SingerArrowError as unreadable:
        logger.debug("The files could not be looked at: %s", unreadable)
        return resources.with_load_errors(error, load_errors)


def long_text(
    copy_batches: Sequence[CopyBatch],
    columns: Sequence[Column],
    storage: Storage,
    most: int,
    *,
    most_binary: int = MAX_VARBYTE,
) -> DataError | None:
    """Return the first value in files loaded as they are that is longer than its column, or has a NUL.

    It is a `ConvertibleTextError` if conversion of the file can keep the value.
    """

    def look(array: pa.Array, column: Column) -> UnloadableValue | None:
        bad = first_unloadable(array, most_binary if column.kind == "VARBYTE" else most, is_json=holds_json(column))
        if bad and bad.kind is LongTextError and (column.is_rescued or holds_json(column)):
            return replace(bad, kind=ConvertibleTextError)
        return bad

    return _first(copy_batches, columns, storage, _as_text, look)


def null_key(copy_batches: Sequence[CopyBatch], columns: Sequence[Column], storage: Storage) -> DataError | None:
    """Return the first null in key columns of files loaded as they are."""

    def look(array: pa.Array, column: Column) -> UnloadableValue | None:  # noqa: ARG001 - as all that look
        row = pc.index(array.is_null(), True).as_py()
        hint = "Set other key_properties, or load_method: append-only"
        return None if row < 0 else UnloadableValue(row, "a key property is null", hint)

    return _first(copy_batches, columns, storage, lambda c: pa.field(c.source, c.arrow), look)


def _as_text(column: Column) -> pa.Field:
    if column.kind == "VARBYTE":
        return pa.field(column.source, pa.binary())
    return json_field(column.source) if holds_json(column) else pa.field(column.source, pa.string())


def _first(
    copy_batches: Iterable[CopyBatch],
    columns: Sequence[Column],
    storage: Storage,
    field: Callable[[Column], pa.Field],
    look: Callable[[pa.Array, Column], UnloadableValue | None],
) -> DataError | None:
    schema = pa.schema([field(c) for c in columns])
    for copy_batch in copy_batches:
        for file in [] if copy_batch.is_staged_here or not columns else copy_batch.files:
            before = 0
            for batch in read_file(storage, file.url, format=copy_batch.layout.file_format, schema=schema):
                for column, array in zip(columns, batch.columns, strict=True):
                    if bad := look(array, column):
                        return bad.error(file.url, column.source, before, copy_batch.layout.file_format)
                before += batch.num_rows
    return None
