"""Each error code of docs/errors.md is provoked by a command, or by the function that raises it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import local_settings
import pyarrow as pa
import pytest
from plan_runs import info, log_in, segment
from provoked_errors import Scene, last_line, raised
from singer_lines import batch_of, lines, record, rows, schema

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.storage import errors
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from target_bigquery.client import BigQuery
from target_bigquery.settings import Settings as BigQuerySettings
from target_redshift.client import Redshift
from target_redshift.settings import Settings as RedshiftSettings

PAGE = (Path(__file__).parents[3] / "docs" / "errors.md").read_text()
DOCUMENTED = re.findall(r'^\| <a id="[a-z-]+"></a>`([a-z-]+)` \| .+ \| .+ \|$', PAGE, re.MULTILINE)
QUOTA = "Quota exceeded: Your table exceeded quota for imports or query appends per table"
FULL_MEMORY = """
import pyarrow, sys
from singer_arrow.sdk import cli
cli.run_connector("tap-x", lambda: lambda: pyarrow.allocate_buffer(1 << 60))
"""


@pytest.fixture
def scene(
    run: Programs,
    cloud: Cloud,
    s3: Any,
    bucket: str,
    dataset: str,
    schema: str,
    tmp_path: Path,
    s3_faults: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Scene]:
    for name, value in cloud.env.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    yield Scene(run, cloud, s3, bucket, dataset, schema, tmp_path, s3_faults)
    cloud.fail_jobs()
    cloud.fail_writes()
    cloud.redshift_faults()


Provoke = Callable[[Scene], str]
"""Provokes an error and returns its line."""
PROVOKED: list[tuple[str, Provoke]] = []


def provokes(code: str) -> Callable[[Provoke], Provoke]:
    """Add a function to those that provoke a code."""

    def add(provoke: Provoke) -> Provoke:
        PROVOKED.append((code, provoke))
        return provoke

    return add


def test_each_documented_code_is_provoked() -> None:
    assert sorted({code for code, _ in PROVOKED}) == DOCUMENTED


@pytest.mark.parametrize(("code", "provoke"), PROVOKED, ids=[f"{c}-{p.__name__}" for c, p in PROVOKED])
def test_a_code_is_provoked(code: str, provoke: Provoke, scene: Scene) -> None:
    line = provoke(scene)
    assert line.endswith(f" [{code}]"), line


# Settings -----------------------------------------------------------------------------------------------------------


@provokes("config")
def no_settings(scene: Scene) -> str:
    return scene.tap()


@provokes("config")
def one_slash(scene: Scene) -> str:
    return scene.tap("s3:/bucket/x")


@provokes("config")
def a_file_of_settings_that_is_not_there(scene: Scene) -> str:
    return scene.tap(scene.file("good.csv", "a\n1\n"), "--config", scene.folder / "no.json")


@provokes("config")
def a_setting_of_a_target(scene: Scene) -> str:
    return scene.redshift(max_batch_mb="many")


@provokes("sdk")
def a_broken_stream_map(scene: Scene) -> str:
    streams = [{"name": "rows", "path": str(scene.file("a.csv", "id\n1\n"))}]
    return scene.tap(config={"streams": streams, "stream_maps": {"rows": {"id": "id +"}}})


@provokes("failed-streams")
def streams_without_objects(scene: Scene) -> str:
    streams = [{"name": name, "path": f"{scene.folder}/{name}/*.csv", "schema": {"id": "integer"}} for name in "ab"]
    return scene.tap(config={"streams": streams})


@provokes("failed")
def a_tap_of_another_project_that_fails(scene: Scene) -> str:
    described = scene.file("pipeline.json", '{"tap": {"name": "false"}, "target": {"name": "true"}}')
    return last_line(scene.run("singer-arrow", "run", described))


@provokes("identity")
def a_state_of_another_plan_log(scene: Scene) -> str:
    streams = [{"name": "rows", "path": str(scene.file("a.csv", "id\n1\n"))}]
    batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"file://{scene.folder}/stage"}}
    state = scene.file("state.json", '{"bookmarks": {"rows": {"watermark": null, "segment": 3, "log": "a"}}}')
    return scene.tap("--state", state, config={"streams": streams, "batch_config": batches})


# Access -------------------------------------------------------------------------------------------------------------


@provokes("access-denied")
def a_listing_that_is_denied(scene: Scene) -> str:
    return scene.tap_refused(403, "AccessDenied")


@provokes("expired-credentials")
def a_token_that_has_expired(scene: Scene) -> str:
    return scene.tap_refused(400, "ExpiredToken")


@provokes("credentials")
def no_credentials(scene: Scene) -> str:
    return scene.tap("s3://bucket/x.csv", env={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""})


@provokes("not-found")
def no_such_file(scene: Scene) -> str:
    return scene.tap(scene.folder / "gone.csv")


@provokes("failed-streams")
def several_streams_without_files(scene: Scene) -> str:
    streams = [{"name": name, "path": str(scene.folder / f"{name}.csv")} for name in ("a", "b")]
    return scene.tap(config={"streams": streams})


@provokes("not-found")
def no_such_bucket(scene: Scene) -> str:
    return scene.tap("s3://no-such-bucket/x.csv")


@provokes("not-found")
def no_such_bucket_of_batch_files(scene: Scene) -> str:
    return scene.tap(scene.file("good.csv", "a\n1\n"), "--batch-root", "s3://no-such-bucket/x")


@provokes("not-found")
def a_batch_file_that_is_gone(scene: Scene) -> str:
    return scene.bigquery(schema(), batch_of(local_settings.GONE, "parquet"))


@provokes("config")
def a_warehouse_that_does_not_listen(scene: Scene) -> str:
    return scene.redshift(schema(), port=1)


@provokes("service")
def a_target_that_has_closed_the_pipe(scene: Scene) -> str:
    path = scene.file("a.csv", "id\n" + "1\n" * 100_000)
    return last_line(scene.run("bash", "-o", "pipefail", "-c", f"tap-s3-files {path} | true"))


# Objects and their rows ---------------------------------------------------------------------------------------------


@provokes("archived")
def an_archived_object(scene: Scene) -> str:
    return scene.tap(scene.put("in/a.csv", "id\n1\n", StorageClass="GLACIER"))


@provokes("bad-row")
def a_short_row(scene: Scene) -> str:
    return scene.tap(scene.file("bad.csv", "a,b\n1,2\n3\n"))


@provokes("data")
def a_file_of_another_format(scene: Scene) -> str:
    return scene.tap(scene.file("bad.parquet", "no parquet"))


@provokes("drift")
def a_column_that_other_files_lack(scene: Scene) -> str:
    for number, text in enumerate(("id,more\n1,2\n", "id\n2\n")):
        scene.put(f"in/{number}.csv", text, Metadata={"local-cloud-modified": f"2024-05-0{number + 1}T10:00:00Z"})
    stream = {"name": "rows", "path": f"s3://{scene.bucket}/in/*", "on_drift": "fail"}
    return scene.tap(config={"streams": [stream], "schema_sample_files": 1})


@provokes("empty-object")
def an_object_without_a_byte(scene: Scene) -> str:
    url = Url.parse(scene.put("in/a.csv", ""))
    return raised(lambda: ObjectReader(Storage(), url).head_bytes(10))


@provokes("object-changed")
def an_object_that_was_replaced(scene: Scene) -> str:
    url = Url.parse(scene.put("in/a.csv", "id\n1\n"))
    listed = Storage().head(url)
    scene.put("in/a.csv", "id\n2\n")
    return raised(lambda: ObjectReader(Storage(), url, info=listed).head_bytes(10))


@provokes("truncated")
def a_file_that_was_cut(scene: Scene) -> str:
    return scene.tap(scene.file("cut.csv.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03K"))


# Two runs, and the machine ------------------------------------------------------------------------------------------


@provokes("conflict")
def two_writers(scene: Scene) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "FIRST_PAUSE", 0.0)
        patch.setenv("AWS_ENDPOINT_URL", scene.faults.url)
        scene.faults.set({"match": "^PUT", "action": "error", "status": 409, "code": "ConditionalRequestConflict"})
        return raised(lambda: Storage().put(Url.parse(f"s3://{scene.bucket}/x"), b"x", if_absent=True))


@provokes("superseded")
def two_runs_with_one_plan(scene: Scene) -> str:
    first, second = log_in(scene.folder), log_in(scene.folder)
    assert (first.next_number, second.next_number) == (0, 0)
    first.append(segment(0, info("a")))
    return raised(lambda: second.append(segment(0, info("b"))))


@provokes("disk")
def a_limit_of_file_sizes(scene: Scene) -> str:
    path = scene.file("a.csv", "id,text\n" + "".join(f"{n},{hash(n * 7919 + 1)}\n" for n in range(100_000)))
    command = f"ulimit -f 64; exec {sys.executable} -m tap_s3_files {path} --batch-root {scene.folder}/batches"
    return last_line(scene.run("bash", "-c", command, env={"PYTHONDONTWRITEBYTECODE": "1"}))


@provokes("memory")
def more_memory_than_there_is(scene: Scene) -> str:
    return last_line(scene.run(sys.executable, "-c", FULL_MEMORY))


# Messages -----------------------------------------------------------------------------------------------------------


@provokes("data")
def a_line_that_is_no_message(scene: Scene) -> str:
    return last_line(scene.run("target-bigquery", config="ENV", stdin="no message\n"))


@provokes("data")
def a_record_that_does_not_fit(scene: Scene) -> str:
    return scene.redshift(schema(), record(id="x"))


@provokes("missing-key")
def a_record_without_its_key(scene: Scene) -> str:
    return scene.redshift(schema(), record(name="x"))


@provokes("no-schema")
def a_record_before_its_schema(scene: Scene) -> str:
    return scene.bigquery(record(id=1))


@provokes("too-many-rejected")
def more_bad_rows_than_allowed(scene: Scene) -> str:
    bad = [record(id=f"x{n}") for n in range(3)]
    return scene.redshift(schema(), *bad, on_bad_row="dead_letter", max_bad_rows=2)


@provokes("unfinished-stream")
def a_tap_that_stopped(scene: Scene) -> str:
    sent = scene.run("tap-s3-files", scene.file("rows.csv", "id\n1\n2\n")).check()
    messages = sent.messages
    cut = messages[: next(n for n, m in enumerate(messages) if m["type"] == "RECORD") + 1]
    return scene.bigquery(*cut, load_method="overwrite")


# Warehouses ---------------------------------------------------------------------------------------------------------


@provokes("schema")
def a_key_of_another_type(scene: Scene) -> str:
    text = schema(columns=pa.schema([("id", pa.string())]))
    scene.run("target-redshift", config="ENV", stdin=lines([text, record(id="a")])).check()
    return scene.redshift(schema(), record(id=1))


@provokes("error")
def a_table_that_exists(scene: Scene) -> str:
    client = BigQuery(BigQuerySettings.from_config(local_settings.of_bigquery(scene.cloud, dataset=scene.dataset)))
    try:
        client.client.create_dataset(scene.dataset)
        fields = [{"name": "id", "type": "INTEGER"}]
        client.create_table("rows", fields)
        return raised(lambda: client.create_table("rows", fields))
    finally:
        client.close()


@provokes("load")
def a_query_that_would_bill_more(scene: Scene) -> str:
    return scene.bigquery(schema(), record(id=1), load_method="upsert", bytes_billed_limit=1)


@provokes("quota")
def no_load_jobs_left_today(scene: Scene) -> str:
    scene.cloud.fail_jobs({"job": "load", "match": scene.dataset, "reason": "quotaExceeded", "message": QUOTA})
    return scene.bigquery(schema(), record(id=1))


@provokes("refused-data")
def a_row_that_bigquery_refuses(scene: Scene) -> str:
    scene.cloud.fail_jobs({"job": "load", "match": scene.dataset, "reason": "invalid", "message": "Bad row"})
    return scene.bigquery(schema(), record(id=1))


@provokes("refused-data")
def a_row_that_redshift_refuses(scene: Scene) -> str:
    message = scene.batch(rows(0, 2), file_format="jsonl", batch_id="a", compression="none")
    key = message["manifest"][0].removeprefix(f"s3://{scene.bucket}/")
    scene.put(key, '{"id": 1, "name": "a"}\n{"id": "many", "name": "b"}\n')
    return scene.redshift(schema(), message)


@provokes("row-count")
def a_copy_of_fewer_rows(scene: Scene) -> str:
    return scene.redshift(schema(), scene.batch(rows(0, 5), file_format="jsonl", batch_id="a") | {"row_count": 6})


@provokes("long-text")
def a_text_that_is_too_long(scene: Scene) -> str:
    return scene.redshift(schema(), scene.batch([{"id": 1, "name": "x" * 70_000}], batch_id="a"))


@provokes("nul")
def a_text_with_a_nul(scene: Scene) -> str:
    return scene.redshift(schema(), scene.batch([{"id": 1, "name": "x\0"}], batch_id="a"), nul_text="fail")


@provokes("session-lost")
def a_connection_that_breaks(scene: Scene) -> str:
    scene.cloud.redshift_faults({"match": "SELECT 4711", "action": "kill", "times": 1})
    client = Redshift(
        RedshiftSettings.from_config(local_settings.of_redshift(scene.cloud, default_target_schema=scene.schema))
    )
    try:
        with client.session() as session:
            return raised(lambda: session.execute("SELECT 4711", what="test"))
    finally:
        client.close()


@provokes("storage-write")
def a_write_that_is_refused(scene: Scene) -> str:
    scene.cloud.fail_writes({"call": "append", "match": scene.dataset, "status": "INVALID_ARGUMENT"})
    return scene.bigquery(schema(), record(id=1), load_via="storage_write")
