"""`gcs_stage`: one load job takes many files, files on Google Cloud Storage in place, exactly once."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bigquery_traces import load_jobs
from held_load_job import HELD_SECONDS, load_beside_a_held_job
from singer_lines import Batches, Message, lines, load, record, rows, schema, state
from waiting import wait_until

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs
from singer_arrow.errors import CredentialsError, LoadError, NotFoundError
from singer_arrow.load.staging import FOLDER
from singer_arrow.runtime.threads import pauses
from singer_arrow.storage import store
from singer_arrow.storage.urls import Url
from target_bigquery import connection
from target_bigquery import gcs_uploads as staged

Config = dict[str, Any]


@pytest.fixture
def config(config: Config, gcs_bucket: Path) -> Config:
    """Return settings for the local BigQuery."""
    return config | {"gcs_stage": f"gs://{gcs_bucket.name}/stage"}


@pytest.fixture
def jobs(bq: Any, dataset: str) -> Callable[[], list[Any]]:
    """Return the load jobs of this test."""

    def found() -> list[Any]:
        return [bq.get_job(j.job_id) for j in load_jobs(bq, dataset)]

    return found


@pytest.fixture(scope="module")
def gcs_proxy(cloud: Cloud) -> Iterator[FaultProxy]:
    proxy = cloud.fault_proxy(cloud.gcs_url)
    yield proxy
    proxy.stop()


@pytest.fixture
def gcs_faults(gcs_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> FaultProxy:
    """A fault proxy in front of Google Cloud Storage, for this process and for `env=`."""
    gcs_proxy.clear()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_proxy.url)
    return gcs_proxy


def there(bucket: Path) -> list[str]:
    return sorted(p.relative_to(bucket).as_posix() for p in bucket.rglob("*") if p.is_file())


def on_gcs(message: Message, bucket: Path) -> Message:
    """Move the files of a message to the bucket, and return the new message."""
    (bucket / "batches").mkdir(exist_ok=True)
    urls = []
    for url in message["manifest"]:
        path = Path(url.removeprefix("file://"))
        shutil.move(path, bucket / "batches" / path.name)
        urls.append(f"gs://{bucket.name}/batches/{path.name}")
    return message | {"manifest": urls}


@pytest.mark.parametrize(
    ("method", "load_format"), [("append-only", "auto"), ("upsert", "avro"), ("overwrite", "jsonl"), ("upsert", "auto")]
)
def test_one_job_takes_many_files(
    method: str, load_format: str, config: Config, batch: Batches, ids: Any, jobs: Any, gcs_bucket: Path
) -> None:
    formats = ("parquet", "jsonl", "parquet", "jsonl")
    size = {"byte_count": 128 << 20}  # batches that are separate loads without a stage
    run = [schema(), *(batch(rows(2 * n, 2), batch_id=f"b{n}", file_format=f) | size for n, f in enumerate(formats))]
    target = load(
        [*run, record(id=8, name="x"), state(1)], config | {"load_method": method, "load_format": load_format}
    )
    assert ids() == [*range(9)]
    (job,) = jobs()
    suffix = {"auto": ".parquet", "avro": ".avro", "jsonl": ".jsonl.gz"}[load_format]
    assert len(job.source_uris) == job.input_files == 5
    assert all(u.startswith(f"{config['gcs_stage']}/{FOLDER}/20") and u.endswith(suffix) for u in job.source_uris)
    assert [u.rpartition("/")[2][:7] for u in job.source_uris][:4] == [f"rows-b{n}" for n in range(4)]
    assert target.run.tallies.of("rows").counts()["load_jobs"] == 1
    assert there(gcs_bucket) == []


def test_parquet_on_gcs_is_loaded_where_it_is(
    config: Config, batch: Batches, ids: Any, jobs: Any, gcs_bucket: Path, gcs_faults: FaultProxy
) -> None:
    odd = pa.schema([("id", pa.int64()), ("name", pa.string()), ("more", pa.int64())])
    messages = [on_gcs(batch(rows(4 * n, 4), batch_id=f"b{n}"), gcs_bucket) for n in range(3)]
    messages.append(on_gcs(batch(rows(12, 2), batch_id="b3", columns=odd), gcs_bucket))
    load([schema(), *messages, state(1)], config)
    assert ids() == [*range(14)]
    (job,) = jobs()
    assert list(job.source_uris[:3]) == [m["manifest"][0] for m in messages[:3]]
    assert job.source_uris[3].startswith(config["gcs_stage"])  # a column that is not in SCHEMA
    assert len(gcs_faults.requests("PUT")) == 1
    assert there(gcs_bucket) == [f"batches/{n}.parquet" for n in range(1, 5)]
    load(
        [schema(), *messages, state(1)], config | {"clean_up_batch_files": True, "manifest_roots": [_root(gcs_bucket)]}
    )
    assert ids() == [*range(14)]
    assert there(gcs_bucket) == []


def _root(bucket: Path) -> str:
    return f"gs://{bucket.name}/batches"


def test_lists_of_files_on_gcs_are_looked_at_first(
    config: Config, batch: Batches, bq: Any, dataset: str, jobs: Any, gcs_bucket: Path
) -> None:
    columns = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int64()))])
    good = on_gcs(batch([{"id": 1, "l": [1, 2]}], columns=columns), gcs_bucket)
    load([schema(columns=columns), good], config)
    assert [j.source_uris for j in jobs()] == [good["manifest"]]
    assert [r["l"] for r in bq.query(f"SELECT l FROM `{dataset}.rows`").result()] == [[1, 2]]
    bad = on_gcs(batch([{"id": 1, "l": [1, None]}], columns=columns), gcs_bucket)
    with pytest.raises(Exception, match="a list holds a null"):
        load([schema(columns=columns), bad], config)
    assert [name for name in there(gcs_bucket) if FOLDER in name] == []


def test_files_with_lists_that_are_replaced_after_they_were_looked_at_are_an_error(
    config: Config, batch: Batches, gcs_bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int64()))])
    message = on_gcs(batch([{"id": 1, "l": [1]}], columns=columns), gcs_bucket)
    other = Path(batch([{"id": 2, "l": [2]}], columns=columns)["manifest"][0].removeprefix("file://"))
    prepare = staged.StagedFiles.prepare

    def replaced(*arguments: Any) -> Any:
        found = prepare(*arguments)
        store.Storage().put(Url.parse(message["manifest"][0]), other)
        return found

    monkeypatch.setattr(staged.StagedFiles, "prepare", replaced)
    with pytest.raises(LoadError, match="was replaced or deleted while BigQuery loaded it"):
        load([schema(columns=columns), message, state(1)], config)


def test_more_files_than_one_job_takes_are_several_jobs(
    config: Config, batch: Batches, ids: Any, jobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "MOST_URIS", 3)
    run = [schema(), *(batch(rows(2 * n, 2), batch_id=f"b{n}") for n in range(7)), state(1)]
    for method in ("append-only", "upsert"):
        load(run, config | {"load_method": method})
        assert ids() == [*range(14)]
    assert sorted(len(j.source_uris) for j in jobs()) == [1, 1, 3, 3, 3, 3]
    target = load(run, config)
    assert target.run.tallies.of("rows").counts()["skipped"] == 7


def test_a_file_that_is_missing_is_one_line(config: Config, batch: Batches, gcs_bucket: Path) -> None:
    message = on_gcs(batch(rows(0, 2)), gcs_bucket)
    (gcs_bucket / "batches" / "1.parquet").unlink()
    with pytest.raises(NotFoundError, match="a batch file of the manifest is missing; run the tap again"):
        load([schema(), message], config)
    with pytest.raises(NotFoundError, match="gs://no-such-bucket does not exist"):
        load([schema(), batch(rows(0, 2))], config | {"gcs_stage": "gs://no-such-bucket/x"})


def test_leftovers_of_dead_runs_go_with_the_next_run(config: Config, batch: Batches, gcs_bucket: Path) -> None:
    old, young, other = (f"stage/{FOLDER}/20200101T000000Z_a/{n}" for n in ("old", "young", "../../other"))
    for name in (old, young, other):
        path = (gcs_bucket / name).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        if name != young:
            os.utime(path, (time.time() - 3 * 86400,) * 2)
    load([schema(), batch(rows(0, 2)), state(1)], config)
    wait_until(lambda: there(gcs_bucket) == sorted([young, "stage/other"]))


# Transient failures

PASSING = [
    *({"match": "^PUT", "action": "error", "status": s, "times": 1} for s in (408, 429, 500, 502, 503, 504)),
    {"match": "^PUT", "action": "reset", "times": 1},
    {"match": "^PUT", "action": "reset", "forward": True, "times": 1},
    {"match": "^PUT", "action": "truncate", "keep": 0, "times": 1},
    {"match": "^GET", "action": "error", "status": 503, "times": 2},
    {"match": "^GET", "action": "reset", "times": 1},
    {"match": "^GET.*parquet", "action": "truncate", "times": 1},
    {"match": "^HEAD", "action": "error", "status": 500, "times": 1},
    {"match": "^DELETE", "action": "error", "status": 503, "times": 1},
    {"match": "^DELETE", "action": "reset", "forward": True, "times": 1},  # the file is gone at the second request
]


def test_what_fails_of_the_stage_in_passing_is_tried_again(
    config: Config, batch: Batches, ids: Any, jobs: Any, gcs_bucket: Path, gcs_faults: FaultProxy
) -> None:
    gcs_faults.set(*PASSING)
    messages = [on_gcs(batch(rows(0, 2), batch_id="a"), gcs_bucket)]
    messages += [batch(rows(2 * n, 2), batch_id=f"b{n}") for n in range(1, 4)]
    load([schema(), *messages, state(1)], config)
    assert ids() == [*range(8)]
    assert len(jobs()) == 1
    assert there(gcs_bucket) == ["batches/1.parquet"]
    fired = {r["match"] + str(r["status"]) + r["action"]: r["fired"] for r in gcs_faults.report()["rules"]}
    assert [name for name, count in fired.items() if not count] == []


def test_an_upload_in_parts_is_whole_or_not_there(
    config: Config, batch: Batches, ids: Any, gcs_faults: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_PART", 5 << 20)
    noise = [{"id": n, "name": os.urandom(6000).hex()} for n in range(1200)]
    gcs_faults.set(
        {"match": "^PUT.*partNumber=2", "action": "error", "status": 503, "times": 1},
        {"match": "^POST.*uploadId", "action": "reset", "forward": True, "times": 1},
    )
    load([schema(), batch(noise, batch_id="a"), state(1)], config)
    assert ids() == [*range(1200)]
    assert [r["fired"] for r in gcs_faults.report()["rules"]] == [1, 1]


REQUESTS = {
    "jobs": "^POST /bigquery.*/jobs",  # load jobs of URIs, queries, the ledger's statements
    "answers": "^GET /bigquery.*/(jobs|queries)",
    "tables": "^(GET|POST) /bigquery.*/tables",
}
REASONS = [
    *((status, "x", "no words") for status in (408, 429, 500, 502, 503, 504)),
    *(
        (400, reason, "no words")
        for reason in ("backendError", "internalError", "rateLimitExceeded", "tableUnavailable")
    ),
    (403, "rateLimitExceeded", "no words"),
    (403, "quotaExceeded", "Quota exceeded: Your project exceeded quota for concurrent queries"),
    (400, "invalid", "Exceeded rate limits: too many table update operations for this table"),
]


@pytest.mark.parametrize("what", REQUESTS)
def test_what_fails_of_bigquery_in_passing_is_tried_again(
    what: str, config: Config, batch: Batches, ids: Any, bq_faults: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All error classes in turn, then lost answers, so that the job or table exists already (409)."""
    monkeypatch.setattr(connection, "pauses", partial(pauses, first=0.01, most=0.01))
    rule = {"match": REQUESTS[what], "times": 1}
    bq_faults.set(
        *(rule | {"action": "error", "status": s, "code": c, "message": m} for s, c, m in REASONS),
        rule | {"action": "reset", "forward": True, "times": 2},
    )
    run = [schema(), batch(rows(0, 2), batch_id="a"), batch(rows(2, 2), batch_id="b"), state(1)]
    for _ in range(2):
        load(run, config | {"api_endpoint": bq_faults.url})
    assert ids() == [*range(4)]
    assert [r["fired"] for r in bq_faults.report()["rules"]] == [1] * len(REASONS) + [2]


def test_a_stage_that_is_denied_is_one_line(config: Config, batch: Batches, gcs_faults: FaultProxy) -> None:
    gcs_faults.set({"match": "^PUT", "action": "error", "status": 403, "code": "AccessDenied", "message": "no right"})
    with pytest.raises(CredentialsError, match=r"gs://.*access is denied \(AccessDenied: no right\)") as caught:
        load([schema(), batch(rows(0, 2))], config)
    assert "\n" not in str(caught.value)


# Interruptions


def start(run: Programs, messages: list[Message], config: Config, **env: str) -> Any:
    process = run.start("target-bigquery", config=config, env=env)
    assert process.stdin
    process.stdin.write(lines(messages).encode())
    process.stdin.close()
    process.stdin = None
    return process


def test_killed_while_it_uploads_loads_no_half(
    run: Programs, config: Config, batch: Batches, ids: Any, jobs: Any, gcs_bucket: Path, gcs_faults: FaultProxy
) -> None:
    messages = [schema(), *(batch(rows(2 * n, 2), batch_id=f"b{n}") for n in range(4)), state(1)]
    gcs_faults.set({"match": "^PUT", "skip": 2, "action": "error", "status": 503})
    victim = start(run, messages, config, STORAGE_EMULATOR_HOST=gcs_faults.url)
    wait_until(lambda: len(gcs_faults.requests("PUT")) >= 4 and len(there(gcs_bucket)) == 2)
    victim.kill()
    victim.communicate(timeout=60)
    left = there(gcs_bucket)
    assert jobs() == []
    gcs_faults.clear()
    load(messages, config)
    assert ids() == [*range(8)]
    (job,) = jobs()
    assert len(job.source_uris) == 4
    assert not any(uri.endswith(name) for uri in job.source_uris for name in left)
    assert there(gcs_bucket) == left


def test_killed_while_the_job_runs_its_files_are_there(
    run: Programs,
    config: Config,
    batch: Batches,
    ids: Any,
    jobs: Any,
    gcs_bucket: Path,
    fail_jobs: Any,
    dataset: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    messages = [schema(), *(batch(rows(2 * n, 2), batch_id=f"b{n}") for n in range(3)), state(1)]
    fail_jobs({"job": "load", "match": dataset, "delay_s": HELD_SECONDS})
    victim = start(run, messages, config)
    wait_until(lambda: [j for j in jobs() if j.state == "RUNNING"])
    victim.kill()
    assert victim.communicate(timeout=60)[0] == b""
    assert len(there(gcs_bucket)) == 3
    target = load_beside_a_held_job(messages, config, fail_jobs, caplog)  # the job still reads the dead run's files
    assert ids() == [*range(6)]
    assert target.run.tallies.of("rows").counts()["skipped"] == 3
    assert len(jobs()) == 1
    assert len(there(gcs_bucket)) == 3


def test_the_error_of_a_refused_job_has_its_reason(
    config: Config, batch: Batches, fail_jobs: Any, dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "Cannot read and write in different locations: source: US, destination: EU"
    fail_jobs({"job": "load", "match": dataset, "reason": "invalid", "message": reason})
    with pytest.raises(LoadError, match=f"{reason}.*gcs_stage and the batch storage"):
        load([schema(), batch(rows(0, 2), batch_id="a"), state(1)], config)
    assert json.loads(capsys.readouterr().out or "null") is None


def test_a_sync_is_one_job_a_table_whatever_comes(config: Config, batch: Batches, jobs: Any) -> None:
    """A sync every five minutes is 288 jobs per table and day, of 1,500 that BigQuery allows; without a stage too."""
    streams = [f"s{n}" for n in range(3)]
    for settings in (config, {k: v for k, v in config.items() if k != "gcs_stage"}):
        before = len(jobs())
        run: list[Message] = [schema(stream) for stream in streams]
        for n in range(4):
            for stream in streams:
                run += [batch(rows(2 * n, 2), stream=stream, file_format="jsonl" if n == 3 else "parquet"), state(n)]
        load(run, settings)
        assert sorted(j.destination.table_id for j in jobs()[: len(jobs()) - before]) == streams
