"""Generated workbooks are read as openpyxl and xlrd read them: both date systems, charts, formulas without a value."""

from __future__ import annotations

import io
import random
import re
import zipfile
from datetime import date, datetime, time, timedelta
from typing import Any

import openpyxl
import pytest
import xlrd
from workbooks import ods, xls, xlsb, xlsx

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions, ReadProgress

NAMES = ["n", "x", "s", "b", "d", "t"]


def _cells(seed: int, rows: int, *, with_times: bool) -> list[list[Any]]:
    """Return rows of numbers, texts, booleans, dates and times, with gaps."""
    chance = random.Random(seed)

    def row() -> list[Any]:
        day = date(1905, 1, 1) + timedelta(days=chance.randrange(60_000))
        time = datetime(day.year, day.month, day.day, chance.randrange(1, 24), 30)  # noqa: DTZ001 - as Excel
        number, text = chance.randrange(-(10**9), 10**9), f"text {chance.randrange(99)} <&é"
        made = [number, number / 8 + 0.125, text, chance.random() < 0.5, day, time]
        return [None if chance.random() < 0.1 else value for value in made[: None if with_times else 5]]

    return [[1, 0.5, "first", True, date(2024, 5, 1), datetime(2024, 5, 1, 12)][: 6 if with_times else 5]] + [  # noqa: DTZ001
        row() for _ in range(rows)
    ]


def _plain(value: Any) -> Any:
    """Return a value without zone, time of midnight, and the type of whole numbers."""
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
        return value.date() if value.time() == datetime.min.time() else value
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _ours(objects: Any, data: bytes, name: str) -> list[list[Any]]:
    return [[_plain(value) for value in row.values()] for row in objects.read(data, name).to_pylist()]


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("since_1904", [False, True])
@pytest.mark.filterwarnings("ignore:Workbook contains no default style")
@pytest.mark.full
def test_xlsx_as_openpyxl_reads_it(objects: Any, *, since_1904: bool, extended: bool) -> None:
    cells = _cells(int(since_1904) + 2 * extended, 40, with_times=True)
    data = xlsx({"S": [NAMES, *cells]}, since_1904=since_1904, extended=extended)
    sheet = openpyxl.load_workbook(io.BytesIO(data), data_only=True).worksheets[0]
    other = [[_plain(value) for value in row] for row in sheet.iter_rows(min_row=2, max_col=6, values_only=True)]
    assert _ours(objects, data, "a.excel.xlsx") == [row for row in other if any(v is not None for v in row)]
    assert other == [[_plain(value) for value in row] for row in cells]


@pytest.mark.parametrize("chart", [(), (20.0, 15.0, 18.0), tuple(map(float, range(60)))])
@pytest.mark.parametrize("since_1904", [False, True])
@pytest.mark.full
def test_xls_as_xlrd_reads_it(objects: Any, *, since_1904: bool, chart: tuple[float, ...]) -> None:
    """The cached values of a chart are no cells of the sheet that it is on."""
    cells = [[v.replace("é", "e") if isinstance(v, str) else v for v in row] for row in _cells(7, 50, with_times=False)]
    data = xls({"S": [NAMES[:5], *cells], "Other": [["x"]]}, since_1904=since_1904, chart=chart)
    book = xlrd.open_workbook(file_contents=data)

    def value(cell: Any) -> Any:
        if cell.ctype == xlrd.XL_CELL_DATE:
            return xlrd.xldate_as_datetime(cell.value, book.datemode).date()
        return None if cell.ctype == xlrd.XL_CELL_EMPTY else bool(cell.value) if cell.ctype == 4 else cell.value

    own = book.sheet_by_index(0)
    other = [[value(own.cell(n, c)) for c in range(5)] for n in range(1, len(cells) + 1)]
    if not chart:  # with one, xlrd too reads what is behind the cells
        assert other == [[_plain(v) for v in row] for row in cells]
    assert _ours(objects, data, "a.excel.xls") == [[_plain(v) for v in row] for row in cells]


def _with_formulas() -> bytes:
    """Return a workbook as openpyxl writes it: formulas have no saved value."""
    book, out = openpyxl.Workbook(), io.BytesIO()
    rows = (["id", "price", "qty", "total"], [1, 9.5, 2, "=B2*C2"], [2, 3, 4, 12], [None, None, None, "=SUM(D2:D3)"])
    for row in rows:
        book.active.append(row)
    book.save(out)
    return out.getvalue()


@pytest.mark.full
def test_a_formula_without_a_saved_value_is_a_bad_row(objects: Any) -> None:
    data = _with_formulas()
    with pytest.raises(
        DataError, match="line 2, column 'total': the formula of cell D2 has no saved value. Open the wo"
    ):
        objects.read(data, "a.excel.xlsx")
    progress, schema = ReadProgress(), objects.infer(data, "a.excel.xlsx")
    reader = objects.reader(data, "a.excel.xlsx")
    batches = list(FORMATS["excel"].read(reader, schema, ReadOptions(on_bad_row="skip"), progress))
    assert [row for batch in batches for row in batch.to_pylist()] == [{"id": 2, "price": 3.0, "qty": 4, "total": 12}]
    assert progress.skipped == 2
    chosen = objects.read(data, "a.excel.xlsx", schema.remove(3))
    assert [row["id"] for row in chosen.to_pylist()] == [1, 2, None]


@pytest.mark.full
def test_a_formula_whose_value_is_the_empty_text_is_null(objects: Any) -> None:
    source, out = zipfile.ZipFile(io.BytesIO(_with_formulas())), io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name in source.namelist():
            text = source.read(name).decode(errors="surrogateescape")
            text = re.sub(r"(<c r=\"D2\")[^>]*(><f>[^<]*</f>)<v ?/?>(</v>)?", r'\1 t="str"\2<v></v>', text)
            text = re.sub(r"(<c r=\"D4\"[^>]*><f>[^<]*</f>)<v ?/?>(</v>)?", r"\1<v>12</v>", text)
            file.writestr(name, text.encode(errors="surrogateescape"))
    assert objects.read(out.getvalue(), "a.excel.xlsx")["total"].to_pylist() == [None, 12, 12]


@pytest.mark.full
def test_a_formula_of_ods_without_a_value_is_a_bad_row(objects: Any) -> None:
    source, out = zipfile.ZipFile(io.BytesIO(ods({"S": [["a"], [1], [2], [3]]}))), io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name in source.namelist():
            cell = b'<table:table-cell office:value-type="float" office:value="2"/>'
            file.writestr(name, source.read(name).replace(cell, b'<table:table-cell table:formula="of:=1+1"/>'))
    with pytest.raises(DataError, match="line 3, column 'a': its formula has no saved value"):
        objects.read(out.getvalue(), "a.excel.ods")


EAST_ASIAN, THAI = (27, 31, 36, 50, 58), (71, 81)


@pytest.mark.parametrize("number", [14, *EAST_ASIAN, *THAI])
@pytest.mark.full
def test_dates_whose_format_has_a_number_and_no_text(objects: Any, number: int) -> None:
    """xlrd knows these numbers; openpyxl does not."""
    days = [["d", "n"], *([date(2024, 1, 1) + timedelta(days=n), 45_000 + n] for n in range(5))]
    expected = [dict(zip(("d", "n"), row, strict=True)) for row in days[1:]]
    old = xls({"S": days}, date_format=number)
    cells = xlrd.open_workbook(file_contents=old, formatting_info=True).sheet_by_index(0).col(0)[1:]
    assert [cell.ctype for cell in cells] == [xlrd.XL_CELL_DATE] * 5
    assert objects.read(old, "a.excel.xls").to_pylist() == expected
    assert objects.read(xlsx({"S": days}, date_format=number), "a.excel.xlsx").to_pylist() == expected
    assert objects.read(xlsb({"S": days}, date_format=number), "a.excel.xlsb").to_pylist() == expected


@pytest.mark.parametrize("number", [31, 164])
@pytest.mark.parametrize(("text", "is_date"), [('yyyy"-"mm', True), ("0.00", False), ("ddd", True)])
@pytest.mark.full
def test_the_text_of_a_format_counts_more_than_its_number(
    objects: Any, number: int, text: str, *, is_date: bool
) -> None:
    data = xls({"S": [["d"], [date(2024, 1, 1)]]}, date_format=number, format_text=text)
    cell = xlrd.open_workbook(file_contents=data).sheet_by_index(0).cell(1, 0)
    assert (cell.ctype == xlrd.XL_CELL_DATE) == is_date
    assert objects.read(data, "a.excel.xls").to_pylist() == [{"d": date(2024, 1, 1) if is_date else 45292}]


@pytest.mark.parametrize("since_1904", [False, True])
@pytest.mark.filterwarnings("ignore:Workbook contains no default style")
@pytest.mark.full
def test_times_of_day_as_openpyxl_reads_them(objects: Any, *, since_1904: bool) -> None:
    chance = random.Random(5)
    times = [time(chance.randrange(24), chance.randrange(60), chance.randrange(60)) for _ in range(20)]
    cells = [["t", "d"], *([t, date(2024, 1, 1 + n)] for n, t in enumerate(times))]
    data = xlsx({"S": cells}, since_1904=since_1904)
    sheet = openpyxl.load_workbook(io.BytesIO(data)).worksheets[0]
    assert [cell.value for cell in sheet["A"][1:]] == times
    found = objects.read(data, "a.excel.xlsx")
    assert found["t"].to_pylist() == times
    assert found["d"].to_pylist() == [row[1] for row in cells[1:]]


@pytest.mark.full
def test_the_first_day_of_1904_is_a_date_unless_a_cell_has_a_time(objects: Any) -> None:
    days = [["d", "t"], [date(1904, 1, 1), time(0)], [date(1904, 1, 1), time(0, 0, 1)]]
    found = objects.read(xlsx({"S": days}, since_1904=True), "a.excel.xlsx")
    assert found.to_pydict() == {"d": [date(1904, 1, 1)] * 2, "t": [time(0), time(0, 0, 1)]}


@pytest.mark.full
def test_a_chart_that_is_a_sheet_has_no_cells(objects: Any) -> None:
    data = xls({"Data": [["a"], [1]]}, chart=(20.0, 15.0), charts_alone=["Chart"])
    with pytest.raises(DataError, match="its first sheet 'Chart' has no cell. Set excel.sheet to one of 'Data'"):
        objects.infer(data, "a.excel.xls")
    assert objects.read(data, "a.excel.xls", sheet="Data").to_pylist() == [{"a": 1}]


@pytest.mark.full
def test_a_first_sheet_without_cells_names_the_others(objects: Any) -> None:
    with pytest.raises(DataError, match="its first sheet 'Read me' has no cell. Set excel.sheet to one of 'Data'"):
        objects.infer(xlsx({"Read me": [], "Data": [["a"], [1]]}), "a.excel.xlsx")
