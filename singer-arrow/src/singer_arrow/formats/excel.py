"""Sheets of Excel workbooks: .xlsx, .xlsm, .xlsb, .xls, and .ods.

A column whose cells are all of one type has that type: whole numbers are integers, dates without a time are dates,
times of a day are times; elapsed times are text if one is a day or longer (`30:00:00`). A column of several types is
text. Empty cells are null, and so are cells that a merged cell hides. Errors such as `#N/A` are text: in a column of
another type they do not fit, and their rows are bad rows. A formula has the value that was saved with it; a row with
one that has none is a bad row.

Rows without a cell are ignored. The options `csv.header`, `csv.skip_rows` (from the first row with a cell) and
`csv.null_values` apply.

Workbooks cannot be read in pieces. A separate process (`excel_sheet`) converts each one in at most `MEMORY` bytes:
about five million cells. A workbook that needs more is an error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.casting.from_text import TIMESTAMP
from singer_arrow.casting.spelling import all_match
from singer_arrow.compression import strip_suffix
from singer_arrow.enforcement.bad_rows import BlockResult, RowError
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.formats.blocks import FilePosition, deliver
from singer_arrow.formats.excel_repair import UNSAVED
from singer_arrow.formats.text import TextDrift, TextRows, distinct, numbered, with_first_row
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading.chunks import unpacked
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.runtime.process import no_room, temporary_folder

MEMORY = 1 << 30
"""Bytes of memory in which a workbook is read, at most."""
LARGEST = 256 << 20
"""Bytes of a workbook, at most; after decompression of `.gz` and such."""
SECONDS = 900
"""Seconds of CPU time in which a workbook is read, at most."""
_CELLS = 2 << 20
_GROWTH = 20  # bytes in memory per byte of a file, approximately
_ZIPPED = (".xlsx", ".xlsm", ".xlsb", ".ods")
_CFB, _ZIP = b"\xd0\xcf\x11\xe0", b"PK"  # first bytes of .xls, and of all others
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_MIDNIGHT, _NO_DAY = "[ T]00:00:00$", "1899-12-31"
_NO_ERROR = {"number": "^-?[0-9]", "boolean": "", "elapsed": "^-?[0-9]+:", "date": "^[0-9]{4}-|^[0-9]{2}:"}
_TYPES = {
    "number": (("^-?[0-9]{1,15}$", pa.int64()), ("", pa.float64())),
    "boolean": (("", pa.bool_()),),
    "elapsed": (("^([01][0-9]|2[0-3]):", pa.time64("us")),),
    "date": (("^[0-9-]{10}$", pa.date32()), ("^[0-9]{2}:", pa.time64("us")), ("", pa.timestamp("us", "UTC"))),
}
"""Types by kind of cell: the first one whose pattern matches all cells."""


class ExcelFormat:
    """The format `excel`."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:  # noqa: ARG002
        """Return the types of all rows: a part of a workbook cannot be read."""
        with _sheet(reader, options) as sheet:
            return with_first_row(sheet.types(), sheet.header, options)

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        with _sheet(reader, options) as sheet:
            rows = TextRows(sheet.names, schema, options, pa.array([""]))
            selected = {f.name for f in rows.selected}.union(rows.rescued_columns)
            results = (self._result(rows, *part) for part in sheet.rows(selected))
            drift = TextDrift(rows, sheet.types).refuse if options.on_drift == "raise" else None
            for batch in deliver(results, FilePosition(reader.url, ResumePoint()), progress, drift):
                progress.resume_point = None  # a reading cannot begin within a workbook
                yield batch
            progress.resume_point = None

    @staticmethod
    def _result(rows: TextRows, numbers: pa.Array, columns: dict[str, pa.Array]) -> BlockResult:
        """Return the rows of a part of a sheet, without those in which a formula has no saved value."""
        unsaved = dict[int, RowError]()
        is_bad = pa.repeat(pa.scalar(value=False), len(numbers))
        for name, column in columns.items():
            has_none = pc.fill_null(pc.starts_with(column, UNSAVED), fill_value=False)
            is_bad = pc.or_(is_bad, has_none)
            for number, cell in zip(
                numbers.filter(has_none).to_pylist(), column.filter(has_none).to_pylist(), strict=True
            ):
                where = cell.removeprefix(UNSAVED)
                reason = (
                    f"the formula of cell {where} has no saved value" if where else "its formula has no saved value"
                )
                hint = "Open the workbook in Excel or LibreOffice and save it"
                unsaved.setdefault(number, RowError(number, reason, name, hint, text=reason.encode()))
        if not unsaved:
            return rows.read(columns, len(numbers), numbers.to_pylist)
        is_good = pc.invert(is_bad)
        columns = {name: column.filter(is_good) for name, column in columns.items()}
        good = numbers.filter(is_good)
        return rows.read(columns, len(good), good.to_pylist, [unsaved[number] for number in sorted(unsaved)])


@dataclass(frozen=True)
class _Sheet:
    """Cells of a sheet below its header, as text."""

    url: object
    header: Sequence[str | None]
    names: Sequence[str]
    kinds: Sequence[Sequence[str]]
    first: int
    no_day: str
    file: pa.ipc.RecordBatchFileReader
    options: ReadOptions

    def types(self) -> pa.Schema:
        """Return the types of the columns."""
        return pa.schema([(name, self._type(i)) for i, name in enumerate(self.names)])

    def rows(self, selected: set[str]) -> Iterator[tuple[pa.Array, dict[str, pa.Array]]]:
        """Yield the rows that have a cell, in batches: their numbers from 1, and the columns in `selected`."""
        made: dict[str, tuple[int, Callable[[pa.Array], pa.Array]]] = {
            name: (i, self._text_of(i)) for i, name in enumerate(self.names) if name in selected
        }
        at = self.first + 1
        for n in range(self.file.num_record_batches):
            batch = self.file.get_batch(n)
            filled = pa.repeat(pa.scalar(value=False), batch.num_rows)
            for column in batch.columns:
                filled = pc.or_(filled, pc.fill_null(pc.not_equal(column, ""), fill_value=False))
            numbers = pc.add(pc.indices_nonzero(filled).cast(pa.int64()), at)
            at += batch.num_rows
            if len(numbers):
                yield numbers, {name: text(batch.column(i).filter(filled)) for name, (i, text) in made.items()}

    def _column(self, i: int) -> pa.ChunkedArray:
        """Return a column without null values."""
        chunks = (self.file.get_batch(n).column(i) for n in range(self.file.num_record_batches))
        return pa.chunked_array([self._nulled(c).drop_null() for c in chunks], pa.string())

    def _nulled(self, column: pa.Array) -> pa.Array:
        nulls = pa.array(self.options.null_values, pa.string())
        return pc.if_else(pc.is_in(column, value_set=nulls), None, column)

    def _type(self, i: int) -> pa.DataType:
        kinds, made, cells = self.kinds[i], self._text_of(i), self._column(i)
        if len(cells) == 0:
            return pa.null()
        if not kinds and pc.all(pc.starts_with(cells, UNSAVED)).as_py():
            return pa.null()
        if len(kinds) != 1 or kinds[0] not in _TYPES:
            return pa.string()
        text = pa.chunked_array([made(chunk) for chunk in cells.chunks], pa.string())
        text = text.filter(pc.match_substring_regex(text, _NO_ERROR[kinds[0]]))
        return next((t for pattern, t in _TYPES[kinds[0]] if all_match(text, pattern)), pa.string())

    def _text_of(self, i: int) -> Callable[[pa.Array], pa.Array]:
        """Return a function that makes text of cells: without the time or the day, if no cell has one."""
        if self.kinds[i] != ["date"]:
            return self._nulled
        cells = self._column(i)
        moments = cells.filter(pc.match_substring_regex(cells, TIMESTAMP))
        patterns = (f"^{self.no_day} ", _MIDNIGHT)
        for pattern in patterns if self.no_day == _NO_DAY else patterns[::-1]:  # else it is a day that may be meant
            if len(moments) and all_match(moments, pattern):
                return lambda column: self._nulled(pc.replace_substring_regex(column, pattern, ""))
        return self._nulled


@contextmanager
def _sheet(reader: ObjectReader, options: ReadOptions) -> Iterator[_Sheet]:
    if find_spec("fastexcel") is None:
        raise ConfigError("Excel files need the library fastexcel: install singer-arrow-tap-s3-files[excel]")
    with temporary_folder("workbook-") as folder:
        source, target = _copy(reader, options, folder), folder / "cells.arrow"
        allowance, cost = reader.budget.decoded, min(MEMORY, _GROWTH * source.stat().st_size)
        allowance.acquire(cost)
        try:
            sheet = _run(source, target, options, reader.url)
        finally:
            allowance.release(cost)
        with pa.memory_map(str(target)) as cells, pa.ipc.open_file(cells) as file:
            header = sheet["header"] or [None] * len(sheet["kinds"])
            names = distinct(numbered(header))
            kinds, first, no_day = (sheet[name] for name in ("kinds", "first", "no_day"))
            yield _Sheet(reader.url, sheet["header"], names, kinds, first, no_day, file, options)


def _copy(reader: ObjectReader, options: ReadOptions, folder: Path) -> Path:
    """Copy the workbook to local disk, with the suffix of its real type."""
    path, size = folder / "workbook", 0
    try:
        with path.open("wb") as file:
            for chunk in unpacked(reader, options.compression):
                size += len(chunk)
                if size > LARGEST:
                    raise _too_large(reader.url)
                file.write(chunk)
        with path.open("rb") as file:
            mark = file.read(4)
    except OSError as error:
        raise no_room(reader.url, folder, error) from None
    suffix = Path(strip_suffix(reader.url.name).lower()).suffix
    by_mark = ".xls" if mark == _CFB else suffix if suffix in _ZIPPED else ".xlsx"
    if not mark.startswith((_CFB, _ZIP)):
        raise _not_a_workbook(reader.url, "its first bytes are those of no workbook")
    return path.rename(path.with_suffix(by_mark))


def _run(source: Path, target: Path, options: ReadOptions, url: object) -> dict[str, Any]:
    arguments = {
        "sheet": options.sheet,
        "skip": options.skip_rows,
        "header": options.header is not False,
        "nulls": options.null_values,
        "iso": source.suffix == ".ods",
        "batch_rows": options.batch_rows,
        "batch_cells": _CELLS,
        "memory": MEMORY,
        "seconds": SECONDS,
    }
    program = Path(__file__).with_name("excel_sheet.py")
    # -P: the folder of the program holds files named as Python's own modules
    command = [sys.executable, "-P", str(program), str(source), str(target), json.dumps(arguments)]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ran.returncode > 0:
        raise _not_a_workbook(url, ran.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    sheet: dict[str, Any] = json.loads(ran.stdout) if ran.returncode == 0 else {"error": "memory"}  # by a signal
    error = sheet.get("error")
    if error == "memory":
        raise _too_large(url)
    if error == "sheet":
        sheets = ", ".join(repr(name) for name in sheet["sheets"][:20])
        raise DataError(f"it has no sheet {options.sheet!r}", url=url, hint=f"Set excel.sheet to one of {sheets}")
    if error == "no cell":
        sheets = ", ".join(repr(name) for name in sheet["sheets"][:20])
        raise DataError(
            f"its first sheet {sheet['first']!r} has no cell", url=url, hint=f"Set excel.sheet to one of {sheets}"
        )
    if error and ("password" in error.lower() or _ENCRYPTED in source.read_bytes()):
        raise DataError("it is encrypted, which cannot be read", url=url, hint="Save it without a password")
    if error:
        raise _not_a_workbook(url, error)
    return sheet


def _too_large(url: object) -> DataError:
    reason = (
        f"it needs more than {MEMORY >> 20} MiB of memory or {SECONDS // 60} minutes to be read, or is larger than "
        f"{LARGEST >> 20} MiB"
    )
    hint = "Save the sheet as CSV; if it is small, delete cells that are far from the others"
    return DataError(reason, url=url, hint=hint)


def _not_a_workbook(url: object, reason: str) -> DataError:
    hint = "Upload the file again, or set the stream's format"
    return DataError(f"not a workbook, or it is broken ({reason})", url=url, hint=hint)
