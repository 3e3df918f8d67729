"""Conversion of text to values: accepted formats of each type, and the errors for others."""

import datetime
import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cloud.redshift.copy import Column, parse
from local_cloud.redshift.copy.text import temporal as moments
from local_cloud.redshift.copy.text import utf8, values
from local_cloud.redshift.errors import BadValue, RedshiftError

ROLE = "IAM_ROLE 'arn:aws:iam::123456789012:role/reader'"


def _converted(column: Column, *texts: str | None, options: str = "") -> list[str | int | None]:
    """Return each value as text, or the error code if it is invalid."""
    command = parse(f"COPY t FROM 's3://b/k' {ROLE} {options}")
    found, wrong = values.convert(command, column, pa.array(texts, pa.large_string()))
    return [wrong[at].code if at in wrong else text for at, text in enumerate(found.to_pylist())]


@pytest.mark.parametrize(
    ("column", "texts", "expected"),
    [
        (
            Column("v", "smallint"),
            ["32767", "-32768", None, "", "007", "+5"],
            ["32767", "-32768", None, None, "7", "5"],
        ),
        (Column("v", "smallint"), ["32768", "0x1F", "1.0", " 1", "1_0", "٣"], [1222, 1207, 1207, 1207, 1207, 1207]),
        (Column("v", "integer"), ["2147483648", "1e3", "abc"], [1222, 1207, 1207]),
        (Column("v", "bigint"), ["9223372036854775807", "9223372036854775808"], ["9223372036854775807", 1222]),
        (Column("v", "double precision"), ["1.5", "-.5e-3", "NaN", "0e5"], ["1.5", "-.5e-3", "NaN", "0e5"]),
        (Column("v", "double precision"), ["1e309", "1e-400", "1,5", "0x1"], [1204, 1204, 1208, 1208]),
        (Column("v", "real"), ["3.4e38", "1e39", "1e-60", "0"], ["3.4e38", 1204, 1204, "0"]),
        (
            Column("v", "boolean"),
            ["t", "TRUE", "y", "1", "no", "0"],
            ["true", "true", "true", "true", "false", "false"],
        ),
        (Column("v", "boolean"), ["t", "f"], ["t", "f"]),
        (Column("v", "boolean"), ["2", "on"], [1210, 1210]),
        (Column("v", "char", 3), ["abc", "ab  ", "é", "abcd", ""], ["abc", "ab", 1220, 1204, ""]),
        (Column("v", "varchar", 3), ["abc", "é", "éé", "a\0"], ["abc", "é", 1204, 1220]),
        (Column("v", "time"), ["23:59:59.123456", "01:02", "25:00:00"], ["23:59:59.123456", "01:02:00", 1206]),
        (Column("v", "timetz"), ["01:02:03+02"], ["01:02:03+02"]),
        (Column("v", "varchar", 3, nullable=False), [None, "a"], [1213, "a"]),
    ],
)
def test_types(column: Column, texts: list[str | None], expected: list[str | int | None]) -> None:
    assert _converted(column, *texts) == expected


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("123.45", "", "123.45"),
        ("123.459", "", "123.45"),
        ("-123.459", "", "-123.45"),
        ("123.455", "ROUNDEC", "123.46"),
        ("000123.4", "", "123.40"),
        ("1e2", "", 1207),
        ("0E-10", "", 1207),
        ("999.999", "", "999.99"),
        ("999.999", "ROUNDEC", 1204),
        ("1000", "", 1204),
        ("1e999999999", "", 1207),
        ("abc", "", 1207),
        ("NaN", "", 1207),
        (".5", "", "0.50"),
    ],
)
def test_decimals_are_cut_at_their_scale(text: str, options: str, expected: str | int) -> None:
    assert _converted(Column("v", "numeric", precision=5, scale=2), text, options=options) == [expected]


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9)))
def test_any_decimal_is_as_it_was(numbers: list[decimal.Decimal]) -> None:
    found = _converted(Column("v", "numeric", precision=18, scale=4), *[str(number) for number in numbers])
    assert [decimal.Decimal(text or "") for text in found] == numbers


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ("", "2020-01-31", "2020-01-31"),
        ("", "2020-01-31 10:00:00", "2020-01-31"),
        ("", "2020-02-30", 1205),
        ("", "20200131", 1205),
        ("", "0000-01-01", 1205),
        ("DATEFORMAT 'auto'", "20200131", "2020-01-31"),
        ("DATEFORMAT 'auto'", "01/31/2020", "2020-01-31"),
        ("DATEFORMAT 'auto'", "31-Jan-2020", "2020-01-31"),
        ("DATEFORMAT 'auto'", "January 31, 2020", "2020-01-31"),
        ("DATEFORMAT 'auto'", "2020-01-31T23:00:00Z", "2020-01-31"),
        ("DATEFORMAT 'auto'", "yesterday", 1205),
        ("DATEFORMAT 'DD.MM.YYYY'", "31.01.2020", "2020-01-31"),
        ("DATEFORMAT 'DD.MM.YYYY'", "2020-01-31", 1205),
        ("DATEFORMAT 'MM-DD-YY'", "01-31-69", "2069-01-31"),
        ("DATEFORMAT 'MM-DD-YY'", "01-31-70", "1970-01-31"),
        ("ACCEPTANYDATE", "2020-02-30", None),
    ],
)
def test_dates(options: str, text: str, expected: str | int | None) -> None:
    assert _converted(Column("v", "date"), text, options=options) == [expected]


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ("", "2020-01-31 10:11:12.123456", "2020-01-31 10:11:12.123456"),
        ("", "2020-01-31 10:11", "2020-01-31 10:11"),
        ("", "2020-01-31", "2020-01-31 00:00:00"),
        ("", "2020-01-31T10:11:12", 1206),
        ("", "2020-01-31 10:11:12Z", 1206),
        ("", "2020-01-31 24:00:00", 1206),
        ("TIMEFORMAT 'auto'", "2020-01-31T10:11:12", "2020-01-31T10:11:12"),
        ("TIMEFORMAT 'auto'", "2020-01-31T10:11:12.5Z", "2020-01-31T10:11:12.5Z"),
        ("TIMEFORMAT 'auto'", "2020-01-31T10:11:12.1234567Z", 1206),
        ("TIMEFORMAT 'auto'", "20200131 101112", "2020-01-31 10:11:12"),
        ("TIMEFORMAT 'auto'", "01/31/2020 10:11:12", "2020-01-31 10:11:12"),
        ("TIMEFORMAT 'auto'", "0000-01-01 00:00:00", 1206),
        ("TIMEFORMAT 'epochsecs'", "1580465472", "2020-01-31 10:11:12"),
        ("TIMEFORMAT 'epochsecs'", "-1.5", "1969-12-31 23:59:58.500000"),
        ("TIMEFORMAT 'epochmillisecs'", "1580465472123", "2020-01-31 10:11:12.123"),
        ("TIMEFORMAT 'epochsecs'", "soon", 1206),
        ("TIMEFORMAT 'MM.DD.YYYY HH:MI:SS AM'", "01.31.2020 12:11:12 PM", "2020-01-31 12:11:12"),
        ("TIMEFORMAT 'MM.DD.YYYY HH:MI:SS AM'", "01.31.2020 12:11:12 am", "2020-01-31 00:11:12"),
        ("TIMEFORMAT 'DD/MON/YYYY:HH24:MI:SS'", "31/Jan/2020:10:11:12", "2020-01-31 10:11:12"),
        ("TIMEFORMAT 'DD/MON/YYYY:HH24:MI:SS'", "31/Foo/2020:10:11:12", 1206),
    ],
)
def test_timestamps(options: str, text: str, expected: str | int) -> None:
    found = _converted(Column("v", "timestamp"), text, options=options)
    assert found == [expected] or (isinstance(expected, str) and found == [expected + ".000000"])


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ("", "2020-01-31 10:11:12+02", "2020-01-31 10:11:12+02"),
        ("", "2020-01-31 10:11:12", "2020-01-31 10:11:12"),
        ("", "2020-01-31T10:11:12+02", 1206),
        ("TIMEFORMAT 'auto'", "2020-01-31T10:11:12-05:30", "2020-01-31T10:11:12-05:30"),
        ("TIMEFORMAT 'YYYY-MM-DD HH:MI:SSOF'", "2020-01-31 10:11:12Z", "2020-01-31 10:11:12Z"),
    ],
)
def test_timestamps_with_zones(options: str, text: str, expected: str | int) -> None:
    assert _converted(Column("v", "timestamptz"), text, options=options) == [expected]


def test_mixed_timestamps_go_one_by_one() -> None:
    texts = ["2020-01-31T10:11:12Z", "2020-01-31 10:11:12", None, "2020-01-31"]
    assert _converted(Column("v", "timestamptz"), *texts, options="TIMEFORMAT 'auto'") == [
        "2020-01-31 10:11:12Z",
        "2020-01-31 10:11:12",
        None,
        "2020-01-31 00:00:00",
    ]


@given(st.lists(st.datetimes(), max_size=5), st.sampled_from(["T", " "]), st.sampled_from(["", "Z", "+02:00"]))
def test_any_moment_is_read_at_once(found: list[datetime.datetime], between: str, zone: str) -> None:
    texts = [moment.isoformat(between) + zone for moment in found if moment.year > 1]
    array = pa.array(texts, pa.large_string())
    assert moments.sure("timestamptz", "auto", array) is array
    exact = moments.exact("timestamptz", "auto")
    assert [datetime.datetime.fromisoformat(exact(text)) for text in texts] == [
        datetime.datetime.fromisoformat(text) for text in texts
    ]


def test_a_format_that_is_none() -> None:
    with pytest.raises(RedshiftError, match="Invalid date or time format"):
        moments.exact("date", "YYYY YYYY")


@pytest.mark.parametrize(
    ("bad", "code"),
    [(b"\xa4", 3), (b"\xe0\xa1", 2), (b"\xc0", 6), (b"\xf8", 1), (b"\xed", 2)],
)
def test_the_error_of_bytes_that_are_no_utf8(bad: bytes, code: int) -> None:
    assert utf8.reason(bad).endswith(f"Bad UTF8 hex sequence: {bad.hex(' ')} (error {code})")


@given(st.binary(max_size=12))
def test_each_bad_byte_is_replaced_by_one_character(data: bytes) -> None:
    replaced = data.decode("utf-8", utf8.replace_with("?"))
    assert len(replaced.encode()) == len(data)
    assert (utf8.bad_bytes(data) is None) == (replaced.encode() == data)


@pytest.mark.parametrize("text", ["{", "NaN", "[1,]", "'a'", '"\\ud800"', '"\\u0000"'])
def test_super_must_be_json(text: str) -> None:
    with pytest.raises(BadValue):
        values.exact(parse(f"COPY t FROM 's3://b/k' {ROLE} CSV"), Column("v", "super"))(text)


@pytest.mark.parametrize("text", ['"\\\\u0000"', '{"a": " \\\\u0000 \\\\u0041"}'])
def test_a_backslash_before_letters_is_no_escape(text: str) -> None:
    assert values.exact(parse(f"COPY t FROM 's3://b/k' {ROLE} CSV"), Column("v", "super"))(text) == text
