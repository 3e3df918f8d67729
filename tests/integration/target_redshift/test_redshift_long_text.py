"""Text too long for VARCHAR, with `long_text: rescue`: the whole row and the whole text are loaded."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest
from redshift_lines import Loads
from singer_lines import record, rows, schema, state

from local_cloud import Cloud
from singer_arrow.errors import DataError, SchemaError
from target_redshift.columns import LONG_TEXTS_COLUMN

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("body", pa.string()), ("n", pa.decimal128(20, 4))])
LONG = 'é"\\\n␀' * 20_000
METHODS = ["append-only", "upsert", "overwrite"]


def content(first: int, *bodies: str | None) -> list[dict[str, Any]]:
    return [{"id": first + n, "name": f"n{first + n}", "body": body, "n": None} for n, body in enumerate(bodies)]


def as_loaded(row: dict[str, Any], most: int = 65_535) -> dict[str, Any]:
    """Return a row as the table contains it."""
    long = {k: v for k, v in row.items() if isinstance(v, str) and len(v.encode()) > most}
    return {**row, **dict.fromkeys(long), LONG_TEXTS_COLUMN: long or None}


def loaded(redshift: Loads) -> list[dict[str, Any]]:
    found = redshift.table()
    return [
        {**row, LONG_TEXTS_COLUMN: None if row[LONG_TEXTS_COLUMN] is None else json.loads(row[LONG_TEXTS_COLUMN])}
        for row in found
    ]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("file_format", "where"), [("parquet", "s3"), ("parquet", "local"), ("jsonl", "s3")])
def test_long_text_is_loaded_whole(
    method: str, file_format: str, where: str, redshift: Loads, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = content(0, "short", LONG, None), content(3, "", "x" * 65_535, "x" * 65_536)
    batches = [
        redshift.batch(part, columns=COLUMNS, file_format=file_format, where=where, batch_id=f"{n}")
        for n, part in enumerate([before, after])
    ]
    counts = redshift.run([schema(columns=COLUMNS), *batches, state(1)], load_method=method, long_text="rescue")
    assert loaded(redshift) == [as_loaded(row) for row in (*before, *after)]
    assert redshift.columns()[LONG_TEXTS_COLUMN] == "SUPER"
    assert (counts["rows"], counts["long_texts"]) == (6, 2)
    assert redshift.staging_tables() == []
    [warning] = [r.getMessage() for r in caplog.records if "too long for its column" in r.getMessage()]
    assert re.search(
        rf"1\.{file_format}\S*, (row|line) 2, column 'body'|2\.{file_format}\S*, (row|line) 3, column 'body'", warning
    )
    assert LONG_TEXTS_COLUMN in warning


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("load_format", ["auto", "jsonl", "csv"])
def test_records_are_loaded_whole(method: str, load_format: str, redshift: Loads) -> None:
    given = content(0, "short", LONG)
    run = [schema(columns=COLUMNS), *(record(**{k: v for k, v in row.items() if k != "n"}) for row in given), state(1)]
    counts = redshift.run(run, load_method=method, load_format=load_format, long_text="rescue")
    assert loaded(redshift) == [as_loaded(row) for row in given]
    assert counts["long_texts"] == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
def test_varchar_max_is_the_longest_text_of_a_column(method: str, file_format: str, redshift: Loads) -> None:
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    given = [{"id": 1, "name": "x" * 1000}, {"id": 2, "name": "x" * 1001}]
    batch = redshift.batch(given, columns=columns, file_format=file_format, batch_id="a")
    settings = {"load_method": method, "varchar_max": 1000, "long_text": "rescue"}
    counts = redshift.run([schema(columns=columns), batch], **settings)
    assert loaded(redshift) == [as_loaded(row, 1000) for row in given]
    assert (counts["long_texts"], redshift.columns()["name"]) == (1, "VARCHAR(1000)")


def test_files_without_long_text_are_copied_as_they_are(redshift: Loads, cloud: Cloud) -> None:
    counts = redshift.run([schema(), redshift.batch(rows(0, 3))], long_text="rescue")
    assert loaded(redshift) == [{**row, LONG_TEXTS_COLUMN: None} for row in rows(0, 3)]
    assert "long_texts" not in counts
    assert "FORMAT AS PARQUET" in [s for s in cloud.redshift_statements() if s.startswith("COPY")][-1]


def test_the_column_is_added_and_a_later_row_takes_its_place(redshift: Loads) -> None:
    settings = {"load_method": "upsert", "long_text": "rescue"}
    redshift.run([schema(columns=COLUMNS), redshift.batch(content(0, "a", "b"), columns=COLUMNS)], load_method="upsert")
    assert LONG_TEXTS_COLUMN not in redshift.columns()
    redshift.run([schema(columns=COLUMNS), redshift.batch(content(1, LONG, LONG), columns=COLUMNS)], **settings)
    assert loaded(redshift) == [as_loaded(row) for row in content(0, "a", LONG, LONG)]
    redshift.run([schema(columns=COLUMNS), redshift.batch(content(2, "c"), columns=COLUMNS)], **settings)
    assert loaded(redshift) == [as_loaded(row) for row in content(0, "a", LONG, "c")]


@pytest.mark.parametrize("method", ["append-only", "upsert"])
@pytest.mark.parametrize("where", ["s3", "local"])
def test_keys_are_not_rescued(method: str, where: str, redshift: Loads) -> None:
    columns = pa.schema([("id", pa.string()), ("name", pa.string())])
    batch = redshift.batch([{"id": "x" * 70_000, "name": LONG}], columns=columns, where=where)
    with pytest.raises(DataError, match=r"'id'.*70,000 bytes|70,000 bytes.*'id'"):
        redshift.run([schema(columns=columns), batch], load_method=method, long_text="rescue")
    assert redshift.table() == []


@pytest.mark.parametrize("where", ["s3", "local"])
def test_a_row_of_more_than_4_mb_is_named(where: str, redshift: Loads) -> None:
    batch = redshift.batch(content(0, "a", "x" * (4 << 20)), columns=COLUMNS, where=where)
    with pytest.raises(DataError, match=r"row 2, column 'body'.*4,194,304"):
        redshift.run([schema(columns=COLUMNS), batch], long_text="rescue")
    assert redshift.table() == []


def test_a_column_or_property_of_that_name_is_refused(redshift: Loads) -> None:
    columns = pa.schema([("id", pa.int64()), (LONG_TEXTS_COLUMN, pa.string())])
    message = redshift.batch([{"id": 1, LONG_TEXTS_COLUMN: "mine"}], columns=columns)
    with pytest.raises(SchemaError, match="rename the property"):
        redshift.run([schema(columns=columns), message], long_text="rescue")
    redshift.run([schema(columns=columns), message])
    assert redshift.table() == [{"id": 1, LONG_TEXTS_COLUMN: "mine"}]
    with pytest.raises(SchemaError, match=r"is of type VARCHAR\(256\) in the table, and SUPER"):
        redshift.run([schema(), redshift.batch(rows(0, 1))], long_text="rescue")
