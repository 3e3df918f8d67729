"""Write the cells of one sheet of a workbook, as text, to an Arrow file. Run as a program by `excel`.

The library allocates every cell between the first and the last one, so a file of 2 kB can need 500 GB, and it aborts
its process when memory is exhausted. In a process of its own, with a limit of memory, the abort is harmless.

Arguments: the workbook; the Arrow file to write; and as JSON `sheet` (name, number from 1, or null), `skip` (rows),
`header` (whether a row names the columns), `nulls` (texts that mean null), `iso` (whether the file has dates as text),
`batch_rows`, `batch_cells`, `memory` (bytes) and `seconds`.

Prints JSON: `header`, `first` (number of rows of the sheet before the first row of data), `no_day` (the day of a time
without a day), and `kinds` (of each column, those of number, boolean, text, date and elapsed that occur; empty cells,
errors and formulas without a saved value have no kind); or `error`.

The library returns a sheet in one type, with null for cells of other types. So the sheet is loaded in several types,
which together show the type of each cell. The library's text of a number has nine digits, so numbers are printed here.

Dates, elapsed times and times without a day are numbers; only the format of the cell tells them apart. The library's
description of a cell, which is part of an error that it reports for it, has the format.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastexcel
import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.formats.excel_repair import ODD_ERROR, UNSAVED, repair

_ERRORS = {
    "Div0": "#DIV/0!",
    "GettingData": "#GETTING_DATA",
    "NA": "#N/A",
    "Name": "#NAME?",
    "Null": "#NULL!",
    "Num": "#NUM!",
    "Ref": "#REF!",
    "Value": "#VALUE!",
}
_ERROR = re.compile(r"Error\((\w+)\)")
_ELAPSED = re.compile(r'DurationIso\("PT(\d+)H(\d+)M(\d+)')
_NUMBER = re.compile(r"value: ([^,]+),")
_MIXED = re.compile(r"contains \{(?P<types>[^}]*)\}.*column (?P<column>\d+)", re.DOTALL)
_FAILED = re.compile(r"cell error(?P<types>).*column (?P<column>\d+)", re.DOTALL)
_MARKS = {
    "elapsed": ("type: TimeDelta", "DurationIso("),
    "date": ("type: DateTime", "DateTimeIso("),
    "text": ("String(",),
}
"""What the library's description of a cell has in it, by the kind of the cell."""
_MOMENT = r"^\d{4}-\d\d-\d\d "
_SINCE_1904, _BEFORE_1904 = "1904-01-01", "1899-12-31"
_MOST_WHOLE = 1e15
_DESCRIBED = 100_000  # cells at once, as each description is an object


def main(source: str, target: str, options: dict[str, Any]) -> dict[str, Any]:
    """Write the cells of a sheet; returns what the program prints."""
    _limit(options["memory"], options["seconds"])
    try:
        repair(Path(source))
        return _convert(fastexcel.read_excel(source), target, options)
    except MemoryError:  # Arrow's too
        return {"error": "memory"}
    except fastexcel.FastExcelError as error:
        return {"error": str(error).partition("\n")[0]}


def _limit(memory: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@dataclass(frozen=True)
class _Column:
    """Cells of a column in each type in which the sheet was loaded, and the errors among them, by row."""

    text: pa.Array
    number: pa.Array
    boolean: pa.Array
    elapsed: pa.Array
    errors: dict[int, str]

    def kinds(self, nulls: list[str]) -> dict[str, pa.Array]:
        """Return for each kind which cells are of it."""
        scalar = self.boolean.is_valid()  # numbers and booleans
        boolean = pc.and_(scalar, self._is_one_of(["true", "false"]))
        date = self.elapsed.is_valid()  # or elapsed: `_separate_dates` separates them
        text = pc.and_not(pc.and_not(self.text.is_valid(), pc.or_(scalar, date)), self._is_one_of(nulls))
        for mark in (UNSAVED, ODD_ERROR):
            text = pc.and_not(text, pc.fill_null(pc.starts_with(self.text, mark), fill_value=False))
        return {"number": pc.and_not(scalar, boolean), "boolean": boolean, "date": date, "text": text}

    def _is_one_of(self, texts: list[str]) -> pa.Array:
        return pc.is_in(self.text, value_set=pa.array(texts, pa.string()))

    def printed(self, numbers: pa.Array) -> pa.Array:
        """Return all cells as text."""
        whole = pc.and_(pc.equal(self.number, pc.floor(self.number)), pc.less(pc.abs(self.number), _MOST_WHOLE))
        integers = pc.if_else(whole, self.number, None).cast(pa.int64()).cast(pa.string())
        found = pc.if_else(numbers, pc.coalesce(integers, self.number.cast(pa.string())), self.text)
        return pc.replace_substring_regex(_put(found, self.errors), f"^{ODD_ERROR}", "")


def _convert(reader: fastexcel.ExcelReader, target: str, options: dict[str, Any]) -> dict[str, Any]:
    sheets, sheet = reader.sheet_names, options["sheet"]
    name = sheets[(sheet or 1) - 1] if not isinstance(sheet, str) and (sheet or 1) <= len(sheets) else sheet
    if name not in sheets:
        return {"error": "sheet", "sheets": sheets}
    columns = _columns(reader, name)
    rows = len(columns[0].text) if columns else 0
    if not rows and sheet is None and len(sheets) > 1:
        return {"error": "no cell", "first": name, "sheets": sheets[1:]}
    found = [column.kinds(options["nulls"]) for column in columns]
    texts = [column.printed(kinds["number"]) for column, kinds in zip(columns, found, strict=True)]
    top = min((_first_filled(text) for text in texts), default=0) + options["skip"]
    first = top + options["header"]
    header = [text[top].as_py() for text in texts] if options["header"] and top < rows else []
    kinds = [sorted(name for name, cells in k.items() if pc.any(cells.slice(first)).as_py()) for k in found]
    clocks = _separate_dates(reader, name, first, kinds, {"date", "text"} if options["iso"] else {"date"}, rows=rows)
    for i, are_elapsed in clocks.items():
        printed = pa.array(map(_clock, columns[i].elapsed.cast(pa.int64()).to_pylist()), pa.string())
        texts[i] = pc.coalesce(printed if are_elapsed is None else pc.if_else(are_elapsed, printed, None), texts[i])
    dated = [i for i, kind in enumerate(kinds) if kind == ["date"]]
    is_since_1904 = any(_counts_from_1904(reader, name, i, texts[i].slice(first), first) for i in dated)
    table = pa.table([text.slice(first) for text in texts], [str(i) for i in range(len(texts))])
    many = max(1, min(options["batch_rows"], options["batch_cells"] // max(1, len(texts))))
    with pa.OSFile(target, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, many)
    no_day = _SINCE_1904 if is_since_1904 else _BEFORE_1904
    return {"header": header, "kinds": kinds, "first": first, "no_day": no_day}


def _columns(reader: fastexcel.ExcelReader, sheet: str) -> list[_Column]:
    text, failed = reader.load_sheet(sheet, header_row=None, skip_rows=0, dtypes="string").to_arrow_with_errors()
    errors: dict[int, dict[int, str]] = {}
    for error in failed.errors if failed else ():
        row, column = error.offset_position
        errors.setdefault(column, {})[row] = _error_text(error.detail)
    others = [
        reader.load_sheet(sheet, header_row=None, skip_rows=0, dtypes=kind).to_arrow().columns
        for kind in ("float", "boolean", "duration")
    ]
    return [
        _Column(t.cast(pa.string()), number, boolean, elapsed, errors.get(i, {}))
        for i, (t, number, boolean, elapsed) in enumerate(zip(text.columns, *others, strict=True))
    ]


def _error_text(detail: str) -> str:
    """Return the text of a cell from the library's error message, where the library has no text for the cell.

    Such a cell is an error, an elapsed time of a day or more, or a number in the format of a date that is no date.
    """
    if error := _ERROR.search(detail):
        return _ERRORS.get(error[1], f"#{error[1]}")
    if elapsed := _ELAPSED.search(detail):
        return ":".join(part.zfill(2) for part in elapsed.groups())
    number = _NUMBER.search(detail)
    return number[1] if number else detail


def _put(column: pa.Array, values: dict[int, str]) -> pa.Array:
    if not values:
        return column
    places = sorted(values)
    mask = pc.is_in(pa.array(range(len(column)), pa.int64()), value_set=pa.array(places, pa.int64()))
    return pc.replace_with_mask(column, mask, pa.array([values[row] for row in places]))


def _first_filled(column: pa.Array) -> int:
    """Return the first row that has a cell which is not blank."""
    is_filled = pc.not_equal(pc.utf8_trim_whitespace(column), "")
    at: int = pc.index(is_filled, pa.scalar(value=True)).as_py()
    return at if at >= 0 else len(column)


def _separate_dates(
    reader: fastexcel.ExcelReader, sheet: str, first: int, kinds: list[list[str]], unclear: set[str], *, rows: int
) -> dict[int, pa.Array | None]:
    """Change `kinds` where a column has elapsed times, not dates, or dates written as text (in .ods), not text.

    The values do not show it; the types that the library reports for a column do. Returns the columns with elapsed
    times, and which of their cells these are, where it is not all.
    """
    known = {i for i, kind in enumerate(kinds) if not unclear & set(kind)}
    elapsed = dict[int, pa.Array | None]()
    while len(known) < len(kinds):
        try:
            loaded = reader.load_sheet(
                sheet,
                header_row=None,
                skip_rows=first,
                column_names=[str(i) for i in range(len(kinds))],
                schema_sample_rows=None,
                dtype_coercion="strict",
                dtypes={str(i): "string" for i in known} if known else None,
            ).available_columns()
        except fastexcel.FastExcelError as error:  # cells of several types, or an error at which it stops
            if (failed := _MIXED.search(str(error)) or _FAILED.search(str(error))) is None:
                raise
            column, types = int(failed["column"]), set(failed["types"].split(", ")) - {""}
            if column in known:
                raise
            known.add(column)
            if types and "Duration" not in types:  # several types, and none of them needs a cell to be looked at
                continue
            if types and not types & {"DateTime", "Date"}:
                kinds[column] = sorted({"elapsed", *kinds[column]} - {"date"})
                elapsed[column] = None
            elif (found := _elapsed_cells(reader, sheet, column, first, kinds[column], rows=rows)) is not None:
                elapsed[column] = found
        else:
            for i in set(range(len(kinds))) - known:
                if loaded[i].dtype in ("duration", "date", "datetime"):
                    is_elapsed = loaded[i].dtype == "duration"
                    kinds[i] = ["elapsed" if is_elapsed else "date"]
                    if is_elapsed:
                        elapsed[i] = None
            break
    return elapsed


def _elapsed_cells(
    reader: fastexcel.ExcelReader, sheet: str, column: int, first: int, kinds: list[str], *, rows: int
) -> pa.Array | None:
    """Return which cells of a column are elapsed times, None if none is, and change the kinds of its cells."""
    found: dict[str, array[int]] = {kind: array("q") for kind in _MARKS}
    for row, text in _descriptions(reader, sheet, column, rows):
        for kind, marks in _MARKS.items():
            if any(mark in text for mark in marks):
                found[kind].append(row)
    own = {kind for kind, places in found.items() if places and places[-1] >= first}
    if own & {"date", "elapsed"}:
        kinds[:] = sorted((set(kinds) - {"date", "text"}) | (own - {"text"}) | (own & set(kinds)))
    if not found["elapsed"]:
        return None
    return pc.is_in(pa.array(range(rows), pa.int64()), value_set=pa.array(found["elapsed"], pa.int64()))


def _descriptions(
    reader: fastexcel.ExcelReader, sheet: str, column: int, rows: int, first: int = 0
) -> Iterator[tuple[int, str]]:
    """Yield the library's descriptions of the cells of a column that are no booleans, with their rows."""
    for at in range(first, rows, _DESCRIBED):
        loaded = reader.load_sheet(
            sheet, header_row=None, skip_rows=at, n_rows=_DESCRIBED, use_columns=[column], dtypes="boolean"
        )
        _, failed = loaded.to_arrow_with_errors()
        yield from ((at + e.offset_position[0], e.detail) for e in (failed.errors if failed else ()))


def _counts_from_1904(reader: fastexcel.ExcelReader, sheet: str, column: int, cells: pa.Array, first: int) -> bool:
    """Return whether dates count from 1904, by a column of cells that all have the first day, one of them with a time.

    There, the number 0 is a day; with a time of day, it may only be meant as that.
    """
    moments = cells.filter(pc.match_substring_regex(cells, _MOMENT))
    all_first = pc.all(pc.starts_with(moments, f"{_SINCE_1904} "), min_count=1).as_py()
    if not all_first or pc.all(pc.ends_with(moments, " 00:00:00")).as_py():
        return False
    return any("is_1904: true" in text for _, text in _descriptions(reader, sheet, column, first + len(cells), first))


def _clock(milliseconds: int | None) -> str | None:
    """Return hours, minutes and seconds, with any number of hours."""
    if milliseconds is None:
        return None
    seconds, rest = divmod(abs(milliseconds), 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}" + (f".{rest:03}" if rest else "")
    return text if milliseconds >= 0 else f"-{text}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))))
