"""Invalid lines end the run with a one-line error with place and cause; earlier rows are loaded."""

from __future__ import annotations

import io
import json
import os
import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from json_parsers import json_parser  # noqa: F401 - used by each test of the module
from recording_target import RecordingTable, RecordingTarget
from singer_lines import states
from waiting import wait_until

from singer_arrow.errors import DataError
from singer_arrow.reading import chunks as text
from singer_arrow.records import queue as record_queue
from singer_arrow.records.parse import BAD_INPUT

TYPES: dict[str, dict[str, Any]] = {
    "id": {"type": "integer"},
    "n": {"type": ["integer", "null"]},
    "f": {"type": ["number", "null"]},
    "t": {"type": ["string", "null"]},
    "at": {"type": ["string", "null"], "format": "date-time"},
    "day": {"type": ["string", "null"], "format": "date"},
    "short": {"type": ["string", "null"], "maxLength": 3},
    "days": {"type": ["array", "null"], "items": {"type": "string", "format": "date"}},
    "o": {"type": ["object", "null"], "properties": {"at": {"type": "string", "format": "date-time"}}},
    "b": {"type": ["string", "null"], "contentEncoding": "base64"},
    "j": {},
}


@pytest.fixture(autouse=True)
def fresh() -> None:
    RecordingTable.methods = []
    RecordingTable.removed = []


def schema(stream: str = "s", **more: Any) -> bytes:
    of = {"type": "object", "properties": TYPES} | more
    return line({"type": "SCHEMA", "stream": stream, "schema": of, "key_properties": ["id"]})


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def record(number: int, stream: str = "s", **values: Any) -> bytes:
    return line({"type": "RECORD", "stream": stream, "record": {"id": number} | values})


def raw(values: bytes, stream: bytes = b"s") -> bytes:
    return b'{"type": "RECORD", "stream": "%b", "record": {%b}}\n' % (stream, values)


def state(number: int) -> bytes:
    return line({"type": "STATE", "value": {"n": number}})


class Run:
    """The result of an input: the rows by stream, and the error."""

    def __init__(self, lines: Sequence[bytes], **config: Any) -> None:
        RecordingTable.methods = []
        target = RecordingTarget(config=config)
        self.error: Exception | None = None
        try:
            target.listen(io.TextIOWrapper(io.BytesIO(b"".join(lines)), encoding="utf-8"))
        except BAD_INPUT as error:
            self.error = error
            try:
                target.run.abandon(error)
            except BAD_INPUT as earlier:
                self.error = earlier
        finally:
            target.run.close()
        self.rows: dict[str, list[dict[str, Any]]] = {}
        for method in RecordingTable.methods:
            found = [row for part in method.loaded_items for row in part.records]
            self.rows.setdefault(method.context.stream, []).extend(found)

    def ids(self, stream: str = "s") -> list[int]:
        return [row["id"] for row in self.rows.get(stream, [])]


BAD = {
    "null": (b"null\n", "Line 5 of the input", "null"),
    "blank": (b"\n", "Line 5 of the input", "blank"),
    "spaces": (b"  \n", "Line 5 of the input", "blank"),
    "no JSON": (b'{"type": "RECORD", "stream": "s", "record": {"id": 9}\n', "Line 5 of the input", "JSON"),
    "list": (b"[1]\n", "Line 5 of the input", "no Singer message"),
    "two records": (raw(b'"id": 8')[:-1] + raw(b'"id": 9'), "Line 5", "Extra data|something follows"),
    "NaN": (raw(b'"id": 9, "f": NaN'), "Line 5", "NaN is not JSON"),
    "Infinity": (raw(b'"id": 9, "f": -Infinity'), "Line 5", "-Infinity is not JSON"),
    "duplicate key": (raw(b'"id": 9, "n": 1, "n": 2'), "Line 5.*'n'", "occurs twice"),
    "duplicate member": (b'{"type":"RECORD","stream":"s","record":{"id":8},"record":{"id":9}}\n', "Line 5", "twice"),
    "a record, then a state": (raw(b'"id": 9')[:-2] + b', "type": "STATE", "value": {"n": 9}}\n', "Line 5", "twice"),
    "a state, then a record": (state(9)[:-2] + b", " + raw(b'"id": 9')[1:], "Line 5", "'type' .*twice"),
    "two streams": (raw(b'"id": 9')[:-2] + b', "stream": "other"}\n', "Line 5", "twice"),
    "two values": (state(9)[:-2] + b', "value": {"n": 8}}\n', "Line 5", "'value' .*twice"),
    "an escaped type": (state(9)[:-2] + rb', "\u0074ype": "STATE"}' + b"\n", "Line 5", "'type' .*twice"),
    "two schemas": (schema()[:-2] + b', "schema": {"properties": {"x": {}}}}\n', "Line 5", "'schema' .*twice"),
    "lone surrogate": (raw(rb'"id": 9, "t": "\ud800"'), "Line 5.*'t'", "surrogate"),
    "2^63": (raw(b'"id": 9, "n": 9223372036854775808'), "Line 5.*'n'", "too large"),
    "huge float": (raw(b'"id": 9, "f": 1e400'), "Line 5.*'f'", "too large"),
    "text as integer": (raw(b'"id": 9, "n": "1"'), "Line 5.*'n'", "is not of type 'integer', 'null'"),
    "1.5 as integer": (raw(b'"id": 9, "n": 1.5'), "Line 5.*'n'", "1.5.* is not of type 'integer', 'null'"),
    "integer as text": (raw(b'"id": 9, "t": 1'), "Line 5.*'t'", "1 is not of type 'string', 'null'"),
    "too long": (raw(b'"id": 9, "short": "abcd"'), "Line 5.*'short'", "'abcd' is too long"),
    "year 0": (raw(b'"id": 9, "at": "0000-01-01T00:00:00Z"'), "Line 5.*'at'", "no date-time"),
    "day of year 0": (raw(b'"id": 9, "day": "0000-01-01"'), "Line 5.*'day'", "no date"),
    "year 10000": (raw(b'"id": 9, "at": "10000-01-01T00:00:00Z"'), "Line 5.*'at'", "no date-time"),
    "30 February": (raw(b'"id": 9, "day": "2026-02-30"'), "Line 5.*'day'", "day is out of range|no date"),
    "year 10000 in UTC": (raw(b'"id": 9, "at": "9999-12-31T23:59:59-14:00"'), "Line 5.*'at'", "out of range"),
    "year 0 in UTC": (raw(b'"id": 9, "at": "0001-01-01T00:00:00+14:00"'), "Line 5.*'at'", "out of range"),
    "nested year 0": (raw(b'"id": 9, "days": ["0000-01-01"]'), "Line 5.*'days'", "out of range"),
    "nested year 10000 in UTC": (
        raw(b'"id": 9, "o": {"at": "9999-12-31T23:59:59-14:00"}'),
        "Line 5.*'o'",
        "out of range",
    ),
    "surrogate as bytes": (raw(rb'"id": 9, "b": "\ud800"'), "Line 5.*'b'", "surrogate"),
    "surrogate as day": (raw(rb'"id": 9, "days": ["\ud800"]'), "Line 5.*'days'", "surrogate"),
    "deep": (raw(b'"id": 9, "j": ' + b"[" * 100_000 + b"]" * 100_000), "Line 5", "nested too deeply|recursion"),
    "deep, unknown": (raw(b'"id": 9, "u": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "Line 5", "deep|recursion"),
    "stream is a list": (b'{"type":"RECORD","stream":["s"],"record":{"id":9}}\n', "Line 5", "an array"),
    "stream is a number": (b'{"type":"RECORD","stream":1,"record":{"id":9}}\n', "Line 5", "an integer"),
    "stream is null": (b'{"type":"RECORD","stream":null,"record":{"id":9}}\n', "Line 5", "null"),
    "no stream": (b'{"type":"RECORD","record":{"id":9}}\n', "Line 5", "lacks 'stream'"),
    "schema of an object": (b'{"type":"SCHEMA","stream":{},"schema":{"properties":{}}}\n', "Line 5", "an object"),
    "null key": (raw(b'"id": null'), "Line 5.*'id'", "None is not of type 'integer'"),
    "no key": (raw(b'"n": 1'), "Line 5.*'id'", "lacks the key property"),
    "bytes": (raw(b'"id": 9, "t": "\xff"'), "Line 5", "UTF-8"),
    "no object": (b'{"type": "RECORD", "stream": "s", "record": [1]}\n', "Line 5.*'s'", "an array"),
    "no record": (b'{"type": "RECORD", "stream": "s"}\n', "Line 5.*'s'", "nothing"),
    "no schema": (record(9, "other"), "Line 5.*'other'", "before the SCHEMA"),
    "unknown type": (line({"type": "NEWS"}), "Line 5", "'NEWS'"),
    "no type": (line({"stream": "s"}), "Line 5", "lacks 'type'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_an_error_and_rows_before_it_are_loaded(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    bad, where, why = BAD[case]
    ran = Run([schema(), record(1), record(2), state(1), bad, record(3), state(2)])
    assert isinstance(ran.error, DataError)
    error = str(ran.error)
    assert ran.error.code == {"no key": "missing-key", "no schema": "no-schema"}.get(case, "data")
    assert "\n" not in error
    assert re.search(where, error)
    assert re.search(why, error)
    assert ran.ids() == [1, 2]
    assert states(capsys.readouterr().out) == [1]


GOOD = {
    "1.0 as integer": (raw(b'"id": 9, "n": 1.0'), {"n": 1}),
    "exponent as integer": (raw(b'"id": 9, "n": 1e3'), {"n": 1000}),
    "seven digits": (raw(b'"id": 9, "at": "2026-01-01T00:00:00.1234567Z"'), {"at": "2026-01-01 00:00:00.123456+00:00"}),
    "no zone": (raw(b'"id": 9, "at": "2026-01-01 10:00"'), {"at": "2026-01-01 10:00:00+00:00"}),
    "2^63 - 1": (raw(b'"id": 9, "n": 9223372036854775807'), {"n": 2**63 - 1}),
    "members before and after": (
        b'{"version":1,"stream":"s","time_extracted":"x","record":{"id":9,"t":"a"},"type":"RECORD","more":[1]}\r\n',
        {"t": "a"},
    ),
    "unknown property": (raw(b'"id": 9, "news": {"a": NULL}'.replace(b"NULL", b"null")), {"n": None}),
    "escapes": (raw(rb'"id": 9, "t": "\u00e9\ud83d\ude00\n"'), {"t": "\u00e9\U0001f600\n"}),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_json_schema_accepts_is_accepted(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    good, values = GOOD[case]
    ran = Run([schema(), record(1), good, record(2), state(1)])
    assert ran.error is None
    assert ran.ids() == [1, 9, 2]
    found = ran.rows["s"][1]
    assert {name: str(found[name]) if name == "at" else found[name] for name in values} == values
    assert states(capsys.readouterr().out) == [1]


def test_a_line_that_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Run([schema(), record(1), state(1), record(2)[:-9]])
    assert re.search("Line 4 .*JSON", str(ran.error))
    assert ran.ids() == [1]
    assert states(capsys.readouterr().out) == [1]
    assert Run([schema(), record(1), record(2)[:-1]]).ids() == [1, 2]


def test_a_state_that_is_cut_off_is_an_error() -> None:
    ran = Run([schema(), record(1), state(1)[:-5]])
    assert re.search("Line 3 .* the input ends there", str(ran.error))


def test_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(text, "MAX_RECORD_BYTES", 3 << 20)
    fits, long = "x" * (2 << 20), "x" * (7 << 20)
    ran = Run([schema(), record(1), record(2, t=fits), state(1), record(3, t=long), record(4)])
    assert re.search("Line 5 of the input.* is longer than 3 MiB", str(ran.error))
    assert ran.ids() == [1, 2]
    assert states(capsys.readouterr().out) == [1]


def test_the_first_bad_line_counts_whatever_stream_it_is_of(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [schema(), schema("t"), record(1), record(1, "t"), state(1), record(2), raw(b'"id": "x"', b"t")]
    ran = Run([*lines, state(2), record(3), raw(b'"id": "y"'), record(2, "t"), b"null\n"])
    assert re.search("Line 7 .*'t', column 'id': 'x'", str(ran.error))
    assert (ran.ids(), ran.ids("t")) == ([1, 2], [1])
    assert states(capsys.readouterr().out) == [1]


@pytest.mark.parametrize("block_bytes", [1, 300, 1 << 20])
def test_order_is_kept_over_interleaved_streams(
    block_bytes: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record_queue, "BLOCK_BYTES", block_bytes)
    lines = [schema(), schema("t")]
    for n in range(50):
        lines += [record(n), record(n, "t"), record(100 + n, "t")]
        if n % 10 == 9:
            lines.append(state(n))
    ran = Run(lines)
    assert ran.ids() == list(range(50))
    assert ran.ids("t") == [i for n in range(50) for i in (n, 100 + n)]
    assert states(capsys.readouterr().out)[-1] == 49


def test_records_before_a_changed_schema_use_the_old_one() -> None:
    other = {"properties": TYPES | {"n": {"type": ["string", "null"]}}}
    ran = Run([schema(), record(1, n=1), schema(**other), record(2, n="a"), schema(), record(3, n="b")])
    assert re.search("Line 6 .*'n': 'b'", str(ran.error))
    assert [(r["id"], r["n"]) for r in ran.rows["s"]] == [(1, 1), (2, "a")]


@pytest.mark.parametrize("changed", [False, True])
def test_two_streams_of_one_table_lose_nothing(changed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """One of them is mapped, so that its records are read singly; the other's SCHEMA comes first, or both do."""
    first = [schema("t"), record(1, "t"), state(1)] if changed else []
    order = [record(2), record(3, "t"), record(4, "t"), record(5), state(2), record(6, "t"), state(3)]
    ran = Run([*first, schema(), schema("t"), *order], stream_maps={"s": {"__alias__": "t"}})
    assert ran.error is None
    assert sorted(ran.ids("t")) == [*([1] if changed else []), 2, 3, 4, 5, 6]  # loads run side by side
    assert states(capsys.readouterr().out)[-1] == 3


def test_a_version_is_activated_at_its_place() -> None:
    lines = [schema(), record(1), line({"type": "ACTIVATE_VERSION", "stream": "s", "version": 1}), record(2)]
    loaded: list[int] = []
    original = RecordingTable.remove_versions

    def remove(self: RecordingTable, version: int, **options: Any) -> int:
        loaded.extend(len(part.records) for method in self.methods for part in method.loaded_items)
        return original(self, version, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordingTable, "remove_versions", remove)
        assert Run(lines, add_record_metadata=True).ids() == [1, 2]
    assert loaded == [1]


def test_the_columns_that_the_target_adds() -> None:
    message = {"type": "RECORD", "stream": "s", "record": {"id": 1, "_sdc_deleted_at": "2026-01-02T00:00:00Z"}}
    times = {"time_extracted": "2026-01-01T00:00:00+00:00", "version": 7}
    ran = Run([schema(), line(message | times), line(message)], add_record_metadata=True)
    first, second = ran.rows["s"]
    assert str(first["_sdc_extracted_at"]) == "2026-01-01 00:00:00+00:00"
    assert (first["_sdc_table_version"], second["_sdc_table_version"]) == (7, None)
    assert str(first["_sdc_deleted_at"]) == "2026-01-02 00:00:00+00:00"
    assert first["_sdc_received_at"] >= first["_sdc_batched_at"] is not None
    assert first["_sdc_sequence"] > first["_sdc_sync_started_at"] > 1_700_000_000_000
    assert Run([schema(), line(message | times)], hard_delete=True).rows["s"][0]["_sdc_table_version"] == 7
    for when in ("yesterday", "9999-12-31T23:59:59-14:00", "\ud800"):
        bad = Run([schema(), line(message | {"time_extracted": when})], add_record_metadata=True)
        assert re.search("Line 2 .*'_sdc_extracted_at'", str(bad.error)), when


def test_records_that_are_not_validated_are_read_loosely() -> None:
    ran = Run([schema(), record(1, t=5, n="x")], validate_records=False)
    assert re.search("Line 2 .*'n': expected an integer, found text 'x'", str(ran.error))
    assert Run([schema(), record(1, t=5), record(2, t={"a": [1]})], validate_records=False).rows["s"][0]["t"] == "5"


def test_files_hold_no_more_records_than_is_asked_for() -> None:
    Run([schema(), *(record(n) for n in range(7))], batch_size_rows=3)
    assert [part.item.rows for part in RecordingTable.methods[0].loaded_items] == [3, 3, 1]


def test_records_of_a_slow_tap_do_not_wait_for_more(capsys: pytest.CaptureFixture[str]) -> None:
    target = RecordingTarget(config={"max_batch_age_seconds": 0.1})
    reader, writer = os.pipe()
    with os.fdopen(reader, encoding="utf-8") as source:
        reading = threading.Thread(target=target.process_lines, args=(source,))
        reading.start()
        os.write(writer, schema() + record(1) + state(1) + record(2)[:20])
        numbers = wait_until(lambda: states(capsys.readouterr().out))
        os.write(writer, record(2)[20:])
        os.close(writer)
        reading.join()
    target.process_endofpipe()
    target.run.close()
    assert numbers == [1]
    assert [row["id"] for part in RecordingTable.methods[0].loaded_items for row in part.records] == [1, 2]
