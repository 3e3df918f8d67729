"""Formats and types, bad rows, objects that come late or change."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from acceptance.pipeline import Pipeline, check, csv, numbered, parquet
from acceptance.scenario import scenario

TYPES: dict[str, pa.Array] = {
    "id": pa.array([1, 2], pa.int64()),
    "i8": pa.array([-128, None], pa.int8()),
    "u32": pa.array([2**32 - 1, None], pa.uint32()),
    "u64": pa.array([2**64 - 1, None], pa.uint64()),
    "f32": pa.array([0.5, None], pa.float32()),
    "f64": pa.array([1.25e100, None], pa.float64()),
    "yes": pa.array([True, None]),
    "price": pa.array([Decimal("-12345678901234567890.123456789"), None], pa.decimal128(38, 9)),
    "day": pa.array([date(2024, 2, 29), None]),
    "at": pa.array([datetime(2024, 2, 29, 1, 2, 3, 456789, UTC), None], pa.timestamp("us", "UTC")),
    "local_at": pa.array([datetime(2024, 2, 29, 1, 2, 3, 456789), None], pa.timestamp("us")),  # noqa: DTZ001
    "text": pa.array(["é😀 \"q\", 'a'\nb", ""], pa.string()),
    "kind": pa.array(["a", None]).dictionary_encode(),
    "raw": pa.array([b"\x00\xff", None], pa.binary()),
    "tags": pa.array([["x", "y"], []], pa.list_(pa.string())),
    "place": pa.array([{"n": 1, "to": {"m": "z"}}, None]),
    "free": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
}


@scenario()
def types_of_parquet(p: Pipeline) -> None:
    """Every type of a Parquet file arrives with exact values, and null as null."""
    p.put("a.parquet", parquet(pa.table(TYPES)))
    p.run()
    plain = ("id", "i8", "u32", "u64", "f64", "yes", "price", "day", "at", "text", "kind")
    values = [tuple(TYPES[name][i].as_py() for name in plain) for i in range(2)]
    p.expect(values, ", ".join(plain))
    p.notes["columns"] = p.columns()
    check(set(TYPES) <= set(p.columns()), "Columns are missing")


@scenario()
def types_of_csv(p: Pipeline) -> None:
    """Types of CSV are inferred; quoted line breaks, empty text and null stay apart."""
    p.put("a.csv", 'id,n,day,at,yes,text\n1,1.5,2024-02-29,2024-02-29T01:02:03Z,true,"a\n""b"""\n2,,,,,""\n')
    p.run()
    at = datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)
    p.expect(
        [(1, 1.5, date(2024, 2, 29), at, True, 'a\n"b"'), (2, None, None, None, None, "")], "id, n, day, at, yes, text"
    )


@scenario()
def types_of_jsonl(p: Pipeline) -> None:
    """JSON Lines arrive with their nested values, large integers and text of all languages."""
    rows = [
        {"id": 1, "big": 2**62, "name": "日本", "in": {"a": [1, 2]}},
        {"id": 2, "big": None, "name": "", "in": None},
    ]
    p.put("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    p.run()
    p.expect([(1, 2**62, "日本"), (2, None, "")], "id, big, name")


@scenario("any")
def formats_and_compressions(p: Pipeline) -> None:
    """Objects of several formats and compressions are one stream."""
    p.put("a.csv.gz", gzip.compress(csv(numbered(0, 2))))
    p.put("b.jsonl", '{"id": 2, "name": "row 2"}\n')
    p.put("c.parquet", {"id": [3], "name": ["row 3"]})
    p.run()
    p.expect(numbered(0, 4))


@scenario()
def batches_of_jsonl(p: Pipeline) -> None:
    """Batch files of JSON Lines are loaded like those of Parquet."""
    p.put("a.parquet", parquet(pa.table({name: TYPES[name] for name in ("id", "price", "day", "at", "text")})))
    p.run({"batch_config": p.tap()["batch_config"] | {"encoding": {"format": "jsonl", "compression": "gzip"}}})
    names = ("id", "price", "day", "at", "text")
    p.expect([tuple(TYPES[name][i].as_py() for name in names) for i in range(2)], ", ".join(names))


@scenario()
def records(p: Pipeline) -> None:
    """Without batch files, rows arrive as RECORD messages."""
    p.put("a.csv", numbered(0, 50))
    p.run({"batch_config": None})
    p.expect(numbered(0, 50))


@scenario()
def columns_of_the_source(p: Pipeline) -> None:
    """The columns about the object name its bucket and key."""
    p.put("a.csv", numbered(0, 2))
    p.run({"metadata_columns": True})
    key = p.url("in/a.csv").key
    p.expect([(0, p.root.bucket, key), (1, p.root.bucket, key)], "id, _sdc_source_bucket, _sdc_source_file")


@scenario()
def bad_row(p: Pipeline) -> None:
    """A value that does not fit ends the run with its file and column, and nothing of it is loaded."""
    p.put("a.csv", "id,n\n1,1\n2,two\n")
    p.run(fails=r"a\.csv.*\bn\b", schema={"n": "integer"})


@scenario()
def dead_letters(p: Pipeline) -> None:
    """With on_bad_row: dead_letter the other rows are loaded, and the bad one is in _sdc_rejected."""
    p.put("a.csv", "id,n\n1,1\n2,two\n3,3\n")
    p.run(schema={"n": "integer"}, on_bad_row="dead_letter")
    p.expect([(1, 1), (3, 3)], "id, n")
    found = p.rows("stream", "_sdc_rejected")
    check(found.count((p.stream,)) == 1, f"_sdc_rejected has {found}")


@scenario()
def object_that_comes_late(p: Pipeline) -> None:
    """An object whose key sorts before those that are loaded is loaded by the next run."""
    p.put("b.csv", numbered(10, 12))
    p.run()
    p.put("a.csv", numbered(0, 2))
    p.run()
    p.expect(numbered(0, 2) + numbered(10, 12))


@scenario()
def object_that_changes(p: Pipeline) -> None:
    """An object that is overwritten between runs is loaded again: upsert has its new rows."""
    p.put("a.csv", numbered(0, 3))
    p.run(load_method="upsert")
    p.put("a.csv", numbered(1, 5, "new"))
    p.run(load_method="upsert")
    p.expect(numbered(0, 1) + numbered(1, 5, "new"))
