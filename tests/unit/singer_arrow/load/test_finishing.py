"""At the end of input, tables of finished streams are replaced, others kept, and STATE is held back for them."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest
from recording_target import RecordingTable, RecordingTarget, Replace
from singer_lines import COLUMNS, activate, record, states
from singer_lines import schema as plain_schema

from singer_arrow.errors import DataError, UnfinishedStreamError
from singer_arrow.load.run import Checkpoints

Message = dict[str, Any]
OVERWRITE = {"load_method": "overwrite"}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the load methods, and release every STATE as soon as it is allowed."""
    RecordingTable.methods = []
    monkeypatch.setitem(Checkpoints.__init__.__kwdefaults__, "interval", 0.0)


def schema(stream: str = "a", columns: Any = COLUMNS) -> Message:
    return {**plain_schema(stream, columns), "end_of_stream": True}


def batch(stream: str = "a") -> Message:
    return {"type": "BATCH", "stream": stream, "encoding": {"format": "parquet"}, "manifest": [f"s3://b/{stream}"]}


def state(number: int, **more: Any) -> Message:
    return {"type": "STATE", "value": {"n": number}, **more}


def end(stream: str | list[str], number: int) -> Message:
    return state(number, end_of_stream=stream)


def run(messages: list[Message], text: str = "", **config: Any) -> Exception | None:
    """Run the target as its executable does; return the error that ended it."""
    target = RecordingTarget(config=config)
    try:
        target.listen(io.StringIO("".join(json.dumps(m) + "\n" for m in messages) + text))
    except Exception as error:  # noqa: BLE001 - the tests look at it
        target.run.abandon(error)
        return error
    finally:
        target.run.close()
    return None


def replaced() -> list[str]:
    return [
        method.context.stream for method in RecordingTable.methods if isinstance(method, Replace) and method.finished
    ]


def test_finished_streams_are_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = [schema("a"), batch("a"), end("a", 1)], [schema("b"), record("b", id=1), state(2), end("b", 3)]
    assert run([*a, *b], **OVERWRITE) is None
    assert replaced() == ["a", "b"]
    assert states(capsys.readouterr().out) == [1, 3]


@pytest.mark.parametrize("rows", [batch("a"), record("a", id=1), activate(1, "a")])
def test_an_unfinished_stream_keeps_its_table(rows: Message, capsys: pytest.CaptureFixture[str]) -> None:
    error = run([state(0), schema("a"), rows, state(1), state(2)], **OVERWRITE)
    assert isinstance(error, UnfinishedStreamError)
    assert str(error) == (
        "Stream 'a': the input ended before the tap marked the end of the stream, so the table keeps its former rows, "
        "and no STATE from within the stream was written. See the tap's log for the reason, then run both again"
    )
    assert replaced() == []
    assert states(capsys.readouterr().out) == [0]


def test_no_state_from_within_a_stream_without_rows_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    error = run([state(0), schema("a"), state(1)], **OVERWRITE)
    assert isinstance(error, UnfinishedStreamError)
    assert states(capsys.readouterr().out) == [0]


def test_a_stream_without_rows_may_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([schema("a"), state(1), end("a", 2)], **OVERWRITE) is None
    assert states(capsys.readouterr().out) == [2]


@pytest.mark.parametrize(
    ("key", "ends", "emptied"),
    [("FULL_TABLE", True, True), ("INCREMENTAL", True, False), ("FULL_TABLE", False, False)],
)
def test_a_full_table_without_rows_is_replaced_once_it_has_ended(
    key: str, ends: bool, emptied: bool, caplog: pytest.LogCaptureFixture
) -> None:
    error = run([{**schema("a"), "replication_method": key}, *([end("a", 1)] if ends else [])], **OVERWRITE)
    assert (error is None) is ends
    assert ("has no row: its table becomes empty" in caplog.text) is emptied


def test_streams_before_and_after_an_unfinished_one_are_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    a, c = ([schema(s), batch(s), state(n), end(s, n + 1)] for s, n in (("a", 1), ("c", 7)))
    b = [schema("b"), batch("b"), state(4), batch("b")]
    error = run([*a, *b, *c], **OVERWRITE)
    assert isinstance(error, UnfinishedStreamError)
    assert str(error).startswith("Stream 'b': the input ended")
    assert replaced() == ["a", "c"]
    assert states(capsys.readouterr().out) == [2]


def test_a_stream_that_an_unfinished_one_interrupts_keeps_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise the next run would start from a STATE within it, and replace all of it by the rest."""
    begun = [schema("a"), batch("a"), state(1), batch("a"), schema("b"), batch("b")]
    error = run([state(0), *begun, end("a", 2), state(3)], **OVERWRITE)
    assert isinstance(error, UnfinishedStreamError)
    assert "Stream 'a': kept too, because" in str(error)
    assert replaced() == []
    assert states(capsys.readouterr().out) == [0]


def test_one_state_may_mark_the_ends_of_several_streams(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = [schema("a"), batch("a"), record("a", id=1)], [schema("b"), record("b", id=1)]
    assert run([state(0), *a, *b, end(["a", "b"], 1)], **OVERWRITE) is None
    assert (replaced(), states(capsys.readouterr().out)) == (["a", "b"], [0, 1])


def test_a_mark_may_come_late(capsys: pytest.CaptureFixture[str]) -> None:
    """No STATE is within the stream, so the next run begins it anew."""
    error = run([state(0), schema("a"), batch("a"), schema("b"), batch("b"), end(["a"], 1)], **OVERWRITE)
    assert isinstance(error, UnfinishedStreamError)
    assert str(error).startswith("Stream 'b': the input ended")
    assert "Stream 'a'" not in str(error)
    assert (replaced(), states(capsys.readouterr().out)) == (["a"], [0])


@pytest.mark.parametrize("rows", [batch("a"), record("a", id=2)])
def test_rows_after_the_mark_need_another_mark(rows: Message, capsys: pytest.CaptureFixture[str]) -> None:
    error = run([schema("a"), record("a", id=1), end("a", 1), rows, state(2)], **OVERWRITE)
    assert isinstance(error, UnfinishedStreamError)
    assert replaced() == []
    assert states(capsys.readouterr().out) == []
    assert run([schema("a"), record("a", id=1), end("a", 1), rows, end("a", 2)], **OVERWRITE) is None


def test_a_schema_that_changes_is_still_the_same_stream(capsys: pytest.CaptureFixture[str]) -> None:
    first = [schema("a"), batch("a"), state(1), schema("a", COLUMNS.remove(1)), batch("a")]
    assert isinstance(run([*first, state(2)], **OVERWRITE), UnfinishedStreamError)
    assert (replaced(), states(capsys.readouterr().out)) == ([], [])
    assert run([*first, end("a", 2)], **OVERWRITE) is None
    assert (replaced(), states(capsys.readouterr().out)) == (["a", "a"], [2])


def test_without_the_announcement_the_end_of_the_input_counts(capsys: pytest.CaptureFixture[str]) -> None:
    messages = [plain_schema("a"), batch("a"), state(1), plain_schema("b"), batch("b"), end("b", 2)]
    assert run(messages, **OVERWRITE) is None
    assert replaced() == ["a", "b"]
    assert states(capsys.readouterr().out) == [1, 2]


@pytest.mark.parametrize("announced", [True, False])
def test_no_table_is_replaced_when_the_last_line_is_cut_off(
    announced: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = schema("a") if announced else plain_schema("a")
    for line in (batch("a"), record("a", id=3), state(2), end("a", 2)):
        text = json.dumps(line)
        for cut in (1, len(text) // 2, len(text) - 1):
            error = run([begin, batch("a"), record("a", id=1), state(1)], text[:cut], **OVERWRITE)
            assert isinstance(error, DataError), error
            assert (replaced(), states(capsys.readouterr().out)) == ([], [])


def test_nothing_is_replaced_by_no_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([], **OVERWRITE) is None
    assert (replaced(), capsys.readouterr().out) == ([], "")


def test_two_streams_of_one_table_must_both_end(capsys: pytest.CaptureFixture[str]) -> None:
    maps = {s: {"__alias__": "both"} for s in ("a", "b")}
    a, b = ([schema(s), batch(s), end(s, n)] for s, n in (("a", 1), ("b", 2)))
    assert isinstance(run([*a, *b[:-1]], stream_maps=maps, **OVERWRITE), UnfinishedStreamError)
    assert (replaced(), states(capsys.readouterr().out)) == ([], [])
    assert run([*a, *b], stream_maps=maps, **OVERWRITE) is None
    assert states(capsys.readouterr().out)[-1] == 2


def test_a_stream_that_is_mapped_away_need_not_end(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = [schema("a"), batch("a"), end("a", 1)], [schema("b"), batch("b"), state(2)]
    assert run([*a, *b], stream_maps={"b": None}, **OVERWRITE) is None
    assert states(capsys.readouterr().out)[-1] == 2


@pytest.mark.parametrize("method", ["append-only", "upsert"])
def test_where_no_table_is_replaced_an_unfinished_stream_is_a_warning(
    method: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    a, b = [schema("a"), batch("a"), end("a", 1)], [schema("b"), batch("b"), state(2), record("b", id=1)]
    assert run([*a, *b], load_method=method) is None
    assert states(capsys.readouterr().out)[-1] == 2
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [w.partition(":")[0] for w in warnings] == ["Stream 'b'"]
    assert "what came is loaded, and the next run continues from the last STATE" in warnings[0]
