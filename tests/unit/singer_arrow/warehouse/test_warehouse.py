"""Message handling of a warehouse's sinks, with a warehouse that records its calls."""

from __future__ import annotations

import io
import json
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from recording_target import Recording, RecordingTable, RecordingTarget, Replace

from singer_arrow.errors import ConfigError, SchemaError, ServiceError
from singer_arrow.load import run as load_run
from singer_arrow.load.run import Checkpoints
from singer_arrow.storage.urls import Url
from singer_arrow.warehouse.table import is_nullable, nullable_paths

SCHEMA = {"properties": {"id": {"type": "integer"}, "a b": {"type": ["string", "null"]}}}


@pytest.fixture(autouse=True)
def fresh() -> None:
    RecordingTable.methods = []
    RecordingTable.removed = []


def schema(keys: Sequence[str] = ("id",)) -> dict[str, Any]:
    return {"type": "SCHEMA", "stream": "s", "schema": SCHEMA, "key_properties": list(keys)}


def batch(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "BATCH", "stream": "s", "encoding": {"format": "parquet"}, "manifest": [f"s3://b/{name}"], **more}


def activate(version: int) -> dict[str, Any]:
    return {"type": "ACTIVATE_VERSION", "stream": "s", "version": version}


def run(*messages: dict[str, Any], **config: Any) -> Recording:
    """Return the load method of the stream's last SCHEMA, after the run."""
    target = RecordingTarget(config=config)
    target.process_lines(io.StringIO("".join(json.dumps(m) + "\n" for m in messages)))
    target.process_endofpipe()
    target.run.close()
    return RecordingTable.methods[-1]


def test_a_batch_becomes_an_item() -> None:
    method = run(schema(), batch("1", batch_id="x", row_count=2, byte_count=3, version=4), add_record_metadata=True)
    (part,) = method.loaded_items
    item = part.item
    assert (item.urls, item.file_format, item.batch_id, item.rows, item.bytes) == (("s3://b/1",), "parquet", "x", 2, 3)
    assert item.conversion.constants["_sdc_table_version"] == 4
    assert (item.conversion.keys, item.conversion.place) == ((), None)
    assert method.context.keys == ("id",)


def test_records_become_an_item_that_is_ours_to_remove() -> None:
    records = [{"type": "RECORD", "stream": "s", "record": {"id": n, "a b": None}} for n in range(3)]
    (part,) = run(schema(), *records).loaded_items
    assert part.records == [r["record"] for r in records]
    assert (part.item.rows, part.item.is_temporary, part.item.file_format) == (3, True, "spool")
    assert not Url.parse(part.item.urls[0]).local_path().parent.exists()


def test_records_wait_also_in_a_folder_with_a_percent_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a%20b").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a%20b"))
    (part,) = run(schema(), {"type": "RECORD", "stream": "s", "record": {"id": 1}}).loaded_items
    assert part.records == [{"id": 1, "a b": None}]
    assert list((tmp_path / "a%20b").iterdir()) == []


@pytest.mark.parametrize(
    ("property_schema", "may_be_null"),
    [
        ({"type": "integer"}, False),
        ({"type": ["integer", "null"]}, True),
        ({"type": "null"}, True),
        ({"type": ["string", "null"], "enum": ["a"]}, False),
        ({"type": ["string", "null"], "enum": ["a", None]}, True),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, True),
        ({"oneOf": [{"type": "integer"}, {"type": ["null", "string"]}]}, True),
        ({"anyOf": [{"type": "integer"}, {"oneOf": [{"type": "null"}]}]}, True),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, False),
        ({"type": "integer", "anyOf": [{"type": "null"}, {"minimum": 1}]}, False),
        ({"anyOf": [{"type": "integer"}, {}]}, True),
        ({}, True),
        ({"description": "anything"}, True),
        ({"enum": ["a"]}, False),
        ({"const": "a"}, False),
        ({"const": None}, True),
        (True, True),
        ({"type": "strange"}, False),
    ],
)
def test_what_may_be_null(property_schema: Any, may_be_null: bool) -> None:
    assert is_nullable(property_schema) is may_be_null


def test_a_batch_that_comes_twice_is_loaded_once_where_there_is_a_ledger() -> None:
    twice = (schema(), batch("1", batch_id="x"), batch("2", batch_id="x"), batch("3"), batch("3"))
    assert [p.item.urls[0][-1] for p in run(*twice).loaded_items] == ["1", "3", "3"]
    for config in ({"load_method": "upsert"}, {"replay": "load"}):
        assert [p.item.urls[0][-1] for p in run(*twice, **config).loaded_items] == ["1", "2", "3", "3"]


def test_what_is_merged_has_keys_and_places() -> None:
    method = run(schema(("a b", "id")), batch("1"), batch("2"), load_method="upsert")
    assert [(p.item.conversion.keys, p.item.conversion.place) for p in method.loaded_items] == [
        (("a b", "id"), 0),
        (("a b", "id"), 1),
    ]
    assert method.context.keys == ("a_b", "id")


def test_an_upsert_without_keys_is_an_error_before_there_is_a_table() -> None:
    with pytest.raises(ConfigError, match="'s' has load_method upsert, and no key_properties"):
        run(schema(()), batch("1"), load_method="upsert")
    assert RecordingTable.methods == []
    for more in ({"load_method": "append-only"}, {"key_properties": ["id"]}):
        assert run(schema(()), batch("1"), load_method="upsert", streams={"s": more}).loaded_items


def test_a_key_must_be_a_property() -> None:
    with pytest.raises(SchemaError, match="'x' of stream 's' is not among the properties"):
        run(schema(("x",)))


@pytest.mark.parametrize(("hard", "deleted"), [(True, None), (False, "_sdc_deleted_at")])
def test_old_versions_are_removed(hard: bool, deleted: str | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    run(schema(), batch("1"), activate(5), hard_delete=hard, add_record_metadata=not hard)
    assert RecordingTable.removed == [(5, "_sdc_table_version", deleted)]
    assert f"version 5 is active, 7 older rows {'deleted' if hard else 'marked as deleted'}" in caplog.text


def test_versions_without_a_column_have_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    run(schema(), activate(5))
    assert RecordingTable.removed == []
    assert "has no effect" in caplog.text


def test_a_deferred_load_method_replaces_the_table() -> None:
    method = run(schema(), activate(5), load_method="overwrite", hard_delete=True)
    assert method.replaced
    assert RecordingTable.removed == []


def test_settings_limit_loads_and_configure_reading(tmp_path: Path) -> None:
    params = {"key": "k", "secret": "s"}
    storage = {"root": f"file://{tmp_path}", "params": params}
    config = {"batch_config": {"encoding": {"format": "jsonl"}, "storage": storage}, "max_batch_mb": 2}
    target = RecordingTarget(config={**config, "max_parallel_loads": 3, "max_batch_age_seconds": 9})
    limits = target.run.limits
    assert (limits.age_seconds, limits.bytes, limits.parallel, limits.workers) == (9, 2 << 20, 3, target.run.cores)
    assert target.run.settings.aws.access_key_id == "k"


def test_the_properties_that_may_be_null() -> None:
    given: dict[str, Any] = {
        "id": {"type": "integer"},
        "n": {"type": ["integer", "null"]},
        "e": {"type": ["string", "null"], "enum": []},
    }
    given["o"] = {"type": "object", "properties": {"must": {"type": "string"}, "may": {}}}
    given["l"] = {"type": "array", "items": {"type": "object", "properties": {"may": {"type": "null"}}}}
    properties = {**given, "any": True, "unsaid": {}}
    assert set(nullable_paths(properties)) == {("n",), ("any",), ("unsaid",), ("o", "may"), ("l", "may")}


def files_of(folder: Path, *names: str) -> list[dict[str, Any]]:
    """Return BATCH messages of local files."""
    folder.mkdir(exist_ok=True)
    messages = []
    for name in names:
        (folder / name).write_bytes(b"x")
        messages.append(batch(name) | {"manifest": [(folder / name).as_uri()]})
    return messages


def test_batch_files_are_removed_once_their_state_is_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, source, later = files_of(tmp_path / "batches", "1", "2", "3", "4")
    messages = [schema(), first, second, source | {"passthrough": True}, {"type": "STATE", "value": {"n": 1}}]
    messages.append(later | {"byte_count": 101})  # a load of its own, after which no STATE comes
    run(*messages, clean_up_batch_files=True, manifest_roots=[str(tmp_path)])
    assert capsys.readouterr().out == '{"n":1}\n'
    assert sorted(p.name for p in (tmp_path / "batches").iterdir()) == ["3", "4"]


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
def test_batch_files_stay_unless_they_are_to_be_cleaned_up(method: str, tmp_path: Path) -> None:
    messages = [schema(), *files_of(tmp_path / "batches", "1"), {"type": "STATE", "value": {"n": 1}}]
    run(*messages, load_method=method, manifest_roots=[str(tmp_path)])
    assert (tmp_path / "batches" / "1").exists()
    run(*messages, load_method=method, manifest_roots=[str(tmp_path)], clean_up_batch_files=True)
    assert not (tmp_path / "batches" / "1").exists()


def test_batch_files_are_not_removed_from_anywhere(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'clean_up_batch_files' needs 'manifest_roots'"):
        run(schema(), *files_of(tmp_path, "1"), clean_up_batch_files=True)
    assert (tmp_path / "1").exists()


def streams_of_one_name(*messages: dict[str, Any]) -> list[Recording]:
    """Return the load methods of a run in which streams `a` and `b`, of different columns, share the name `t`."""
    columns = {"a": {"id": SCHEMA["properties"]["id"], "x": {"type": "integer"}}, "b": SCHEMA["properties"]}
    schemas = [schema() | {"stream": name, "schema": {"properties": found}} for name, found in columns.items()]
    run(*schemas, *messages, stream_maps={"*": {"__alias__": "t"}})
    return RecordingTable.methods


def test_equal_batch_ids_of_different_streams_are_different_batches() -> None:
    batches = [batch(name, batch_id="1") | {"stream": name} for name in ("a", "b", "a")]
    loaded = [part.item for method in streams_of_one_name(*batches) for part in method.loaded_items]
    assert [item.urls for item in loaded] == [("s3://b/a",), ("s3://b/b",)]
    assert len({item.batch_id for item in loaded}) == 2
    assert all(item.batch_id and item.batch_id.startswith("1@") for item in loaded)


def test_batches_of_streams_of_one_name_have_the_columns_of_their_own_schema() -> None:
    batches = [batch(name) | {"stream": name} for name in ("a", "b", "b", "a")]
    methods = [method for method in streams_of_one_name(*batches) if method.loaded_items]
    given = [[part.item.conversion.given.names for part in method.loaded_items] for method in methods]
    assert given == [[["id", "x"]], [["id", "a b"]] * 2, [["id", "x"]]]


def test_no_state_leaves_before_an_emptied_table_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Checkpoints.__init__.__kwdefaults__, "interval", 0.0)
    done: list[object] = []
    monkeypatch.setattr(Replace, "finish", lambda _: done.append("replaced"))
    monkeypatch.setattr(load_run.StateOutput, "write", lambda _, state: done.append(state))
    run(schema(), activate(1), {"type": "STATE", "value": {"n": 1}}, load_method="overwrite")
    assert done == ["replaced", {"n": 1}]


@pytest.mark.parametrize(
    ("error", "words"),
    [(BrokenPipeError(), "has closed the pipe"), (OSError(28, "No space left on device"), "No space left")],
)
def test_a_state_that_could_not_be_written_ends_the_run(
    error: OSError, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later ones cannot be written either and must not count as released: their files are not removed."""
    monkeypatch.setitem(Checkpoints.__init__.__kwdefaults__, "interval", 0.0)
    errors = [error]
    monkeypatch.setattr(load_run, "discard_output", errors.clear)
    removed: list[object] = []

    class Output(io.StringIO):
        def flush(self) -> None:
            if errors:
                raise errors[0]

    target = RecordingTarget(config={"clean_up_batch_files": True, "manifest_roots": ["s3://b"]})
    monkeypatch.setattr(target.run.remover, "remove", removed.extend)
    monkeypatch.setattr("sys.stdout", Output())
    lines = [schema(), batch("1"), {"type": "STATE", "value": 1}, batch("2"), {"type": "STATE", "value": 2}]
    try:
        with pytest.raises(ServiceError, match=words):
            target.listen(io.StringIO("".join(json.dumps(m) + "\n" for m in lines)))
        with pytest.raises(ServiceError, match=words):  # a load that ends meanwhile
            target.run.checkpoints.state({"n": 3})
    finally:
        target.run.close()
    assert not removed
