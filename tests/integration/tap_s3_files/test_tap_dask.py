"""The tap with its tasks on Dask workers, over mutual TLS: the same messages as with threads, and its refusals."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tap_source import Source, moment, state_of

from local_cloud import Cloud
from local_cloud.dask.cluster import DaskCluster
from local_cloud.programs import Programs, Ran
from singer_arrow.naming import digest


@pytest.fixture(scope="module")
def dask(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Start a scheduler and two workers with mutual TLS."""
    cluster = DaskCluster(tmp_path_factory.mktemp("cloud") / "dask", env=cloud.environ())
    try:
        cluster.start(2)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


def on(cluster: DaskCluster) -> dict[str, Any]:
    """Return the settings with which tasks run on a cluster."""
    return {"executor": "dask", "dask_scheduler": cluster.address, "dask_tls": cluster.tls}


def put_objects(source: Source) -> None:
    """Put an object that is cut into several batch files, and some that are a task each."""
    for n, rows in enumerate((400_000, *[30_000] * 6)):
        lines = "".join(f"{n * 1_000_000 + i},name {i * 7919 % 10007},{i / 3}\n" for i in range(rows))
        body = f"id,name,share\n{lines}".encode()
        name = f"in/{n}.csv" if n % 2 == 0 else f"in/{n}.csv.gz"
        source.put(name, body if n % 2 == 0 else gzip.compress(body, 1), at=moment(n))


def settings(source: Source, cluster: DaskCluster | None = None, **more: Any) -> dict[str, Any]:
    """Return the settings of a run; on threads, if there is no cluster."""
    executor = on(cluster) if cluster else {}
    batches = source.batches(file_mb=0.5)
    return source.config(
        batch_config=batches, stream={"path": f"s3://{source.bucket}/in/**"}, **(executor | {"max_workers": 2} | more)
    )


def staged(source: Source) -> dict[str, str]:
    """Return the names of the files that the tap has written, with their ETags; then remove them."""
    found = source.s3.list_objects_v2(Bucket=source.bucket, Prefix="stage/").get("Contents", [])
    for entry in found:
        source.s3.delete_object(Bucket=source.bucket, Key=entry["Key"])
    return {entry["Key"]: entry["ETag"] for entry in found if "/_plans/" not in entry["Key"]}


def sent(ran: Ran) -> str:
    """Return the messages of a run without the id of its plan log, which the ranks have too."""
    (log,) = set(re.findall(r'"log":"([0-9a-f]{16})"', ran.stdout))
    assert len(re.findall(f"  {digest(log)} [0-9.]{{18}}", ran.stdout)) == ran.stdout.count('"object ')
    return ran.stdout.replace(log, "").replace(digest(log), "")


def test_messages_and_files_are_those_of_threads(source: Source, dask: DaskCluster) -> None:
    put_objects(source)
    remote = source.run(settings(source, dask))
    files = staged(source)
    threads = source.run(settings(source))
    assert sent(remote) == sent(threads)
    assert files == staged(source)
    assert len(files) > 7  # the large object is cut
    closing = re.compile("Read rows: (.*), [0-9.,]+ s")
    assert closing.findall(remote.stderr) == closing.findall(threads.stderr) != []


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_ranges_of_one_object_run_on_all_workers(source: Source, dask: DaskCluster, kind: str) -> None:
    rows = 150_000
    text = "".join(f'{n},"{n * 7919 % 10007} of\n{"x" * 60}"\n' for n in range(rows))
    lines = "".join(f'{{"id": {n}, "name": "{n * 7919 % 10007} of {"x" * 40}"}}\n' for n in range(rows))
    source.put(f"in/a.{kind}", f"id,name\n{text}" if kind == "csv" else lines)
    remote = source.run(settings(source, dask, object_range_mb=1))
    files = staged(source)
    threads = source.run(settings(source, object_range_mb=1))
    assert sent(remote) == sent(threads)
    assert files == staged(source)
    assert len(files) > 7
    assert [row["id"] for row in source.rows(source.run(settings(source)))] == list(range(rows))


def test_the_next_run_sends_what_is_new_and_warns_of_what_is_skipped(source: Source, dask: DaskCluster) -> None:
    source.csv("in/a.csv", 0, at=moment(0))
    first = source.run(settings(source, dask))
    source.csv("in/b.csv", 10, at=moment(1))
    source.put("in/empty.csv", "", at=moment(2))
    second = source.run(settings(source, dask), state=state_of(first))
    assert [r["id"] for r in source.rows(second)] == list(range(10, 20))
    assert second.stderr.count(f"s3://{source.bucket}/in/empty.csv is empty and was skipped") == 1


def test_the_schema_evolves_as_with_threads(source: Source, dask: DaskCluster) -> None:
    put_objects(source)
    more = {"schema_sample_files": 1}
    source.put("in/8.csv", "id,name,share,more\n1,a,0.5,7\n", at=moment(8))
    source.put("in/9.csv", "id,name,share\n1,a,0.5\n", at=moment(9))
    catalog = source.tap("tap-s3-files", config=settings(source, **more), discover=True).check()
    source.put("in/3.csv", "id,name,share,other\n" + "3,b,0.5,8.5\n" * 50_000, at=moment(3))
    ran = []
    for config in (settings(source, dask, **more), settings(source, **more)):
        staged(source)  # without the plan and the files of the run before
        ran.append(source.run(config, catalog=json.loads(catalog.stdout)))
    assert sent(ran[0]) == sent(ran[1])
    assert len(ran[0].of_type("SCHEMA")) == 3


def test_a_bad_row_ends_the_run_after_what_comes_before_it(source: Source, dask: DaskCluster) -> None:
    put_objects(source)
    source.put("in/4.csv", "id,name,share\n1,a,0.5\nx,b,0.5\n", at=moment(4))
    config = {"stream": {"path": f"s3://{source.bucket}/in/**", "on_drift": "fail", "schema": {"id": "int64"}}}
    batches = source.batches(file_mb=0.5)
    ran = []
    for executor in (on(dask), {}):
        ran.append(source.tap("tap-s3-files", config=source.config(batch_config=batches, **config, **executor)))
        staged(source)
    assert [r.code for r in ran] == [1, 1]
    assert sent(ran[0]) == sent(ran[1])
    assert ran[0].of_type("BATCH")
    assert _last(ran[0]) == _last(ran[1])
    assert f"s3://{source.bucket}/in/4.csv, line 3, column 'id'" in _last(ran[0])


def _last(ran: Ran) -> str:
    return ran.stderr.splitlines()[-1].partition(" | ERROR ")[2]


REFUSED = [
    ({"dask_scheduler": "tcp://10.0.0.1:8786", "dask_tls": None}, "reaches a port without TLS can run code"),
    ({"dask_tls": None}, "Setting 'dask_tls.ca_file' is missing"),
    ({"dask_scheduler": None}, "Setting 'dask_scheduler' is missing"),
    ({"batch_config": None}, "needs 'batch_config'"),
    ({"aws": {"access_key_id": "K", "secret_access_key": "S"}}, "aws.access_key_id would be sent"),
    ({"aws": {"sse_customer_key": "A" * 43 + "="}}, "aws.sse_customer_key would be sent"),
    ({"plan_root": "file:///tmp/plans"}, "is on a disk of one machine"),
    (
        {"defaults": {"columns": {"name": {"hash": True}}}},
        "a hash in columns, whose secrets workers of a cluster do not have",
    ),
    ({"stream_maps": {"rows": {"id": "id + 1"}}}, "and stream_maps changes single records"),
]


@pytest.mark.parametrize(("more", "text"), REFUSED)
def test_what_must_not_be_sent_is_refused_in_one_line(
    source: Source, dask: DaskCluster, more: dict[str, Any], text: str
) -> None:
    source.csv("in/a.csv", 0)
    config = {name: value for name, value in (settings(source, dask) | more).items() if value is not None}
    ran = source.tap("tap-s3-files", config=config)
    assert ran.code == 1
    assert text in _last(ran)
    assert "Traceback" not in ran.stderr


def test_folders_that_all_machines_share_are_used_if_the_settings_allow_it(
    source: Source, dask: DaskCluster, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    config = settings(source, dask, dask_shared_files=True)
    config["streams"][0]["path"] = f"file://{tmp_path}/*.csv"
    config["batch_config"]["storage"]["root"] = f"file://{tmp_path}/stage"
    (batch,) = source.run(config).of_type("BATCH")
    assert pq.read_table(batch["manifest"][0].removeprefix("file://"))["id"].to_pylist() == [1]


def test_rejected_rows_are_sent_as_with_threads(source: Source, dask: DaskCluster) -> None:
    put_objects(source)
    source.put("in/4.csv", "id,name,share\n1,a,0.5\nx,b,0.5\n3\n", at=moment(4))
    stream = {"path": f"s3://{source.bucket}/in/**", "schema": {"id": "int64"}, "on_bad_row": "dead_letter"}
    ran = []
    for executor in (on(dask), {}):
        ran.append(source.run(source.config(batch_config=source.batches(file_mb=0.5), stream=stream, **executor)))
        staged(source)
    rows = [[(m["batch_id"], m.get("rejected")) for m in each.of_type("BATCH")] for each in ran]
    assert rows[0] == rows[1]
    assert [row["position"] for _, some in rows[0] for row in some or ()] == [3, 4]
    assert all("2 rows rejected" in each.stderr for each in ran)
