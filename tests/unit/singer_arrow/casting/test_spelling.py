"""Spellings of dates, numbers and booleans; types are not changed by a few outliers."""

from __future__ import annotations

import json
import logging
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.casting.spelling import Spelling
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import RESCUED, FixedColumn, ReadOptions, ReadProgress

EUROPEAN = {
    "date_formats": ("%d/%m/%Y", "%d.%m.%y"), "timestamp_formats": ("%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S%.f"),
    "decimal_point": ",", "thousands_separator": ".", "true_values": ("sì", "Ja"), "false_values": ("no",),
}  # fmt: skip
TEXT = (
    "d;t;p;n;b;s\n"
    "31/12/2025;31/12/2025 14:05;1.234,00;1.234;Sì;1,5\n"
    "1/2/2026;31/12/2025 14:05:06.25;-,5;12;NO;31/12/2025\n"
    "01.02.26;1/2/2026;1234567,8;;ja;x\n"
    "2024-02-29;2024-02-29T10:00:00Z;;-1.000.000;true;\n"
).encode()
ROWS = {
    "d": [date(2025, 12, 31), date(2026, 2, 1), date(2026, 2, 1), date(2024, 2, 29)],
    "t": [
        datetime(2025, 12, 31, 14, 5, tzinfo=UTC), datetime(2025, 12, 31, 14, 5, 6, 250_000, tzinfo=UTC),
        datetime(2026, 2, 1, tzinfo=UTC), datetime(2024, 2, 29, 10, tzinfo=UTC),
    ],
    "p": [1234.0, -0.5, 1234567.8, None],
    "n": [1234, 12, None, -1_000_000],
    "b": [True, False, True, True],
    "s": ["1,5", "31/12/2025", "x", None],
}  # fmt: skip


def test_european_files_have_types_and_values(objects: Any) -> None:
    schema = objects.infer(TEXT, "a.csv", **EUROPEAN)
    moment = pa.timestamp("us", "UTC")
    types = [pa.date32(), moment, pa.float64(), pa.int64(), pa.bool_(), pa.string()]
    assert schema == pa.schema(list(zip(ROWS, types, strict=True)))
    assert objects.read(TEXT, "a.csv", schema, **EUROPEAN).to_pydict() == ROWS


def test_exact_decimals_of_european_numbers(objects: Any) -> None:
    schema = pa.schema([("p", pa.decimal128(12, 2)), ("d", pa.date32())])
    table = objects.read(TEXT, "a.csv", schema, **EUROPEAN)
    assert table["p"].to_pylist() == [Decimal("1234.00"), Decimal("-0.50"), Decimal("1234567.80"), None]


def test_fixed_width_files_have_the_same_settings(objects: Any) -> None:
    options = {**EUROPEAN, "fixed_width": (FixedColumn("d", 1, 10), FixedColumn("p", 11, 10))}
    data = b"31/12/2025  1.234,50\n01/02/2026      ,5\n"
    schema = objects.infer(data, "a.fixed_width", **options)
    table = objects.read(data, "a.fixed_width", schema, **options)
    assert table.to_pydict() == {"d": [date(2025, 12, 31), date(2026, 2, 1)], "p": [1234.5, 0.5]}


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [
        ("d", "31/02/2026", "a date"),
        ("d", "31/12/25", "a date"),
        ("d", "13/13/2025", "a date"),
        ("t", "31/12/2025 25:00", "a date and time"),
        ("p", "1.23", "a number"),
        ("p", "1,234.5", "a number"),
        ("n", "1.23.456", "an integer"),
        ("b", "1", "true or false"),
    ],
)
def test_what_is_written_otherwise_is_no_value(objects: Any, column: str, value: str, kind: str) -> None:
    schema = objects.infer(TEXT, "a.csv", **EUROPEAN)
    values = [value if name == column else "" for name in schema.names]
    data = TEXT + ";".join(values).encode() + b"\n"
    with pytest.raises(DataError, match=f"line 6, column '{column}': '{value}' is not {kind}"):
        objects.read(data, "a.csv", schema, **EUROPEAN)
    table = objects.read(data, "a.csv", schema, on_bad_row="skip", **EUROPEAN)
    assert table.to_pydict() == ROWS
    rescued = schema.append(pa.field(RESCUED, pa.string()))
    table = objects.read(data, "a.csv", rescued, on_bad_row="rescue", **EUROPEAN)
    assert table[RESCUED].to_pylist() == [None] * 4 + [f'{{"{column}":"{value}"}}']


def test_nanoseconds_of_a_format_are_kept_or_logged(objects: Any, caplog: Any) -> None:
    data = b"t\n31/12/2025 14:05:06.123456789\n31/12/9999 14:05:06.5\n"
    forms = ("%d/%m/%Y %H:%M:%S%.f",)
    with caplog.at_level(logging.WARNING):
        table = objects.read(data, "a.csv", pa.schema([("t", pa.timestamp("us", "UTC"))]), timestamp_formats=forms)
    assert table["t"][1].as_py().year == 9999
    assert "digits beyond microseconds are cut off" in caplog.text
    nanoseconds = pa.schema([("t", pa.timestamp("ns", "UTC"))])
    table = objects.read(data, "a.csv", nanoseconds, timestamp_formats=forms, on_bad_row="skip")
    assert [v.value % 1000 for v in table["t"]] == [789]


@pytest.mark.parametrize(
    "settings",
    [
        {"date_formats": ("%Q",)},
        {"date_formats": ("dd/mm/yyyy",)},
        {"timestamp_formats": ("%H:%M",)},
        {"decimal_point": ",", "thousands_separator": ","},
        {"thousands_separator": "ab"},
        {"decimal_point": "1"},
        {"true_values": ("x",), "false_values": (" X",)},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Spelling.of(ReadOptions(**settings))


def test_numbers_that_are_none_are_floats_beside_numbers(objects: Any) -> None:
    data = b"x,y,z\n1.5,nan,NaN\nNaN,Inf,1\n-inf,NaN,Infinity\n"
    schema = objects.infer(data, "a.csv")
    assert schema.types == [pa.float64(), pa.string(), pa.float64()]
    values = objects.read(data, "a.csv", schema)["x"].to_pylist()
    assert str(values) == "[1.5, nan, -inf]"


TYPES = {
    "int64": (["12"], "n/a"), "double": (["1.5", "3"], "1,5"), "bool": (["true", "False"], "maybe"),
    "date32[day]": (["2024-02-29"], "2023-02-29"), "timestamp[us, tz=UTC]": (["2024-02-29T10:00:00"], "soon"),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_a_few_values_move_a_type_unless_they_are_tolerated(objects: Any, name: str) -> None:
    good, bad = TYPES[name]
    values = (good * 1000)[:999]
    data = "\n".join(["a", *values[:500], f'"{bad}"', *values[500:]]).encode()
    assert objects.infer(data, "a.csv").types == [pa.string()]
    assert objects.infer(data, "a.csv", type_tolerance=0.0005).types == [pa.string()]
    schema = objects.infer(data, "a.csv", type_tolerance=0.001)
    assert str(schema.field("a").type) == name
    with pytest.raises(DataError, match=rf"a.csv, line 502, column 'a': '{bad}' is not"):
        objects.read(data, "a.csv", schema, type_tolerance=0.001)
    for drift in ("ignore", "raise"):
        progress, options = ReadProgress(), ReadOptions(type_tolerance=0.001, on_bad_row="skip", on_drift=drift)
        read = list(FORMATS["csv"].read(objects.reader(data, "a.csv"), schema, options, progress))
        assert (sum(b.num_rows for b in read), progress.skipped) == (999, 1)


def test_codes_with_zeros_stay_text(objects: Any) -> None:
    data = "\n".join(["a", *["12"] * 500, *["007"] * 500]).encode()
    assert objects.infer(data, "a.csv", type_tolerance=0.1).types == [pa.string()]


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        (["01/02/2026", "31/12/2025"], "'date_formats' to ['%d/%m/%Y']"),
        (["01/02/2026", "12/31/2025"], "'date_formats' to ['%m/%d/%Y']"),
        (["1.2.2026", "31.12.2025"], "'date_formats' to ['%d.%m.%Y']"),
        (["01/02/2026 10:00", "31/12/2025 9:30"], "'timestamp_formats' to ['%d/%m/%Y %H:%M']"),
        (["1,5", "12,25"], "'decimal_point' to ','"),
        (["1.234,5", "12,25"], "'decimal_point' to ',' and 'thousands_separator' to '.'"),
        (["01/02/2026", "03/04/2026"], None),
        (["31/12/2025", "12/31/2025"], None),
        (["31/12/2025", "x"], None),
        (["31/12/2025", "1.2.2026"], None),
        (["1,234", "12,250"], None),
        (["a", "b"], None),
    ],
)
def test_the_log_names_the_setting_where_there_is_no_doubt(
    objects: Any, caplog: Any, values: list[str], hint: str | None
) -> None:
    with caplog.at_level(logging.INFO):
        schema = objects.infer("\n".join(["a", *(f'"{v}"' for v in values)]).encode(), "a.csv")
    assert schema.types == [pa.string()]
    assert [f"set {hint} to read" in m for m in caplog.messages if "column 'a' is text" in m] == [True] * bool(hint)


def test_a_column_that_few_values_make_text_is_told(objects: Any) -> None:
    rows = [f"{n},{n * 1.5}" for n in range(1500)]
    rows[7], rows[900] = "7,n/a", "900,unknown"
    schema = objects.infer("\n".join(["id,amount", *rows, ""]).encode(), "a.csv")
    assert schema.field("amount").type == pa.string()
    found = json.loads(schema.metadata[b"nearly_typed"])
    assert list(found) == ["amount"]
    assert "2 of 1,500 values cannot be read as number ('n/a', 'unknown')" in found["amount"]
    words = objects.infer(b"id,w\n" + b"".join(b"%d,w%d\n" % (n, n) for n in range(99)) + b"100,5\n", "a.csv")
    assert words.metadata is None
