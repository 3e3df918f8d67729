"""The tap as a process against real S3: what it sends, from where it goes on, and what it takes from its settings."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from local_cloud import Cloud
from local_cloud.programs import Programs, Ran
from singer_arrow.formats.jsonl_write import JsonEncoder

METADATA = [
    "_sdc_source_bucket",
    "_sdc_source_file",
    "_sdc_source_lineno",
    "_sdc_source_modified_at",
    "_sdc_source_etag",
]


@pytest.fixture
def tap(cloud: Cloud, tmp_path: Path) -> Programs:
    """Runs the tap in the local cloud."""
    return Programs(cloud.environ(), tmp_path)


class Source:
    """A bucket with CSV objects, and a configuration of the tap that reads them."""

    def __init__(self, s3: Any, bucket: str, tap: Programs) -> None:
        self.s3, self.bucket, self.tap = s3, bucket, tap

    def put(self, key: str, body: str | bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body.encode() if isinstance(body, str) else body)

    def csv(self, key: str, first: int, rows: int = 10) -> None:
        self.put(key, "id,name\n" + "".join(f"{n},name {n}\n" for n in range(first, first + rows)))

    def config(self, **more: Any) -> dict[str, Any]:
        stream = {"name": "rows", "path": f"s3://{self.bucket}/in/**/*.csv", **more.pop("stream", {})}
        return {"streams": [stream], **more}

    def batches(self, file_mb: float = 128, **encoding: Any) -> dict[str, Any]:
        return {
            "encoding": {"format": "parquet", **encoding},
            "storage": {"root": f"s3://{self.bucket}/stage"},
            "target_file_mb": file_mb,
        }

    def run(self, config: dict[str, Any] | None = None, **options: Any) -> Ran:
        return self.tap("tap-s3-files", config=config or self.config(batch_config=self.batches()), **options).check()

    def rows(self, ran: Ran, stream: str = "rows") -> list[dict[str, Any]]:
        """What the messages of a stream hold, whichever kind they are of, in their order."""
        rows: list[dict[str, Any]] = []
        for message in (json.loads(line, parse_float=Decimal) for line in ran.stdout.splitlines()):
            if message.get("stream") == stream and message["type"] == "RECORD":
                rows.append(message["record"])
            if message.get("stream") == stream and message["type"] == "BATCH":
                rows += self.read(message)
        return rows

    def read(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows of a BATCH message."""
        return [row for url in message["manifest"] for row in self._read(url, message["encoding"])]

    def _read(self, url: str, encoding: dict[str, str]) -> list[dict[str, Any]]:
        body = self.s3.get_object(Bucket=self.bucket, Key=url.removeprefix(f"s3://{self.bucket}/"))["Body"].read()
        if encoding["format"] == "parquet":
            rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(body)).to_pylist()
            return rows
        text = gzip.decompress(body) if encoding.get("compression") == "gzip" else body
        return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


def state_of(ran: Ran) -> dict[str, Any]:
    state: dict[str, Any] = ran.of_type("STATE")[-1]["value"]
    return state


def ids_of(ran: Ran) -> list[str]:
    return [m["batch_id"] for m in ran.of_type("BATCH")]


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
    """The same rows in every format."""
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
    """A record of JSON as typed values; fails where the text is not as it should be."""
    if record["name"] is None:
        return record
    return record | {
        "score": float(record["score"]),
        "day": datetime.fromisoformat(record["day"]).date(),
        "at": datetime.fromisoformat(record["at"]),
        "raw": base64.b64decode(record["raw"]),
    }


# Where a run goes on ------------------------------------------------------------------------------------------------


def test_the_same_input_gives_the_same_messages_also_without_state(source: Source) -> None:
    for n in range(5):
        source.csv(f"in/{n}.csv", n * 10)
    first, second = source.run(), source.run()
    assert first.stdout == second.stdout
    assert len(ids_of(first)) == 1  # small objects are bundled
    assert [r["id"] for r in source.rows(first)] == list(range(50))


def test_only_what_is_new_is_sent(source: Source) -> None:
    source.csv("in/a.csv", 0)
    first = source.run()
    nothing = source.run(state=state_of(first))
    assert nothing.of_type("BATCH") == []
    assert state_of(nothing) == state_of(first)
    time.sleep(1.1)  # S3 tells times in seconds
    source.csv("in/b.csv", 10)
    source.csv("in/a.csv", 100)
    source.s3.delete_object(Bucket=source.bucket, Key="in/none.csv")
    second = source.run(state=state_of(first))
    assert sorted(r["id"] for r in source.rows(second)) == [*range(10, 20), *range(100, 110)]
    mark = state_of(second)["bookmarks"]["rows"]["watermark"]
    assert mark["key"] == f"s3://{source.bucket}/in/b.csv"


def test_records_go_on_at_the_watermark_too(source: Source) -> None:
    config = source.config()
    source.csv("in/a.csv", 0)
    first = source.run(config)
    assert [r["id"] for r in source.rows(first)] == list(range(10))
    assert source.rows(source.run(config, state=state_of(first))) == []
    time.sleep(1.1)
    source.csv("in/b.csv", 10)
    assert [r["id"] for r in source.rows(source.run(config, state=state_of(first)))] == list(range(10, 20))


def test_an_unfinished_plan_is_followed_whatever_came_since(source: Source) -> None:
    """Without the plan the new object would be bundled with the old ones, and the target would load them twice."""
    for n in range(3):
        source.csv(f"in/{n}.csv", n * 10)
    first = source.run()
    time.sleep(1.1)
    source.csv("in/0-new.csv", 30)
    second = source.run()  # its STATE was lost with the target
    assert ids_of(second)[: len(ids_of(first))] == ids_of(first)
    assert [r["id"] for r in source.rows(second)] == list(range(40))


@pytest.mark.parametrize("lines", [1, 2, 9, 14, 20])
def test_after_kill_minus_nine_the_same_batches_come_again(lines: int, source: Source) -> None:
    with ThreadPoolExecutor(8) as pool:  # three tasks, each of some batch files
        list(pool.map(lambda n: source.csv(f"in/{n:03}.csv", n * 50, 50), range(450)))
    config = source.config(batch_config=source.batches(file_mb=0.02))
    process = source.tap.start("tap-s3-files", config=config)
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline()) for _ in range(lines)]
    process.kill()
    process.communicate()
    states = [m["value"] for m in seen if m["type"] == "STATE"]
    rest = source.run(config, **({"state": states[-1]} if states else {}))
    sent = [m for m in seen if m["type"] == "BATCH"]
    manifests = {m["batch_id"]: m for m in [*sent, *rest.of_type("BATCH")]}
    assert all(m == manifests[m["batch_id"]] for m in sent)
    rows = [r["id"] for m in manifests.values() for r in source.read(m)]
    assert sorted(rows) == list(range(450 * 50))


def test_other_paths_drop_the_unfinished_plan_and_lose_nothing(source: Source) -> None:
    source.csv("in/a.csv", 0)
    source.run()
    source.csv("in/b/c.csv", 10)
    config = source.config(
        batch_config=source.batches(), stream={"path": [f"s3://{source.bucket}/in/**", f"s3://{source.bucket}/x/*"]}
    )
    ran = source.run(config)
    assert sorted(r["id"] for r in source.rows(ran)) == list(range(20))
    assert "do not fit the STATE, the paths or the dates" in ran.stderr


def test_plans_behind_the_state_are_removed(source: Source) -> None:
    def plans() -> list[str]:
        found = source.s3.list_objects_v2(Bucket=source.bucket, Prefix="stage/_plans/rows/").get("Contents", [])
        return [o["Key"].rpartition("/")[2] for o in found]

    source.csv("in/a.csv", 0)
    first = source.run()
    assert plans() == ["000000.json"]
    time.sleep(1.1)
    source.csv("in/b.csv", 10)
    source.run(state=state_of(first))
    assert plans() == ["000001.json", "history.json"]


def test_all_over_again_gives_the_same_batches_as_bit_by_bit(source: Source) -> None:
    source.csv("in/b.csv", 0)
    first = source.run()
    time.sleep(1.1)
    source.csv("in/a.csv", 10)
    second = source.run(state=state_of(first))
    third = source.run(state=state_of(second))
    assert third.of_type("BATCH") == []
    again = source.run()  # by now the plans of both runs are removed
    assert ids_of(again) == ids_of(first) + ids_of(second)


def test_an_object_that_appears_late_is_read_once(source: Source, tmp_path: Path) -> None:
    def put(name: str, minutes_ago: float) -> None:
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"name\n{name}\n")
        os.utime(path, (now - 60 * minutes_ago,) * 2)

    def names(ran: Ran) -> list[str]:
        return [r["name"] for r in source.rows(ran)]

    now = time.time()
    config = source.config(
        stream={"path": f"{tmp_path}/in/*.csv"}, batch_config=source.batches(), metadata_columns=False
    )
    put("a.csv", 9)
    put("z.csv", 2)
    first = source.run(config)
    assert names(first) == ["a.csv", "z.csv"]
    put("late.csv", 5)
    put("too-late.csv", 20)
    second = source.run(config, state=state_of(first))
    assert names(second) == ["late.csv"]
    put("new.csv", 1)
    third = source.run(config, state=state_of(second))
    assert names(third) == ["new.csv"]
    assert names(source.run(config, state=state_of(third))) == []


def test_a_window_bounds_what_is_read(source: Source) -> None:
    source.csv("in/a.csv", 0)
    time.sleep(1.1)
    middle = datetime.now(UTC).replace(microsecond=0)
    source.csv("in/b.csv", 10)
    text = middle.isoformat()
    before = source.run(source.config(end_date=text))
    after = source.run(source.config(start_date=text))
    assert [r["id"] for r in source.rows(before)] == list(range(10))
    assert [r["id"] for r in source.rows(after)] == list(range(10, 20))
    assert source.rows(source.run(source.config(start_date="2100-01-01"))) == []


def test_a_full_table_is_read_whole_each_time(source: Source) -> None:
    source.csv("in/a.csv", 0)
    config = source.config(batch_config=source.batches(), emit_activate_version_messages=True)
    catalog = json.loads(source.run(config, discover=True).stdout)
    (stream,) = catalog["streams"]
    stream["replication_method"] = "FULL_TABLE"
    stream["metadata"][0]["metadata"]["selected"] = True
    first = source.run(config, catalog=catalog)
    time.sleep(1.1)  # a version is a time in seconds
    second = source.run(config, catalog=catalog, state=state_of(first))
    versions = [m["version"] for m in second.of_type("ACTIVATE_VERSION", "BATCH")]
    assert len(set(versions)) == 1
    assert len(versions) == 2
    assert [r["id"] for r in source.rows(second)] == list(range(10))
    assert ids_of(first) != ids_of(second)  # of another version, so no replay


def test_a_signal_ends_the_run_with_whole_lines(source: Source) -> None:
    for n in range(30):
        source.csv(f"in/{n:02}.csv", n * 1000, 1000)
    process = source.tap.start("tap-s3-files", config=source.config())
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert all(json.loads(line) for line in [first, *out.splitlines()])
    assert b"Traceback" not in err


# Schema and selection -----------------------------------------------------------------------------------------------


def test_discovery_merges_samples_and_takes_overrides(source: Source) -> None:
    source.put("in/a.csv", "id,code,amount,when,zip\n1,7,1,2024-05-01,01234\n")
    source.put("in/b.csv", "id,code,amount,when,late\n2,x,1.5,2024-05-01T10:00:00Z,true\n")
    config = source.config(stream={"schema": {"amount": "decimal(10,2)"}, "key_properties": ["id"]})
    (stream,) = json.loads(source.run(config, discover=True).stdout)["streams"]
    found = stream["schema"]["properties"]
    assert list(found) == ["id", "code", "amount", "when", "zip", "late", *METADATA]
    assert found["id"] == {"type": ["integer"]}
    assert found["code"] == {"type": ["string", "null"]}
    assert found["amount"] == {"type": ["number", "null"], "multipleOf": 0.01, "x-arrow-type": "decimal128(10, 2)"}
    assert found["when"]["format"] == "date-time"
    assert found["zip"] == {"type": ["string", "null"]}
    assert found["late"] == {"type": ["boolean", "null"]}
    assert stream["key_properties"] == ["id"]
    assert stream["replication_method"] == "INCREMENTAL"
    rows = source.rows(source.run(config))
    assert [(r["code"], r["amount"], r["zip"], r["late"]) for r in rows] == [
        ("7", Decimal("1.00"), "01234", None),
        ("x", Decimal("1.50"), None, True),
    ]


@pytest.mark.parametrize("batches", [True, False])
def test_deselected_columns_are_neither_in_the_schema_nor_in_the_data(batches: bool, source: Source) -> None:
    source.put("in/a.csv", "id,secret,name\n1,s,a\n")
    more = {"batch_config": source.batches()} if batches else {}
    config = source.config(**more)
    catalog = json.loads(source.run(config, discover=True).stdout)
    for entry in catalog["streams"][0]["metadata"]:
        entry["metadata"]["selected"] = entry["breadcrumb"] in ([], ["properties", "id"], ["properties", "name"])
    ran = source.run(config, catalog=catalog)
    wanted = ["id", "name", "_sdc_source_modified_at"]  # the replication key is always there
    assert list(ran.of_type("SCHEMA")[0]["schema"]["properties"]) == wanted
    (row,) = source.rows(ran)
    assert list(row) == wanted
    assert (row["id"], row["name"]) == (1, "a")


def test_a_deselected_stream_is_not_read(source: Source) -> None:
    source.csv("in/a.csv", 0)
    config = source.config(streams=[])
    config["streams"] = [{"name": n, "path": f"s3://{source.bucket}/in/*.csv"} for n in ("kept", "left")]
    catalog = json.loads(source.run(config, discover=True).stdout)
    catalog["streams"] = [s for s in catalog["streams"] if s["stream"] == "kept"]
    catalog["streams"][0]["metadata"][0]["metadata"]["selected"] = True
    ran = source.run(config, catalog=catalog)
    assert {m["stream"] for m in ran.of_type("SCHEMA", "RECORD")} == {"kept"}


def test_types_of_a_catalog_hold_and_new_columns_come_beside_them(source: Source) -> None:
    source.put("in/a.csv", "id,name\n1,a\n")
    config = source.config(metadata_columns=False)
    catalog = json.loads(source.run(config, discover=True).stdout)
    catalog["streams"][0]["schema"]["properties"]["id"] = {"type": ["string", "null"]}
    catalog["streams"][0]["metadata"][0]["metadata"]["selected"] = True
    source.put("in/b.csv", "id,name,more\n2,b,x\n")
    ran = source.run(config, catalog=catalog)
    assert list(ran.of_type("SCHEMA")[0]["schema"]["properties"]) == ["id", "name"]
    assert source.rows(ran) == [{"id": "1", "name": "a"}, {"id": "2", "name": "b", "more": "x"}]


def test_columns_that_are_wanted_alone_are_read_alone(source: Source) -> None:
    source.put("in/a.csv", "id,broken,name\n1,x,a\n")
    config = source.config(stream={"columns": ["name", "id"]}, metadata_columns=False)
    assert source.rows(source.run(config)) == [{"id": 1, "name": "a"}]


def test_metadata_columns_say_where_a_row_comes_from(source: Source) -> None:
    source.csv("in/x y/ä+%20.csv", 0, 2)
    head = source.s3.head_object(Bucket=source.bucket, Key="in/x y/ä+%20.csv")
    rows = source.rows(source.run())
    assert [{k: r[k] for k in METADATA} for r in rows] == [
        {
            "_sdc_source_bucket": source.bucket,
            "_sdc_source_file": "in/x y/ä+%20.csv",
            "_sdc_source_lineno": line,
            "_sdc_source_modified_at": head["LastModified"],
            "_sdc_source_etag": head["ETag"],
        }
        for line in (1, 2)
    ]


def test_stream_maps_and_flattening_need_records_and_that_is_said(source: Source) -> None:
    source.put("in/a.jsonl", '{"id": 1, "place": {"x": 1.5}}\n')
    stream = {"path": f"s3://{source.bucket}/in/*.jsonl"}
    config = source.config(
        stream=stream,
        metadata_columns=False,
        batch_config=source.batches(),
        stream_maps={"rows": {"id": "id + 1"}},
        flattening_enabled=True,
        flattening_max_depth=1,
    )
    ran = source.run(config)
    assert source.rows(ran) == [{"id": 2, "place__x": Decimal("1.5")}]
    assert ran.stderr.count("RECORD messages are sent although batch_config is set: stream_maps") == 1
    removed = source.run(source.config(stream=stream, batch_config=source.batches(), stream_maps={"rows": None}))
    assert [m for m in removed.messages if m["type"] != "STATE"] == []


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


def test_a_plan_shows_what_would_be_read_and_changes_nothing(source: Source) -> None:
    for n in range(3):
        source.csv(f"in/{n}.csv", n * 10)
    config = source.config(batch_config=source.batches())
    config["streams"].append({"name": "more", "path": f"s3://{source.bucket}/in/0.csv"})
    size = sum(o["Size"] for o in source.s3.list_objects_v2(Bucket=source.bucket)["Contents"])

    def plan(**options: Any) -> list[list[str]]:
        return [line.split() for line in source.run(config, plan=True, **options).stdout.splitlines()[1:]]

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
    assert plan() == first  # as the plans that were written say
    keys = [o["Key"] for o in source.s3.list_objects_v2(Bucket=source.bucket, Prefix="stage/_plans/")["Contents"]]
    assert keys == ["stage/_plans/more/000000.json", "stage/_plans/rows/000000.json"]


def test_about_tells_settings_and_capabilities(tap: Programs) -> None:
    about = json.loads(tap("tap-s3-files", "--about", format="json").check().stdout)
    assert about["name"] == "tap-s3-files"
    assert {"catalog", "state", "discover", "about", "stream-maps", "schema-flattening", "batch"} <= set(
        about["capabilities"]
    )
    assert about["settings"]["properties"]["aws"]["properties"]["secret_access_key"]["secret"] is True
    assert "streams" in tap("tap-s3-files", "--about", format="markdown").check().stdout


def test_version_answers_in_less_than_a_second(tap: Programs) -> None:
    began = time.monotonic()
    tap("tap-s3-files", "--version").check()
    assert time.monotonic() - began < 1


def test_the_run_ends_with_its_counts(source: Source) -> None:
    source.csv("in/a.csv", 0)
    ran = source.run()
    assert "rows: 1 objects, 0.0 MB read, 10 rows read, 10 written in 1 batch files, " in ran.stderr
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
