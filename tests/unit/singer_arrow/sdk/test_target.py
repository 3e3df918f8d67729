"""The SDK internals that the target's side uses exist and behave as assumed."""

from __future__ import annotations

import inspect
import io
import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from singer_lines import states
from singer_sdk import Target
from singer_sdk.io_base import SingerReader
from singer_sdk.mapper import PluginMapper, RemoveRecordTransform, SameRecordTransform
from singer_sdk.plugin_base import BaseSingerReader, PluginBase
from singer_sdk.sinks import BatchSink, Sink
from waiting import wait_until

from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError, SchemaError
from singer_arrow.records.parse import METADATA_COLUMNS
from singer_arrow.sdk.sink import LoadSink
from singer_arrow.sdk.target import WarehouseTarget
from singer_arrow.settings import json_schema
from singer_arrow.storage.urls import Url
from singer_arrow.warehouse import run as warehouse_run
from singer_arrow.warehouse.run import WarehouseRun
from singer_arrow.warehouse.settings import OVERWRITE, LoadSettings
from singer_arrow.warehouse.table import TableStream

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": ["integer", "null"]}, "at": {"type": "string", "format": "date-time"}},
}


class LoadMethod:
    """Records its calls."""

    ordered = False
    loads_each_file = False

    def __init__(self, context: Any, *, deferred: bool) -> None:
        self.context, self.deferred = context, deferred
        self.loaded: list[Any] = []
        self.gate = threading.Event()
        self.gate.set()

    def prepare(self, content: Any) -> Any:
        return Weighed(content)

    def stage(self, parts: Sequence[Any]) -> list[Any]:
        self.gate.wait(60)
        if any(p.content == "bad" for p in parts):
            msg = "refused"
            raise DataError(msg)
        return [p.content for p in parts]

    def publish(self, staged: list[Any]) -> None:
        self.loaded += staged

    def finish(self) -> None:
        self.loaded.append("finished")

    def warn_of_missing_rows(self) -> None:
        """Do nothing; no batch is left out."""

    def removable_files(self, parts: Sequence[Any], staged: list[Any]) -> list[Any]:
        return []


class Weighed:
    """An item of one byte."""

    bytes = 1

    def __init__(self, content: Any) -> None:
        self.content = content


class MemoryTable:
    """Keeps batches and records in memory."""

    methods: ClassVar[dict[str, LoadMethod]] = {}
    opened: ClassVar[list[tuple[str, list[Any] | None]]] = []
    """Opened streams, each with the columns of the table before."""
    record_schema = None

    def __init__(self, run: WarehouseRun[LoadSettings], stream: TableStream) -> None:
        self.run, former = run, self.methods.get(stream.name)
        self.opened.append((stream.name, former and list(former.loaded)))
        context = SimpleNamespace(stream=stream.name, tally=run.tallies.of(stream.name))
        self.method = self.methods[stream.name] = LoadMethod(context, deferred=run.settings.load_method == OVERWRITE)

    def take_batch(self, batch: Batch) -> None:
        self.run.scheduler.add(self.method, Url.parse(batch.manifest[0]).key)

    def take_records(self, path: Path | None, rows: int, *, token: int, **_: Any) -> None:
        assert path
        records = [json.loads(line) for line in path.read_text().splitlines()]
        assert len(records) == rows
        self.run.scheduler.add(self.method, records, token=token)

    def activate_version(self, version: int) -> None:
        """Do nothing."""


class MemoryTarget(WarehouseTarget):
    """A target without a warehouse."""

    name = "target-memory"
    config_jsonschema: ClassVar[dict[str, Any]] = json_schema(LoadSettings)
    table_class = MemoryTable  # type: ignore[assignment]  # all of a table that a sink uses


@pytest.fixture(autouse=True)
def fresh() -> None:
    MemoryTable.methods = {}
    MemoryTable.opened = []


def schema(stream: str = "s", **more: Any) -> dict[str, Any]:
    return {"type": "SCHEMA", "stream": stream, "schema": SCHEMA, "key_properties": ["id"]} | more


def record(number: Any, stream: str = "s", **more: Any) -> dict[str, Any]:
    return {"type": "RECORD", "stream": stream, "record": {"id": number}} | more


def batch(name: str, stream: str = "s") -> dict[str, Any]:
    return {"type": "BATCH", "stream": stream, "encoding": {"format": "jsonl"}, "manifest": [f"s3://b/{name}"]}


def state(number: int) -> dict[str, Any]:
    return {"type": "STATE", "value": {"n": number}}


def run(messages: Sequence[dict[str, Any]], *, end: bool = True, **config: Any) -> MemoryTarget:
    target = MemoryTarget(config={"max_batch_age_seconds": 1000, **config})
    target.process_lines(io.StringIO("".join(json.dumps(m) + "\n" for m in messages)))
    if end:
        target.process_endofpipe()
    return target


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (Target, ("_process_schema_message", "_process_record_message", "_process_batch_message")),
        (Target, ("_process_state_message", "_process_activate_version_message", "_assert_sink_exists")),
        (Target, ("_handle_termination", "drain_one", "drain_all", "get_sink", "process_endofpipe", "max_parallelism")),
        (BaseSingerReader, ("_assert_line_requires", "listen", "process_lines")),
        (PluginBase, ("_validate_config", "_env_var_config", "_env_var_prefix", "cb_config", "append_builtin_config")),
        (Sink, ("_validate_and_parse", "_parse_timestamps_in_record", "datetime_error_treatment", "clean_up")),
        (Sink, ("_add_sdc_metadata_to_record", "_remove_sdc_metadata_from_record", "_singer_validate_message")),
        (Sink, ("get_validator", "validate_schema", "batch_size_rows", "tally_record_read", "record_counter_metric")),
        (Sink, ("include_sdc_metadata_properties", "process_activate_version_messages", "current_size", "max_size")),
        (BatchSink, ("start_batch", "process_record", "process_batch", "_get_context")),
        (SingerReader, ("deserialize_json", "_process_unknown_message", "assert_line_requires", "process_lines")),
        (PluginMapper, ("register_raw_stream_schema",)),
        (SameRecordTransform, ("flattening_enabled", "transform")),
        (RemoveRecordTransform, ("transform",)),
    ],
)
def test_the_privates_that_are_used_exist(owner: type, names: Sequence[str]) -> None:
    assert [n for n in names if inspect.getattr_static(owner, n, None) is None] == []


def test_the_privates_of_instances_exist() -> None:
    target = run([schema()])
    assert {"_sinks_active", "_sinks_to_clear", "_config", "_MAX_RECORD_AGE_IN_MINUTES"} <= {
        *vars(target),
        *dir(target),
    }
    sink = target._sinks_active["s"]
    assert {"_key_properties", "_warned_missing_fields"} <= vars(sink).keys()
    assert {"_validator", "original_schema", "schema", "sync_started_at"} <= vars(sink).keys()


def test_the_sdk_calls_what_is_overridden() -> None:
    source = inspect.getsource(Target._process_record_message)
    assert "sink._validate_and_parse" in source
    assert "sink._singer_validate_message" in source
    assert "_latest_state" not in inspect.getsource(WarehouseTarget)
    assert "if self._latest_state:" in inspect.getsource(Target.drain_all)  # so it prints no STATE of its own


def test_the_metadata_columns_are_the_sdks() -> None:
    target = run([schema()], add_record_metadata=True)
    added = set(target._sinks_active["s"].schema["properties"]) - set(SCHEMA["properties"])
    assert added == set(METADATA_COLUMNS)


def test_records_and_batches_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    run([schema(), record(1), record(2), batch("a"), record(3), batch("b"), batch("c"), state(1)])
    assert MemoryTable.methods["s"].loaded == [[{"id": 1}, {"id": 2}], "a", [{"id": 3}], "b", "c"]
    assert states(capsys.readouterr().out) == [1]


def test_state_leaves_in_the_middle_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    target = run([schema(), batch("a"), state(1)], end=False)
    assert states(capsys.readouterr().out) == []
    target.run.scheduler.wait()
    assert states(capsys.readouterr().out) == [1]
    target.process_endofpipe()
    assert states(capsys.readouterr().out) == []


def test_no_state_after_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match="refused"):
        run([schema(), batch("a"), state(1), batch("bad"), state(2)])
    assert states(capsys.readouterr().out) == []


def test_a_new_schema_waits_for_what_came_before(capsys: pytest.CaptureFixture[str]) -> None:
    other = {"type": "object", "properties": SCHEMA["properties"] | {"more": {"type": "string"}}}
    run([schema(), record(1), batch("a"), schema(), schema(schema=other), batch("b"), state(1)])
    assert MemoryTable.opened == [("s", None), ("s", [[{"id": 1}], "a"])]
    assert states(capsys.readouterr().out) == [1]


def test_a_deferred_load_method_holds_state_back(capsys: pytest.CaptureFixture[str]) -> None:
    target = run([schema(), batch("a"), state(1)], end=False, load_method=OVERWRITE)
    target.run.scheduler.wait()
    target.run.checkpoints.flush()
    assert states(capsys.readouterr().out) == []
    target.process_endofpipe()
    assert MemoryTable.methods["s"].loaded == ["a", "finished"]
    assert states(capsys.readouterr().out) == [1]


def test_versions_are_kept_when_they_are_used() -> None:
    run([schema(), record(1, version=7)], hard_delete=True)
    assert MemoryTable.methods["s"].loaded == [[{"id": 1, "_sdc_table_version": 7}]]
    run([schema(), record(1, version=7)])
    assert MemoryTable.methods["s"].loaded == [[{"id": 1}]]
    target = run([schema()], hard_delete=True)
    sink = target._sinks_active["s"]
    assert isinstance(sink, LoadSink)
    assert sink.metadata.values(9) == {"_sdc_table_version": 9}


def test_dates_are_checked_and_kept_as_text() -> None:
    good = record(1)
    good["record"]["at"] = "2026-01-01 00:00:00.5+02"
    run([schema(), good])
    assert MemoryTable.methods["s"].loaded == [[{"id": 1, "at": "2026-01-01 00:00:00.5+02"}]]
    good["record"]["at"] = "yesterday"
    with pytest.raises(
        DataError, match="Line 2 of the input, a RECORD of stream 's', column 'at': 'yesterday' is no date"
    ):
        run([schema(), good])


def test_stream_maps_apply_to_batches_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text("".join(f'{{"id": {n}, "at": "2026-01-0{n}T00:00:00.5Z"}}\n' for n in (1, 2)))
    maps = {"s": {"__alias__": "t", "double": "str(id * 2)", "at": None, "was": "at"}}
    run([schema(), {**batch("b"), "manifest": [path.as_uri()]}], stream_maps=maps, manifest_roots=[str(tmp_path)])
    (rows,) = MemoryTable.methods["t"].loaded
    assert [(r["id"], r["double"], r["was"]) for r in rows] == [
        (n, str(n * 2), f"2026-01-0{n}T00:00:00.500000Z") for n in (1, 2)
    ]
    assert "at" not in rows[0]
    run([schema(), batch("a")], stream_maps={"s": None})
    assert MemoryTable.methods.get("s") is None or MemoryTable.methods["s"].loaded == []


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        ("not json\n", DataError, "Line 1 of the input is no JSON"),
        ("\n", DataError, "Line 1 of the input is blank"),
        ("[1]\n", DataError, "Line 1 of the input is no Singer message"),
        ('{"type": "NEWS"}\n', DataError, "message of type 'NEWS'"),
        ('{"stream": "s"}\n', DataError, "message of stream 's' lacks 'type'"),
        ('{"type": "STATE"}\n', DataError, "A STATE message lacks 'value'"),
        ('{"type": "SCHEMA", "stream": "s"}\n', DataError, "lacks 'schema'"),
        ('{"type": "SCHEMA", "stream": "s", "schema": {}}\n', SchemaError, "stream 's' has no properties"),
        ('{"type": "SCHEMA", "stream": "s", "schema": []}\n', SchemaError, "stream 's' has no properties"),
        (
            '{"type": "SCHEMA", "stream": "s", "schema": {"properties": {"a": {}}}, "key_properties": "a"}\n',
            SchemaError,
            "list of names",
        ),
        ('{"type": "RECORD", "stream": "s"}\n', DataError, "lacks 'record'"),
        ('{"type": "RECORD", "stream": "s", "record": [1]}\n', DataError, "holds no object"),
        ('{"type": "RECORD", "stream": "s", "record": {}}\n', DataError, "Line 1 .*'s': it comes before the SCHEMA"),
        ('{"type": "BATCH", "stream": "s"}\n', DataError, "no 'encoding'"),
        (json.dumps(batch("a")) + "\n", DataError, "Line 1 .*'s': it comes before the SCHEMA"),
        ('{"type": "ACTIVATE_VERSION", "stream": "s"}\n', DataError, "lacks 'version'"),
        (
            '{"type": "ACTIVATE_VERSION", "stream": "s", "version": 1}\n',
            DataError,
            "Line 1 .*'s': it comes before the SCHEMA",
        ),
        (
            json.dumps(schema()) + "\n" + json.dumps(record("x")) + "\n",
            DataError,
            "Line 2 .*'s', column 'id': 'x' is not of type",
        ),
        (json.dumps(schema()) + "\n" + json.dumps(record(1)).replace("1", '"\\ud800"'), DataError, "Line 2 .*'s'"),
    ],
)
def test_bad_messages(lines: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        MemoryTarget(config={}).process_lines(io.StringIO(lines))


def test_text_that_is_no_unicode_is_refused() -> None:
    free = schema(schema={"properties": {"id": {}}})
    line = json.dumps(record(1)).replace("1", '"\\ud800"')
    with pytest.raises(DataError, match="no Unicode"):
        MemoryTarget(config={}).process_lines(io.StringIO(json.dumps(free) + "\n" + line + "\n"))


def test_input_that_is_no_utf8_is_refused() -> None:
    source = io.TextIOWrapper(io.BytesIO(b'{"type": "STATE", "value": {}}\n{"\xff\n'), encoding="utf-8")
    with pytest.raises(DataError, match="no UTF-8"):
        MemoryTarget(config={}).process_lines(source)


def test_a_signal_ends_the_run_with_the_state_that_is_safe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warehouse_run, "GRACE_SECONDS", 0.3)
    target = run([schema(), schema("t"), batch("a"), state(1), batch("b", "t"), state(2)], end=False)
    MemoryTable.methods["t"].gate.clear()
    target.run.scheduler.wait(MemoryTable.methods["s"])
    signal_later = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as caught:  # noqa: PT012 - the signal may come before the wait begins
        signal_later.start()
        target.run.scheduler.wait()
    assert caught.value.code == 128 + signal.SIGTERM
    started = time.monotonic()
    target.run.abandon()
    assert time.monotonic() - started > 0.2  # the time of grace
    assert MemoryTable.methods["t"].loaded == []
    MemoryTable.methods["t"].gate.set()
    assert states(capsys.readouterr().out) == [1]


def test_temporary_files_are_gone_with_the_target() -> None:
    target = run([schema(), record(1)])
    folder = target.run.temporary(".x").parent
    assert folder.exists()
    target.run.close()
    assert not folder.exists()


def test_old_records_are_handed_over_without_another_message(capsys: pytest.CaptureFixture[str]) -> None:
    target = MemoryTarget(config={"max_batch_age_seconds": 0.1})
    lines = [schema(), batch("a"), record(1), state(1)]
    target.process_lines(io.StringIO("".join(json.dumps(m) + "\n" for m in lines)))
    assert wait_until(lambda: states(capsys.readouterr().out)) == [1]
    assert MemoryTable.methods["s"].loaded == ["a", [{"id": 1}]]
    target.process_endofpipe()
