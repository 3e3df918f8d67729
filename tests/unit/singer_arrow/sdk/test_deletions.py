"""A tap's own `_sdc_deleted_at`: kept where it controls deletions, else dropped as by the SDK."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from recording_target import Recording, RecordingTable, RecordingTarget

from singer_arrow.load.convert import RANK
from singer_arrow.records.parse import DELETED_COLUMN, VERSION_COLUMN
from singer_arrow.sdk.sink import LoadSink

AT = "2024-02-29T12:30:00+00:00"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    RecordingTable.methods = []
    RecordingTable.removed = []
    yield
    RecordingTable.methods = []


def schema(*, declares: bool = True, **more: Any) -> dict[str, Any]:
    declared = {DELETED_COLUMN: {"type": ["null", "string"]}} if declares else {}
    properties = {"id": {"type": "integer"}, **declared, **more}
    return {"type": "SCHEMA", "stream": "s", "schema": {"properties": properties}, "key_properties": ["id"]}


def record(**values: Any) -> dict[str, Any]:
    return {"type": "RECORD", "stream": "s", "record": values}


def batch() -> dict[str, Any]:
    return {"type": "BATCH", "stream": "s", "encoding": {"format": "parquet"}, "manifest": ["s3://b/1"], "version": 3}


def run(*messages: dict[str, Any], **config: Any) -> Recording:
    """Return the load method of the stream's last SCHEMA, after the run."""
    target = RecordingTarget(config={"load_method": "upsert", **config})
    target.process_lines(io.StringIO("".join(json.dumps(m) + "\n" for m in messages)))
    target.process_endofpipe()
    target.run.close()
    return RecordingTable.methods[-1]


DELETED, LIVE = {"id": 1, DELETED_COLUMN: AT}, {"id": 2, DELETED_COLUMN: None}


@pytest.mark.parametrize(
    "maps", [None, {"s": {"id": "id", DELETED_COLUMN: DELETED_COLUMN}}, {"s": {"__else__": None, "id": "id"}}]
)
def test_hard_delete_keeps_the_deletion_column(maps: Any) -> None:
    method = run(
        schema(), record(**DELETED), record(**LIVE), hard_delete=True, **({"stream_maps": maps} if maps else {})
    )
    (part,) = method.loaded_items
    if maps and DELETED_COLUMN not in maps["s"]:  # the user removes it
        assert part.records == [{"id": 1, VERSION_COLUMN: None}, {"id": 2, VERSION_COLUMN: None}]
        return
    whens = [row[DELETED_COLUMN] for row in part.records]
    assert [str(when)[:10] if when else None for when in whens] == ["2024-02-29", None]


def test_the_deletion_column_is_a_time_in_any_schema() -> None:
    method = run(schema(), batch(), hard_delete=True)
    (part,) = method.loaded_items
    assert str(part.item.conversion.given.field(DELETED_COLUMN).type) == "timestamp[us, tz=UTC]"
    assert part.item.conversion.constants.keys() - {RANK} == {VERSION_COLUMN}  # the files have the other one


def test_without_hard_delete_the_deletion_column_is_left_out_and_a_warning_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (part,) = run(schema(), record(**DELETED)).loaded_items
    assert part.records == [{"id": 1}]
    warnings = [r.message for r in caplog.records if "marks deleted rows" in r.message]
    assert len(warnings) == 1
    assert "set hard_delete to delete them (with load_method: upsert), or add_record_metadata" in warnings[0]


@pytest.mark.parametrize("config", [{"hard_delete": True}, {"add_record_metadata": True}])
def test_no_warning_is_logged_where_the_deletion_column_is_kept(
    config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    (part,) = run(schema(), record(**DELETED), **config).loaded_items
    assert part.records[0][DELETED_COLUMN]
    assert "marks deleted rows" not in caplog.text


def test_with_metadata_files_that_do_not_have_it_have_no_deletions() -> None:
    (part,) = run(schema(declares=False), batch(), add_record_metadata=True, hard_delete=True).loaded_items
    assert part.item.conversion.constants[DELETED_COLUMN] is None
    assert part.item.conversion.constants[VERSION_COLUMN] == 3
    (own,) = run(schema(), batch(), add_record_metadata=True).loaded_items
    assert DELETED_COLUMN not in own.item.conversion.constants


@pytest.mark.parametrize(
    ("config", "declares", "deletion_column"),
    [
        ({"hard_delete": True}, True, DELETED_COLUMN),
        ({"hard_delete": True}, False, None),
        ({"hard_delete": True, "add_record_metadata": True}, False, DELETED_COLUMN),
        ({"add_record_metadata": True}, True, None),
        ({}, True, None),
    ],
)
def test_the_column_of_deletions(config: dict[str, Any], declares: bool, deletion_column: str | None) -> None:
    target = RecordingTarget(config={"load_method": "upsert", **config})
    target.process_lines(io.StringIO(json.dumps(schema(declares=declares)) + "\n"))
    sink = target.get_sink("s")
    assert isinstance(sink, LoadSink)
    assert isinstance(sink.table, RecordingTable)
    assert sink.table.method.context.deleted_column == deletion_column
    target.process_endofpipe()
    target.run.close()


def test_a_version_of_the_rows_own_is_theirs() -> None:
    """A tap whose files contain the version needs none in its messages."""
    method = run(schema(**{VERSION_COLUMN: {"type": "integer"}}), batch(), add_record_metadata=True)
    (part,) = method.loaded_items
    assert VERSION_COLUMN not in part.item.conversion.constants
