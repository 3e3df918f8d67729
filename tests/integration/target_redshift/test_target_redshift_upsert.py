"""upsert and overwrite in real tables of the local Redshift."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from local_settings import ONE_EACH
from redshift_lines import Loads
from singer_lines import Message, activate, record, rows, schema, state

from local_cloud import Cloud
from singer_arrow.errors import DataError, SchemaError
from target_redshift.connection import Session

UPSERT = {"load_method": "upsert"}
OVERWRITE = {"load_method": "overwrite"}


def named(redshift: Loads) -> dict[int, str]:
    """Return names by id; the ids are unique."""
    found = redshift.table()
    assert len({r["id"] for r in found}) == len(found)
    return {r["id"]: r["name"] for r in found}


@pytest.fixture(params=["parquet-s3", "jsonl-s3", "parquet-local", "record", "mixed"])
def brought(request: pytest.FixtureRequest, redshift: Loads) -> Any:
    """Loads rows in one of several ways."""
    count = iter(range(100))

    def bring(*content: dict[str, Any]) -> list[Message]:
        kind = request.param
        if kind == "mixed":
            kind = ["parquet-s3", "record", "jsonl-s3", "parquet-local"][next(count) % 4]
        if kind == "record":
            return [record(**row) for row in content]
        file_format, where = kind.split("-")
        batch_id = f"batch-{next(count)}"
        return [redshift.batch(list(content), file_format=file_format, where=where, batch_id=batch_id)]

    return bring


def row(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "name": name}


@pytest.mark.parametrize("size", [512, 0.000001])
@pytest.mark.smoke("mixed-1e-06")
def test_the_last_row_of_a_key_wins_in_the_order_of_messages(size: float, brought: Any, redshift: Loads) -> None:
    run = [
        schema(),
        *brought(row(1, "a"), row(2, "a"), row(1, "b")),
        *brought(row(3, "c"), row(2, "c")),
        state(1),
        *brought(row(3, "d"), row(4, "d"), row(1, "d")),
        *brought(row(5, "e")),
        state(2),
    ]
    redshift.run(run, max_batch_mb=size, **UPSERT)
    assert named(redshift) == {1: "d", 2: "c", 3: "d", 4: "d", 5: "e"}


def test_rows_of_later_runs_replace_those_of_earlier_ones(brought: Any, redshift: Loads) -> None:
    redshift.run([schema(), *brought(row(1, "a"), row(2, "a"))], **UPSERT)
    redshift.run([schema(), *brought(row(2, "b"), row(3, "b"))], **UPSERT)
    assert named(redshift) == {1: "a", 2: "b", 3: "b"}


def test_files_without_a_key_twice_do_not_pass_through(redshift: Loads, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    redshift.run([schema(), redshift.batch(rows(0, 5)), redshift.batch(rows(5, 5))], **UPSERT)
    assert "a key is twice" not in caplog.text
    redshift.run([schema(), redshift.batch(rows(0, 5)), redshift.batch(rows(4, 5))], **UPSERT)
    assert "a key is twice" in caplog.text
    assert redshift.ids() == list(range(10))


def test_keys_alone(redshift: Loads) -> None:
    columns = pa.schema([("a", pa.int64()), ("b", pa.string())])
    message = schema(columns=columns, keys=("a", "b"))
    content = [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": "x"}]
    for _ in range(2):
        redshift.run([message, redshift.batch(content, columns=columns)], **UPSERT)
        assert redshift.table(order="b") == content[:2]


@pytest.mark.parametrize("where", ["s3", "local"])
def test_a_null_key_is_an_error_with_its_place(where: str, redshift: Loads) -> None:
    content = [row(1, "a"), {"id": None, "name": "b"}]
    with pytest.raises(DataError, match=r"batches?.*1\.parquet|1\.parquet") as raised:
        redshift.run([schema(), redshift.batch(content, where=where)], **UPSERT)
    assert "column 'id'" in str(raised.value)
    assert "a key property is null" in str(raised.value)
    assert redshift.table() == []


def test_keys_that_cannot_be_compared(redshift: Loads) -> None:
    columns = pa.schema([("id", pa.list_(pa.int64())), ("name", pa.string())])
    with pytest.raises(SchemaError, match="cannot be a key"):
        redshift.run([schema(columns=columns), state(1)], **UPSERT)


def test_keys_of_every_kind(redshift: Loads) -> None:
    kinds: list[tuple[pa.DataType, Any, Any]] = [
        (pa.string(), "a'\\", ""),
        (pa.decimal128(20, 5), 1, 2),
        (pa.bool_(), True, False),
        (pa.binary(), b"\0", b""),
        (pa.float64(), 0.1, -0.5),
    ]
    for number, (kind, one, other) in enumerate(kinds):
        columns = pa.schema([("k", kind), ("v", pa.int64())])
        name = f"s{number}"
        message = schema(name, columns=columns, keys=("k",))
        for value in (1, 2):
            content = [{"k": one, "v": value}, {"k": other, "v": value}]
            redshift.run([message, redshift.batch(content, columns=columns, stream=name)], **UPSERT)
        assert sorted(r["v"] for r in redshift.table(name, order="v")) == [2, 2], kind


# overwrite


@pytest.mark.smoke
def test_overwrite_replaces_all_rows_at_the_end(redshift: Loads) -> None:
    redshift.run([schema(), redshift.batch(rows(0, 5), batch_id="a")])
    redshift.run(
        [schema(), redshift.batch(rows(3, 5), batch_id="b"), record(**rows(8, 1)[0]), state(1)], **OVERWRITE, **ONE_EACH
    )
    assert redshift.ids() == [3, 4, 5, 6, 7, 8]
    assert redshift.ledger() == {"b": 5}
    assert redshift.staging_tables() == []
    redshift.run([schema(), redshift.batch(rows(3, 5), batch_id="b")])  # its rows are there
    assert redshift.ids() == [3, 4, 5, 6, 7, 8]
    redshift.run([schema(), redshift.batch(rows(0, 2), batch_id="a")])  # its former rows are removed
    assert redshift.ids() == [0, 1, 3, 4, 5, 6, 7, 8]


def test_a_stream_that_brings_nothing_leaves_its_table_alone(redshift: Loads) -> None:
    redshift.run([schema(), redshift.batch(rows(0, 5))])
    redshift.run([schema(), state(1)], **OVERWRITE)
    assert redshift.ids() == list(range(5))
    redshift.run([schema(), activate(1), state(1)], **OVERWRITE)
    assert redshift.ids() == []


@pytest.mark.smoke
def test_readers_see_the_old_rows_until_the_new_ones_are_there(
    redshift: Loads, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    redshift.run([schema(), redshift.batch(rows(0, 5))])
    redshift.sql("CREATE VIEW {seen} AS SELECT COUNT(*) AS n FROM {rows}")
    execute = Session.execute
    seen: list[tuple[str, int]] = []

    def looking(self: Session, text: str, *args: Any, **options: Any) -> Any:
        answer = execute(self, text, *args, **options)
        if text.split(maxsplit=1)[0] in ("COPY", "DELETE", "INSERT", "COMMIT"):
            seen.append((text.split(maxsplit=1)[0], redshift.sql("SELECT n FROM {seen}")[0][0]))
        return answer

    monkeypatch.setattr(Session, "execute", looking)
    redshift.run([schema(), redshift.batch(rows(100, 7)), state(1)], **OVERWRITE)
    assert [n for word, n in seen[:-1]] == [5] * (len(seen) - 1)
    assert seen[-1] == ("COMMIT", 7)
    assert {"COPY", "DELETE", "INSERT"} <= {word for word, _ in seen}
    assert redshift.sql("SELECT n FROM {seen}") == [(7,)]


def test_a_schema_that_changes_within_an_overwrite(redshift: Loads) -> None:
    wider = pa.schema([("id", pa.int64()), ("more", pa.string())])
    run = [
        schema(),
        redshift.batch(rows(0, 2)),
        schema(columns=wider),
        redshift.batch([{"id": 2, "more": "x" * 3000}], columns=wider),
        state(1),
    ]
    redshift.run(run, **OVERWRITE)
    assert redshift.table() == [
        {"id": 0, "name": "name 0", "more": None},
        {"id": 1, "name": "name 1", "more": None},
        {"id": 2, "name": None, "more": "x" * 3000},
    ]
    assert redshift.columns()["more"] == "VARCHAR(4096)"
