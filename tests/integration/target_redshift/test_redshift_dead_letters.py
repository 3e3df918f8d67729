"""on_bad_row: dead_letter in target-redshift: rows that COPY or INSERT refuse in files loaded unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from redshift_lines import Loads
from singer_lines import COLUMNS, record, rows, schema, state

from singer_arrow.errors import LoadError, SingerArrowError

DEAD = {"on_bad_row": "dead_letter"}


def rejected(redshift: Loads) -> list[tuple[Any, ...]]:
    return redshift.sql("SELECT batch_id, position, column_name FROM {_sdc_rejected} WHERE part = 1 ORDER BY 1, 2")


@pytest.mark.parametrize(
    ("method", "file_format"), [("append-only", "jsonl"), ("upsert", "parquet"), ("overwrite", "parquet")]
)
def test_text_that_copy_refuses(method: str, file_format: str, redshift: Loads) -> None:
    content = rows(0, 20)
    content[4]["name"], content[11]["name"] = "x" * 70_000, "a\0b"
    run = [schema(), redshift.batch(content, batch_id="a", file_format=file_format), state(1)]
    run += [redshift.batch(rows(20, 5), batch_id="b", file_format=file_format), record(id=30, name="x" * 65_536)]
    counts = redshift.run(run, load_method=method, nul_text="fail", **DEAD)
    good = [n for n in range(25) if n not in (4, 11)]
    assert redshift.ids() == good
    assert rejected(redshift) == [("a", 5, "name"), ("a", 12, "name"), (None, 5, "name")]
    assert (counts["rows"], counts["rejected"]) == (len(good), 3)
    parts = redshift.sql("SELECT record, part FROM {_sdc_rejected} WHERE position = 5 AND batch_id = 'a' ORDER BY part")
    assert len(parts) == 2
    assert json.loads("".join(text for text, _ in parts)) == content[4]
    redshift.run(run[:3], load_method=method, nul_text="fail", **DEAD)
    assert rejected(redshift)[:2] == [("a", 5, "name"), ("a", 12, "name")]


@pytest.mark.parametrize("method", ["append-only", "upsert"])
def test_text_for_a_column_that_cannot_be_widened(method: str, redshift: Loads) -> None:
    """Only Redshift can determine which rows these are."""
    redshift.run([schema("first"), record("first", id=1)])
    redshift.sql("CREATE TABLE {rows} (id BIGINT, name VARCHAR(10) DEFAULT 'x')")
    content = rows(0, 30)
    content[7]["name"] = content[21]["name"] = "longer than ten"
    run = [schema(), redshift.batch(content[:20], batch_id="a"), redshift.batch(content[20:], batch_id="b"), state(1)]
    with pytest.raises(SingerArrowError):
        redshift.run(run, load_method=method)
    counts = redshift.run(run, load_method=method, **DEAD)
    assert redshift.ids() == [n for n in range(30) if n not in (7, 21)]
    assert [(batch, at) for batch, at, _ in rejected(redshift)] == [("a", 8), ("b", 2)]
    assert (counts["rows"], counts["rejected"]) == (28, 2)
    records = [json.loads(text) for (text,) in redshift.sql("SELECT record FROM {_sdc_rejected} ORDER BY batch_id")]
    assert records == [content[7], content[21]]
    assert redshift.staging_tables() == []


def test_null_keys_of_files_that_are_loaded_as_they_are(redshift: Loads) -> None:
    content: list[dict[str, Any]] = rows(0, 4)
    content[2]["id"] = None
    run = [schema(columns=COLUMNS), redshift.batch(content, batch_id="a")]
    redshift.run(run, load_method="upsert", **DEAD)
    assert redshift.ids() == [0, 1, 3]
    assert rejected(redshift) == [("a", 3, "id")]


def test_a_line_that_copy_names_is_tried_first(redshift: Loads, caplog: pytest.LogCaptureFixture) -> None:
    """Rows of JSON Lines that are too long as a whole, although none of their values is."""
    columns = pa.schema([("id", pa.int64()), *((f"t{n}", pa.list_(pa.string())) for n in range(3))])
    short, long = [["x"]] * 3, [["x" * 2_000_000]] * 3
    content = [{"id": n, **{f"t{i}": (long if n == 5 else short)[i] for i in range(3)}} for n in range(12)]
    run = [schema(columns=columns), redshift.batch(content, columns=columns, batch_id="a", where="local")]
    caplog.set_level("INFO")
    redshift.run(run, load_format="jsonl", **DEAD)
    assert redshift.ids() == [n for n in range(12) if n != 5]
    assert [(batch, at) for batch, at, _ in rejected(redshift)] == [("a", 6)]


@pytest.mark.parametrize("statement", ["^copy", "^insert into .*rows"])
@pytest.mark.parametrize("count", [1, 4])
def test_what_is_refused_of_all_rows_is_for_none_of_them(
    count: int, statement: str, redshift: Loads, redshift_faults: Callable[..., None]
) -> None:
    redshift_faults({"match": statement, "action": "error", "message": "Disk Full", "code": "53100"})
    with pytest.raises(LoadError, match="Disk Full"):
        redshift.run([schema(), redshift.batch(rows(0, count), batch_id="a"), state(1)], **DEAD)
    redshift_faults()
    assert redshift.sql("SELECT 1 FROM information_schema.tables WHERE table_name = '_sdc_rejected'") == []
    assert redshift.staging_tables() == []


def test_all_rows_may_be_refused_for_their_values(redshift: Loads) -> None:
    redshift.run([schema("first"), record("first", id=1)])
    redshift.sql("CREATE TABLE {rows} (id BIGINT, name VARCHAR(10) DEFAULT 'x')")
    redshift.run([schema(), record(id=1, name="longer than ten"), record(id=2, name="longer than ten")], **DEAD)
    assert redshift.ids() == []
    assert [at for _, at, _ in rejected(redshift)] == [2, 3]


def test_a_count_that_does_not_match_is_no_bad_row(redshift: Loads) -> None:
    message = redshift.batch(rows(0, 4), batch_id="a", file_format="jsonl")
    with pytest.raises(LoadError, match="COPY took 4 of 5 rows"):
        redshift.run([schema(), message | {"row_count": 5}], **DEAD)


def test_what_two_tables_of_a_stream_refuse_is_kept_of_both(redshift: Loads) -> None:
    content = rows(0, 3)
    content[1]["name"] = "a\0b"
    run = [schema(), redshift.batch(content, batch_id="a", file_format="jsonl"), state(1)]
    for prefix in ("a_", "b_", "b_"):
        redshift.run(run, load_method="upsert", table_prefix=prefix, nul_text="fail", **DEAD)
    kept = redshift.sql("SELECT stream, position FROM {_sdc_rejected} ORDER BY 1")
    assert kept == [("rows in a_rows", 2), ("rows in b_rows", 2)]
