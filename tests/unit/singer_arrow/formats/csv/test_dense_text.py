"""CSV of little but quotes, delimiters or escapes: records end where they do in short ones, in little memory."""

from __future__ import annotations

import tracemalloc

import pytest

from singer_arrow.formats.csv_dialect import Dialect

MANY = 300_000
RECORDS = {
    "quotes": b'"' + b'""' * MANY + b'"\n',
    "quotes and delimiters": b'a,"' + b'"",""\n' * MANY + b'x",b\r\n',
    "delimiters": b"," * MANY + b"\n",
    "quoted fields": b'"x",' * MANY + b'"y"z\n',
    "odd quotes": b'"' + b'""' * MANY + b'"tail"",b\n',
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.full("quoted fields")
def test_long_records_end_where_short_ones_do(name: str) -> None:
    dialect, record = Dialect(), RECORDS[name]
    data = record + b"1,2\n"
    tracemalloc.start()
    try:
        assert [r.end for r in dialect.records(data)] == [len(record), len(data)]
        assert (dialect.whole(data), dialect.exact_cut(data)) == (len(data), len(data))
        assert dialect.scan(data).starts == [0, len(record)]
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("quotes", [999, 1000, 1001, 2000, 2001])
def test_a_field_of_many_quotes(quotes: int) -> None:
    dialect = Dialect()
    assert dialect.fields(b'1,"' + b'""' * quotes + b'",2') == ["1", '"' * quotes, "2"]
    open_one = b'1,"' + b'""' * quotes + b"\n2,3\n"
    assert (dialect.whole(open_one), dialect.exact_cut(open_one)) == (0, 0)
    assert dialect.damaged(open_one, 0) == open_one.index(b"\n") + 1


@pytest.mark.parametrize("count", [999, 1000, 1001, 5000])
def test_a_field_of_many_escapes(count: int) -> None:
    dialect = Dialect(escape="\\")
    record = b"\\," * count + b',"' + b'\\"' * count + b'"\n'
    assert dialect.whole(record + b"x") == len(record)
    assert dialect.fields(record[:-1]) == ["," * count, '"' * count]
