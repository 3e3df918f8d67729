"""The SDK privates that the tap's side uses exist and behave as assumed."""

from __future__ import annotations

import inspect
import io
import json
import logging
import signal
import subprocess
from contextlib import redirect_stdout
from typing import Any

import pytest
import waiting_tap
from singer_sdk import Stream, Tap
from singer_sdk.helpers._batch import BaseBatchFileEncoding, BatchConfig, StorageTarget
from singer_sdk.helpers._catalog import get_selected_schema
from singer_sdk.mapper import SameRecordTransform
from singer_sdk.plugin_base import PluginBase, _ConfigInput
from singer_sdk.singerlib import Schema, SchemaMessage, StateMessage
from waiting_tap import BATCH, SCHEMA, TapThings, Things, sync

from singer_arrow.errors import DataError


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
        (Stream.finalize_state_progress_markers, ["self", "state"]),
        (Stream._generate_schema_messages, ["self"]),
        (Stream._write_activate_version_message, ["self", "full_table_version"]),
        (SchemaMessage, ["stream", "schema", "key_properties", "bookmark_properties"]),
        (StateMessage, ["value"]),
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
        (get_selected_schema, ["stream_name", "schema", "mask"]),
    ],
)
def test_the_sdk_still_has_what_the_seam_uses(function: Any, expected: list[str]) -> None:
    assert parameters(function) == expected


def test_the_sdk_still_has_the_properties_that_the_seam_uses() -> None:
    for name in ("_singer_catalog_entry", "mask", "partitions"):
        assert isinstance(inspect.getattr_static(Stream, name), property)
    assert "_env_var_config" in PluginBase.__dict__
    source = inspect.getsource(Stream)
    for name in ("_stream_version", "_metadata", "_mask", "_input_schema"):
        assert f"self.{name} = " in source or f"self.{name}: " in source
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
        {"type": "STATE", "value": {"bookmarks": {"things": {"done": 1}}}, "end_of_stream": "things"},
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
        ("STATE", {"bookmarks": {"things": {"done": 2}}}),  # the end mark
    ]


def test_a_dry_run_ends_where_it_should() -> None:
    tap = TapThings(config={})
    out = io.StringIO()
    with redirect_stdout(out):
        tap.run_sync_dry_run(2)
    kinds = [json.loads(line)["type"] for line in out.getvalue().splitlines()]
    assert kinds == ["SCHEMA", "RECORD", "STATE", "RECORD", "STATE"]


def test_a_test_run_sends_records() -> None:
    tap = TapThings(config={"batches": True})
    out = io.StringIO()
    with redirect_stdout(out):
        assert tap.run_connection_test()
    assert [json.loads(line)["type"] for line in out.getvalue().splitlines()] == ["SCHEMA", "RECORD", "STATE"]


def test_an_expected_error_is_not_logged_twice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Things, "fails", True)
    with pytest.raises(DataError, match="broken"):
        sync({"batches": True})
    assert not [r for r in caplog.records if r.levelname == "ERROR"]


@pytest.mark.parametrize("name", [TapThings.name, "singer_arrow.storage.store"])
def test_what_is_logged_of_a_key_stays_on_one_line(name: str) -> None:
    """Also for loggers without plugins' filters."""
    out, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(out)
    handler.addFilter(logging.Filter(name))
    root.addHandler(handler)
    try:
        TapThings(config={})
        out.truncate(out.seek(0))  # where an earlier test has set another level, it logs too
        key, log = "a\nWARNING forged\x1b[2J.csv", logging.getLogger(name)
        log.warning("%s is empty (100%%)", key)
        log.warning(f"{key} is 100% empty")
        log.warning("née")
    finally:
        root.removeHandler(handler)
    escaped = r"a\nWARNING forged\x1b[2J.csv"
    assert out.getvalue().splitlines() == [f"{escaped} is empty (100%)", f"{escaped} is 100% empty", "née"]


def start() -> subprocess.Popen[str]:
    return subprocess.Popen(waiting_tap.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.full
def test_a_signal_ends_the_run_after_a_whole_line() -> None:
    process = start()
    assert process.stdout is not None
    lines = [process.stdout.readline(), process.stdout.readline()]
    process.send_signal(signal.SIGTERM)
    rest, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert [json.loads(line)["type"] for line in [*lines, *rest.splitlines()]] == ["SCHEMA", "BATCH"]
    assert "Traceback" not in err


@pytest.mark.full
def test_a_closed_pipe_is_one_line() -> None:
    process = start()
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    assert process.wait(30) == 1
    assert err.splitlines()[-1].endswith("The target has closed the pipe; see its log for the reason [service]")
    assert "Traceback" not in err
    process.stderr.close()
