"""Rows of a block that are not as they should be: they are left out, kept in part, or an error. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from singer_arrow.casting.to_json import json_text
from singer_arrow.enforcement.schema_drift import Rescue
from singer_arrow.errors import DataError
from singer_arrow.formats.json.unknown_keys import News
from singer_arrow.read_options import RESCUED, ReadOptions


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a line.

    Attributes:
        line: Its number (from 1) in its block.
        reason: What is wrong.
        column: Where, if it is one column's fault.
        raw: The JSON of the value that does not fit; None if the line as a whole is no record.
        text: The line, if it is no record; of rows that are left out, in any case.
    """

    line: int
    reason: str
    column: str | None = None
    raw: bytes | None = None
    text: bytes = b""

    def error(self, url: object, lines_before: int) -> DataError:
        """The error that it is, given how many lines of the file stand before the block."""
        return DataError(self.reason, url=url, line=lines_before + self.line, column=self.column)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as they were read.

    Attributes:
        batch: One row for each line that is a record; what does not fit is null.
        lines: The number of each row's line.
        faults: What is wrong, by line and, within one, in the order of the schema.
        news: What is new, by line.
    """

    batch: pa.RecordBatch
    lines: Sequence[int]
    faults: Sequence[Fault] = ()
    news: Sequence[News] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """Rows as they are given, and the first fault of each that was left out, or that is kept in part.

    `failed` is the first fault that ends the reading; then there is no batch.
    """

    batch: pa.RecordBatch | None
    skipped: Sequence[Fault] = ()
    rescued: Sequence[Fault] = ()
    failed: Fault | None = None


def settle(rows: Rows, schema: pa.Schema, options: ReadOptions) -> Settled:
    """The rows of a block as the options want them.

    Args:
        rows: As they were read, without the column `RESCUED` where `options.rescues`.
        schema: What is wanted, with it.
        options: Of the reading.
    """
    if not rows.faults and (not rows.news or options.on_drift != "rescue"):
        return Settled(_with_rescued(rows.batch, schema, None, options))
    of_values = "rescue" if options.on_drift == "rescue" else options.on_bad_row
    skipped, rescued = dict[int, Fault](), dict[int, Fault]()
    for fault in rows.faults:
        action = options.on_bad_row if fault.raw is None else of_values
        if action == "fail":
            return Settled(None, failed=fault)
        (skipped if action == "skip" else rescued).setdefault(fault.line, fault)
    if options.on_drift == "rescue":
        for new in rows.news:
            rescued.setdefault(new.line, _of_news(new))
    rescued = {line: fault for line, fault in rescued.items() if line not in skipped}
    index = {line: row for row, line in enumerate(rows.lines) if line not in skipped}
    unread = [fault.line for fault in rescued.values() if fault.raw is None and fault.line not in index]
    batch, lines = rows.batch, sorted([*index, *unread])
    if len(lines) != len(rows.lines) or unread:
        batch = _taken(batch, [index.get(line) for line in lines])
    rescue = _rescue(rows, {line: row for row, line in enumerate(lines)}, options)
    return Settled(
        _with_rescued(batch, schema, rescue, options), list(skipped.values()), sorted(rescued.values(), key=_line)
    )


def _line(fault: Fault) -> int:
    return fault.line


def _of_news(new: News) -> Fault:
    column, raw = next(iter(new.values.items()))
    return Fault(new.line, "the schema has no place for it, or for some members of it", column, raw)


def _taken(batch: pa.RecordBatch, rows: list[int | None]) -> pa.RecordBatch:
    """Some rows of a batch; None stands for one of nulls."""
    if batch.num_columns == 0:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return batch.take(pa.array(rows, pa.int64()))


def _rescue(rows: Rows, row_of: dict[int, int], options: ReadOptions) -> Rescue:
    rescue = Rescue()
    if options.on_drift == "rescue":
        for new in rows.news:
            if new.line in row_of:
                for column, json in new.values.items():
                    rescue.add(row_of[new.line], column, json)
    for fault in rows.faults:
        if fault.line not in row_of:
            continue
        if fault.raw is not None and fault.column is not None:
            rescue.add(row_of[fault.line], fault.column, fault.raw)
        elif fault.raw is None:
            text = fault.text.rstrip(b"\r").decode(errors="replace")
            rescue.add(row_of[fault.line], "_raw", json_text(text))
            why = fault.reason if fault.column is None else f"column {fault.column!r}: {fault.reason}"
            rescue.add(row_of[fault.line], "_error", json_text(why))
    return rescue


def _with_rescued(
    batch: pa.RecordBatch, schema: pa.Schema, rescue: Rescue | None, options: ReadOptions
) -> pa.RecordBatch:
    """The batch with the column of what was rescued, where that is wanted."""
    if not options.rescues or RESCUED not in schema.names:
        return batch
    rows = batch.num_rows
    rescued = pa.nulls(rows, pa.string()) if rescue is None else rescue.array(rows)
    columns = [rescued.cast(f.type) if f.name == RESCUED else batch.column(f.name) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
