"""Read objects over a bad network, or while they change: the rows are exact, or there is an error."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from small_aws import BUCKET, Refusal, Request, SmallAws

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from singer_arrow.errors import ObjectChangedError
from singer_arrow.formats import FORMATS, WRITABLE
from singer_arrow.formats import parquet_read as parquet_module
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading import objects as objects_module
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.reading.parallel import Budget
from singer_arrow.storage import errors as pace
from singer_arrow.storage import store as stores
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

KINDS = ("csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "avro", "orc", "arrow", "log")
ROWS = 12_000
PART = 48 << 10
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
RUNS = 200


def _table(version: int, rows: int = ROWS) -> pa.Table:
    """Return incompressible rows that contain their version."""
    chance = random.Random(version)
    texts = [f"{version}-{chance.getrandbits(128):032x}" for _ in range(rows)]
    return pa.table({"id": range(rows), "text": texts}, SCHEMA)


def _file(kind: str, table: pa.Table, folder: Any) -> bytes:
    base, _, codec = kind.partition(".")
    sink: Any = io.BytesIO()
    if base == "csv":
        pc.write_csv(table, sink)
    elif base == "jsonl":
        sink.write(b"".join(b'{"id":%d,"text":"%s"}\n' % (r["id"], r["text"].encode()) for r in table.to_pylist()))
    elif base == "log":
        sink.write(b"".join(b"%s\n" % text.encode() for text in table["text"].to_pylist()))
    elif base == "parquet":
        pq.write_table(table, sink, row_group_size=3000, use_dictionary=False)
    elif base == "orc":
        orc.write_table(table, sink)
    elif base == "arrow":
        feather.write_feather(table, sink, compression="uncompressed")
    else:
        path = folder / f"file.{base}"
        WRITABLE[base].write(table.to_batches(4000), table.schema, path)
        return bytes(path.read_bytes())
    data = bytes(sink.getvalue())
    return gzip.compress(data, 1) if codec else data


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read objects of half a megabyte like large ones, by many requests."""
    for bound in ("SMALL_OBJECT", "MIN_PART", "_LEAST_HEAD"):
        monkeypatch.setattr(objects_module, bound, PART)
    for module in (objects_module, parquet_module):
        monkeypatch.setattr(module, "part_size", lambda *_: PART)
    for tail in ("_LEAST_TAIL", "_USUAL_TAIL"):
        monkeypatch.setattr(parquet_module, tail, 4 << 10)


def _read(storage: Storage, url: Url, kind: str) -> Iterator[pa.RecordBatch]:
    name = {"log": "lines"}.get(kind.partition(".")[0], kind.partition(".")[0])
    schema = pa.schema([("line", pa.string())]) if name == "lines" else SCHEMA
    options = ReadOptions(block_bytes=64 << 10, batch_rows=2000)
    return FORMATS[name].read(ObjectReader(storage, url, budget=Budget(1 << 20)), schema, options)


def _values(batch: pa.RecordBatch) -> list[str]:
    return list(batch.column(batch.num_columns - 1).to_pylist())


FAULTS: dict[str, dict[str, Any]] = {
    "503": {"action": "error"},
    "500": {"action": "error", "status": 500, "code": "InternalError"},
    "reset": {"action": "reset"},
    "truncate": {"action": "truncate"},
    "stall": {"action": "stall"},
}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("fault", FAULTS)
def test_every_format_is_read_whole_over_a_bad_network(
    fault: str,
    cloud: Cloud,
    s3: Any,
    bucket: str,
    s3_faults: FaultProxy,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace, "MAX_PAUSE", 0.1)
    patience = "1s" if fault == "stall" else "30s"
    monkeypatch.setattr(
        stores, "CLIENT_TIMEOUTS", {"connect_timeout": "5s", "read_timeout": patience, "timeout": "60s"}
    )
    for name, value in cloud.environ().items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    table = _table(1)
    for kind in KINDS:
        s3.put_object(Bucket=bucket, Key=f"in.{kind}", Body=_file(kind, table, tmp_path))
    s3_faults.set({"match": "^GET /", "probability": 0.2, **FAULTS[fault]}, seed=7)
    storage, expected = Storage(AwsOptions(endpoint_url=s3_faults.url)), table["text"].to_pylist()

    def read(kind: str) -> tuple[str, bool]:
        return kind, [v for b in _read(storage, Url("s3", bucket, f"in.{kind}"), kind) for v in _values(b)] == expected

    with ThreadPoolExecutor(4) as pool:
        assert dict(pool.map(read, KINDS)) == dict.fromkeys(KINDS, True)
    (rule,) = s3_faults.report()["rules"]
    assert rule["fired"] >= 10


def _changing(versions: tuple[bytes, bytes | None], at: int) -> SmallAws:
    """Return a server whose only object is replaced or removed before its nth request."""
    asked = 0

    def look(request: Request) -> Refusal | None:
        nonlocal asked
        if request.key == "object":
            asked += 1
            if asked == at:
                if versions[1] is None:
                    server.objects.pop("object", None)
                else:
                    server.objects["object"] = versions[1]
        return None

    server = SmallAws({"object": versions[0]}, refuse=look)
    return server


@pytest.mark.usefixtures("small_parts")
def test_an_object_that_changes_at_any_request_is_never_a_mix(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    tables = [_table(n, 4000) for n in (1, 2)]
    files = {kind: [_file(kind, t, tmp_path) for t in tables] for kind in KINDS}
    expected = [t["text"].to_pylist() for t in tables]
    chance, runs = random.Random(5), list[tuple[str, int, bool]]()
    for delete in (n % 3 == 0 for n in range(RUNS)):
        runs.append((chance.choice(KINDS), chance.randint(2 if delete else 1, 6), delete))

    def run(kind: str, at: int, delete: bool) -> str:
        old, new = files[kind]
        server = _changing((old, None if delete else new), at)
        found = list[str]()
        with server:
            storage = Storage(AwsOptions(endpoint_url=server.url, region="us-east-1"))
            try:
                for batch in _read(storage, Url("s3", BUCKET, "object"), kind):
                    found += _values(batch)
            except ObjectChangedError:
                assert found == expected[0][: len(found)], f"{kind} at {at}: rows of another version"
                return "raised"
        assert found in expected, f"{kind} at {at}: a mix"
        return "old" if found == expected[0] else "new"

    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda each: run(*each), runs))
    assert set(ends) == {"raised", "old", "new"}
    assert ends.count("raised") > RUNS // 3
