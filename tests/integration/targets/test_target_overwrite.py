"""overwrite while a stream's SCHEMA changes: one new table with all rows, followed by STATE."""

from __future__ import annotations

import time
from typing import Any

from singer_lines import lines, record, state, states

from local_cloud.programs import Programs

INTEGER = {"type": ["null", "integer"]}


def schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "SCHEMA",
        "stream": "rows",
        "schema": {"type": "object", "properties": {"id": INTEGER, **properties}},
        "key_properties": [],
    }


def test_a_field_of_a_record_is_added_in_the_middle(run: Programs, table: Any) -> None:
    nested: dict[str, Any] = {"type": ["null", "object"], "properties": {"a": INTEGER}}
    wider = {**nested, "properties": {"a": INTEGER, "b": INTEGER}}
    messages = [schema(n=nested), record(id=1, n={"a": 1}), schema(n=wider), record(id=2, n={"a": 1, "b": 2})]
    sent = lines([*messages, state(1)])
    ran = run("target-bigquery", config=["ENV", {"load_method": "overwrite"}], stdin=sent).check()
    assert states(ran.stdout) == [1]
    assert table() == [{"id": 1, "n": {"a": 1, "b": None}}, {"id": 2, "n": {"a": 1, "b": 2}}]


def test_the_state_leaves_although_the_sdk_drains_in_the_middle(run: Programs, table: Any) -> None:
    config = {"load_method": "overwrite", "max_batch_age_seconds": 0.5}
    target = run.start("target-bigquery", config=["ENV", config])
    assert target.stdin

    def send(*messages: dict[str, Any]) -> None:
        assert target.stdin
        target.stdin.write(lines(messages).encode())
        target.stdin.flush()

    send(schema(), record(id=1), schema(a=INTEGER), record(id=2, a=2))
    time.sleep(3)  # the records are old now, and the next one makes the SDK drain all sinks and drop former ones
    send(record(id=3), record(id=4), state(1))
    out, errors = target.communicate(timeout=60)
    assert target.returncode == 0, errors.decode()
    assert states(out) == [1]
    assert [r["id"] for r in table()] == [1, 2, 3, 4]
