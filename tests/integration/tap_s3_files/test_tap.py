"""The tap as a process against real S3: every format in every mode, settings and command line."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tap_source import Source, state_of

from local_cloud import Cloud
from local_cloud.programs import Programs
from singer_arrow.formats.json_write import JsonEncoder


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


KINDS = pa.schema(
    [
        *(("id", pa.int64()), ("name", pa.string()), ("score", pa.float64()), ("price", pa.decimal128(20, 3))),
        *(("good", pa.bool_()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("raw", pa.binary())),
    ]
)
TYPES = {"price": "decimal(20,3)", "raw": "binary", "id": "integer"}


def typed_row(n: int) -> dict[str, Any]:
    if n == 3:
        return {"id": n, **dict.fromkeys(KINDS.names[1:])}
    at = datetime(2024, 5, 1, 10, 0, 0, n, UTC) + timedelta(days=n)
    price = Decimal("12345678901234567.125") - n
    return {
        "id": 2**62 + n,
        "name": ["", 'a "b", c', "zwei\nZeilen", "é☃", "007"][n % 5],
        "score": n / 8 - 1,
        "price": price,
        "good": n % 2 == 0,
        "day": at.date(),
        "at": at,
        "raw": bytes([0, n, 255]),
    }


def typed_objects() -> Iterator[tuple[str, bytes]]:
    """Put the same rows in every format."""
    rows = [typed_row(n) for n in range(8)]
    table = pa.Table.from_pylist(rows, KINDS)
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=3)
    yield "parquet", out.getvalue()

    (batch,) = table.to_batches()
    yield "jsonl", bytes(JsonEncoder(KINDS).lines(batch))

    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NOTNULL)  # type: ignore[attr-defined]  # tests run on 3.12 or later
    writer.writerow(KINDS.names)
    for row in rows:
        values = {**row, "raw": base64.b64encode(row["raw"]).decode() if row["raw"] else None}
        if row["at"]:
            values |= {"at": row["at"].isoformat(), "day": row["day"].isoformat(), "good": str(row["good"]).lower()}
        writer.writerow(values.values())
    yield "csv", text.getvalue().encode()
    yield "csv.gz", gzip.compress(text.getvalue().encode())

    kinds: dict[str, Any] = {
        **{"id": "long", "name": "string", "score": "double", "good": "boolean", "raw": "bytes"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-micros"},
    }
    out = io.BytesIO()
    fields = [{"name": n, "type": ["null", kinds[n]]} for n in KINDS.names]
    fastavro.writer(out, fastavro.parse_schema({"type": "record", "name": "r", "fields": fields}), rows)
    yield "avro", out.getvalue()


MODES: dict[str, dict[str, Any] | None] = {
    "BATCH parquet": {"format": "parquet"},
    "BATCH jsonl": {"format": "jsonl", "compression": "gzip"},
    "RECORD": None,
}


@pytest.mark.parametrize("mode", MODES)
def test_every_format_gives_the_same_rows_in_every_mode(mode: str, source: Source) -> None:
    for suffix, body in typed_objects():
        source.put(f"in/{suffix}/x.{suffix}", body)
    folder = f"s3://{source.bucket}/in"
    streams: list[dict[str, Any]] = [
        {"name": s.replace(".", "_"), "path": f"{folder}/{s}/*", "schema": TYPES} for s, _ in typed_objects()
    ]
    encoding = MODES[mode]
    more = {"batch_config": source.batches(**encoding)} if encoding else {}
    ran = source.run({"streams": streams, "metadata_columns": False, **more})
    expected = [typed_row(n) for n in range(8)]
    for stream in streams:
        rows = source.rows(ran, stream["name"])
        if mode != "BATCH parquet":
            rows = [from_json(r) for r in rows]
        assert rows == expected, stream["name"]
    assert {m["type"] for m in ran.messages} == {"SCHEMA", "STATE", mode.split(maxsplit=1)[0]}


def from_json(record: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON record as typed values; fail where the text is not canonical."""
    if record["name"] is None:
        return record
    return record | {
        "score": float(record["score"]),
        "day": datetime.fromisoformat(record["day"]).date(),
        "at": datetime.fromisoformat(record["at"]),
        "raw": base64.b64decode(record["raw"]),
    }


# Settings and the command line --------------------------------------------------------------------------------------


def test_settings_of_the_environment_and_of_files_are_merged(source: Source) -> None:
    source.csv("in/a.csv", 0, 1)
    streams = json.dumps(source.config()["streams"])
    env = {"TAP_S3_FILES_STREAMS": streams, "TAP_S3_FILES_MAX_WORKERS": "1", "TAP_S3_FILES_SCHEMA_SAMPLE_MB": "0.5"}
    files = [{"metadata_columns": True}, {"metadata_columns": False}]
    ran = source.tap("tap-s3-files", config=["ENV", *files], env=env).check()
    assert source.rows(ran) == [{"id": 0, "name": "name 0"}]


def test_batch_files_and_sources_may_be_on_local_disk(source: Source, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n1\n")
    config = {
        "streams": [{"name": "rows", "path": f"{tmp_path}/in/*.csv"}],
        "batch_config": {
            "encoding": {"format": "parquet"},
            "storage": {"root": f"file://{tmp_path}/out", "prefix": "p-"},
        },
    }
    (batch,) = source.run(config).of_type("BATCH")
    (url,) = batch["manifest"]
    assert url.startswith(f"file://{tmp_path}/out/p-rows--")
    assert pq.read_table(url.removeprefix("file://")).column("id").to_pylist() == [1]


def test_the_batch_root_may_lie_within_what_is_read(source: Source) -> None:
    source.csv("in/a.csv", 0, 3)
    config = source.config(
        stream={"path": f"s3://{source.bucket}/**"},
        batch_config=source.batches() | {"storage": {"root": f"s3://{source.bucket}"}},
    )
    first = source.run(config)
    assert len(source.rows(first)) == 3
    assert source.rows(source.run(config, state=state_of(first))) == []


def test_a_test_run_reads_a_record_and_writes_no_plan(source: Source) -> None:
    source.csv("in/a.csv", 0)
    config = source.config(batch_config=source.batches())
    ran = source.tap("tap-s3-files", "--test", config=config).check()
    assert [m["type"] for m in ran.messages][:2] == ["SCHEMA", "RECORD"]
    assert source.s3.list_objects_v2(Bucket=source.bucket, Prefix="stage/").get("Contents") is None


@pytest.mark.smoke
def test_a_plan_shows_what_would_be_read_and_changes_nothing(source: Source) -> None:
    for n in range(3):
        source.csv(f"in/{n}.csv", n * 10)
    config = source.config(batch_config=source.batches())
    config["streams"].append({"name": "more", "path": f"s3://{source.bucket}/in/0.csv"})
    size = sum(o["Size"] for o in source.s3.list_objects_v2(Bucket=source.bucket)["Contents"])

    def plan(**options: Any) -> list[list[str]]:
        return [line.split()[:5] for line in source.run(config, plan=True, **options).stdout.splitlines()[1:]]

    small = source.s3.head_object(Bucket=source.bucket, Key="in/0.csv")["ContentLength"]
    first = [
        ["rows", "3", str(size), "1", "1"],
        ["more", "1", str(small), "1", "1"],
        ["all", "4", str(size + small), "2", "2"],
    ]
    assert plan() == first
    assert source.s3.list_objects_v2(Bucket=source.bucket, Prefix="stage/").get("Contents") is None
    state = state_of(source.run(config))
    assert plan(state=state) == [[name, "0", "0", "0", "0"] for name in ("rows", "more", "all")]
    assert plan() == first  # the plan log names them
    keys = [o["Key"] for o in source.s3.list_objects_v2(Bucket=source.bucket, Prefix="stage/_plans/")["Contents"]]
    names = ("000000.json", "log-000000.json")
    assert keys == [f"stage/_plans/{stream}/{name}" for stream in ("more", "rows") for name in names]


@pytest.mark.smoke
def test_about_prints_settings_and_capabilities(tap: Programs) -> None:
    about = json.loads(tap("tap-s3-files", "--about", format="json").check().stdout)
    assert about["name"] == "tap-s3-files"
    assert {"catalog", "state", "discover", "about", "stream-maps", "schema-flattening", "batch"} <= set(
        about["capabilities"]
    )
    assert about["settings"]["properties"]["aws"]["properties"]["secret_access_key"]["secret"] is True
    assert "streams" in tap("tap-s3-files", "--about", format="markdown").check().stdout


def test_the_run_ends_with_its_counts(source: Source) -> None:
    source.csv("in/a.csv", 0)
    ran = source.run(source.config(batch_config=source.batches(), log_metrics=True))
    assert re.search(r"Read rows: 10 rows \([\d.]+ \w+\) from 1 object in 1 batch file, ", ran.stderr)
    (metric,) = [line for line in ran.stderr.splitlines() if '"metric":"record_count"' in line]
    point = json.loads(metric.partition("METRIC: ")[2])
    assert point["value"] == 10
    counts = {name: point["tags"][name] for name in ("objects", "rows_read", "rows_written", "rows_skipped")}
    assert counts == {"objects": 1, "rows_read": 10, "rows_written": 10, "rows_skipped": 0}


def test_no_credential_is_ever_logged(source: Source, cloud: Cloud) -> None:
    source.csv("in/a.csv", 0)
    aws = {"access_key_id": "AKIAVERYSECRET", "secret_access_key": "wJalrVerySecret", "session_token": "FwoVerySecret"}
    env = {"LOGLEVEL": "debug", "TAP_S3_FILES_LOGLEVEL": "debug"}
    config = source.config(aws=aws, batch_config=source.batches())
    good = source.tap("tap-s3-files", config=config, env=env)
    bad = source.tap(
        "tap-s3-files", config={**config, "streams": [{"name": "x", "path": "s3://nowhere-at-all/x"}]}, env=env
    )
    assert (good.code, bad.code) == (0, 1)
    for ran in (good, bad):
        assert not [v for v in aws.values() if v in ran.stdout + ran.stderr]
