"""Reading of many small files of one format, parsed together if possible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from singer_arrow.formats.base import Format, JoiningFormat
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.memory_budget import Budget
from singer_arrow.reading.object_reader import ObjectReader, prefetch_groups
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import Storage


def join_files(
    kind: Format, readers: list[ObjectReader], schema: pa.Schema, options: ReadOptions
) -> list[pa.RecordBatch] | None:
    """Return one batch per small object; None if the objects must be read one by one.

    That is the case if `Format.read` has to raise, count, skip or rescue anything.
    """
    if len(readers) > 1 and isinstance(kind, JoiningFormat):
        return kind.join(readers, schema, options)
    return None


def read_all(
    kind: Format,
    storage: Storage,
    objects: Iterable[ObjectInfo],
    schema: pa.Schema,
    options: ReadOptions,
    *,
    budget: Budget,
) -> Iterator[tuple[ObjectReader, pa.RecordBatch]]:
    """Yield the rows of many files, in order: each batch with the reader of its file."""
    for readers in prefetch_groups(storage, objects, budget):
        batches = join_files(kind, readers, schema, options)
        if batches is not None:
            yield from zip(readers, batches, strict=True)
            continue
        for reader in readers:
            for batch in kind.read(reader, schema, options):
                yield reader, batch
