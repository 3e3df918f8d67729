"""Batch files -> Arrow batches, also files of other taps and of the SDK's encoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from singer_arrow.batch import spool
from singer_arrow.batch.file_properties import FileProperties
from singer_arrow.errors import DataError, EmptyObjectError, NotFoundError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress, Skipped
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url


def read_file(
    storage: Storage,
    url: str,
    *,
    format: str,  # noqa: A002
    schema: pa.Schema,
    on_skip: Callable[[Skipped], None] | None = None,
    is_counted: bool = False,
    properties: FileProperties | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file of a manifest, in order, in batches of exactly `schema`.

    Columns that the file lacks are null, columns that `schema` lacks are not read. Text columns accept other kinds as
    JSON text, because a JSON Schema of several types becomes text. Decimals with a fraction are rounded where the
    schema has floats, and nanoseconds cut to microseconds, as in text. Compression is detected by the first bytes,
    because the SDK's JSONL encoder compresses even without `compression`. Rows of the format `spool` already have the
    schema.

    Rows that do not fit are skipped and passed to `on_skip`; without it such a row is a DataError. Unless rows are
    counted by the caller (`is_counted`), an Arrow stream without an end mark, which may have been cut off, is one too.
    """
    if format == spool.FORMAT:
        yield from spool.read(Url.parse(url).local_path())
        return
    reader = ObjectReader(storage, Url.parse(url))
    try:
        policy = "fail" if on_skip is None else "dead_letter"
        options = ReadOptions(
            loose_text=True,
            rounds_decimals=True,
            cuts_digits=True,
            needs_end_mark=not is_counted,
            on_bad_row=policy,
            on_drift="ignore" if properties is None else "count",
            known_columns=None if properties is None else frozenset(properties.known),
        )
        progress = ReadProgress(on_skip=on_skip)
        batches = FORMATS[format].read(reader, schema, options, progress)
        yield from batches if properties is None else properties.checked(batches, progress, schema, url)
    except EmptyObjectError:
        if format != "jsonl":
            msg = f"it is empty, not a file of the format {format!r}"
            raise DataError(msg, url=url, hint="Run the tap again") from None
    except NotFoundError as error:
        raise missing_file(error) from None


def missing_file(error: NotFoundError) -> NotFoundError:
    """Return the error for a missing file of a manifest."""
    msg = (
        f"{error}: a batch file of the manifest is missing; "
        "run the tap again, and keep its batch storage until the target is done"
    )
    return NotFoundError(msg)
