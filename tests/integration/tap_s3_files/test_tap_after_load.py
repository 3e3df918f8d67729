"""`after_load`: objects that a STATE has passed are deleted, moved or tagged, and no others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tap_source import Source, moment, state_of
from waiting import wait_until

from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs, Ran


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


def keys(source: Source, below: str = "in/") -> list[str]:
    found = source.s3.list_objects_v2(Bucket=source.bucket, Prefix=below).get("Contents", [])
    return [o["Key"].removeprefix(below) for o in found]


def config(source: Source, after_load: Any, **stream: Any) -> dict[str, Any]:
    return source.config(batch_config=source.batches(), stream={"after_load": after_load, **stream})


def failed(source: Source, config: dict[str, Any], **options: Any) -> str:
    """Run the tap, which must fail; return its last line."""
    ran: Ran = source.tap("tap-s3-files", config=config, **options)
    assert ran.code == 1, ran.stderr
    assert ran.of_type("RECORD", "BATCH") == []
    return ran.stderr.splitlines()[-1]


DELETE = {"delete": True}


def test_what_a_state_has_passed_is_deleted_by_the_next_run(source: Source) -> None:
    given = config(source, DELETE)
    source.csv("in/a.csv", 0, at=moment(0))
    first = source.run(given)
    assert keys(source) == ["a.csv"]
    source.csv("in/b.csv", 10, at=moment(1))
    second = source.run(given, state=state_of(first))
    assert keys(source) == ["b.csv"]
    assert [r["id"] for r in source.rows(second)] == list(range(10, 20))
    third = source.run(given, state=state_of(second))
    assert (keys(source), source.rows(third)) == ([], [])
    assert state_of(third)["bookmarks"] == state_of(second)["bookmarks"]
    for one in (given, config(source, None)):
        assert "after_load may have removed objects" in failed(source, one), "not that no object matches its path"
    source.csv("in/c.csv", 20, at=moment(2))
    fourth = source.run(given, state=state_of(third))
    assert [r["id"] for r in source.rows(fourth)] == list(range(20, 30))
    marks = [key for key in keys(source, "stage/_plans/rows/") if key.startswith("after-load")]
    assert len(marks) == 1


def test_objects_of_two_buckets_with_the_same_keys_are_all_moved(source: Source) -> None:
    other = f"{source.bucket}-2"
    source.s3.create_bucket(Bucket=other)
    names = [f"in/{number:02}.csv" for number in range(10)]
    for name in names:
        source.csv(name, 0, at=moment(0))
        body = source.s3.get_object(Bucket=source.bucket, Key=name)["Body"].read()
        source.s3.put_object(Bucket=other, Key=name, Body=body + body.splitlines(keepends=True)[1])
    paths = [f"s3://{bucket}/in/*.csv" for bucket in (source.bucket, other)]
    given = config(source, {"move": f"s3://{source.bucket}/done"}, path=paths)
    source.run(given, state=state_of(source.run(given)))
    assert len(keys(source)) + source.s3.list_objects_v2(Bucket=other)["KeyCount"] == 0
    assert len(keys(source, "done/")) == 2 * len(names)


def test_objects_are_moved_with_their_keys_and_an_earlier_version_there_stays(source: Source) -> None:
    given = config(source, {"move": f"s3://{source.bucket}/done/"})
    source.csv("in/2024/a.csv.x.csv", 0, at=moment(0))
    first = source.run(given)
    source.csv("in/2024/a.csv.x.csv", 100, at=moment(1))  # another version, which the STATE has not passed
    second = source.run(given, state=state_of(first))
    assert (keys(source), keys(source, "done/")) == (["2024/a.csv.x.csv"], [])
    source.csv("in/b.csv", 10, at=moment(2))
    third = source.run(given, state=state_of(second))
    assert (keys(source), keys(source, "done/in/")) == (["b.csv"], ["2024/a.csv.x.csv"])
    source.csv("in/2024/a.csv.x.csv", 200, at=moment(3))
    fourth = source.run(given, state=state_of(third))
    source.run(given, state=state_of(fourth))
    assert keys(source) == []
    moved = keys(source, "done/in/")
    assert len(moved) == 3
    other = next(key for key in moved if key not in ("b.csv", "2024/a.csv.x.csv"))
    assert other.startswith("2024/a-")
    assert other.endswith(".csv.x.csv")
    for key, first_id in (("2024/a.csv.x.csv", 100), (other, 200)):
        body = source.s3.get_object(Bucket=source.bucket, Key=f"done/in/{key}")["Body"].read()
        assert body.splitlines()[1].startswith(f"{first_id},".encode())


def test_tags_are_added_to_those_that_an_object_has(source: Source) -> None:
    given = config(source, {"tag": {"state": "loaded"}})
    source.csv("in/a.csv", 0)
    own = {"TagSet": [{"Key": "owner", "Value": "shop"}]}
    source.s3.put_object_tagging(Bucket=source.bucket, Key="in/a.csv", Tagging=own)
    first = source.run(given)
    assert tags(source, "in/a.csv") == {"owner": "shop"}
    source.run(given, state=state_of(first))
    assert tags(source, "in/a.csv") == {"owner": "shop", "state": "loaded"}
    assert len(source.rows(source.run(given))) == 10  # the object is there: also a run without STATE


def tags(source: Source, key: str) -> dict[str, str]:
    found = source.s3.get_object_tagging(Bucket=source.bucket, Key=key)["TagSet"]
    return {tag["Key"]: tag["Value"] for tag in found}


@pytest.mark.parametrize("after_load", [DELETE, {"move": "s3://BUCKET/done"}, {"tag": {"a": "b"}}])
def test_a_replaced_object_stays_and_is_loaded_by_the_next_run(after_load: dict[str, Any], source: Source) -> None:
    given = config(source, json.loads(json.dumps(after_load).replace("BUCKET", source.bucket)))
    source.csv("in/a.csv", 0, at=moment(0))
    source.csv("in/b.csv", 10, at=moment(0))
    first = source.run(given)
    source.csv("in/a.csv", 100, at=moment(1))
    source.csv("in/b.csv", 10, at=moment(1))  # the same content again: it may be there on purpose
    second = source.run(given, state=state_of(first))
    assert [r["id"] for r in source.rows(second)] == list(range(100, 110))
    assert (keys(source), tags(source, "in/a.csv"), keys(source, "done/")) == (["a.csv", "b.csv"], {}, [])
    assert "2 stay: replaced since" in second.stderr


@pytest.mark.parametrize("state", ["none", "older"])
def test_a_run_that_would_lack_removed_objects_ends_before_it_sends_anything(state: str, source: Source) -> None:
    given = config(source, DELETE)
    source.csv("in/a.csv", 0, at=moment(0))
    states = [state_of(source.run(given))]
    for n in (1, 2):
        source.csv(f"in/{n}.csv", n * 10, at=moment(n))
        states.append(state_of(source.run(given, state=states[-1])))
    options = {} if state == "none" else {"state": states[0]}
    for one in (given, config(source, None)):  # also once the setting is gone
        line = failed(source, one, **options)
        assert "after_load may have removed objects" in line
        assert line.endswith("[identity]")
    full = config(source, None, replication_method="FULL_TABLE")
    assert "after_load may have removed objects" in failed(source, full)
    (mark,) = [key for key in keys(source, "stage/_plans/rows/") if key.startswith("after-load")]
    assert mark in line
    source.tap("tap-s3-files", config=given, state=states[0], **{"after-load": True}).check()  # it sends nothing
    assert keys(source) == ["2.csv"]
    held = source.s3.get_object(Bucket=source.bucket, Key=f"stage/_plans/rows/{mark}")["Body"].read()
    ran = source.run(given, state=json.loads(held))  # what the line advises
    assert [r["id"] for r in source.rows(ran)] == list(range(20, 30))
    source.tap("tap-s3-files", config=given, **{"new-plan-log": True}).check()
    assert sorted(r["id"] for r in source.rows(source.run(given))) == list(range(20, 30))


def test_objects_that_a_run_has_skipped_stay(source: Source) -> None:
    given = config(source, DELETE, archived="skip")
    source.s3.put_object(Bucket=source.bucket, Key="in/old.csv", Body=b"id,name\n9,x\n", StorageClass="GLACIER")
    source.put("in/empty.csv", b"")
    source.csv("in/a.csv", 0)
    after = source.run(given, state=state_of(source.run(given)))
    assert keys(source) == ["old.csv"]
    assert "deleted 2 objects; 1 stay: not loaded" in after.stderr


def test_objects_that_another_window_has_passed_stay(source: Source) -> None:
    plain = config(source, None)
    source.csv("in/a.csv", 0, at=moment(0))
    first = source.run(plain)
    source.csv("in/b.csv", 10, at=moment(1))
    source.run(plain, state=state_of(first))
    later = source.run({**plain, "start_date": moment(1).isoformat()})  # without STATE
    assert [r["id"] for r in source.rows(later)] == list(range(10, 20))
    assert "deleted 1 object; 1 stay: not loaded" in source.run(config(source, DELETE), state=state_of(later)).stderr
    assert keys(source) == ["a.csv"]


def test_the_command_cleans_up_alone_and_shows_what_it_would_do(source: Source) -> None:
    given = config(source, {"move": "s3://stage/archive"})
    source.csv("in/a.csv", 0, at=moment(0))
    first = source.run(given)
    alone = {"config": given, "state": state_of(first), "after-load": True}
    ran = source.tap("tap-s3-files", **{**alone, "dry-run": True}).check()
    url = f"s3://{source.bucket}/in/a.csv"
    assert ran.stdout == f"move {url} to s3://stage/archive/in/a.csv\n"
    assert "would move 1 object" in ran.stderr
    assert keys(source) == ["a.csv"]
    assert "moved 1 object" in source.tap("tap-s3-files", **alone).check().stderr
    assert keys(source) == []
    assert source.tap("tap-s3-files", **{**alone, "dry-run": True}).check().stdout == ""


def test_what_cannot_be_done_is_tried_again_and_named_last(source: Source, s3_faults: FaultProxy) -> None:
    given = config(source, DELETE)
    for n in range(3):
        source.csv(f"in/{n}.csv", n * 10, at=moment(0))
    first = source.run(given)
    source.csv("in/new.csv", 30, at=moment(1))
    s3_faults.set({"match": r"^DELETE .*/in/1\.csv", "action": "error", "status": 403, "code": "AccessDenied"})
    ran = source.tap("tap-s3-files", config=given, state=state_of(first), env={"AWS_ENDPOINT_URL": s3_faults.url})
    assert ran.code == 1
    assert [r["id"] for r in source.rows(ran)] == list(range(30, 40))
    line = ran.stderr.splitlines()[-1]
    assert "after_load failed for 1 object" in line
    assert f"s3://{source.bucket}/in/1.csv: access is denied" in line
    assert line.endswith("[access-denied]")
    assert keys(source) == ["1.csv", "new.csv"]
    source.run(given, state=state_of(first))
    assert keys(source) == ["new.csv"]


def test_a_storage_without_conditional_deletes_is_refused(source: Source, s3_faults: FaultProxy) -> None:
    given = config(source, DELETE)
    for n in range(3):
        source.csv(f"in/{n}.csv", n * 10, at=moment(0))
    first = source.run(given)
    s3_faults.set({"match": r"^DELETE .*/in/", "action": "error", "status": 204})
    line = source.tap(
        "tap-s3-files", config=given, state=state_of(first), env={"AWS_ENDPOINT_URL": s3_faults.url}
    ).stderr.splitlines()[-1]
    assert "the storage deletes an object although the request is for another version" in line
    assert len(s3_faults.requests("DELETE")) >= 1
    assert len([r for r in s3_faults.requests("DELETE") if "/in/" in r["path"]]) == 1


def test_an_object_that_another_stream_reads_stays(source: Source) -> None:
    given = config(source, DELETE)
    given["streams"].append({"name": "all_{folder}", "path": f"s3://{source.bucket}/{{folder}}/a*.csv"})
    source.csv("in/a.csv", 0)
    first = source.run(given)
    ran = source.tap("tap-s3-files", config=given, state=state_of(first))
    assert ran.code == 1
    assert "is read by stream 'all_{folder}' too" in ran.stderr.splitlines()[-1]
    assert keys(source) == ["a.csv"]


@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("number", range(20))
def test_after_kill_minus_nine_at_a_request_nothing_is_lost_or_half_done(
    number: int, forward: bool, source: Source, s3_faults: FaultProxy
) -> None:
    given = config(source, {"move": f"s3://{source.bucket}/done"})
    for n in range(2):
        source.csv(f"in/{n}.csv", n * 10, at=moment(0))
    first = source.run(given)
    bodies = {key: source.s3.get_object(Bucket=source.bucket, Key=f"in/{key}")["Body"].read() for key in keys(source)}
    s3_faults.set({"match": ".", "action": "hang", "skip": number, "times": 1, "forward": forward})
    options = {"config": given, "state": state_of(first), "after-load": True}
    process = source.tap.start("tap-s3-files", env={"AWS_ENDPOINT_URL": s3_faults.url}, **options)
    wait_until(lambda: process.poll() is not None or s3_faults.report()["rules"][0]["fired"])
    process.kill()
    process.communicate()
    s3_faults.clear()
    there = {**read(source, "done/in/"), **read(source, "in/")}
    assert there == bodies
    source.csv("in/0.csv", 100, at=moment(1))  # it is replaced before the next try
    ran = source.run(given, state=state_of(first))
    assert [r["id"] for r in source.rows(ran)] == list(range(100, 110))
    assert keys(source) == ["0.csv"]
    assert read(source, "done/in/")["1.csv"] == bodies["1.csv"]
    assert "identity" in failed(source, given)
    source.run(given, state=state_of(ran))
    assert keys(source) == []


def read(source: Source, below: str) -> dict[str, bytes]:
    found = ((key, source.s3.get_object(Bucket=source.bucket, Key=below + key)) for key in keys(source, below))
    return {key: answer["Body"].read() for key, answer in found}


def test_an_object_whose_copy_failed_with_status_200_stays(source: Source, s3_faults: FaultProxy) -> None:
    """S3 answers so where a copy fails after it has begun to answer."""
    given = config(source, {"move": f"s3://{source.bucket}/done"})
    source.csv("in/a.csv", 0)
    first = source.run(given)
    s3_faults.set({"match": "^PUT .*/done/", "action": "error", "status": 200, "code": "InternalError"})
    ran = source.tap("tap-s3-files", config=given, state=state_of(first), env={"AWS_ENDPOINT_URL": s3_faults.url})
    assert ran.code == 1
    assert (keys(source), keys(source, "done/")) == (["a.csv"], [])


def test_a_run_that_reads_while_another_one_cleans_up_ends_with_an_error(source: Source, s3_faults: FaultProxy) -> None:
    """It has begun without STATE; its table would lack the rows of what is removed before it is read."""
    given = config(source, DELETE)
    for n in range(2):
        source.csv(f"in/{n}.csv", n * 10, at=moment(0))
    catalog = json.loads(source.tap("tap-s3-files", config=given, discover=True).check().stdout)
    first = source.run(given)
    source.s3.delete_object(Bucket=source.bucket, Key="in/0.csv")
    mark = "stage/_plans/rows/after-load-000001-000000-0.json"
    s3_faults.set({"match": "^GET .*/in/", "action": "none", "delay_ms": 4000})
    options = {"config": given, "catalog": catalog, "env": {"AWS_ENDPOINT_URL": s3_faults.url}}
    with source.tap.start("tap-s3-files", **options) as process:
        wait_until(lambda: any("/in/" in request["path"] for request in s3_faults.requests("GET")))
        source.put(mark, json.dumps(state_of(first)))
        out, log = process.communicate()
    assert process.returncode == 1, log
    assert b"after_load may have removed objects" in log
    assert not any(json.loads(line)["type"] == "STATE" and b"done" in line for line in out.splitlines())


def test_folders_that_are_streams(source: Source) -> None:
    given = source.config(batch_config=source.batches(), defaults={"after_load": DELETE})
    given["streams"] = [{"name": "{tenant}", "path": f"s3://{source.bucket}/in/{{tenant}}/*.csv"}]
    for tenant, first in (("acme", 0), ("globex", 10)):
        source.csv(f"in/{tenant}/a.csv", first)
    source.csv("in/globex/b.csv", 20)
    state = state_of(source.run(given))
    source.csv("in/globex/c.csv", 30)
    ran = source.run(given, state=state)
    assert (keys(source), len(source.rows(ran, "globex"))) == (["globex/c.csv"], 10)
    assert "acme" in state_of(ran)["bookmarks"]  # its folder is gone
    source.s3.delete_object(Bucket=source.bucket, Key="in/globex/c.csv")
    source.csv("in/initech/a.csv", 40)
    for more in ({}, {"defaults": {}}):  # a table of acme would lack its rows
        assert "after_load has removed all objects of 'acme'" in failed(source, given | more)
    source.csv("in/acme/d.csv", 50)
    ran = source.run(given, state=state_of(ran))
    assert [[r["id"] for r in source.rows(ran, name)] for name in ("acme", "initech")] == [
        list(range(50, 60)),
        list(range(40, 50)),
    ]


def test_an_object_that_is_replaced_before_its_tags_arrive_loses_them(source: Source, s3_faults: FaultProxy) -> None:
    given = config(source, {"tag": {"state": "loaded"}})
    source.csv("in/a.csv", 0, at=moment(0))
    first = source.run(given)
    s3_faults.set({"match": "^PUT .*tagging", "delay_ms": 3000})
    options = {"config": given, "state": state_of(first), "after-load": True}
    with source.tap.start("tap-s3-files", env={"AWS_ENDPOINT_URL": s3_faults.url}, **options) as process:
        wait_until(lambda: s3_faults.report()["rules"][0]["matched"])
        source.csv("in/a.csv", 10, at=moment(1))
        own = {"TagSet": [{"Key": "owner", "Value": "shop"}]}
        source.s3.put_object_tagging(Bucket=source.bucket, Key="in/a.csv", Tagging=own)
        _, log = process.communicate()
    assert b"1 stay: replaced since" in log
    assert "state" not in tags(source, "in/a.csv")


def test_in_a_bucket_with_versions_the_loaded_one_is_tagged_and_a_deleted_one_is_kept(source: Source) -> None:
    source.s3.put_bucket_versioning(Bucket=source.bucket, VersioningConfiguration={"Status": "Enabled"})
    source.csv("in/a.csv", 0)
    given = config(source, {"tag": {"state": "loaded"}})
    state = state_of(source.run(given))
    source.run(given, state=state)
    assert tags(source, "in/a.csv") == {"state": "loaded"}
    source.run(config(source, DELETE), state=state)
    versions = source.s3.list_object_versions(Bucket=source.bucket, Prefix="in/")
    assert [len(versions[kind]) for kind in ("Versions", "DeleteMarkers")] == [1, 1]
    assert keys(source) == []
    found = source.s3.list_object_versions(Bucket=source.bucket)
    for version in (*found["Versions"], *found["DeleteMarkers"]):
        source.s3.delete_object(Bucket=source.bucket, Key=version["Key"], VersionId=version["VersionId"])
