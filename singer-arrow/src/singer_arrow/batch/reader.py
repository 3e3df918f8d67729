"""Batch files -> Arrow batches: ours, those of the SDK's encoders, and those of other taps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from singer_arrow.batch import spool
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
) -> Iterator[pa.RecordBatch]:
    """The rows of one file of a manifest, in order, in batches of exactly `schema`.

    Columns that the file lacks are null, columns that `schema` lacks are not read. Where the schema says text, other
    kinds are taken as their JSON text, because a schema that allows several kinds becomes text. How the file is
    compressed is told by its first bytes, whatever the message says: the SDK's JSONL encoder compresses also when told
    not to.

    Args:
        storage: Where the URL is read from.
        url: An entry of a manifest.
        format: `parquet` or `jsonl`, or the spool's, whose rows have the schema already.
        schema: What SCHEMA says of the stream.
        on_skip: Hears of the rows that hold something else, which are left out then.

    Raises:
        NotFoundError: The file does not exist.
        DataError: It holds something else than the schema says, and nobody hears of that; names line or row group, and
            column. Or it is not of that format at all.
    """
    if format == spool.FORMAT:
        yield from spool.read(Url.parse(url).local_path())
        return
    reader = ObjectReader(storage, Url.parse(url))
    try:
        options = ReadOptions(loose_text=True, rounds_decimals=True, on_bad_row="fail" if on_skip is None else "skip")
        yield from FORMATS[format].read(reader, schema, options, ReadProgress(on_skip=on_skip))
    except EmptyObjectError:
        if format == "parquet":
            msg = "it holds no byte, where a Parquet file is due"
            raise DataError(msg, url=url) from None
    except NotFoundError as error:
        raise missing_file(error) from None


def missing_file(error: NotFoundError) -> NotFoundError:
    """The error of a file that does not exist, which says that a manifest names it, and what to do."""
    msg = (
        f"{error}: a batch file of the manifest is missing; "
        "run the tap again, and keep its batch storage until the target is done"
    )
    return NotFoundError(msg)
