"""Errors of the tap for bad input: one clear line, exit code 1, no traceback, and no partial row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from file_bytes import parquet_of
from program_errors import error_of
from tap_source import TapBucket

from local_cloud import Cloud
from local_cloud.programs import Programs, Ran


class Source(TapBucket):
    """A bucket, and the tap that reads it."""

    def run(self, *, env: dict[str, str] | None = None, batches: bool = True, **more: Any) -> Ran:
        options = {k: more.pop(k) for k in ("state", "catalog", "discover") if k in more}
        stream = {"name": "rows", "path": f"s3://{self.bucket}/in/*", "schema": {}, **more.pop("stream", {})}
        batch = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.bucket}/stage"}}
        config = {"streams": [stream], **({"batch_config": batch} if batches else {}), **more}
        return self.tap("tap-s3-files", config=config, env=env, **options)


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


# Access -------------------------------------------------------------------------------------------------------------


def test_a_missing_bucket(source: Source) -> None:
    ran = source.run(stream={"path": "s3://no-such-bucket-at-all/x/*.csv"})
    assert error_of(ran) == "s3://no-such-bucket-at-all does not exist; check the bucket's name and region"
    assert ran.stdout == ""


def test_no_credentials(source: Source) -> None:
    env = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    assert "No AWS credentials were found" in error_of(source.run(env=env))


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "InvalidAccessKeyId", "check the credentials"),
        (403, "SignatureDoesNotMatch", "check the credentials"),
        (403, "AccessDenied", "check the credentials"),
        (400, "ExpiredToken", "the credentials have expired"),
    ],
)
@pytest.mark.parametrize("request_", ["list-type=2", "GET /[^?]*a.csv"], ids=["listing", "reading"])
def test_credentials_that_do_not_do(
    request_: str, status: int, code: str, words: str, source: Source, cloud: Cloud
) -> None:
    source.put("in/a.csv", "id\n1\n")
    proxy = cloud.fault_proxy(cloud.s3_url)
    proxy.set({"match": request_, "action": "error", "status": status, "code": code})
    ran = source.run(env={"AWS_ENDPOINT_URL": proxy.url})
    line = error_of(ran)
    assert words in line
    assert code in line
    codes = {"ExpiredToken": "expired-credentials", "AccessDenied": "access-denied"}
    assert ran.stderr.endswith(f" [{codes.get(code, 'credentials')}]\n")
    assert f"s3://{source.bucket}/in" in line
    if code == "AccessDenied":
        assert "s3:ListBucket on the bucket, s3:GetObject on its objects" in line
        assert line.endswith("see docs/access.md")


@pytest.mark.parametrize("bundle", [False, True])
def test_a_profile_that_does_not_exist(bundle: bool, source: Source, tmp_path: Path) -> None:
    file = tmp_path / "authorities.pem"
    file.touch()
    env = {"AWS_CA_BUNDLE": str(file) if bundle else ""}
    assert "Setting aws.profile" in error_of(source.run(aws={"profile": "missing"}, env=env))


# Objects ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discover", [True, False])
def test_a_path_that_matches_nothing(discover: bool, source: Source) -> None:
    source.put("other/a.csv", "id\n1\n")
    line = error_of(source.run(discover=discover))
    assert line == f"Stream 'rows': no object matches s3://{source.bucket}/in/*; check the path and its wildcards"


def test_a_path_that_matches_nothing_with_a_catalog(source: Source) -> None:
    source.put("in/a.csv", "id\n1\n")
    catalog = json.loads(source.run(discover=True).stdout)
    catalog["streams"][0]["metadata"][0]["metadata"]["selected"] = True
    source.s3.delete_object(Bucket=source.bucket, Key="in/a.csv")
    assert "no object matches" in error_of(source.run(catalog=catalog))


@pytest.mark.parametrize("with_catalog", [True, False])
def test_nothing_is_there_any_more_but_there_was(with_catalog: bool, source: Source) -> None:
    source.put("in/a.csv", "id\n1\n")
    catalog = json.loads(source.run(discover=True).stdout)
    catalog["streams"][0]["metadata"][0]["metadata"]["selected"] = True
    state = source.run().check().of_type("STATE")[-1]["value"]
    source.s3.delete_object(Bucket=source.bucket, Key="in/a.csv")
    ran = source.run(state=state, **({"catalog": catalog} if with_catalog else {})).check()
    assert ran.of_type("STATE")[-1]["value"] == state
    assert ran.of_type("BATCH") == []


@pytest.mark.parametrize("batches", [True, False])
def test_an_empty_object_is_skipped_with_a_warning(batches: bool, source: Source) -> None:
    source.put("in/a.csv", "")
    source.put("in/b.csv", "id\n1\n")
    ran = source.run(batches=batches).check()
    assert f"s3://{source.bucket}/in/a.csv is empty and was skipped" in ran.stderr
    assert ran.of_type("BATCH", "RECORD")
    again = source.run(batches=batches, state=ran.of_type("STATE")[-1]["value"]).check()
    assert "is empty" not in again.stderr


def test_nothing_but_empty_objects(source: Source) -> None:
    source.put("in/a.csv", "")
    ran = source.run().check()
    assert "Stream 'rows' is left out of this run: all its objects are empty" in ran.stderr


def test_a_header_without_rows_is_no_error(source: Source) -> None:
    source.put("in/a.csv", "id,name\n")
    ran = source.run().check()
    assert list(ran.of_type("SCHEMA")[0]["schema"]["properties"])[:2] == ["id", "name"]
    assert ran.of_type("BATCH") == []
    assert ran.of_type("STATE")[-1]["value"]["bookmarks"]["rows"]["key"].endswith("in/a.csv")


def test_an_unknown_suffix_is_an_error(source: Source) -> None:
    source.put("in/data", "id\n1\n")
    line = error_of(source.run())
    assert f"s3://{source.bucket}/in/data" in line
    assert "Set the stream's 'format' to" in line


# Contents: the good file comes first, and its rows may be sent; of the bad one nothing is -----------------------------


def good_then(source: Source, key: str, body: str | bytes, **stream: Any) -> tuple[str, Ran]:
    """Run over a valid object and a bad one, and return the error line; the catalog is from the valid one."""
    suffix = key.partition(".")[2]
    good: dict[str, str | bytes] = {
        "csv": "id,name\n1,a\n",
        "csv.gz": gzip.compress(b"id,name\n1,a\n"),
        "jsonl": '{"id": 1, "name": "a"}\n',
        "parquet": parquet_of(id=[1], name=["a"]),
    }
    source.put(f"in/0-good.{suffix}", good[suffix])
    catalog = json.loads(source.run(discover=True, stream=stream).check().stdout)
    catalog["streams"][0]["metadata"][0]["metadata"]["selected"] = True
    source.put(f"in/{key}", body)
    ran = source.run(catalog=catalog, stream=stream)
    return error_of(ran), ran


BIG = b"id,name\n" + b"".join(b"%d,some text that is not too short %d\n" % (n, n * 7919) for n in range(50_000))


@pytest.mark.parametrize(
    ("key", "body", "words"),
    [
        ("bad.csv.gz", gzip.compress(BIG)[:-1000], ["truncated"]),
        ("bad.csv.gz", gzip.compress(BIG)[:200_000] + b"garbage" + gzip.compress(BIG)[200_007:], ["gzip"]),
        ("bad.csv", "id,name\n1,a\n2,b,c\n", ["line 3"]),
        ("bad.csv", "id,name\n1,a\n2\n", ["line 3"]),
        ("bad.csv", b"id,name\n1,a\n2,\xff\xfe\n", ["line 3", "UTF-8"]),
        ("bad.csv", "id,name\n1,a\nx,b\n", ["line 3", "column 'id'", "'x'", "integer"]),
        ("bad.csv", 'id,name\n1,"a\n', ["line 2", "quote"]),
        ("bad.jsonl", '{"id": 1}\n{"id": \n', ["line 2"]),
        ("bad.jsonl", '{"id": 1}\n{"id": "x"}\n', ["line 2", "column 'id'", "expected an integer"]),
        ("bad.jsonl", '{"id": 1}\n{"name": "a", "id": 99999999999999999999}\n', ["line 2", "column 'id'"]),
        ("bad.parquet", parquet_of(id=[1], name=["a"])[:-20], ["footer"]),
        ("bad.parquet", b"PAR1" + b"x" * 500 + b"\x10\x00\x00\x00PAR1", ["footer"]),
        ("bad.parquet", parquet_of(id=["x"], name=["a"]), ["row group 0", "column 'id'", "'x'", "integer"]),
        ("bad.parquet", "id,name\n1,a\n", ["Parquet"]),
    ],
    ids=lambda v: v if isinstance(v, str) and len(v) < 12 else "",
)
def test_contents_that_cannot_be_read(key: str, body: str | bytes, words: list[str], source: Source) -> None:
    line, ran = good_then(source, key, body, schema={"id": "integer"})
    assert line.startswith(f"s3://{source.bucket}/in/{key}")
    assert [w for w in words if w not in line] == []
    sent = sum(m["row_count"] for m in ran.of_type("BATCH"))
    assert sent <= 1
    assert not [m for m in ran.of_type("STATE") if m["value"]["bookmarks"]["rows"]["key"]]


def test_text_in_one_file_and_a_number_in_another_become_text_when_both_are_sampled(source: Source) -> None:
    source.put("in/a.csv", "id,code\n1,7\n")
    source.put("in/b.csv", "id,code\n2,x7\n")
    ran = source.run(batches=False, metadata_columns=False).check()
    assert sorted(m["record"]["code"] for m in ran.of_type("RECORD")) == ["7", "x7"]


def test_discovery_reports_a_broken_file(source: Source) -> None:
    source.put("in/a.parquet", b"PAR1 and then nothing")
    assert "footer" in error_of(source.run(discover=True))


def test_a_file_of_settings_that_is_none(source: Source, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("{")
    for config, words in [(tmp_path / "c.json", "is not valid JSON"), (tmp_path / "no.json", "cannot be read")]:
        assert words in error_of(source.tap("tap-s3-files", config=config))


@pytest.mark.parametrize("discover", [True, False])
def test_settings_that_are_wrong(discover: bool, source: Source) -> None:
    ran = source.run(discover=discover, stream={"fromat": "csv"})
    assert ran.code == 1
    assert "Setting 'streams[0].fromat' does not exist; did you mean 'format'?" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Setting 'dask_scheduler' is missing" in error_of(source.run(discover=discover, executor="dask"))


def test_a_state_of_somebody_else(source: Source) -> None:
    source.put("in/a.csv", "id\n1\n")
    states: list[Any] = [{"bookmarks": {"rows": {"watermark": 5}}}, {"bookmarks": {"rows": []}}]
    for state in states:
        assert "STATE" in error_of(source.run(state=state))


def test_batch_files_that_cannot_be_written(source: Source) -> None:
    source.put("in/a.csv", "id\n1\n")
    batch = {"encoding": {"format": "parquet"}, "storage": {"root": "s3://no-such-stage/x"}}
    assert "s3://no-such-stage does not exist" in error_of(source.run(batch_config=batch))


def test_a_service_that_is_down(source: Source) -> None:
    line = error_of(source.run(env={"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}))
    assert f"s3://{source.bucket}/in" in line


def test_columns_that_flattening_would_give_one_name(source: Source) -> None:
    source.put("in/a.jsonl", json.dumps({"id": 1, "o__a": "outer", "o": {"a": "inner"}}) + "\n")
    ran = source.run(flattening_enabled=True, flattening_max_depth=2)
    assert "SCHEMA of stream 'rows' cannot be flattened: it has a property 'o__a'" in error_of(ran)
    assert ran.stderr.endswith(" [schema]\n")


def test_columns_that_cannot_be_flattened_keep_no_other_stream_back(source: Source) -> None:
    source.put("in/a.jsonl", json.dumps({"id": 1, "o__a": "outer", "o": {"a": "inner"}}) + "\n")
    source.put("other/a.jsonl", json.dumps({"id": 2, "o": {"a": "inner"}}) + "\n")
    streams = [{"name": name, "path": f"s3://{source.bucket}/{name}/*"} for name in ("in", "other")]
    ran = source.run(streams=streams, flattening_enabled=True, flattening_max_depth=2, metadata_columns=False)
    assert "SCHEMA of stream 'in' cannot be flattened: it has a property 'o__a'" in error_of(ran)
    assert [m["record"] for m in ran.of_type("RECORD")] == [{"id": 2, "o__a": "inner"}]


def test_dates_without_an_object_are_named(source: Source) -> None:
    source.put("2024-01-05/a.csv", "id\n1\n")
    stream = {"name": "rows", "path": f"s3://{source.bucket}/{{date:%Y-%m-%d}}/*.csv"}
    stream["replication_method"] = "FULL_TABLE"
    line = error_of(source.run(streams=[stream], start_date="2024-01-01", end_date="2024-01-04"))
    assert f"{stream['path']} with a date from 2024-01-01 to before 2024-01-04 (UTC). " in line
    assert f"The last path tried was s3://{source.bucket}/2024-01-03/*.csv; check start_date, end_date" in line
