"""The tap's seam to the SDK: what it uses of the SDK's privates is still there, and does what the seam needs."""

from __future__ import annotations

import inspect
import io
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Generator, Mapping
from contextlib import redirect_stdout
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from singer_sdk import Stream, Tap
from singer_sdk.exceptions import ConfigValidationError
from singer_sdk.helpers._batch import BaseBatchFileEncoding, BatchConfig, StorageTarget
from singer_sdk.mapper import SameRecordTransform
from singer_sdk.plugin_base import PluginBase, _ConfigInput
from singer_sdk.singerlib import Schema

from singer_arrow.batch.message import Batch
from singer_arrow.errors import ConfigError, DataError
from singer_arrow.schema import from_json_schema
from singer_arrow.singer.sdk_tap import ArrowStream, ArrowTap, Encode, Encoded, exact_catalog
from singer_arrow.singer.sdk_writer import LineWriter

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": ["integer", "null"], "x-arrow-type": "int32"}, "name": {"type": ["string", "null"]}},
}
BATCH = Batch("things", "parquet", ("file:///tmp/1.parquet",), "zstd", batch_id="abc", row_count=3, byte_count=9)


class Things(ArrowStream):
    name = "things"
    fails = False

    def __init__(self, tap: Tap) -> None:
        super().__init__(tap, schema=SCHEMA)
        self.forced_replication_method = "INCREMENTAL"

    def wanted_encoding(self) -> tuple[str, str, str] | None:
        return ("parquet", "zstd", "file:///tmp") if self.config.get("batches") else None

    def batches(self) -> Generator[Batch | Mapping[str, Any]]:
        yield BATCH
        if self.fails:
            raise DataError("broken", url="s3://b/x")
        yield BATCH
        yield {"done": 1}

    def rows(self, encode: Encode[Encoded]) -> Generator[Encoded]:
        for number in range(3):
            yield from encode(pa.RecordBatch.from_pylist([{"id": number, "name": "n"}]))
            self.write_state({"done": number})


class TapThings(ArrowTap):
    name = "tap-things"
    config_jsonschema = {"type": "object", "properties": {"batches": {"type": "boolean"}, "n": {"type": "integer"}}}  # noqa: RUF012 - as the SDK declares it

    def check_settings(self) -> None:
        if self.config.get("n") == 13:
            raise ConfigError("Setting 'n' must not be 13")

    def discover_streams(self) -> list[Things]:
        return [Things(self)]


def sync(
    config: dict[str, Any], *, state: dict[str, Any] | None = None, catalog: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    out = io.StringIO()
    with redirect_stdout(out):
        TapThings(config=config, state=state, catalog=catalog).sync_all()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Stream._sync_batches, ["self", "batch_config", "context"]),
        (Stream._increment_stream_state, ["self", "latest_record", "context"]),
        (Stream._write_starting_replication_value, ["self", "context"]),
        (Stream._write_state_message, ["self"]),
        (Stream._sync_records, ["self", "context", "write_messages"]),
        (Stream._write_record_message, ["self", "record"]),
        (Stream._finalize_state, ["self", "state"]),
        (Stream.post_process, ["self", "row", "context"]),
        (Stream.get_replication_key_signpost, ["self", "context"]),
        (Stream.get_batch_config, ["self", "config"]),
        (Stream.log, ["self", "message", "args", "level", "kwargs"]),
        (PluginBase._validate_config, ["self", "raise_errors"]),
        (Tap._handle_termination, ["self", "signum", "frame"]),
        (Tap.invoke, ["about", "about_format", "config", "state", "catalog"]),
        (PluginBase.cb_config, ["ctx", "param", "value"]),
        (BatchConfig, ["encoding", "storage", "batch_size"]),
        (BaseBatchFileEncoding, ["format", "compression"]),
        (StorageTarget, ["root", "prefix", "params"]),
        (_ConfigInput, ["config", "parse_env"]),
        (Schema.to_dict, ["self"]),
    ],
)
def test_the_sdk_still_has_what_the_seam_uses(function: Any, expected: list[str]) -> None:
    assert parameters(function) == expected


def test_the_sdk_still_has_the_properties_that_the_seam_uses() -> None:
    for name in ("_singer_catalog_entry", "mask", "partitions"):
        assert isinstance(inspect.getattr_static(Stream, name), property)
    assert "_env_var_config" in PluginBase.__dict__
    source = inspect.getsource(Stream)
    assert "self._stream_version" in source
    assert "self._tap.write_message" in source
    stream_map = SameRecordTransform("s", {"properties": {}}, None, flattening_options=None)
    assert stream_map.raw_schema == stream_map.transformed_schema == {"properties": {}}
    assert stream_map.flattening_enabled is False


def test_batches_and_state_leave_as_the_stream_gives_them() -> None:
    schema, *rest = sync({"batches": True})
    assert schema["schema"] == SCHEMA  # with the annotation that the SDK does not know
    assert rest == [
        BATCH.to_message(),
        BATCH.to_message(),
        {"type": "STATE", "value": {"bookmarks": {"things": {"done": 1}}}},
    ]


def test_records_leave_with_state_in_between() -> None:
    kinds = [(m["type"], m.get("value") or m.get("record")) for m in sync({})]
    assert kinds[1:] == [
        ("RECORD", {"id": 0, "name": "n"}),
        ("STATE", {"bookmarks": {"things": {"done": 0}}}),
        ("RECORD", {"id": 1, "name": "n"}),
        ("STATE", {"bookmarks": {"things": {"done": 1}}}),
        ("RECORD", {"id": 2, "name": "n"}),
        ("STATE", {"bookmarks": {"things": {"done": 2}}}),
    ]


RICH = {
    "type": "object",
    "properties": {
        "id": {"type": ["integer", "null"]},
        "spot": {"type": ["object", "null"], "properties": {"x": {"type": ["number", "null"]}}},
        "free": {"type": ["object", "null"]},
        "price": {"type": ["number", "null"], "multipleOf": 0.01},
        "at": {"type": ["string", "null"], "format": "date-time"},
    },
}


class Rich(Things):
    """Rows of which several things may want a part each."""

    looked_at = 0

    def __init__(self, tap: Tap) -> None:
        Stream.__init__(self, tap, schema=RICH)
        self.forced_replication_method = tap.config["method"]

    def rows(self, encode: Encode[Encoded]) -> Generator[Encoded]:
        schema = from_json_schema(RICH)
        for number in range(3):
            at = datetime(2024, 5, number + 1, tzinfo=UTC)
            row = {
                "id": number,
                "spot": {"x": number / 4},
                "free": '{"a": 1, "b": {"c": 1.10}}',
                "price": None,
                "at": at,
            }
            yield from encode(pa.RecordBatch.from_pylist([row, {**row, "price": Decimal("0.10")}], schema=schema))
            self.write_state({"done": number})


class LookedAt(Rich):
    """One that looks at each of its records."""

    def post_process(self, row: dict[str, Any], context: Any = None) -> dict[str, Any]:
        type(self).looked_at += 1
        return row


def sync_rich(kind: type[Rich], config: dict[str, Any], deselected: set[tuple[str, ...]]) -> list[dict[str, Any]]:
    class TapRich(TapThings):
        config_jsonschema = {"properties": {"method": {"type": "string"}}}  # noqa: RUF012 - as the SDK declares it

        def discover_streams(self) -> list[Things]:
            return [kind(self)]

    given = json.loads(TapRich(config=config).catalog_json_text)
    (entry,) = given["streams"]
    entry["metadata"] += [{"breadcrumb": list(crumb), "metadata": {"selected": False}} for crumb in deselected]
    out = io.StringIO()
    with redirect_stdout(out):
        TapRich(config=config, catalog=given).sync_all()
    return [json.loads(line, parse_float=Decimal) for line in out.getvalue().splitlines()]


FLAT = {"flattening_enabled": True, "flattening_max_depth": 1}
WAYS: list[tuple[dict[str, Any], set[tuple[str, ...]], bool]] = [
    ({}, set(), True),
    ({"method": "FULL_TABLE"}, set(), True),
    ({}, {("properties", "spot"), ("properties", "free")}, False),  # the rows above hold them all the same
    ({}, {("properties", "spot", "properties", "x")}, False),
    ({}, {("properties", "free", "properties", "b", "properties", "c")}, False),
    ({}, {("properties", "free", "properties", "gone")}, False),
    ({}, {("properties", "spot", "properties", "gone"), ("properties", "price", "properties", "gone")}, True),
    (FLAT, set(), False),
    ({"stream_maps": {"things": {"id": "id + 1"}}}, set(), False),
    ({"stream_maps": {"things": {"__filter__": "id != 1"}}}, set(), False),
    ({"stream_maps": {"things": {"__alias__": "others"}}}, set(), False),
    ({"stream_maps": {"things": None}}, set(), False),
]


@pytest.mark.parametrize(("config", "deselected", "at_once"), WAYS)
def test_records_are_the_same_whether_they_are_written_at_once_or_singly(
    config: dict[str, Any],
    deselected: set[tuple[str, ...]],
    at_once: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    blocks: list[memoryview] = []
    write = LineWriter.write_lines
    monkeypatch.setattr(LineWriter, "write_lines", lambda self, lines: (blocks.append(lines), write(self, lines)))
    config = {"method": "INCREMENTAL", **config}
    found = [sync_rich(kind, config, deselected) for kind in (Rich, LookedAt)]
    assert [len(blocks), LookedAt.looked_at > 0] == [3 * at_once, True]
    for messages in found:
        for message in messages:
            message.pop("time_extracted", None)
            if "version" in message:
                assert message.pop("version") > 10**9
    assert found[0] == found[1]
    assert [m["type"] for m in found[0]].count("STATE") == 3
    told = [json.loads(r.getMessage().removeprefix("METRIC: ")) for r in caplog.records if r.name.endswith("metrics")]
    counts = [(point["value"], point["tags"]) for point in told if point["metric"] == "record_count"]
    assert counts[0] == counts[1]
    assert [count for count, _ in counts] == [6, 6] if "stream_maps" not in config else counts


def test_a_dry_run_ends_where_it_should() -> None:
    tap = TapThings(config={})
    out = io.StringIO()
    with redirect_stdout(out):
        tap.run_sync_dry_run(2)
    kinds = [json.loads(line)["type"] for line in out.getvalue().splitlines()]
    assert kinds == ["SCHEMA", "RECORD", "STATE", "RECORD", "STATE"]


def test_state_of_an_earlier_run_is_known_during_discovery() -> None:
    known: list[Any] = []

    class Curious(TapThings):
        def discover_streams(self) -> list[Things]:
            known.append(self.given_state("things"))
            return super().discover_streams()

    Curious(config={}, state={"bookmarks": {"things": {"done": 7}}})
    assert known == [{"done": 7}]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"stream_maps": {"things": {"name": "name.upper()"}}}, "stream_maps"),
        ({"stream_maps": {"more": {"__source__": "things"}}}, "stream_maps"),
        ({"flattening_enabled": True, "flattening_max_depth": 2}, None),
        ({}, None),
    ],
)
def test_what_changes_single_records_needs_records(config: dict[str, Any], reason: str | None) -> None:
    tap = TapThings(config={"batches": True, **config})
    stream = tap.streams["things"]
    assert isinstance(stream, ArrowStream)
    assert stream.records_needed_by() == reason
    assert stream.sends_batches == (reason is None)


def test_nested_columns_are_flattened_in_records(monkeypatch: pytest.MonkeyPatch) -> None:
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}}
    monkeypatch.setitem(globals(), "SCHEMA", nested)
    tap = TapThings(config={"batches": True, "flattening_enabled": True, "flattening_max_depth": 2})
    stream = tap.streams["things"]
    assert isinstance(stream, ArrowStream)
    assert stream.records_needed_by() == "flattening_enabled"


def test_a_stream_that_maps_remove_is_seen() -> None:
    stream = TapThings(config={"batches": True, "stream_maps": {"things": None}}).streams["things"]
    assert isinstance(stream, ArrowStream)
    assert stream.is_mapped_away
    kept = TapThings(config={"batches": True}).streams["things"]
    assert isinstance(kept, ArrowStream)
    assert not kept.is_mapped_away


def catalog() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TapThings(config={}).catalog_json_text)
    return found


def test_a_catalog_keeps_every_keyword_on_its_way_out_and_in() -> None:
    given = catalog()
    assert given["streams"][0]["schema"] == SCHEMA
    (schema, *_) = sync({"batches": True}, catalog=given)
    assert schema["schema"] == SCHEMA


def test_deselected_columns_are_not_in_the_schema() -> None:
    given = catalog()
    for entry in given["streams"][0]["metadata"]:
        if entry["breadcrumb"] in ([], ["properties", "id"]):
            entry["metadata"]["selected"] = True
        else:
            entry["metadata"]["selected"] = False
    (schema, *_) = sync({"batches": True}, catalog=given)
    assert list(schema["schema"]["properties"]) == ["id"]


def test_an_object_of_which_nothing_is_selected_is_deselected(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": {"type": "string"}}}}}
    monkeypatch.setitem(globals(), "SCHEMA", {"type": "object", "properties": {"a": inner, "id": {"type": "integer"}}})
    given = catalog()
    for entry in given["streams"][0]["metadata"]:
        entry["metadata"]["selected"] = entry["breadcrumb"][-1:] != ["c"]
    (schema, *_) = sync({"batches": True}, catalog=given)
    assert list(schema["schema"]["properties"]) == ["id"]


def test_a_test_run_sends_records() -> None:
    tap = TapThings(config={"batches": True})
    out = io.StringIO()
    with redirect_stdout(out):
        assert tap.run_connection_test()
    assert [json.loads(line)["type"] for line in out.getvalue().splitlines()] == ["SCHEMA", "RECORD", "STATE"]


@pytest.mark.parametrize(
    "catalog", [{"streams": [{}]}, {"streams": 5}, {"streams": [{"tap_stream_id": "a", "metadata": [{}]}]}]
)
def test_a_wrong_catalog_is_one_line(catalog: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="--discover"):
        exact_catalog(catalog)


@pytest.mark.parametrize("state", [{"bookmarks": []}, {"bookmarks": {"things": 5}}])
def test_a_damaged_state_is_one_line(state: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="STATE is damaged"):
        TapThings(config={}, state=state)


@pytest.mark.parametrize("state", [{"type": "STATE", "value": {"bookmarks": {}}}, {"things": {"done": 7}}])
def test_a_state_without_bookmarks_is_no_empty_one(state: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="give the value of the last STATE message"):
        TapThings(config={}, state=state)
    for empty in ({}, {"bookmarks": {}}, {"bookmarks": {"things": {}}}):
        assert TapThings(config={}, state=empty).given_state("things") == {}


def test_settings_are_checked_in_discovery_too() -> None:
    assert TapThings.dynamic_catalog
    with pytest.raises(ConfigValidationError) as found:
        TapThings(config={"batchs": True})
    assert found.value.errors == ["Setting 'batchs' does not exist; did you mean 'batches'?"]
    with pytest.raises(ConfigError, match="13"):
        TapThings(config={"n": 13})


def test_an_expected_error_is_not_logged_twice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Things, "fails", True)
    with pytest.raises(DataError, match="broken"):
        sync({"batches": True})
    assert not [r for r in caplog.records if r.levelname == "ERROR"]


@pytest.mark.parametrize("name", [TapThings.name, "singer_arrow.storage"])
def test_what_is_logged_of_a_key_stays_on_one_line(name: str) -> None:
    """Also of loggers that know nothing of plugins."""
    out, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(out)
    root.addHandler(handler)
    try:
        TapThings(config={})
        key, log = "a\nWARNING forged\x1b[2J.csv", logging.getLogger(name)
        log.warning("%s is empty (100%%)", key)
        log.warning(f"{key} is 100% empty")
        log.warning("née")
    finally:
        root.removeHandler(handler)
    escaped = r"a\nWARNING forged\x1b[2J.csv"
    assert out.getvalue().splitlines() == [f"{escaped} is empty (100%)", f"{escaped} is 100% empty", "née"]


@pytest.mark.parametrize(
    ("text", "words"), [("{", "is no JSON"), ("[]", "must hold a JSON object"), ("", "is no JSON")]
)
@pytest.mark.parametrize("option", ["state", "catalog"])
def test_a_file_that_is_no_json_is_one_line(option: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"--{option} {words}"):
        TapThings.invoke(config=_ConfigInput({}), **{option: io.StringIO(text)})  # type: ignore[arg-type]


PROGRAM = """
    import sys, time
    sys.path.insert(0, {folder!r})
    from test_sdk_tap import TapThings, Things, BATCH

    class Slow(Things):
        def batches(self):
            yield BATCH
            time.sleep(60)

    class TapSlow(TapThings):
        def discover_streams(self):
            return [Slow(self)]

    from singer_arrow.singer import cli
    sys.argv[1:] = []
    cli.run("tap-things", lambda: TapSlow(config={{"batches": True}}).sync_all)
"""


def start() -> subprocess.Popen[str]:
    code = textwrap.dedent(PROGRAM).format(folder=os.path.dirname(__file__))  # noqa: PTH120 - it goes into a program
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_signal_ends_the_run_after_a_whole_line() -> None:
    process = start()
    assert process.stdout is not None
    lines = [process.stdout.readline(), process.stdout.readline()]
    process.send_signal(signal.SIGTERM)
    rest, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert [json.loads(line)["type"] for line in [*lines, *rest.splitlines()]] == ["SCHEMA", "BATCH"]
    assert "Traceback" not in err


def test_a_closed_pipe_is_one_line() -> None:
    process = start()
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    assert process.wait(30) == 1
    assert err.splitlines()[-1].endswith("The target has closed the pipe; its own log says why")
    assert "Traceback" not in err
    process.stderr.close()
