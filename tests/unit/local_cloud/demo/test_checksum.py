"""The demonstration's checksum of the source, computed by DuckDB."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from local_cloud.demo.checksum import Checksum, Column, of_source

COLUMNS = [
    Column("number", "integer"),
    Column("ratio", "float"),
    Column("good", "boolean"),
    Column("day", "date"),
    Column("at", "timestamp"),
    Column("name", "text"),
]
ROWS: list[dict[str, Any]] = [
    {"number": 7, "ratio": 0.25, "good": True, "day": "2013-01-02", "at": "2013-01-02T03:04:05.6Z", "name": "é"},
    {"number": -1, "ratio": -2.5, "good": False, "day": "1969-12-31", "at": "1969-12-31T23:59:59Z", "name": ""},
    {"number": None, "ratio": None, "good": None, "day": None, "at": None, "name": None},
]


def of_lines(*rows: dict[str, Any]) -> Checksum:
    return of_source([("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())], COLUMNS)


def test_a_row_is_its_texts_in_the_order_of_the_columns_names() -> None:
    # at, day, good, name, number, ratio
    text = "\x02".join(["1357095845600000", "2013-01-02", "true", "é", "7", "250000"])
    digest = hashlib.md5(text.encode()).hexdigest()

    assert of_lines(ROWS[0]) == Checksum(1, int(digest[:10], 16))


def test_the_order_of_rows_and_columns_does_not_matter() -> None:
    content = [("rows.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS[::-1]).encode())]

    assert of_source(content, COLUMNS[::-1]) == of_lines(*ROWS)


@pytest.mark.parametrize(
    "other",
    [
        ROWS[:2],
        [*ROWS, ROWS[0]],
        [ROWS[0], {**ROWS[1], "name": None}, ROWS[2]],
        [{**ROWS[0], "ratio": 0.250001}, *ROWS[1:]],
        [{**ROWS[0], "at": "2013-01-02T03:04:05.600001Z"}, *ROWS[1:]],
    ],
)
def test_a_lost_doubled_or_changed_row_does(other: list[dict[str, Any]]) -> None:
    assert of_lines(*other).value != of_lines(*ROWS).value


def test_the_same_rows_in_other_formats_are_the_same() -> None:
    values = [
        {**row, "day": date.fromisoformat(row["day"]), "at": datetime.fromisoformat(row["at"]).astimezone(UTC)}
        for row in ROWS[:1]
    ]
    parquet = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(values), parquet)
    csv = "number,ratio,good,day,at,name\n7,0.25,true,2013-01-02,2013-01-02 03:04:05.6,é\n"

    assert of_source([("rows.parquet", parquet.getvalue())], COLUMNS) == of_lines(ROWS[0])
    assert of_source([("rows.csv.gz", gzip.compress(csv.encode()))], COLUMNS) == of_lines(ROWS[0])
