"""XML files: each child of the root element is a row, its attributes and its own children are the columns.

    <orders><order id="1"><item>pen</item></order> ... </orders>  ->  id: 1, item: pen

An example for docs/add-a-format.md. Text of elements that are nested deeper is ignored. A reading cannot start within a
file. An error of a value names the number of the row, from 1, as its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, iterparse

import pyarrow as pa

from singer_arrow.compression import ChunkFile
from singer_arrow.errors import DataError
from singer_arrow.formats.blocks import FilePosition, deliver
from singer_arrow.formats.text import TextDrift, TextRows, infer_type, nulls_of
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading.chunks import MAX_RECORD_BYTES, unpacked
from singer_arrow.reading.objects import ObjectReader

Row = dict[str, str]


class XmlFormat:
    """The format `xml`."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        """Return the types of the rows in the first bytes of a file."""
        rows, size = list[Row](), 0
        for row in _rows(reader, options):
            rows.append(row)
            size += _size(row)
            if size >= sample_bytes:
                break
        return _types(_columns(rows), options)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        position = FilePosition(reader.url, ResumePoint())
        first = 1
        for rows in _blocks(_rows(reader, options), options):
            columns = _columns(rows)
            numbers = range(first, first + len(rows))
            first += len(rows)
            text = TextRows(list(columns), schema, options, nulls_of(options))
            drift = TextDrift(text, lambda columns=columns: _types(columns, options))  # type: ignore[misc]
            block = text.read(columns, len(rows), lambda numbers=numbers: numbers)  # type: ignore[misc]
            for batch in deliver([block], position, progress, drift.refuse if options.on_drift == "raise" else None):
                progress.resume_point = None
                yield batch
        progress.resume_point = None


def _blocks(rows: Iterable[Row], options: ReadOptions) -> Iterator[list[Row]]:
    """Yield the rows in blocks that depend on their content alone, so that every run yields the same batches."""
    block, size = list[Row](), 0
    for row in rows:
        block.append(row)
        size += _size(row)
        if size >= options.block_bytes or len(block) == options.batch_rows:
            yield block
            block, size = [], 0
    if block:
        yield block


def _rows(reader: ObjectReader, options: ReadOptions) -> Iterator[Row]:
    """Yield the rows of a file.

    Raises:
        DataError: It is not XML, it is truncated, or a row is longer than `MAX_RECORD_BYTES`.
    """
    path, pending = list[Element](), 0

    def chunks() -> Iterator[bytes]:
        nonlocal pending
        for chunk in unpacked(reader, options.compression):
            if pending > MAX_RECORD_BYTES:
                reason = f"a row is longer than {MAX_RECORD_BYTES >> 20} MiB"
                raise DataError(reason, url=reader.url, hint="Check that the children of the root element are the rows")
            pending += len(chunk)
            yield chunk

    file: Any = ChunkFile(chunks())
    try:
        for event, element in iterparse(file, ("start", "end")):  # noqa: S314 - expat bounds the expansion of entities
            if event == "start":
                path.append(element)
                continue
            path.pop()
            if len(path) == 1:
                yield {**element.attrib, **{child.tag: child.text or "" for child in element}}
                path[0].clear()
                pending = 0
    except ParseError as error:
        reason = f"not XML, or it is broken ({error})"
        hint = "Upload the file again, or set the stream's format"
        raise DataError(reason, url=reader.url, line=error.position[0], hint=hint) from None


def _size(row: Row) -> int:
    return sum(map(len, row.values())) + 1


def _columns(rows: list[Row]) -> dict[str, pa.Array]:
    """Return the columns of some rows, as text, in the order in which they first occur."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: pa.array([row.get(name) for row in rows], pa.string()) for name in names}


def _types(columns: dict[str, pa.Array], options: ReadOptions) -> pa.Schema:
    return pa.schema([(name, infer_type(column, nulls_of(options), options)) for name, column in columns.items()])
