"""The same rows in every format, by every kind of message, make the same table."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from warehouses import Warehouse

from local_cloud.programs import Programs

ROWS = 300
TYPES = {
    "id": "integer",
    "name": "string",
    "score": "number",
    "price": "decimal(12, 2)",
    "good": "boolean",
    "day": "date",
    "at": "timestamp",
}
KINDS = {
    "bigquery": ["INTEGER", "STRING", "FLOAT", "NUMERIC", "BOOLEAN", "DATE", "TIMESTAMP"],
    "redshift": [
        *("bigint", "varchar(256)", "double precision", "decimal(12,2)", "boolean", "date"),
        "timestamp with time zone",
    ],
}
MODES: dict[str, dict[str, Any]] = {
    "parquet": {"format": "parquet", "compression": "zstd"},
    "jsonl": {"format": "jsonl", "compression": "gzip"},
    "records": {},
}


def row(number: int) -> dict[str, Any]:
    """Return row `number`, with nulls, quotes, commas, line breaks, non-Latin text and negative numbers."""
    missing = number % 11 == 10
    texts = ["plain", 'quo"ted', "a,comma", "two\nlines", "é☃ 日本語 🛩", " spaced ", "0012", "true"]
    return {
        "id": number * 1_000_000_007 - 5,
        "name": None if missing else texts[number % len(texts)],
        "score": None if missing else number / 8 - 3,
        "price": None if missing else Decimal(number * 12345 - 99999) / 100,
        "good": None if missing else number % 3 == 0,
        "day": None if missing else date(1969, 12, 1) + timedelta(days=number),
        "at": None if missing else datetime(1969, 12, 31, 23, 59, 58, 123456, UTC) + timedelta(seconds=number),
    }


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    def text(value: Any) -> Any:
        if isinstance(value, bool):
            return str(value).lower()
        return value.isoformat() if isinstance(value, date) else value

    out = io.StringIO()
    writer = csv.DictWriter(out, TYPES)
    writer.writeheader()
    writer.writerows({name: text(value) for name, value in r.items()} for r in rows)
    return out.getvalue().encode()


def as_jsonl(rows: list[dict[str, Any]]) -> bytes:
    def text(value: Any) -> Any:
        return float(value) if isinstance(value, Decimal) else value.isoformat()

    return "".join(json.dumps(r, default=text, ensure_ascii=False) + "\n" for r in rows).encode()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    kinds = [
        *(("id", pa.int64()), ("name", pa.string()), ("score", pa.float64()), ("price", pa.decimal128(12, 2))),
        *(("good", pa.bool_()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))),
    ]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(kinds)), out, row_group_size=70)
    return out.getvalue()


def as_avro(rows: list[dict[str, Any]]) -> bytes:
    kinds: dict[str, Any] = {
        "id": "long",
        "name": "string",
        "score": "double",
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        "good": "boolean",
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-micros"},
    }
    fields = [{"name": n, "type": ["null", k]} for n, k in kinds.items()]
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema({"type": "record", "name": "row", "fields": fields}), rows, "deflate")
    return out.getvalue()


SOURCES: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "csv": as_csv,
    "csv.gz": lambda rows: gzip.compress(as_csv(rows[:100])) + gzip.compress(as_csv(rows[100:]).partition(b"\r\n")[2]),
    "csv.bz2": lambda rows: bz2.compress(as_csv(rows)),
    "csv.xz": lambda rows: lzma.compress(as_csv(rows)),
    "csv.zst": lambda rows: pa.Codec("zstd").compress(as_csv(rows), asbytes=True),
    "jsonl": as_jsonl,
    "jsonl.gz": lambda rows: gzip.compress(as_jsonl(rows)),
    "parquet": as_parquet,
    "avro": as_avro,
}


def stream_name(suffix: str) -> str:
    return f"rows_{suffix.replace('.', '_')}"


@pytest.fixture
def streams(s3: Any, bucket: str) -> list[dict[str, Any]]:
    """Return one stream for each format, each of two objects."""
    rows = [row(n) for n in range(ROWS)]
    for suffix, write in SOURCES.items():
        s3.put_object(Bucket=bucket, Key=f"in/{suffix}/1.{suffix}", Body=write(rows[:200]))
        s3.put_object(Bucket=bucket, Key=f"in/{suffix}/2.{suffix}", Body=write(rows[200:]))
    return [
        {"name": stream_name(s), "path": f"s3://{bucket}/in/{s}/*.{s}", "schema": TYPES, "key_properties": ["id"]}
        for s in SOURCES
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.smoke("bigquery-records", "redshift-parquet")
def test_every_format_makes_the_same_table(
    mode: str, streams: list[dict[str, Any]], bucket: str, warehouse: Warehouse, run: Programs
) -> None:
    config: dict[str, Any] = {"streams": streams}
    if MODES[mode]:
        config["batch_config"] = {"encoding": MODES[mode], "storage": {"root": f"s3://{bucket}/stage"}}
    sent = run("tap-s3-files", config=config).check()
    kinds = {m["type"] for m in sent.messages}
    assert ("RECORD" in kinds, "BATCH" in kinds) == (mode == "records", mode != "records")

    run(warehouse.program, stdin=sent.stdout, config=["ENV", {}]).check()

    expected = [row(n) for n in range(ROWS)]
    for suffix in SOURCES:
        kinds = warehouse.columns(stream_name(suffix))
        assert {n: kinds[n] for n in TYPES} == dict(zip(TYPES, KINDS[warehouse.name], strict=True)), suffix
        got = [{n: r[n] for n in TYPES} for r in warehouse.table(stream_name(suffix))]
        assert got == expected, suffix


@pytest.mark.smoke("bigquery", "redshift")
def test_the_two_executables_in_a_pipe(
    streams: list[dict[str, Any]], bucket: str, warehouse: Warehouse, cold: Programs, tmp_path: Any
) -> None:
    batch = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{bucket}/stage"}}
    (tmp_path / "c.json").write_text(json.dumps({"streams": streams[:1], "batch_config": batch}))
    (tmp_path / "t.json").write_text("{}")
    tap, target = "tap-s3-files --config c.json", f"{warehouse.program} --config=ENV --config t.json"
    pipe = f"set -o pipefail; cd {tmp_path}; {tap} | {target}"
    ran = cold("bash", "-c", pipe).check()
    assert len(warehouse.table(streams[0]["name"])) == ROWS
    state = json.loads(ran.stdout.splitlines()[-1])
    assert state["bookmarks"][streams[0]["name"]]["key"].endswith("in/csv/2.csv")

    again = cold("tap-s3-files", config=tmp_path / "c.json", state=state).check()
    assert again.of_type("BATCH", "RECORD") == []
