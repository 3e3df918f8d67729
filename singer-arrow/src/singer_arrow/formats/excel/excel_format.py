"""Sheets of Excel workbooks: .xlsx, .xlsm, .xlsb, .xls, and .ods.

A column whose cells are all of one type has that type: whole numbers are integers, dates without a time are dates,
times of a day are times, elapsed times text if one is of a day or more (`30:00:00`). One of several types is text.
Empty cells are null, and so are those that a merged cell hides. Errors such as `#N/A` are text: where a column is of
another type they do not fit it, and are told, left out or rescued as bad rows are. A formula is what it came to when it
was saved.

Rows without a cell are no rows. Of the options of CSV `header`, `skip_rows` (from the first row with a cell) and
`null_values` count.

Such files cannot be read in pieces. A process of its own reads each (see `excel_sheet`), in at most `MEMORY` bytes:
some five million cells. What needs more is refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.casting.from_text import TIMESTAMP
from singer_arrow.compression.codecs import decompress, detect, strip_suffix
from singer_arrow.errors import DataError
from singer_arrow.formats.csv.header import distinct, numbered
from singer_arrow.formats.text.block_results import Settlement
from singer_arrow.formats.text.rows import MisfitError, TextRows
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.runtime.temporary import no_room, temporary_folder

MEMORY = 1 << 30
"""Bytes that the reading of a workbook may take."""
LARGEST = 256 << 20
"""Bytes of a workbook, without a compression of its own."""
SECONDS = 900
"""Time of a processor that the reading of a workbook may take."""
_CELLS = 2 << 20
_GROWTH = 20  # bytes in memory for a byte of a file, about
_CFB, _ZIP = b"\xd0\xcf\x11\xe0", b"PK"  # how .xls begins, and how all others do
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_MIDNIGHT, _NO_DAY = "[ T]00:00:00$", "^1899-12-31 "
_NO_ERROR = {"number": "^-?[0-9]", "boolean": "", "elapsed": "^-?[0-9]+:", "date": "^[0-9]{4}-|^[0-9]{2}:"}
_TYPES = {
    "number": (("^-?[0-9]{1,15}$", pa.int64()), ("", pa.float64())),
    "boolean": (("", pa.bool_()),),
    "elapsed": (("^([01][0-9]|2[0-3]):", pa.time64("us")),),
    "date": (("^[0-9-]{10}$", pa.date32()), ("^[0-9]{2}:", pa.time64("us")), ("", pa.timestamp("us", "UTC"))),
}
"""By kind: the first type whose pattern is found in all cells."""


class Excel:
    """See the module."""

    name = "excel"
    suffixes = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        """See `Format.infer`; the types that all rows have, as there is no reading a part."""
        with _sheet(reader, options) as sheet:
            return sheet.types()

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        """See `Format.read`."""
        progress = progress or ReadProgress()
        progress.resume_point = None
        with _sheet(reader, options) as sheet:
            rows = TextRows(sheet.names, schema, options, pa.array([""]))
            settlement = Settlement(rows, progress, reader.url, sheet.types)
            used = {f.name for f in rows.wanted}.union(rows.rescued_columns)
            for numbers, columns in sheet.rows(used):
                try:
                    outcome = rows.convert(columns, len(numbers))
                except MisfitError:
                    outcome = rows.sort_out(columns, numbers.to_pylist(), [], int)
                if (batch := settlement.settle(outcome, 0)) is not None:
                    yield batch


@dataclass(frozen=True)
class _Sheet:
    """The cells of a sheet as text, below its header."""

    url: object
    names: Sequence[str]
    kinds: Sequence[Sequence[str]]
    first: int
    file: pa.ipc.RecordBatchFileReader
    options: ReadOptions

    def types(self) -> pa.Schema:
        """The types that the columns have."""
        return pa.schema([(name, self._type(i)) for i, name in enumerate(self.names)])

    def rows(self, used: set[str]) -> Iterator[tuple[pa.Array, dict[str, pa.Array]]]:
        """The rows that have a cell: their numbers from 1, and their columns, in batches."""
        made: dict[str, tuple[int, Callable[[pa.Array], pa.Array]]] = {
            name: (i, self._text_of(i)) for i, name in enumerate(self.names) if name in used
        }
        at = self.first + 1
        for n in range(self.file.num_record_batches):
            batch = self.file.get_batch(n)
            filled = _filled(batch)
            numbers = pc.add(pc.indices_nonzero(filled).cast(pa.int64()), at)
            at += batch.num_rows
            if len(numbers):
                yield numbers, {name: text(batch.column(i).filter(filled)) for name, (i, text) in made.items()}

    def _column(self, i: int) -> pa.ChunkedArray:
        """A column without null values."""
        chunks = (self.file.get_batch(n).column(i) for n in range(self.file.num_record_batches))
        return pa.chunked_array([self._nulled(c).drop_null() for c in chunks], pa.string())

    def _nulled(self, column: pa.Array) -> pa.Array:
        nulls = pa.array(self.options.null_values, pa.string())
        return pc.if_else(pc.is_in(column, value_set=nulls), None, column)

    def _type(self, i: int) -> pa.DataType:
        kinds, made, cells = self.kinds[i], self._text_of(i), self._column(i)
        if len(cells) == 0:
            return pa.null()
        if len(kinds) != 1 or kinds[0] not in _TYPES:
            return pa.string()
        text = pa.chunked_array([made(chunk) for chunk in cells.chunks], pa.string())
        text = text.filter(pc.match_substring_regex(text, _NO_ERROR[kinds[0]]))
        return next((t for pattern, t in _TYPES[kinds[0]] if _all(text, pattern)), pa.string())

    def _text_of(self, i: int) -> Callable[[pa.Array], pa.Array]:
        """How the cells of a column become text: what shows no time has none, and what shows no day has none."""
        if {"date", "elapsed"} <= set(self.kinds[i]):
            reason = "it has elapsed times ([h]:mm) beside dates, or an error beside which they cannot be told apart"
            hint = "Give all its cells one format, or mend the error"
            raise DataError(reason, url=self.url, column=self.names[i], hint=hint)
        if self.kinds[i] != ["date"]:
            return self._nulled
        cells = self._column(i)
        moments = cells.filter(pc.match_substring_regex(cells, TIMESTAMP))
        for pattern in (_NO_DAY, _MIDNIGHT):
            if len(moments) and _all(moments, pattern):
                return lambda column: self._nulled(pc.replace_substring_regex(column, pattern, ""))
        return self._nulled


def _all(cells: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(cells, pattern)).as_py())


def _filled(batch: pa.RecordBatch) -> pa.Array:
    """True for rows that have a cell."""
    found = pa.repeat(pa.scalar(value=False), batch.num_rows)
    for column in batch.columns:
        found = pc.or_(found, pc.fill_null(pc.not_equal(column, ""), fill_value=False))
    return found


@contextmanager
def _sheet(reader: ObjectReader, options: ReadOptions) -> Iterator[_Sheet]:
    with temporary_folder("workbook-") as folder:
        source, target = _copy(reader, options, folder), folder / "cells.arrow"
        allowance, cost = reader.budget.decoded, min(MEMORY, _GROWTH * source.stat().st_size)
        allowance.take(cost)
        try:
            told = _run(source, target, options, reader.url)
        finally:
            allowance.give(cost)
        with pa.memory_map(str(target)) as cells, pa.ipc.open_file(cells) as file:
            given = told["header"] or [None] * len(told["kinds"])
            names = distinct(numbered(given))
            yield _Sheet(reader.url, names, told["kinds"], told["first"], file, options)


def _copy(reader: ObjectReader, options: ReadOptions, folder: Path) -> Path:
    """The workbook on local disk, named by what it is."""
    head = bytes(reader.head_bytes(16))
    codec = detect(reader.url.name, head) if options.compression == "auto" else options.compression
    chunks, size = decompress(reader.chunks(), codec, url=reader.url), 0
    path = folder / "workbook"
    try:
        with path.open("wb") as file:
            for chunk in chunks:
                size += len(chunk)
                if size > LARGEST:
                    raise _too_large(reader.url)
                file.write(chunk)
        with path.open("rb") as file:
            mark = file.read(4)
    except OSError as error:
        raise no_room(reader.url, folder, error) from None
    suffix = Path(strip_suffix(reader.url.name).lower()).suffix
    by_mark = ".xls" if mark == _CFB else suffix if suffix in Excel.suffixes and suffix != ".xls" else ".xlsx"
    if not mark.startswith((_CFB, _ZIP)):
        raise _not_a_workbook(reader.url, "it begins like none")
    return path.rename(path.with_suffix(by_mark))


def _run(source: Path, target: Path, options: ReadOptions, url: object) -> dict[str, Any]:
    given = {
        "sheet": options.sheet,
        "skip": options.skip_rows,
        "header": bool(options.header),
        "nulls": options.null_values,
        "iso": source.suffix == ".ods",
        "batch_rows": options.batch_rows,
        "batch_cells": _CELLS,
        "memory": MEMORY,
        "seconds": SECONDS,
    }
    program = Path(__file__).with_name("sheet_process.py")
    # -P: the folder of the program holds files named as Python's own modules
    command = [sys.executable, "-P", str(program), str(source), str(target), json.dumps(given)]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ran.returncode > 0:
        raise _not_a_workbook(url, ran.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    told: dict[str, Any] = json.loads(ran.stdout) if ran.returncode == 0 else {"error": "memory"}
    error = told.get("error")
    if error == "memory":  # or it was ended by a signal
        raise _too_large(url)
    if error == "sheet":
        sheets = ", ".join(repr(name) for name in told["sheets"][:20])
        raise DataError(f"it has no sheet {options.sheet!r}", url=url, hint=f"Set excel.sheet to one of {sheets}")
    if error and ("password" in error.lower() or _ENCRYPTED in source.read_bytes()):
        raise DataError("it is encrypted, which cannot be read", url=url, hint="Save it without a password")
    if error:
        raise _not_a_workbook(url, error)
    return told


def _too_large(url: object) -> DataError:
    reason = (
        f"it needs more than {MEMORY >> 20} MiB of memory or {SECONDS // 60} minutes to be read, or is larger than "
        f"{LARGEST >> 20} MiB"
    )
    hint = "Save the sheet as CSV; if it is small, delete cells that stand far from the others"
    return DataError(reason, url=url, hint=hint)


def _not_a_workbook(url: object, reason: str) -> DataError:
    hint = "Upload the file again, or set the stream's format"
    return DataError(f"not a workbook, or it is broken ({reason})", url=url, hint=hint)
