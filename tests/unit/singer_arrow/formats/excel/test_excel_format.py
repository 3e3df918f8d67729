"""Workbooks: types of cells, the first row, errors, and files that would exceed the memory."""

from __future__ import annotations

import gzip
import io
import sys
import zipfile
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pytest
from workbooks import Error, Serial, encrypted, ods, xls, xlsb, xlsx

from singer_arrow.errors import ConfigError, DataError, DriftError, EmptyObjectError
from singer_arrow.formats import FORMATS, detect_format, excel
from singer_arrow.read_options import RESCUED, ReadOptions, ReadProgress
from singer_arrow.reading.objects import ObjectReader

NAME = "a.excel.xlsx"
DAY = datetime(2024, 5, 1)  # noqa: DTZ001 - Excel knows no zone
NOON = DAY + timedelta(hours=12, minutes=30, seconds=15)
CELLS = [
    ["i", "f", "s", "b", "d", "dt", "t", "long", "short", "mixed", "none", 2024],
    [1, 1.5, "x", True, date(2024, 5, 1), NOON, time(12, 30), timedelta(hours=30)],
    [2, 3, "007", False, None, DAY, time(0), timedelta(minutes=90), timedelta(hours=3), 5, "", "y"],
    [],
    [-(10**14), 1e300, "5", None, date(1999, 12, 31), None, time(23, 59, 59), None, timedelta(0), True],
    [None, None, None],
]
UTC_TIME = pa.timestamp("us", "UTC")
TYPES = {
    "i": pa.int64(),
    "f": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "d": pa.date32(),
    "dt": UTC_TIME,
    "t": pa.time64("us"),
    "long": pa.string(),
    "short": pa.time64("us"),
    "mixed": pa.string(),
    "none": pa.null(),
    "2024": pa.string(),
}
ROWS = {
    "i": [1, 2, -(10**14)],
    "f": [1.5, 3.0, 1e300],
    "s": ["x", "007", "5"],
    "b": [True, False, None],
    "d": [date(2024, 5, 1), None, date(1999, 12, 31)],
    "dt": [datetime(2024, 5, 1, 12, 30, 15, tzinfo=UTC), datetime(2024, 5, 1, tzinfo=UTC), None],
    "t": [time(12, 30), time(0), time(23, 59, 59)],
    "long": ["30:00:00", "01:30:00", None],
    "short": [None, time(3), time(0)],
    "mixed": [None, "5", "true"],
    "none": [None, None, None],
    "2024": [None, "y", None],
}


@pytest.mark.parametrize("write", [xlsx, ods])
@pytest.mark.full
def test_columns_have_the_type_that_all_their_cells_have(write: Any, objects: Any) -> None:
    data = write({"S": CELLS})
    name = f"a.excel.{write.__name__}"
    assert objects.infer(data, name) == pa.schema(TYPES)
    assert objects.read(data, name).to_pydict() == ROWS


@pytest.mark.parametrize("write", [xlsx, xlsb, xls])
@pytest.mark.full
def test_workbooks_of_every_age_are_alike(write: Any, objects: Any) -> None:
    rows = [["id", "s", "f", "e", "b"], [1, "a", 1.5, Error("#DIV/0!"), True], [2, "007", 0.1234567890123, 4, False]]
    dated = [[*row, date(2024, 5, n) if n else "day"] for n, row in enumerate(rows)] if write is not xlsb else rows
    name = f"a.excel.{write.__name__}"
    table = objects.read(write({"Cover": [["x"]], "Data": dated}), name, sheet="Data", on_bad_row="skip")
    expected = {"id": 2, "s": "007", "f": 0.1234567890123, "e": 4, "b": False}
    assert table.to_pylist() == [expected if write is xlsb else {**expected, "day": date(2024, 5, 2)}]


@pytest.mark.full
def test_columns_become_what_the_schema_wants(objects: Any) -> None:
    schema = pa.schema(
        [
            ("d", pa.string()),
            ("t", pa.string()),
            ("i", pa.decimal128(20, 2)),
            ("absent", pa.int64()),
            ("s", pa.string()),
        ]
    )
    table = objects.read(xlsx({"S": CELLS}), NAME, schema)
    assert table["d"].to_pylist() == ["2024-05-01", None, "1999-12-31"]
    assert table["t"].to_pylist() == ["12:30:00", "00:00:00", "23:59:59"]
    assert [str(v) for v in table["i"].to_pylist()] == ["1.00", "2.00", "-100000000000000.00"]
    assert table["absent"].null_count == 3


@pytest.mark.full
def test_rows_begin_below_the_first_cells_and_a_sheet_is_chosen(objects: Any) -> None:
    shifted = [[], [], [None, "title"], [None, "k", "v"], [None, 1, "a"], [], [None, "x", None, None, "beyond"]]
    data = xlsx({"First": [["a"], [1]], "Zweites & drittes": shifted})
    chosen = {"sheet": "Zweites & drittes", "skip_rows": 1}
    assert objects.read(data, NAME, pa.schema([("a", pa.int64())])).to_pydict() == {"a": [1]}
    rows = objects.read(data, NAME, **chosen).to_pydict()
    assert rows == {"k": ["1", "x"], "v": ["a", None], "column_3": [None, None], "column_4": [None, "beyond"]}
    assert objects.infer(data, NAME, sheet=2, skip_rows=1).names == list(rows)
    with pytest.raises(DataError, match="line 7, column 'k': 'x' is not an integer"):
        objects.read(data, NAME, pa.schema([("k", pa.int64())]), **chosen)
    headless = objects.read(data, NAME, pa.schema([("column_1", pa.string())]), header=False)
    assert headless.to_pydict() == {"column_1": ["a", "1"]}
    for sheet in ("first", 3):
        with pytest.raises(DataError, match=f"it has no sheet {sheet!r}. Set excel.sheet to one of 'First', 'Zweites"):
            objects.read(data, NAME, sheet=sheet)


@pytest.mark.full
def test_a_merged_cell_hides_others_and_null_values_are_null(objects: Any) -> None:
    data = xlsx({"S": [["a", "b"], ["one", "NA"], [None, 2], ["three", Error("#N/A")]]}, merged=["A2:A3"])
    table = objects.read(data, NAME, null_values=("NA", "#N/A"))
    assert table.to_pydict() == {"a": ["one", None, "three"], "b": [None, 2, None]}


@pytest.mark.full
def test_cells_of_columns_of_several_types_are_text_and_lose_nothing(objects: Any) -> None:
    cells = ["007", 7, True, "true", 0.1234567890123, 1e-12, "0.1234567890123", DAY, "2024", -3, "NA", Error("#NUM!")]
    texts = ["007", "7", "true", "true", "0.1234567890123", "1e-12", "0.1234567890123", "2024-05-01 00:00:00", "2024"]
    table = objects.read(xlsx({"S": [["a", "b"], *([c, timedelta(hours=1) if c == 7 else "x"] for c in cells)]}), NAME)
    assert table["a"].to_pylist() == [*texts, "-3", "NA", "#NUM!"]
    assert table["b"].to_pylist() == ["x", "01:00:00", *["x"] * 10]
    texts = ["NA", "5", "true"]
    other = xlsx({"S": [[f"{kind}{t}" for kind in "nb" for t in texts], [1, 1, 1, True, True, True], texts * 2]})
    assert list(objects.read(other, NAME).to_pydict().values()) == [
        [first, text] for first in ("1", "true") for text in texts
    ]


@pytest.mark.full
def test_sheets_without_rows(objects: Any) -> None:
    assert objects.infer(xlsx({"S": []}), NAME) == pa.schema([])
    assert objects.read(xlsx({"S": [["a", "b"], []]}), NAME).schema == pa.schema([("a", pa.null()), ("b", pa.null())])
    with pytest.raises(EmptyObjectError):
        objects.infer(b"", NAME)
    assert objects.infer(xlsx({"S": [["a", "b", "a"], [1, 2, 3]]}), NAME).names == ["a", "b", "a_2"]


ERRORS = xlsx(
    {
        "S": [
            ["id", "name", "day"],
            [1, Error("#NAME?"), date(2024, 1, 1)],
            [Error("#DIV/0!"), "b", date(2024, 1, 2)],
            [3, "c", Serial(1e9)],
            [4, "d", None],
        ]
    }
)


def given(objects: Any, schema: pa.Schema, **options: Any) -> tuple[list[dict[str, Any]], ReadProgress]:
    progress = ReadProgress()
    batches = list(FORMATS["excel"].read(objects.reader(ERRORS, NAME), schema, ReadOptions(**options), progress))
    return pa.Table.from_batches(batches, schema).to_pylist(), progress


@pytest.mark.full
def test_errors_are_values_that_do_not_fit(objects: Any) -> None:
    schema = objects.infer(ERRORS, NAME)
    assert schema.types == [pa.int64(), pa.string(), pa.date32()]
    with pytest.raises(DataError, match="line 3, column 'id': '#DIV/0!' is not an integer"):
        given(objects, schema)
    rows, progress = given(objects, schema, on_bad_row="skip")
    assert [(r["id"], r["name"]) for r in rows] == [(1, "#NAME?"), (4, "d")]
    assert (progress.skipped, progress.rescued) == (2, 0)
    rows, progress = given(objects, schema.append(pa.field(RESCUED, pa.string())), on_bad_row="rescue")
    assert [r["id"] for r in rows] == [1, None, 3, 4]
    assert [r[RESCUED] for r in rows] == [None, '{"id":"#DIV/0!"}', '{"day":"1000000000.0"}', None]
    assert (progress.skipped, progress.rescued) == (0, 2)


@pytest.mark.full
def test_drift_names_the_types_of_the_columns(objects: Any) -> None:
    known = frozenset({"id"})
    with pytest.raises(DriftError) as caught:
        given(objects, pa.schema([("id", pa.int64())]), on_drift="raise", known_columns=known)
    assert [(f.name, f.type) for f in caught.value.fields] == [("name", pa.string()), ("day", pa.date32())]
    with pytest.raises(DriftError) as caught:
        given(objects, pa.schema([("name", pa.int64())]), on_drift="raise")
    assert [(f.name, f.type) for f in caught.value.fields] == [("name", pa.string())]
    with pytest.raises(DataError) as error:  # the column has integers, and one error
        given(objects, pa.schema([("id", pa.int64())]), on_drift="raise")
    assert not isinstance(error.value, DriftError)
    rows, _ = given(
        objects, pa.schema([("name", pa.string()), (RESCUED, pa.string())]), on_drift="rescue", known_columns=known
    )
    assert [r[RESCUED] for r in rows][3] is None
    assert rows[1][RESCUED] == '{"day":"2024-01-02"}'


@pytest.mark.full
@pytest.mark.parametrize("write", [xlsx, ods])
def test_elapsed_times_beside_dates_are_text(write: Any, objects: Any) -> None:
    cells = [["a", "b"], [timedelta(hours=30), 1], [date(2024, 1, 1), 2], [None, 3], [timedelta(hours=5), 4]]
    found = objects.read(write({"S": cells}), f"a.excel.{write.__name__}")
    assert found["b"].to_pylist() == [1, 2, 3, 4]
    day = "2024-01-01 00:00:00" if write is xlsx else "2024-01-01"
    assert found["a"].to_pylist() == ["30:00:00", day, None, "05:00:00"]


@pytest.mark.full
def test_cells_are_looked_at_in_pieces(objects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is run here, with pieces of three cells."""
    fastexcel = pytest.importorskip("fastexcel")
    from singer_arrow.formats import excel_sheet

    monkeypatch.setattr(excel_sheet, "_DESCRIBED", 3)
    cells: list[list[Any]] = [["a"], *([timedelta(hours=n)] if n % 3 else [DAY + timedelta(days=n)] for n in range(10))]
    cells[5] = [Error("#NAME?")]
    path = objects.url(NAME).local_path()
    path.write_bytes(xlsx({"S": cells}))
    reader, kinds = fastexcel.read_excel(path), ["date"]
    found = excel_sheet._elapsed_cells(reader, "S", 0, 1, kinds, rows=11)
    assert kinds == ["date", "elapsed"]
    assert found.to_pylist() == [n > 0 and isinstance(row[0], timedelta) for n, row in enumerate(cells)]


@pytest.mark.parametrize("text", ["#NAME?", "#N/A", "#GETTING_DATA", "#SPILL!", "#FIELD!"])
@pytest.mark.full
def test_an_error_is_a_bad_value_of_its_cell(objects: Any, text: str) -> None:
    cells = [["id", "day", "long", "n", "s"], [1, DAY, timedelta(hours=3), 5, "x"], [2, *[Error(text)] * 4]]
    data = xlsx({"S": [*cells, [3, DAY, timedelta(hours=4), 6, "y"]]})
    schema = objects.infer(data, NAME)
    assert schema.types == [pa.int64(), pa.date32(), pa.time64("us"), pa.int64(), pa.string()]
    with pytest.raises(DataError, match=f"line 3, column 'day': '{text[:-1]}.' is not a date"):
        objects.read(data, NAME, schema)
    assert objects.read(data, NAME, schema, on_bad_row="skip")["id"].to_pylist() == [1, 3]
    assert objects.read(data, NAME, schema.remove(1).remove(1).remove(1)).to_pylist()[1] == {"id": 2, "s": text}
    nulls = objects.read(data, NAME, null_values=("", text))
    assert nulls.to_pylist()[1] == {"id": 2, "day": None, "long": None, "n": None, "s": None}


@pytest.mark.full
def test_blank_cells_above_the_header_are_no_header(objects: Any) -> None:
    data = xlsx({"S": [[" "], [None, ""], [], ["a", "b"], [1, 2]]})
    assert objects.read(data, NAME).to_pylist() == [{"a": 1, "b": 2}]
    with pytest.raises(DataError, match="line 5, column 'a': 1 is not|line 5, column 'a': '1' is not a date"):
        objects.read(data, NAME, pa.schema([("a", pa.date32())]))


@pytest.mark.full
def test_batches_are_the_same_on_every_run(objects: Any) -> None:
    data = xlsx({"S": [["a", "b"], *([n, f"t{n}"] if n % 7 else [] for n in range(1000))]})
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])

    def batches() -> list[pa.RecordBatch]:
        return list(FORMATS["excel"].read(objects.reader(data, NAME), schema, ReadOptions(batch_rows=300)))

    first = batches()
    assert len(first) == 4
    assert sum(b.num_rows for b in first) == 857
    assert all(a.equals(b) for a, b in zip(first, batches(), strict=True))


@pytest.mark.full
def test_in_archives_and_compressed(objects: Any) -> None:
    book = xlsx({"S": [["a"], [1]]})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("1.xlsx", book)
        archive.writestr("2.xlsx", xlsx({"S": [["a"], [2]]}))
    schema = pa.schema([("a", pa.int64())])
    assert objects.read(out.getvalue(), "a.excel.zip", schema).to_pydict() == {"a": [1, 2]}
    assert objects.read(gzip.compress(book), f"{NAME}.gz", schema).to_pydict() == {"a": [1]}
    assert detect_format("in/Report.XLSX") == detect_format("a.ods.gz") == detect_format("a.xls") == "excel"


def far(cell: str) -> bytes:
    """Return a small workbook with a cell far from the others."""
    source, out = zipfile.ZipFile(io.BytesIO(xlsx({"S": [["a"], [1]]}))), io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name in source.namelist():
            row = f'<row r="{cell.lstrip("XFD")}"><c r="{cell}"><v>1</v></c></row></sheetData>'
            file.writestr(name, source.read(name).replace(b"</sheetData>", row.encode()))
    return out.getvalue()


@pytest.mark.full
def test_what_would_take_too_much_memory_is_refused(objects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "it needs more than 1024 MiB of memory .* delete cells that are far from the others"
    with pytest.raises(DataError, match=words):
        objects.infer(far("XFD1048576"), NAME)
    assert objects.read(far("D90000"), NAME, pa.schema([("a", pa.int64())])).num_rows == 2
    monkeypatch.setattr(excel, "LARGEST", 1000)
    with pytest.raises(DataError, match="is larger than 0 MiB"):
        objects.infer(far("D2"), NAME)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a,b\n1,2\n", "not a workbook, or it is broken .its first bytes are those of no workbook"),
        (b"PK\x03\x04 and no more", "not a workbook, or it is broken .*EOCD"),
        (xlsx({"S": [["a"]]})[:-100], "not a workbook, or it is broken"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "not a workbook, or it is broken .*Xls error"),
        (bytes(100), "its first bytes are those of no workbook"),
        (encrypted(), "it is encrypted, which cannot be read. Save it without a password"),
    ],
)
@pytest.mark.full
def test_a_file_that_is_not_a_workbook_is_an_error(data: bytes, words: str, objects: Any) -> None:
    with pytest.raises(DataError, match=words) as caught:
        objects.infer(data, NAME)
    assert "\n" not in str(caught.value)


def test_a_full_local_disk_is_an_error(objects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    reader: ObjectReader = objects.reader(xlsx({"S": [["a"]]}), NAME)
    monkeypatch.setattr("pathlib.Path.open", full)
    with pytest.raises(ConfigError, match="No space left on device; make room, or set TMPDIR"):
        FORMATS["excel"].infer(reader, ReadOptions(), sample_bytes=1)


def test_the_error_names_the_extra_if_the_library_is_missing(objects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    message = r"^Excel files need the library fastexcel: install singer-arrow-tap-s3-files\[excel\]$"
    reader = objects.reader(xlsx({"S": [["a"]]}), NAME)
    with pytest.raises(ConfigError, match=message):
        FORMATS["excel"].infer(reader, ReadOptions(), sample_bytes=1)
    with pytest.raises(ConfigError, match=message):
        next(iter(FORMATS["excel"].read(reader, pa.schema([("a", pa.int64())]), ReadOptions())))
