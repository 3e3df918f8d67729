"""Whole lines of JSON -> rows: in blocks by one of two parsers, and one by one by the exact rules.

The parser of a block (`json_blocks`, or the native one of the package `singer-arrow-json` where that is installed)
reads lines that are written as usual, and returns the numbers of the others. Those are read by the exact rules
(`casting.from_json`), which find the errors. The rows, errors and counts are the same with either parser.
"""

from __future__ import annotations

import importlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit
from singer_arrow.casting.from_json import BadRowError, RowReader, parse, raw_members, value_reader
from singer_arrow.casting.from_text import BadValueError
from singer_arrow.casting.spelling import set_column
from singer_arrow.enforcement.bad_rows import ParsedRows, RowError, UnknownKeys, batch_of, nulled
from singer_arrow.enforcement.enforce import exclude_from_json, paths_with_exclusions
from singer_arrow.formats.json_blocks import BlockReader, Member
from singer_arrow.formats.json_keys import KnownKeys
from singer_arrow.reading.parallel import ROW_LOCK
from singer_arrow.schema.arrow_schema import is_json

logger = logging.getLogger(__name__)
OFTEN = 64
"""If more than one line in so many has a value of a column that is not read, the column is read in another way."""
_FEW = 4  # values of a column of a block for which their lines are read by the exact rules
_Kind = tuple[str, tuple[Member, ...]]  # of values: its name, and the members of objects, or the item of arrays
_JSON: _Kind = ("json", ())
_INTERFACE = 2  # that of the native parser


@cache
def native_parser() -> Any:
    """Return the function of the native parser; None if it is not installed, or only for another singer-arrow."""
    with suppress(ImportError):
        module = importlib.import_module("singer_arrow_json")
        if getattr(module, "INTERFACE", None) == _INTERFACE:
            return module.read_lines
        logger.warning(
            "the installed singer-arrow-json is of another version and is not used; install the same version"
        )
    return None


def parser_name() -> str:
    """Return the package whose parser reads blocks of JSON Lines."""
    return "pyarrow" if native_parser() is None else "singer-arrow-json"


@dataclass(frozen=True, slots=True)
class ReadLines:
    """Rows of the lines that are not blank."""

    batch: pa.RecordBatch  # arbitrary in rows of lines that are not `unread`
    around: Mapping[str, pa.Array]
    numbers: Sequence[int]  # of the lines of the rows, from 1
    unread: frozenset[int]  # numbers of the lines that the exact rules must read
    mismatches: Sequence[RowError]  # values of the other lines that do not fit, and are null
    drifted: Sequence[int]  # numbers of the other lines that have unknown keys
    unknown: Mapping[str, int] | None  # how often these have each, by its path; None if not known
    lines: int  # blank ones included


class LineParser:
    """Parser of lines of one schema; safe to call from several threads at once. `keys` are None to ignore drift.

    Unknown keys are counted if `counts_unknown`. With `around` a record is the member `record` of its line, and these
    are the members to read beside it. Texts that become dates or times are a ValueError unless `fits` returns True,
    and so are decimals in quotes in columns that are `unquoted`.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: KnownKeys | None,
        excluded: frozenset[str] = frozenset(),
        *,
        loose_text: bool,
        counts_unknown: bool = False,
        around: pa.Schema | None = None,
        is_closed: bool = False,
        fits: Callable[[pa.Array, pa.Field], bool] | None = None,
        unquoted: frozenset[str] = frozenset(),
    ) -> None:
        self._schema, self._keys, self._excluded, self._loose_text = schema, keys, excluded, loose_text
        self._counts_unknown, self._around, self._is_closed, self._fits = counts_unknown, around, is_closed, fits
        self._unquoted = unquoted
        self._paths = paths_with_exclusions(excluded) if excluded else {}
        self._kinds = cache(lambda *, as_text: {f.name: self._kind(f, as_text=as_text) for f in schema})
        self._as_text = False  # whether dates and times are read as text, as they are not written as usual
        self._read_row = RowReader(schema, loose_text=loose_text)
        self._blocks = BlockReader(schema, keys, is_closed=is_closed)
        self._raws = [  # columns whose values, or some of them, are JSON as it is written
            (i, f.name, raw_reader(f, loose_text=loose_text))
            for i, f in enumerate(schema)
            if f.name in self._paths or is_json(f) or (loose_text and pt.is_string(f.type))
        ]

    def __call__(self, data: bytes) -> ReadLines:
        """Return the rows of whole lines."""
        read_lines = native_parser() or self._blocks
        by_value = set[str]()  # columns of which each value is converted alone, as some do not fit
        while True:
            as_text = self._as_text
            kinds = self._kinds(as_text=as_text) | dict.fromkeys(by_value, _JSON)
            members: list[Member] = [(name, *kind) for name, kind in kinds.items()]
            reports = self._keys is not None
            if self._keys is not None:
                members += [(name, "nothing", ()) for name in sorted(self._keys.names.difference(kinds))]
            if self._around is not None:
                beside: list[Member] = [(f.name, "int" if pt.is_integer(f.type) else "text", ()) for f in self._around]
                members = [*beside, ("record", "record" if reports else "open", tuple(members))]
                reports = self._is_closed
            rows, bad, unfit, blank, drifted, unknown = read_lines(data, members, reports)
            table = pa.record_batch(rows)
            found = table.columns
            numbers = line_numbers(data) if blank else range(1, table.num_rows + 1)
            unread = {line + 1 for line in bad}
            around = dict[str, pa.Array]()
            if self._around is not None:
                around, record = dict(zip(self._around.names, found, strict=False)), found[-1]
                if record.null_count:
                    unread.update(n for n, row in zip(numbers, record.is_valid(), strict=True) if not row.as_py())
                found = record.flatten()

            # What many lines have is read in another way.
            counts = zip(kinds, unfit, strict=False)
            failed = {name for name, count in counts if count * OFTEN > table.num_rows} - by_value
            if not as_text and any(kinds[name] != self._kinds(as_text=True)[name] for name in failed):
                self._as_text = True
                continue

            # The columns in their own types
            fitted, late = dict[str, pa.Array](), set[int]()  # late: lines that turn out here to be for the exact rules
            for own, read in zip(self._schema, found, strict=False):  # behind them are those of no kind
                set_column(own.name)
                is_quoted = own.name in by_value and own.name in self._unquoted
                if is_quoted or (self._fits is not None and not self._fits(read, own)):
                    raise ValueError("texts do not fit")
                if kinds[own.name] == _JSON and not (is_json(own) and own.name not in self._paths):
                    continue
                column, rows_unfit = (read, ()) if is_json(own) else _fit(read, own)
                if column is None:
                    failed.add(own.name)
                else:
                    fitted[own.name] = column
                    late.update(numbers[row] for row in rows_unfit)
            if not failed:
                break
            by_value |= failed
        is_counted = late.isdisjoint(line + 1 for line in drifted)  # the exact rules count the keys of their lines
        unread |= late
        columns, mismatches, deep = list[pa.Array](), list[RowError](), set[int]()
        for own, read in zip(self._schema, found, strict=False):
            if (column := fitted.get(own.name)) is None:
                set_column(own.name)
                column, errors, more = self._converted(read, own, numbers)
                mismatches += [error for error in errors if error.row not in unread]
                deep.update(more)
            columns.append(column)
        return ReadLines(
            batch_of(columns, self._schema, table.num_rows),
            around,
            numbers,
            frozenset(unread),
            sorted(mismatches, key=lambda error: error.row),
            sorted({*(line + 1 for line in drifted), *deep} - unread),
            unknown if is_counted and not deep and not self._excluded else None,
            table.num_rows + len(blank),
        )

    def _kind(self, field: pa.Field, *, as_text: bool) -> _Kind:
        """Return the kind of values as which a column is read."""
        is_text = pt.is_string(field.type) and not is_json(field)
        if self._loose_text and is_text and field.name not in self._paths:
            return "any", ()
        decimals = "digits" if field.name in self._unquoted else "number"
        return self._native(field, field.name, decimals, as_text=as_text) or _JSON

    def _native(self, field: pa.Field, path: str, decimals: str, *, as_text: bool) -> _Kind | None:
        """Return the kind of values of a field; None if they must be converted one by one."""
        t = field.type
        if "\0" in field.name or is_json(field) or pt.is_map(t) or pt.is_null(t) or pt.is_float16(t):
            return None
        if pt.is_struct(t):
            members = [(f.name, self._native(f, f"{path}.{f.name}", decimals, as_text=as_text)) for f in t]
            left_out = [(n, "nothing", ()) for n in self._paths.get(path, ()) if n not in dict(members)]
            if not members or not all(kind for _, kind in members):
                return None
            return "struct", (*((name, *kind) for name, kind in members if kind), *left_out)
        if pt.is_list(t):
            item = self._native(t.value_field, path, decimals, as_text=as_text)
            return item and ("list", (("item", *item),))
        if pt.is_boolean(t) or pt.is_integer(t):
            return ("bool" if pt.is_boolean(t) else "int"), ()
        if pt.is_floating(t):
            return ("float" if t.bit_width == 64 else "float32"), ()
        if pt.is_decimal(t):
            return decimals, ()
        if not as_text and (pt.is_date(t) or (pt.is_timestamp(t) and t.unit == "us")):
            return ("date" if pt.is_date(t) else "timestamp"), ()
        return "text", ()

    def _converted(
        self, column: pa.Array, field: pa.Field, numbers: Sequence[int]
    ) -> tuple[pa.Array, list[RowError], set[int]]:
        """Return a column from the JSON of its values, the errors of its values, and the lines with unknown keys."""
        errors, drifted = list[RowError](), set[int]()
        usual = None if is_json(field) else _usual_values(column, field.type)
        values = column.cast(pa.binary())
        if usual is not None:
            values = pc.if_else(usual.is_valid(), None, values)
        rest, read = list[Any](), raw_reader(field, loose_text=self._loose_text)
        for number, raw in zip(numbers, values.to_pylist(), strict=True):
            value, text = None, raw
            if raw is not None:
                try:
                    if self._keys is not None and self._keys.has_unknown_members(field.name, raw):
                        drifted.add(number)
                    text = exclude_from_json(raw, field, self._excluded, field.name)
                    value = read(text)
                except BadRowError as error:
                    errors.append(RowError(number, str(error), field.name, raw=text))
            rest.append(value)
        found = pa.array(rest, field.type)
        return found if usual is None else pc.coalesce(usual, found), errors, drifted

    # By the exact rules

    def complete(self, read: ReadLines, data: bytes) -> tuple[ParsedRows, Mapping[str, int]]:
        """Return all rows of lines, and how often they have each unknown key."""
        if not (read.unread or read.mismatches or read.drifted):
            return ParsedRows(read.batch, ()), {}
        lines = data.split(b"\n")
        batch, numbers, errors = read.batch, read.numbers, list(read.mismatches)
        if read.unread:
            unread = sorted(read.unread)
            with ROW_LOCK:
                exact = self.read_one_by_one(unread, [lines[number - 1] for number in unread])
            order = [(number, row) for row, number in enumerate(read.numbers) if number not in read.unread]
            order = sorted([*order, *((number, len(batch) + row) for row, number in enumerate(exact.numbers))])
            numbers = [number for number, _ in order]
            batch = pa.concat_batches([batch, exact.batch]).take(pa.array([row for _, row in order], pa.int64()))
            errors = sorted([*errors, *exact.errors], key=lambda error: error.row)
        if self._keys is None:
            return ParsedRows(batch, numbers, errors), {}
        if self._counts_unknown:
            return ParsedRows(batch, numbers, errors), self.count_unknown(read, lines)
        no_records = {error.row for error in errors if error.raw is None}
        unknown = (
            UnknownKeys(number, self._keys.unknown(lines[number - 1]))
            for number in sorted({*read.drifted, *read.unread} - no_records)
        )
        return ParsedRows(batch, numbers, errors, [keys for keys in unknown if keys.values]), {}

    def count_unknown(self, read: ReadLines, lines: Sequence[bytes]) -> Counter[str]:
        """Return how often all lines have each unknown key, by its path."""
        assert self._keys is not None
        counted = read.unread if read.unknown is not None else {*read.unread, *read.drifted}
        return self._keys.count(lines[number - 1] for number in counted) + Counter(read.unknown or {})

    def read_one_by_one(self, numbers: Sequence[int], lines: Sequence[bytes]) -> ParsedRows:
        """Return the rows of lines, each parsed by the exact rules."""
        rows, kept, errors = list[list[object]](), list[int](), list[RowError]()
        for number, text in zip(numbers, lines, strict=True):
            try:
                values, mismatches = self._read_row(text)
            except BadRowError as error:
                errors.append(RowError(number, str(error), error.column, text=text))
                continue
            raws = raw_members(text) if mismatches or self._raws else {}
            for mismatch in mismatches:
                raw = self.included(raws, mismatch.column or "")
                errors.append(RowError(number, str(mismatch), mismatch.column, raw=raw))
            wrong = {mismatch.column for mismatch in mismatches}
            for i, name, read in self._raws:
                if name in raws and name not in wrong:
                    values[i] = read(self.included(raws, name))
            rows.append(values)
            kept.append(number)
        columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(self._schema)]
        return ParsedRows(batch_of(columns, self._schema, len(rows)), kept, errors)

    def included(self, raws: Mapping[str, bytes], name: str) -> bytes:
        """Return the JSON of a member of a record without excluded members."""
        return exclude_from_json(raws[name], self._schema.field(name), self._excluded, name)


def _fit(column: pa.Array, field: pa.Field) -> tuple[pa.Array | None, list[int]]:
    """Return a column in the type of a field, with null for the rows that are also returned; None if they are many."""
    rows = list[int]()
    while len(rows) <= _FEW:
        try:
            return fit(column, field), rows
        except BadValueError as error:
            rows.append(error.row)
            column = nulled(column, pa.array(rows, pa.int64()))
    return None, []


def _usual_values(column: pa.Array, t: pa.DataType) -> pa.Array | None:
    """Return the JSON of usual integers, also such as `5.0`, and of booleans, and null for the rest; else None."""
    texts = column.cast(pa.string())
    if pt.is_boolean(t):
        usual = pc.is_in(texts, pa.array(["true", "false"]))
        return pc.if_else(usual, texts, None).cast(t)
    if not pt.is_integer(t):
        return None
    digits = pc.replace_substring_regex(texts, r"\.0+$", "")
    whole = pc.if_else(pc.match_substring_regex(digits, r"^-?\d{1,18}$"), digits, None).cast(pa.int64())
    low, high = (-(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1) if pt.is_signed_integer(t) else (0, 2**63 - 1)
    fits = pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, min(high, 2**t.bit_width - 1)))
    return pc.if_else(fits, whole, None).cast(t)


def line_numbers(data: bytes) -> list[int]:
    """Return the numbers of the lines that are not blank, from 1."""
    return [number for number, line in enumerate(data.split(b"\n"), 1) if line and not line.isspace()]


def raw_reader(field: pa.Field, *, loose_text: bool) -> Callable[[bytes], Any]:
    """Return the function that converts the JSON of values for `pa.array` of the field's type.

    It raises BadRowError if a value does not fit.
    """
    convert = value_reader(field, loose_text=loose_text)
    keeps_all, keeps_others = is_json(field), loose_text and pt.is_string(field.type)

    def read(raw: bytes) -> Any:
        if raw == b"null":
            return None
        if keeps_all or (keeps_others and raw[:1] != b'"'):
            return raw.decode()
        return convert(parse(raw))

    return read
