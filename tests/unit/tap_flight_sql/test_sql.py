"""Queries for the windows of a stream."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from singer_arrow.errors import ConfigError, DataError
from tap_flight_sql.server import Server
from tap_flight_sql.settings import ServerSettings
from tap_flight_sql.sql import ESCAPE_PROBE, Bound, Bounds, bound_of, check_key_type, largest, quoted_name, select

QUERY = "SELECT * FROM t"


def test_a_whole_query_is_unchanged() -> None:
    assert select(QUERY) == QUERY


def test_columns_and_bounds() -> None:
    bounds = Bounds('"id"', pa.int64(), 5, 9)
    assert select(QUERY, columns=['"a"', '"b"'], bounds=bounds) == (
        'SELECT "a", "b" FROM (SELECT * FROM t) AS q WHERE "id" > 5 AND "id" <= 9'
    )


def test_the_first_window_has_the_rows_without_a_key() -> None:
    bounds = Bounds('"id"', pa.int64(), None, 9)
    assert select(QUERY, bounds=bounds) == 'SELECT * FROM (SELECT * FROM t) AS q WHERE "id" <= 9 OR "id" IS NULL'


def test_the_first_window_of_a_floating_key_has_the_rows_for_which_no_comparison_holds() -> None:
    bounds = Bounds('"x"', pa.float64(), None, 0.5)
    assert select(QUERY, bounds=bounds) == 'SELECT * FROM (SELECT * FROM t) AS q WHERE NOT ("x" > 0.5) OR "x" IS NULL'
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT unnest([0.25, 0.5, 0.75, NULL]) AS x")
    found = connection.execute(select(QUERY, bounds=bounds)).fetchall()
    assert sorted(found, key=str) == [(0.25,), (0.5,), (None,)]


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        (pa.scalar(7, pa.int8()), 7),
        (pa.scalar(0.5), 0.5),
        (pa.scalar(Decimal("1.50"), pa.decimal128(10, 2)), "1.50"),
        (pa.scalar("it's"), "it's"),
        (pa.scalar(date(2024, 5, 1)), "2024-05-01"),
        (
            pa.scalar(datetime.fromisoformat("2024-05-01T10:00:00.000250"), pa.timestamp("us")),
            "2024-05-01T10:00:00.000250",
        ),
        (pa.scalar(datetime.fromisoformat("2024-05-01T10:00:00"), pa.timestamp("s")), "2024-05-01T10:00:00"),
        (pa.scalar(1714557600000000001, pa.int64()).cast(pa.timestamp("ns")), "2024-05-01T10:00:00.000000001"),
        (
            pa.scalar(datetime(2024, 5, 1, 10, tzinfo=UTC), pa.timestamp("us", "Europe/Berlin")),
            "2024-05-01T10:00:00.000000+00:00",
        ),
    ],
    ids=["int8", "float", "decimal", "text", "date", "micro", "second", "nano", "zone"],
)
def test_bounds_select_what_they_are_the_largest_of(value: pa.Scalar, bound: Bound) -> None:
    assert bound_of(value) == bound
    with duckdb.connect() as connection:
        column = pa.table({"k": pa.concat_arrays([pa.nulls(0, value.type), pa.repeat(value, 1)])})
        connection.register("t", column)
        rows = connection.execute(select(QUERY, bounds=Bounds('"k"', value.type, None, bound))).fetchall()
        assert len(rows) == 1
        (after,) = connection.execute(largest(QUERY, '"k"', bound, value.type)).fetchall()
        assert after == (None,)


class MySql(Server):
    """A server that takes backslashes in text as escapes and names in backticks, as MySQL does: DuckDB's E'' text."""

    def __init__(self, rows: pa.Table) -> None:
        super().__init__(ServerSettings(uri="grpc://unused"))
        self.rows = rows

    def value(self, query: str) -> pa.Scalar:
        return self.table(query).column(0)[0]

    def table(self, query: str) -> pa.Table:
        text = re.sub(r"'(?:[^'\\]|\\.|'')*'", r"E\g<0>", query.replace("`", '"'))
        with duckdb.connect() as connection:
            connection.register("t", self.rows)
            return connection.sql(text).to_arrow_table()


@pytest.mark.parametrize("text", ["a\\b", "a\\", "\\", "\\\\", "it\\'s", "\\n\\%", 'a\\0"b', "plain"])
def test_a_backslash_in_a_key_is_itself_on_every_server(text: str) -> None:
    server = MySql(pa.table({"k": [text, "z" + text]}))
    assert server.escapes
    bounds = Bounds("`k`", pa.string(), None, text, escapes=True)
    assert server.table(select(QUERY, bounds=bounds)).to_pydict() == {"k": [text]}
    bounds = Bounds("`k`", pa.string(), text, "z" + text, escapes=True)
    assert server.table(select(QUERY, bounds=bounds)).to_pydict() == {"k": ["z" + text]}
    assert server.value(largest(QUERY, "`k`", text, pa.string(), escapes=True)).as_py() == "z" + text
    with duckdb.connect() as connection:
        connection.register("t", server.rows)
        found = connection.execute(select(QUERY, bounds=Bounds('"k"', pa.string(), None, text))).fetchall()
        assert found == [(text,)]
        assert connection.execute(ESCAPE_PROBE).fetchall() == [("\\\\",)]


def test_quotes_within_names() -> None:
    assert quoted_name('a"b', '"') == '"a""b"'
    assert quoted_name("a`b", "`") == "`a``b`"


def test_a_key_must_be_comparable() -> None:
    check_key_type("rows", "id", pa.decimal128(10, 0))
    with pytest.raises(ConfigError, match="'rows': the replication key 'raw' is of type binary; it must be"):
        check_key_type("rows", "raw", pa.binary())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_bound_that_is_no_number_is_an_error(value: float) -> None:
    with pytest.raises(DataError, match=rf"the largest value of the replication key is {value}"):
        bound_of(pa.scalar(value))
