"""`singer-arrow run`: both processes of a pipeline in a file, with STATE that one run at a time has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from forked_programs import ForkedPrograms
from killed_pipeline import put_objects
from pipeline_programs import SENDS, TWO_STATES
from pseudo_terminal import run_on_terminal
from running import family_of, running
from waiting import wait_until
from warehouses import Warehouse

import singer_arrow
from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs
from local_cloud.s3 import setup
from singer_arrow import errors
from singer_arrow.load.convert import RANK
from singer_arrow.runtime.children import KILL_SECONDS

pytestmark = pytest.mark.warehouses("redshift")  # it is about what is before the warehouse

Write = Callable[..., Path]


@pytest.fixture
def write(s3: Any, warehouse: Warehouse, tmp_path: Path) -> Write:
    """Writes a pipeline of small CSV files and one large Parquet file, ids 0 to 999, and returns its path."""
    source = put_objects(s3, 5, 20, range(100, 1000))

    def make(**more: Any) -> Path:
        batches = {
            "encoding": {"format": "parquet"},
            "storage": {"root": "s3://${STAGE}/batches"},
            "target_file_mb": 0.01,
        }
        streams = [
            {"name": "rows", "path": "s3://${SOURCE:-none}/in/*.csv", "key_properties": ["id"]},
            {"name": "large", "path": ["s3://${SOURCE}/in/*.parquet"], "key_properties": ["id"]},
        ]
        described = {
            "tap": {"name": "tap-s3-files", "config": {"streams": streams, "batch_config": batches}},
            "target": {"name": f"target-{warehouse.name}", "config": warehouse.config | {"max_batch_age_seconds": 0.3}},
            "state": f"s3://{source}/state.json",
        }
        path = tmp_path / "pipeline.yml"
        path.write_text(yaml.safe_dump(described | more))
        (tmp_path / ".env").write_text(f"SOURCE={source}\nSTAGE={source}\n")
        return path

    return make


@pytest.fixture
def programs(cloud: Cloud, tmp_path: Path) -> Programs:
    env = cloud.environ()
    env.pop("TARGET_BIGQUERY_DATASET")
    return Programs(env, tmp_path)


def start(programs: Programs, path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = programs.command("singer-arrow", "run", str(path), *arguments)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=programs.env, cwd=path.parent)


def run(programs: Programs, path: Path, *arguments: str, code: int = 0) -> str:
    with start(ForkedPrograms(programs.env, path.parent), path, *arguments) as process:
        out, log = process.communicate(timeout=120)
    assert process.returncode == code, log.decode()
    return (out + log).decode()


def check_once(warehouse: Warehouse) -> None:
    counts = [Counter(row["id"] for row in warehouse.table(table)) for table in ("rows", "large")]
    assert counts == [Counter(range(100)), Counter(range(100, 1000))]


def state_of(s3: Any, path: Path) -> dict[str, Any]:
    bucket, _, key = str(yaml.safe_load(path.read_text())["state"]).removeprefix("s3://").partition("/")
    found: dict[str, Any] = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    return found


@pytest.mark.smoke("redshift")
def test_a_pipeline_runs_from_its_state(programs: Programs, s3: Any, warehouse: Warehouse, write: Write) -> None:
    path = write()
    plan = run(programs, path, "--dry-run")
    assert "target-" in plan
    assert [line.split()[:2] for line in plan.splitlines() if line.startswith(("rows", "large"))][:2] == [
        ["rows", "5"],
        ["large", "1"],
    ]
    log = run(programs, path)
    assert sorted(log.splitlines()[-2:]) == ["large: 900 rows", "rows: 100 rows"]
    check_once(warehouse)
    state = state_of(s3, path)
    assert (set(state), set(state["bookmarks"])) == ({"bookmarks", "target"}, {"rows", "large"})
    assert "rows: 0 rows" in run(programs, path)
    assert state_of(s3, path) == state
    check_once(warehouse)


def test_one_stream_alone_keeps_the_state_of_the_others(
    programs: Programs, s3: Any, warehouse: Warehouse, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write()
    for name, value in programs.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(path.parent)
    first = singer_arrow.run(path, only=["rows"])
    assert {name: counts["rows_written"] for name, counts in first.streams.items()} == {"rows": 100}
    second = singer_arrow.run(path, only=["l*"])
    assert {name: counts["rows_written"] for name, counts in second.streams.items()} == {"large": 900}
    assert set(state_of(s3, path)["bookmarks"]) == set(second.state["bookmarks"]) == {"rows", "large"}
    assert {name: counts["rows_written"] for name, counts in singer_arrow.run(path).streams.items()} in (
        {"rows": 0, "large": 0},
        {},
    )
    check_once(warehouse)
    with pytest.raises(errors.ConfigError, match=r"No stream of 'tap\.config' is one of rosw"):
        singer_arrow.run(path, only=["rosw"])


def test_one_stream_alone_has_all_settings_that_the_target_has_for_it(
    programs: Programs, warehouse: Warehouse, write: Write
) -> None:
    """By its alias, or by a pattern unlike that of the command; and what is named for other streams is no error."""
    for number, streams in enumerate(
        ({"all": {"load_method": "upsert"}, "large": {}}, {"?ll": {"load_method": "upsert"}})
    ):
        config = warehouse.config | {"streams": streams, "stream_maps": {"rows": {"__alias__": "all"}}}
        path = write(target={"name": f"target-{warehouse.name}", "config": config}, state=f"state{number}.json")
        run(programs, path, "--only", "r*", "--full-refresh")
    log = run(programs, path, "--only", "rows", "--full-refresh")
    assert len(warehouse.table("all")) == 100, log
    assert warehouse.query("SELECT * FROM {all} LIMIT 1")[0].get(RANK), log


def test_the_error_of_a_side_is_the_error_of_the_run(
    programs: Programs, warehouse: Warehouse, write: Write, monkeypatch: pytest.MonkeyPatch, s3: Any
) -> None:
    path = write(target={"name": f"target-{warehouse.name}", "config": {**warehouse.config, "load_method": "x"}})
    assert "Setting 'load_method' is 'x'" in run(programs, path, code=1)
    path = write()
    described = yaml.safe_load(path.read_text())
    described["tap"]["config"]["streams"][0]["schema"] = {"name": "integer"}
    for name, value in programs.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(path.parent)
    with pytest.raises(singer_arrow.errors.SingerArrowError, match=r"00000\.csv.*name") as caught:
        singer_arrow.run(described)
    assert caught.value.code == "bad-row"
    assert [row["id"] for row in warehouse.table("large")] == list(range(100, 1000))  # the other stream is loaded
    assert {n: bool(b["key"]) for n, b in state_of(s3, path)["bookmarks"].items()} == {"rows": False, "large": True}
    run(programs, path)
    check_once(warehouse)


@pytest.mark.parametrize("place", ["s3", "local"])
def test_two_runs_at_once_do_not_have_one_state(
    programs: Programs, warehouse: Warehouse, write: Write, place: str
) -> None:
    path = write(**({} if place == "s3" else {"state": "deep/state.json"}))
    with start(programs, path) as first:
        assert wait_until(lambda: len(family_of(first.pid)) > 2, seconds=60)  # it has the STATE before it starts both
        connectors = family_of(first.pid) - {first.pid}
        for pid in connectors:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert "Another run has " in run(programs, path, code=1)
        finally:
            for pid in connectors:
                os.kill(pid, signal.SIGCONT)
        _, log = first.communicate(timeout=120)
    assert first.returncode == 0, log.decode()
    check_once(warehouse)


@pytest.mark.parametrize("place", ["s3", "local"])
@pytest.mark.parametrize("seconds", [1.5, 3.0])
def test_a_run_that_is_killed_is_followed_by_one_that_continues(
    programs: Programs, warehouse: Warehouse, write: Write, place: str, seconds: float
) -> None:
    path = write(**({} if place == "s3" else {"state": "state.json"}))
    with start(programs, path) as process:
        time.sleep(seconds)
        family = family_of(process.pid)
        process.kill()
        process.communicate()
    assert wait_until(lambda: not family & set(running()), seconds=60), "tap and target end with the run"
    run(programs, path)
    check_once(warehouse)


def test_sigterm_ends_a_run_after_what_is_under_way(programs: Programs, warehouse: Warehouse, write: Write) -> None:
    path = write()
    with start(programs, path, "--every", "1s", "--health", str(path.parent / "health.json")) as process:
        health = path.parent / "health.json"
        assert wait_until(health.exists, seconds=60)
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode in (0, 143)
    found = json.loads(health.read_text())
    assert (found["exit_code"], found["failures"], found["error"]) == (0, 0, None)
    run(programs, path)
    check_once(warehouse)


def test_a_message_of_the_queue_starts_the_next_run(
    programs: Programs, cloud: Cloud, s3: Any, sqs: Any, bucket: str, warehouse: Warehouse, write: Write, tmp_path: Path
) -> None:
    """The pause is an hour, and the queue is looked at right after a run instead of a minute later."""
    queue = setup.connect_queue(cloud.s3_url, bucket, f"queue-{uuid.uuid4().hex}")
    stream = {"name": "events", "path": f"s3://{bucket}/*.csv", "schema": {"id": "integer"}}
    tap = {
        "streams": [stream],
        "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": "s3://${STAGE}/events"}},
        "replication": {"method": "sqs", "queue_url": queue, "max_wait_seconds": 1},
    }
    path, health = write(tap={"name": "tap-s3-files", "config": tap}), tmp_path / "health.json"
    code = "from singer_arrow import pipeline; pipeline.LEAST_PAUSE_SECONDS = 0.1; pipeline.main()"
    command = [sys.executable, "-c", code, "run", str(path), "--every", "1h", "--health", str(health)]
    with subprocess.Popen(command, env=programs.env, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        for number in range(2):
            assert wait_until(health.exists, seconds=60)
            health.unlink()
            s3.put_object(Bucket=bucket, Key=f"{number}.csv", Body=f"id\n{number}\n".encode())
        assert wait_until(health.exists, seconds=60)
        assert wait_until(lambda: len(family_of(process.pid)) == 3, seconds=60), "the tap waits, and is watched"
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 0, log
    assert [row["id"] for row in warehouse.table("events")] == [0, 1], log
    sqs.delete_queue(QueueUrl=queue)


def test_a_description_that_is_wrong_is_one_line(programs: Programs, write: Write) -> None:
    path = write()
    good = yaml.safe_load(path.read_text())
    for change, line in (
        ({"tapp": good["tap"]}, "Setting 'tapp' does not exist; did you mean 'tap'?"),
        ({"tap": {"name": "tap-s3-files", "streams": []}}, "Setting 'tap.streams' does not exist"),
        ({"tap": {"name": "tap-nowhere"}}, "Setting 'tap.name' is 'tap-nowhere', which is no executable here"),
        ({"state": "s3://${NOWHERE}/state.json"}, "needs variable NOWHERE, which is not set"),
    ):
        path.write_text(yaml.safe_dump(good | change))
        (found,) = run(programs, path, code=1).splitlines()
        assert line in found


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit a pipeline."""
    described = yaml.safe_load(path.read_text())
    edit(described)
    path.write_text(yaml.safe_dump(described))


def ids(warehouse: Warehouse, table: str) -> list[int]:
    return sorted(row["id"] for row in warehouse.table(table))


def test_a_run_that_slept_ends_once_another_has_taken_over(
    programs: Programs, s3: Any, warehouse: Warehouse, write: Write
) -> None:
    path = write()
    with start(programs, path) as first:
        assert wait_until(lambda: len(family_of(first.pid)) > 2, seconds=60)
        family = family_of(first.pid)
        first.send_signal(signal.SIGSTOP)
        run(programs, path)
        first.send_signal(signal.SIGCONT)
        lines = first.communicate(timeout=60)[1].decode().splitlines()
    assert first.returncode == 1
    (line,) = [line for line in lines if line.startswith("singer-arrow:")]
    assert "/state.json, as this one was silent for too long [identity]" in line
    assert not family & set(running())
    assert set(state_of(s3, path)) == {"bookmarks", "target"}
    check_once(warehouse)
    assert "rows: 0 rows" in run(programs, path)
    check_once(warehouse)


@pytest.mark.parametrize("victim", ["tap-s3-files", "target-"])
def test_a_side_that_is_killed_is_the_exit_code(
    programs: Programs, warehouse: Warehouse, write: Write, victim: str
) -> None:
    path = write()
    with start(programs, path) as process:

        def child() -> int | None:
            known = running()
            return next(
                (pid for pid in family_of(process.pid) - {process.pid} if victim in known.get(pid, (0, ""))[1]), None
            )

        os.kill(wait_until(child, seconds=60) or 0, signal.SIGKILL)
        log = process.communicate(timeout=120)[1].decode()
    assert process.returncode == (137 if victim == "target-" else process.returncode) != 0, log
    assert "ended with exit code -9; see its own lines [failed]" in log
    run(programs, path)
    check_once(warehouse)


@pytest.mark.parametrize("fault", [{"action": "reset"}, {"action": "reset", "forward": True}, {"action": "error"}])
def test_a_lost_answer_to_the_put_of_the_state_changes_nothing(
    programs: Programs, s3: Any, warehouse: Warehouse, write: Write, s3_faults: FaultProxy, fault: dict[str, Any]
) -> None:
    path = write()
    programs.env["AWS_ENDPOINT_URL"] = s3_faults.url
    s3_faults.set({"match": r"^PUT .*/state\.json", "times": 3, **fault})
    run(programs, path)
    assert s3_faults.report()["rules"][0]["fired"] == 3
    assert set(state_of(s3, path)["bookmarks"]) == {"rows", "large"}
    check_once(warehouse)


def test_a_state_that_cannot_be_written_ends_the_run(
    programs: Programs, warehouse: Warehouse, write: Write, s3_faults: FaultProxy
) -> None:
    path = write()
    endpoint, programs.env["AWS_ENDPOINT_URL"] = programs.env["AWS_ENDPOINT_URL"], s3_faults.url
    s3_faults.set(
        {"match": r"^PUT .*/state\.json", "skip": 1, "action": "error", "status": 403, "code": "AccessDenied"}
    )
    assert "[access-denied]" in run(programs, path, code=1)
    programs.env["AWS_ENDPOINT_URL"] = endpoint
    run(programs, path)
    check_once(warehouse)


def test_a_full_refresh_loads_again_what_can_be_loaded_again(
    programs: Programs, warehouse: Warehouse, write: Write
) -> None:
    """Rows come back by overwrite and upsert; append-only loads none, and a line names why."""
    path = write()
    change(path, lambda d: d["target"]["config"].update(streams={"rows": {"load_method": "upsert"}}))
    run(programs, path)
    warehouse.query("DELETE FROM {rows} WHERE id < 50")
    warehouse.query("DELETE FROM {large} WHERE id < 150")
    log = run(programs, path, "--full-refresh")
    assert "Stream 'large': nothing was loaded, because earlier runs loaded all of its batches" in log
    assert (ids(warehouse, "rows"), ids(warehouse, "large")) == ([*range(100)], [*range(150, 1000)])

    def overwritten(described: dict[str, Any]) -> None:
        described["target"]["config"]["streams"]["large"] = {"load_method": "overwrite"}
        described["tap"]["config"]["streams"][1]["replication_method"] = "FULL_TABLE"

    change(path, overwritten)
    warehouse.query("DELETE FROM {rows} WHERE id < 50")
    run(programs, path, "--full-refresh", "--only", "large")
    assert (ids(warehouse, "rows"), ids(warehouse, "large")) == ([*range(50, 100)], [*range(100, 1000)])
    log = run(programs, path)
    assert "rows: 0 rows" in log, "the STATE of the stream that was not refreshed is kept"
    assert (ids(warehouse, "rows"), ids(warehouse, "large")) == ([*range(50, 100)], [*range(100, 1000)])


@pytest.mark.parametrize("has_catalog", [True, False], ids=["catalog", "discovery"])
def test_a_day_without_its_file_replaces_no_table(
    programs: Programs, s3: Any, warehouse: Warehouse, write: Write, has_catalog: bool
) -> None:
    path = write()
    bucket = yaml.safe_load(path.read_text())["state"].split("/")[2]
    day = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    s3.put_object(Bucket=bucket, Key=f"prices/{day}.csv", Body=b"id,price\n1,2\n")
    stream = {"name": "prices", "path": f"s3://{bucket}/prices/{{date:%Y-%m-%d}}.csv"}
    stream |= {"replication_method": "FULL_TABLE", "load_method": "overwrite"}

    def daily(described: dict[str, Any]) -> None:
        described["tap"]["config"] |= {"streams": [stream], "start_date": "yesterday", "end_date": "today"}

    change(path, daily)
    if has_catalog:
        config = yaml.safe_load(path.read_text())["tap"]["config"] | {"batch_config": None}
        (path.parent / "catalog.json").write_text(programs("tap-s3-files", "--discover", config=config).check().stdout)
        change(path, lambda described: described["tap"].update(catalog="catalog.json"))
    run(programs, path)
    assert ids(warehouse, "prices") == [1]
    s3.delete_object(Bucket=bucket, Key=f"prices/{day}.csv")
    assert "Stream 'prices': no object matches s3://" in run(programs, path, code=1)
    assert ids(warehouse, "prices") == [1]


def test_another_table_behind_a_state_is_named(programs: Programs, warehouse: Warehouse, write: Write) -> None:
    path = write()
    run(programs, path)
    change(path, lambda d: d["target"]["config"].update(streams={"rows": {"table": "others"}, "x*": {"table": "x"}}))
    log = run(programs, path, code=1)
    assert "a target with no table, and the pipeline's target now has table 'others'" in log
    log = run(programs, path, "--full-refresh", "--only", "rows")
    assert ids(warehouse, "others") == [*range(100)]
    assert "Setting 'streams' has 'x*', and no stream of such a name came" in run(programs, path)


def test_a_dropped_table_behind_a_state_is_named(programs: Programs, warehouse: Warehouse, write: Write) -> None:
    path = write()
    warning = "Stream 'rows': its table is empty, and the tap sends only what is new since its STATE"
    assert warning not in run(programs, path)
    assert warning not in run(programs, path)
    warehouse.query("DROP TABLE {rows}")
    assert warning in run(programs, path)
    run(programs, path, "--full-refresh", "--only", "rows")
    assert ids(warehouse, "rows") == [*range(100)]
    assert warning not in run(programs, path)


def test_a_stream_that_is_not_there_is_the_error(
    programs: Programs, s3: Any, warehouse: Warehouse, write: Write
) -> None:
    """The target misses it too, in its settings; where earlier runs had it, it may have nothing in this one."""
    path = write()
    bucket = yaml.safe_load(path.read_text())["state"].split("/")[2]
    change(path, lambda d: d["target"]["config"].update(streams={"inbox": {"load_method": "upsert"}}))
    inbox = {"name": "inbox", "path": f"s3://{bucket}/inbox/*.csv", "key_properties": ["id"]}
    change(path, lambda d: d["tap"]["config"]["streams"].append(inbox))
    *_, line = run(programs, path, code=1).splitlines()
    assert "Stream 'inbox': no object matches" in line
    s3.put_object(Bucket=bucket, Key="inbox/a.csv", Body=b"id\n1\n")
    run(programs, path)
    s3.delete_object(Bucket=bucket, Key="inbox/a.csv")
    assert "inbox' is left out of this run" in run(programs, path)


def test_streams_alone_have_the_settings_of_the_target_by_whatever_name(
    programs: Programs, warehouse: Warehouse, write: Write
) -> None:
    path = write()

    def renamed(described: dict[str, Any]) -> None:
        config = described["target"]["config"]
        config["stream_maps"] = {"rows": {"__alias__": "few"}}
        config["streams"] = {"few": {"load_method": "upsert", "table": "some"}, "large": {"table": "many"}}

    change(path, renamed)
    for _ in range(2):
        run(programs, path, "--only", "rows", "--full-refresh")
        assert ids(warehouse, "some") == [*range(100)]
    assert "many" not in warehouse.tables()
    change(path, lambda d: d["target"]["config"]["streams"].update(other={}))
    assert "'streams' has 'other', and no stream of that name came" in run(programs, path, code=1)


FOREIGN = """#!{python}
import json, sys
schema = {{"properties": {{"id": {{"type": "integer"}}}}}}
catalog = {{"streams": [{{"tap_stream_id": name, "stream": name, "schema": schema}} for name in ("a", "b", "c")]}}
if "--discover" in sys.argv:
    print(json.dumps(catalog))
    sys.exit()
if "--catalog" in sys.argv:
    catalog = json.load(open(sys.argv[sys.argv.index("--catalog") + 1]))
state = {{"bookmarks": {{}}}}
for stream in catalog["streams"]:
    root = [part["metadata"] for part in stream.get("metadata", ()) if not part["breadcrumb"]]
    if not root or root[0].get("selected", True):
        print(json.dumps({{"type": "SCHEMA", "stream": stream["stream"], "schema": schema, "key_properties": ["id"]}}))
        print(json.dumps({{"type": "RECORD", "stream": stream["stream"], "record": {{"id": 1}}}}))
        state["bookmarks"][stream["stream"]] = {{"id": 1}}
        print(json.dumps({{"type": "STATE", "value": state}}))
"""


def test_streams_of_a_foreign_tap_alone(
    programs: Programs, s3: Any, warehouse: Warehouse, write: Write, tmp_path: Path
) -> None:
    """A tap whose catalog has no metadata, and whose STATE forgets the streams that are not selected."""
    (tmp_path / "tap-foreign").write_text(FOREIGN.format(python=sys.executable))
    (tmp_path / "tap-foreign").chmod(0o755)
    path = write(tap={"name": str(tmp_path / "tap-foreign")})
    run(programs, path, "--only", "a")
    run(programs, path, "--only", "b")
    assert sorted(t for t in warehouse.tables() if t in "abc") == ["a", "b"]
    assert set(state_of(s3, path)["bookmarks"]) == {"a", "b"}
    assert "No stream of the tap's catalog is one of d" in run(programs, path, "--only", "d", code=1)
    catalog = json.loads(programs(str(tmp_path / "tap-foreign"), "--discover").stdout)
    catalog["streams"][0]["metadata"] = [{"breadcrumb": [], "metadata": {"selected": False}}]
    (tmp_path / "catalog.json").write_text(json.dumps(catalog))
    change(path, lambda d: d["tap"].update(catalog="catalog.json"))
    run(programs, path, "--only", "[ac]")
    assert len(warehouse.table("a")) == len(warehouse.table("c")) == 1
    assert "--dry-run shows the plans of tap-s3-files alone" in run(programs, path, "--dry-run", code=1)


@pytest.mark.parametrize(
    "text", ['{"streams": 5}', "{}", '{"streams": [{"metadata": [{}]}]}', '{"streams": [5]}', "[]"]
)
def test_a_foreign_tap_that_discovers_no_catalog_is_one_line(
    programs: Programs, write: Write, executable: Callable[[str, str], Path], text: str
) -> None:
    executable("tap-odd", f"print({text!r})")
    executable("target-none", "import sys\nsys.stdin.read()")
    log = run(programs, write(tap={"name": "tap-odd"}, target={"name": "target-none"}), "--only", "a", code=1)
    assert "What the tap discovers" in log.splitlines()[-1]
    assert "Traceback" not in log


def test_a_catalog_beside_the_file_is_narrowed(programs: Programs, s3: Any, warehouse: Warehouse, write: Write) -> None:
    path = write()
    config = yaml.safe_load(path.read_text())["tap"]["config"]
    text = json.dumps(config).replace("${SOURCE:-none}", "${SOURCE}")
    for line in (path.parent / ".env").read_text().splitlines():
        name, _, value = line.partition("=")
        text = text.replace("${" + name + "}", value)
    (path.parent / "catalog.json").write_text(programs("tap-s3-files", config=json.loads(text), discover=True).stdout)
    change(path, lambda d: d["tap"].update(catalog="catalog.json"))
    log = run(programs, path, "--only", "large")
    assert ("large: 900 rows" in log, "rows: " in log.splitlines()[-1]) == (True, False)
    run(programs, path)
    check_once(warehouse)


def test_every_interval(programs: Programs, s3: Any, warehouse: Warehouse, write: Write) -> None:
    """Failures are followed by longer pauses, and a signal between two runs ends with 0."""
    path = write()
    good = path.read_text()
    change(path, lambda d: d["target"]["config"].update(load_method="x"))
    health = path.parent / "health.json"

    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(health.read_text()) if health.exists() else {}
        return found

    with start(programs, path, "--every", "2s", "--health", str(health)) as process:
        assert wait_until(lambda: status().get("failures") == 2)
        assert "Setting 'load_method' is 'x'" in status()["error"]
        path.write_text(good)
        assert wait_until(lambda: status().get("failures") == 0)
        source = (path.parent / ".env").read_text().splitlines()[0].removeprefix("SOURCE=")
        s3.put_object(Bucket=source, Key="in/later.csv", Body=b"id,name,score\n1000,late,1\n")
        assert wait_until(lambda: 1000 in ids(warehouse, "rows"))
        ended = status()["ended_at"]
        assert wait_until(lambda: status()["ended_at"] != ended)
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=60)[1].decode()
    assert process.returncode in (0, 143), log
    assert "1 failure in a row; next run in 4 s" in log
    assert "2 failures in a row; next run in 8 s" in log
    assert (status()["exit_code"], status()["error"]) == (0, None)
    assert "--full-refresh is for one run" in run(programs, path, "--every", "2s", "--full-refresh", code=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_running(
    programs: Programs, s3: Any, warehouse: Warehouse, write: Write, number: signal.Signals
) -> None:
    """As Ctrl-C in a terminal does it, SIGINT is for the group of processes; what has come by then is loaded."""
    path = write()
    command = programs.command("singer-arrow", "run", str(path), "--every", "1s")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=programs.env, cwd=path.parent, start_new_session=True, **pipes) as process:
        assert wait_until(lambda: len(family_of(process.pid)) > 3, seconds=60)
        family = family_of(process.pid)
        connectors = family - {process.pid}
        for pid in connectors:
            os.kill(pid, signal.SIGSTOP)  # so that the run does not end before the signal
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        for pid in connectors:
            os.kill(pid, signal.SIGCONT)
        log = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 128 + number, log
    assert "Traceback" not in log
    assert not family & set(running())
    assert set(state_of(s3, path)) <= {"bookmarks", "target"}
    run(programs, path)
    check_once(warehouse)


@pytest.fixture
def executable(tmp_path: Path, programs: Programs) -> Callable[[str, str], Path]:
    """Writes a Python program that the pipelines of a test find by its name, and returns its path."""
    (tmp_path / "bin").mkdir()
    programs.env["PATH"] = f"{tmp_path / 'bin'}:{programs.env['PATH']}"

    def make(name: str, text: str) -> Path:
        path = tmp_path / "bin" / name
        path.write_text(f"#!{sys.executable}\n{text}" if text else "")
        path.chmod(0o755)
        return path

    return make


def test_ctrl_c_lets_the_target_load_what_came(
    programs: Programs, warehouse: Warehouse, write: Write, executable: Callable[[str, str], Path], tmp_path: Path
) -> None:
    executable("tap-sends", SENDS)
    path = write(tap={"name": "tap-sends"}, state="state.json")
    command = programs.command("singer-arrow", "run", str(path))
    with subprocess.Popen(command, env=programs.env, cwd=tmp_path, start_new_session=True) as process:
        assert wait_until((tmp_path / "sent").exists, seconds=60)
        assert wait_until(lambda: len(family_of(process.pid)) > 3, seconds=60)
        time.sleep(2)
        os.killpg(process.pid, signal.SIGINT)
    assert process.returncode == 130
    assert ids(warehouse, "a") == [*range(5)]
    assert json.loads((tmp_path / "state.json").read_text())["bookmarks"] == {"a": {"x": 5}}


def test_a_target_that_writes_after_its_reader_has_ended_is_ended(
    programs: Programs, write: Write, executable: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """The STATE cannot be written, and the target writes more than a pipe holds before it ends."""
    executable("tap-sends", "import time\nfor _ in range(300): print('{}', flush=True); time.sleep(0.1)")
    executable("target-two", TWO_STATES)
    other = {"streams": ["a"], "tables": "a", "password": "${NOT_OURS}"}  # has a meaning of its own there
    path = write(tap={"name": "tap-sends"}, target={"name": "target-two", "config": other}, state="folder/state.json")
    with start(programs, path) as process:
        state = tmp_path / "folder" / "state.json"
        assert wait_until(lambda: state.is_file() and "xxx" in state.read_text(), seconds=60)
        state.unlink()
        state.mkdir()
        _, log = process.communicate(timeout=60)
    assert process.returncode == 1, log
    assert "state.json" in log.decode().splitlines()[-1]


STUBBORN = """import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
if sys.argv[0].endswith("tap-first"):
    os.kill(os.getppid(), signal.SIGKILL)  # at once, before it has done anything else
open(sys.argv[0] + ".started", "w").close()
time.sleep(300)
"""


def test_a_second_signal_ends_sides_that_ignore_it(
    programs: Programs, write: Write, executable: Callable[[str, str], Path], tmp_path: Path
) -> None:
    executable("tap-stubborn", STUBBORN)
    executable("target-stubborn", STUBBORN)
    path = write(tap={"name": "tap-stubborn"}, target={"name": "target-stubborn"}, state="state.json")
    with start(programs, path) as process:
        assert wait_until(lambda: len(list((tmp_path / "bin").glob("*.started"))) == 2, seconds=60)
        family = family_of(process.pid)
        assert len(family) > 3, "this process, tap, target and what watches them"
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=KILL_SECONDS + 30)
    assert process.returncode == 143, log
    assert not family & set(running())


@pytest.mark.parametrize("text", ["import time\ntime.sleep(300)", STUBBORN], ids=["foreign", "stubborn"])
def test_sides_end_with_a_run_that_is_killed_in_their_first_moment(
    programs: Programs, write: Write, executable: Callable[[str, str], Path], tmp_path: Path, text: str
) -> None:
    executable("tap-first", STUBBORN if text == STUBBORN else f"import os\nos.kill(os.getppid(), 9)\n{text}")
    executable("target-last", text)
    path = write(tap={"name": "tap-first"}, target={"name": "target-last"}, state="state.json")
    with start(programs, path) as process:
        process.wait(timeout=60)
        assert process.returncode == -signal.SIGKILL

    def left() -> list[str]:
        return [command for _, command in running().values() if str(tmp_path / "bin") in command]

    assert wait_until(lambda: not left(), seconds=KILL_SECONDS + 30), left()
    path = write(tap={"name": "true"}, target={"name": "true"}, state="state.json")
    run(programs, path)  # nobody has the STATE


def test_a_target_that_does_not_start_leaves_no_tap(
    programs: Programs, write: Write, executable: Callable[[str, str], Path]
) -> None:
    tap = executable("tap-sleeps", "import time\ntime.sleep(60)")
    executable("target-empty", "")
    path = write(tap={"name": str(tap)}, target={"name": "target-empty"}, state="state.json")
    assert "Exec format error" in run(programs, path, code=1)
    assert not [command for _, command in running().values() if str(tap) in command]


def test_an_executable_may_be_a_path(
    programs: Programs, warehouse: Warehouse, write: Write, executable: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """Its variables count, its error is that of the run; a relative one begins at the pipeline's file."""
    path = write()
    code = "import sys; from tap_s3_files.__main__ import main; sys.argv[0] = 'tap-s3-files'; sys.exit(main())"
    executable("tap-s3-files", code)
    change(path, lambda d: d["tap"].update(name="bin/tap-s3-files"))
    programs.env["TAP_S3_FILES_MAX_WORKERS"] = "none"
    log = run(programs, path, code=1)
    assert "max_workers" in log.splitlines()[-1]
    assert "[config]" in log.splitlines()[-1]
    del programs.env["TAP_S3_FILES_MAX_WORKERS"]
    run(programs, path)
    check_once(warehouse)


def test_a_page_on_a_storage_that_variables_name(
    programs: Programs, s3: Any, warehouse: Warehouse, write: Write
) -> None:
    path = write()
    bucket = yaml.safe_load(path.read_text())["state"].split("/")[2]
    change(path, lambda d: d["tap"]["config"].update(aws={"endpoint_url": "${ENDPOINT}"}))
    change(path, lambda d: d.update(report=f"s3://{bucket}/reports", state="state.json"))
    programs.env["ENDPOINT"] = programs.env["AWS_ENDPOINT_URL"]
    run(programs, path)
    found = s3.list_objects_v2(Bucket=bucket, Prefix="reports")["Contents"]
    assert len([o for o in found if o["Key"].endswith(".html")]) >= 1


@pytest.mark.parametrize("text", ["[]", "7", "x"])
def test_a_file_that_is_no_state_is_one_line(programs: Programs, write: Write, text: str) -> None:
    path = write(state="state.json")
    (path.parent / "state.json").write_text(text)
    for arguments in ((), ("--dry-run",)):
        *_, line = run(programs, path, *arguments, code=1).splitlines()
        assert "STATE" in line
        assert line.endswith("[config]")
    assert (path.parent / "state.json").read_text() == text


def test_another_target_than_that_of_the_state_is_one_line(
    programs: Programs, warehouse: Warehouse, write: Write
) -> None:
    """Rows that one table got would be missing in the other one, also once the setting is back."""
    path = write(state="state.json")
    run(programs, path)
    (name,) = yaml.safe_load(path.read_text())["target"]["config"].keys() & {"dataset", "default_target_schema"}
    before = yaml.safe_load(path.read_text())["target"]["config"][name]
    change(path, lambda d: d["target"]["config"].update({name: f"{before}_b"}))
    line = run(programs, path, code=1).splitlines()[-1]
    assert f"a target with {name} '{before}', and the pipeline's target now has {name} '{before}_b'" in line
    run(programs, path, "--full-refresh", "--only", "rows")
    assert "--full-refresh --only large. " in run(programs, path, code=1)
    run(programs, path, "--full-refresh", "--only", "large")
    change(path, lambda d: d["target"]["config"].update({name: before}))
    assert "belongs to a target with" in run(programs, path, code=1)
    state = path.parent / "state.json"
    state.write_text(state.read_text().replace(f"{before}_b", before))  # by hand: the tables have moved
    run(programs, path)
    check_once(warehouse)
    warehouse.drop(f"{before}_b")


def test_a_terminal_shows_one_row_of_progress(programs: Programs, warehouse: Warehouse, write: Write) -> None:
    path = write()
    command = programs.command("singer-arrow", "run", str(path))
    code, shown = run_on_terminal(command, programs.env)
    assert code == 0, shown
    assert "rows: 100 rows" in shown
    assert all(line.count("%") <= 1 for line in shown.replace("\r", "\n").splitlines()), shown
    check_once(warehouse)
