"""Tables of the local Redshift as streams change: columns, text lengths, versions and keys."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from redshift_lines import Loads
from singer_lines import COLUMNS, activate, record, rows, schema, state

from singer_arrow.errors import DataError, LoadError, SchemaError
from target_redshift import uploads as files
from target_redshift.copy import CountError

WIDER = pa.schema([*COLUMNS, ("more", pa.float64())])


def row(number: int, name: str | None) -> dict[str, Any]:
    return {"id": number, "name": name}


# Texts


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
@pytest.mark.parametrize("where", ["s3", "local"])
def test_columns_grow_with_their_texts(method: str, where: str, redshift: Loads) -> None:
    for number, (length, kind) in enumerate([(256, 256), (257, 1024), (5000, 16384), (100, 16384), (65535, 65535)]):
        content = [row(number, "x" * length), row(100, "short")]
        redshift.run([schema(), redshift.batch(content, where=where)], load_method=method)
        assert redshift.columns()["name"] == f"VARCHAR({max(kind, 256)})"
        assert {"id": number, "name": "x" * length} in redshift.table()


def test_lengths_count_bytes(redshift: Loads) -> None:
    redshift.run([schema(), redshift.batch([row(0, "é" * 200)])])
    assert redshift.columns()["name"] == "VARCHAR(1024)"
    assert redshift.table() == [row(0, "é" * 200)]


@pytest.mark.parametrize("where", ["s3", "local"])
def test_text_longer_than_varchar_max_is_named(where: str, redshift: Loads) -> None:
    content = [row(0, "x"), row(1, "x" * 1001)]
    with pytest.raises(DataError, match=r"1\.parquet, row 2, column 'name': the text has 1,001 bytes") as raised:
        redshift.run([schema(), redshift.batch(content, where=where)], varchar_max=1000)
    assert "takes 1,000" in str(raised.value)
    assert redshift.table() == []
    redshift.run([schema(), redshift.batch([row(1, "x" * 1000)], where=where)], varchar_max=1000)
    assert redshift.columns()["name"] == "VARCHAR(1000)"


def test_empty_text_and_null_stay_apart(redshift: Loads) -> None:
    content = [row(0, ""), row(1, None), row(2, " ")]
    for number, load_format in enumerate(["auto", "jsonl", "csv"]):
        name = f"rows{number}"
        redshift.run([schema(name), redshift.batch(content, stream=name)], load_format=load_format)
        assert redshift.table(name) == content


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
def test_long_text_goes_into_super(method: str, redshift: Loads) -> None:
    settings = {"load_method": method, "long_text": "super", "sort_keys": ["sorted"]}
    columns = pa.schema([("id", pa.string()), ("sorted", pa.string()), ("t", pa.string())])
    texts = ["é" * 100_000, "123", "null", "", None, '{"a": [1]}']
    content = [{"id": f"{n}", "sorted": "s", "t": t} for n, t in enumerate(texts)]
    batches = [
        redshift.batch(content[:2], columns=columns),
        redshift.batch(content[2:3], columns=columns, file_format="jsonl", batch_id="a"),
        redshift.batch(content[3:5], columns=columns, where="local"),
    ]
    redshift.run([schema(columns=columns), *batches, record(**content[5])], **settings)
    own = {"_sdc_rank": "VARCHAR(1280)"} if method == "upsert" else {}
    assert redshift.columns() == {"id": "VARCHAR(256)", "sorted": "VARCHAR(256)", "t": "SUPER", **own}
    found = [None if r["t"] is None else json.loads(r["t"]) for r in redshift.table()]
    assert found == texts
    redshift.run([schema(columns=columns), record(id="6", sorted="s", t="later")], load_method="append-only")
    assert json.loads(redshift.table()[-1]["t"]) == "later"  # such a table accepts text of any length setting


def test_long_text_leaves_existing_columns_alone(redshift: Loads) -> None:
    redshift.run([schema(), redshift.batch(rows(0, 2))])
    redshift.run([schema(), redshift.batch(rows(2, 2))], long_text="super")
    assert redshift.table() == rows(0, 4)
    assert redshift.columns()["name"] == "VARCHAR(256)"


# Columns


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
def test_new_columns_are_added(method: str, redshift: Loads) -> None:
    run = [
        schema(),
        redshift.batch(rows(0, 2)),
        schema(columns=WIDER),
        redshift.batch([row(2, "c") | {"more": 0.5}], columns=WIDER),
        schema(),
        redshift.batch(rows(3, 1)),
        state(1),
    ]
    redshift.run(run, load_method=method)
    assert [r["id"] for r in redshift.table()] == [0, 1, 2, 3]
    assert [r["more"] for r in redshift.table()] == [None, None, 0.5, None]


def test_columns_of_files_may_be_in_any_order_missing_or_too_many(redshift: Loads) -> None:
    turned = pa.schema([("other", pa.date32()), ("name", pa.string()), ("id", pa.int64())])
    batches = [
        redshift.batch([row(0, "a")], columns=turned),
        redshift.batch([{"id": 1}], columns=pa.schema([("id", pa.int64())])),
        redshift.batch([row(2, "c")]),
    ]
    counts = redshift.run([schema(), *batches])
    assert redshift.table() == [row(0, "a"), row(1, None), row(2, "c")]
    assert counts["load_jobs"] == 3  # one COPY for each layout


def test_narrower_files_fit_wider_columns(redshift: Loads) -> None:
    wide = pa.schema([("id", pa.int64()), ("n", pa.decimal128(20, 4)), ("f", pa.float64())])
    narrow = pa.schema([("id", pa.int16()), ("n", pa.decimal128(10, 2)), ("f", pa.float32())])
    redshift.run([schema(columns=wide), redshift.batch([{"id": 1, "n": 1, "f": 0.5}], columns=narrow)])
    assert [tuple(r.values()) for r in redshift.table()] == [(1, 1, 0.5)]


def test_another_type_is_refused_before_any_load(redshift: Loads) -> None:
    redshift.run([schema(), redshift.batch(rows(0, 1))])
    other = pa.schema([("id", pa.string()), ("name", pa.string())])
    with pytest.raises(SchemaError, match=r"Column 'id' is of type BIGINT in the table, and VARCHAR\(256\)"):
        redshift.run([schema(columns=other), redshift.batch([{"id": "a", "name": "b"}], columns=other)])
    assert redshift.table() == rows(0, 1)


def test_a_table_made_by_others_keeps_its_types(redshift: Loads) -> None:
    redshift.sql(f'CREATE SCHEMA "{redshift.schema}"')
    made = "pk BIGINT IDENTITY(1, 1), name VARCHAR(20), id DECIMAL(38, 0), extra INT DEFAULT 7"
    redshift.sql(f"CREATE TABLE {{rows}} ({made})")
    redshift.run([schema(), redshift.batch(rows(0, 2)), record(id=2, name="n" * 21)])
    of = {"pk": "BIGINT", "name": "VARCHAR(256)", "id": "DECIMAL(38, 0)", "extra": "INTEGER"}
    assert redshift.columns() == of
    assert redshift.sql("SELECT pk, id, extra FROM {rows} ORDER BY pk") == [(1, 0, 7), (2, 1, 7), (3, 2, 7)]


# Versions and metadata


def versions(redshift: Loads, where: str, **settings: Any) -> None:
    for version, first in ((1, 0), (2, 3)):
        run = [
            schema(),
            redshift.batch(rows(first, 2), where=where, version=version),
            record(version=version, **rows(first + 2, 1)[0]),
            activate(version),
            state(version),
        ]
        redshift.run(run, **settings)


@pytest.mark.parametrize("where", ["s3", "local"])
def test_activate_version_deletes_or_marks_older_rows(where: str, redshift: Loads) -> None:
    versions(redshift, where, hard_delete=True)
    assert redshift.ids() == [3, 4, 5]
    redshift.sql("DROP TABLE {rows}")
    versions(redshift, where, add_record_metadata=True)
    found = redshift.table()
    assert [r["id"] for r in found] == [0, 1, 2, 3, 4, 5]
    assert [r["_sdc_deleted_at"] is not None for r in found] == [True] * 3 + [False] * 3
    assert [r["_sdc_table_version"] for r in found] == [1] * 3 + [2] * 3
    assert all(r["_sdc_received_at"] and r["_sdc_batched_at"] and r["_sdc_sequence"] for r in found)


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
def test_metadata_is_added_to_files_that_do_not_pass_through(
    method: str, file_format: str, redshift: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.Files, "convert", None)
    before = datetime.now(UTC)
    batches = [
        redshift.batch(rows(2 * n, 2), file_format=file_format, batch_id=f"{n}", version=version)
        for n, version in enumerate([7, 7, 8])
    ]
    counts = redshift.run([schema(), *batches], load_method=method, add_record_metadata=True)
    found = redshift.table()
    assert counts["load_jobs"] == 2  # one COPY for each version
    assert [(r["id"], r["name"]) for r in found] == [(n, f"name {n}") for n in range(6)]
    assert [r["_sdc_table_version"] for r in found] == [7] * 4 + [8] * 2
    assert all(before <= r["_sdc_received_at"] <= datetime.now(UTC) for r in found)
    assert all(r["_sdc_batched_at"] and r["_sdc_sequence"] and r["_sdc_sync_started_at"] for r in found)
    assert all(r["_sdc_deleted_at"] is None and r["_sdc_extracted_at"] == r["_sdc_received_at"] for r in found)


# Contents of files


def test_a_file_that_copy_refuses_is_explained(redshift: Loads) -> None:
    message = redshift.batch(rows(0, 2), file_format="jsonl", batch_id="a", compression="none")
    bad = b'{"id": 1, "name": "a"}\n{"id": "many", "name": "b"}\n'
    bucket, _, key = message["manifest"][0].removeprefix("s3://").partition("/")
    redshift.batch._s3.put_object(Bucket=bucket, Key=key, Body=bad)
    with pytest.raises(LoadError) as raised:
        redshift.run([schema(), message])
    for word in ("Loading into table", key, "line 2", "'id'", "'many'"):
        assert word in str(raised.value)
    assert redshift.table() == []


def test_binary_values_that_are_too_long_are_named(redshift: Loads) -> None:
    columns = pa.schema([("id", pa.int64()), ("b", pa.binary())])
    message = redshift.batch([{"id": 1, "b": b"x"}, {"id": 2, "b": b"x" * 16_777_217}], columns=columns)
    words = r"\.parquet, row 2, column 'b': the value has 16,777,217 bytes, and Redshift's column takes 16,777,216\. Sh"
    with pytest.raises(DataError, match=words):
        redshift.run([schema(columns=columns), message])


def test_rows_that_are_missing_are_noticed(redshift: Loads) -> None:
    message = redshift.batch(rows(0, 5), file_format="jsonl", batch_id="a") | {"row_count": 6}
    with pytest.raises(CountError, match="COPY took 5 of 6 rows"):
        redshift.run([schema(), message])
    for where in ("s3", "local"):  # where COPY has another count, or the tap's is not known to it
        message = redshift.batch(rows(0, 5), where=where, batch_id="a") | {"row_count": 6}
        with pytest.raises(DataError, match="its BATCH message counts 6 rows, its files have 5; one was"):
            redshift.run([schema(), message], on_bad_row="dead_letter")
    assert redshift.table() == []
    assert redshift.ledger() == {}


def test_many_layouts_and_kinds_in_one_group(redshift: Loads) -> None:
    batches = [
        redshift.batch(rows(0, 2), batch_id="a"),
        redshift.batch(rows(2, 2), file_format="jsonl", batch_id="b"),
        redshift.batch(rows(4, 2), file_format="jsonl", compression="none", batch_id="c"),
        redshift.batch(rows(6, 2), where="local"),
        redshift.batch([], batch_id="e"),
    ]
    counts = redshift.run([schema(), *batches, *(record(**r) for r in rows(8, 2)), state(1)])
    assert redshift.table() == rows(0, 10)
    assert (counts["load_jobs"], counts["rows"]) == (4, 10)


def test_codecs_that_copy_does_not_read_are_converted(redshift: Loads) -> None:
    for number, codec in enumerate(["none", "snappy", "gzip", "zstd"]):
        redshift.run([schema(), redshift.batch(rows(number, 1), compression=codec)])
    for number, codec in enumerate(["brotli", "lz4"], 4):
        message = redshift.batch(rows(number, 1), where="local")
        path = Path(message["manifest"][0].removeprefix("file://"))
        pq.write_table(pq.read_table(path), path, compression=codec)
        redshift.run([schema(), message])
    message = redshift.batch(rows(6, 1))
    delta = io.BytesIO()
    encodings = {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY"}
    pq.write_table(pa.Table.from_pylist(rows(6, 1)), delta, use_dictionary=False, column_encoding=encodings)
    bucket, _, key = message["manifest"][0].removeprefix("s3://").partition("/")
    redshift.batch._s3.put_object(Bucket=bucket, Key=key, Body=delta.getvalue())
    redshift.run([schema(), message])
    assert redshift.ids() == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("kept", ["ENCODE bytedict", "DEFAULT 'x'"])
def test_a_column_that_redshift_does_not_widen_is_explained(kept: str, redshift: Loads) -> None:
    redshift.sql(f'CREATE SCHEMA "{redshift.schema}"')
    redshift.sql(f"CREATE TABLE {{rows}} (id BIGINT, name VARCHAR(10) {kept})")
    redshift.run([schema(), redshift.batch([row(1, "short")])])
    with pytest.raises(LoadError) as raised:
        redshift.run([schema(), redshift.batch([row(2, "x" * 300)])])
    for words in ("Widening column 'name' of table", ".rows to 1024 bytes", "widens no column", "BYTEDICT"):
        assert words in str(raised.value)
    assert redshift.table() == [row(1, "short")]


def test_views_are_in_the_way_of_what_they_show(redshift: Loads) -> None:
    redshift.run([schema(), redshift.batch([row(1, "short")])])
    redshift.sql("CREATE VIEW {others} AS SELECT * FROM {rows}")
    with pytest.raises(LoadError, match=r"Widening column 'name' .*; drop the views that show the column, and create"):
        redshift.run([schema(), redshift.batch([row(2, "x" * 300)])])
    with pytest.raises(
        SchemaError, match=r"\.others is a view, and rows go into tables; rename it, or give the stream"
    ):
        redshift.run([schema("others"), redshift.batch([row(3, "short")], stream="others")])
    assert redshift.table() == [row(1, "short")]


def test_upsert_needs_a_column_for_the_order_of_rows(redshift: Loads) -> None:
    def run(count: int, method: str) -> None:
        columns = pa.schema([(f"c{n}", pa.bool_()) for n in range(count)])
        given = schema(columns=columns, keys=("c0",))
        redshift.run([given, record(**{f"c{n}": n % 2 == 0 for n in range(count)})], load_method=method)

    run(1598, "upsert")  # and a column for their rank
    with pytest.raises(SchemaError, match="has 1600 columns, and upsert takes 1599"):
        run(1599, "upsert")
    run(1599, "append-only")
    assert redshift.sql("SELECT c0, c1597, c1598 FROM {rows} ORDER BY c1598") == [
        (True, False, True),
        (True, False, None),
    ]
