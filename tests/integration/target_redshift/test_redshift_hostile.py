"""SQL injection: hostile names and values arrive exactly, and have no other effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from singer_lines import Batches, Message, activate, record, schema, state
from singer_sdk.exceptions import ConfigValidationError
from warehouses import Warehouse

from local_cloud import Cloud
from singer_arrow.errors import FatalError

HOSTILE = [
    "'); DROP TABLE sentinel.x; --",
    '"; DROP TABLE sentinel.x; --',
    "x' OR '1'='1",
    "back\\slash\\' quote",
    "two\nlines\r\n\ttab",
    "$1 %s {0} ${x} :name ?",
    "/* comment */ -- comment",
    "é☃ 日本語 🛩 \u202e right to left",
    "$$; DROP TABLE sentinel.x; $$",
    "null",
    "",
    " ",
    "\\N",
    '"quoted","csv"',
    '{"json": [1, null, "\'"]}',
]
METHODS = ["append-only", "upsert", "overwrite"]
pytestmark = pytest.mark.parametrize("warehouse", ["redshift"], indirect=True)


@pytest.fixture(autouse=True)
def sentinel(rs: psycopg.Connection[Any]) -> Iterator[None]:
    """Create objects that hostile texts aim at, and check afterwards that they are unchanged and none is new."""

    def state_of_things() -> list[Any]:
        texts = [
            "SELECT n FROM sentinel.x",
            "SELECT table_schema, table_name FROM svv_tables WHERE table_schema NOT LIKE 'test%' ORDER BY 1, 2",
            "SELECT usename FROM pg_user ORDER BY 1",
            "SELECT groname FROM pg_group ORDER BY 1",
        ]
        return [rs.execute(text).fetchall() for text in texts]

    rs.execute("CREATE SCHEMA IF NOT EXISTS sentinel")
    rs.execute("DROP TABLE IF EXISTS sentinel.x")
    rs.execute("CREATE TABLE sentinel.x (n INTEGER)")
    rs.execute("INSERT INTO sentinel.x VALUES (1)")
    before = state_of_things()
    yield
    assert state_of_things() == before


def content(first: int, column: str = "name") -> list[dict[str, Any]]:
    return [{"id": first + n, column: text} for n, text in enumerate(HOSTILE)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("load_format", ["auto", "jsonl", "csv"])
def test_values(method: str, load_format: str, warehouse: Warehouse, batch: Batches) -> None:
    columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("raw", pa.binary()), ("l", pa.list_(pa.string()))])
    size = len(HOSTILE)
    expected = [r | {"raw": r["name"].encode(), "l": [r["name"], None]} for r in content(0) + content(size)]
    plain = [{"id": r["id"] + 2 * size, "name": r["name"]} for r in content(0)]
    messages = [
        schema(columns=columns),
        batch(expected[:size], columns=columns, batch_id=HOSTILE[0]),
        batch(expected[size:], columns=columns, batch_id=HOSTILE[1]),
        *(record(**r) for r in plain),
        state(1),
    ]
    for _ in range(2 if method != "append-only" else 1):
        warehouse.load(messages, load_method=method, load_format=load_format)
    got = warehouse.table()
    assert [{name: r[name] for name in ("id", "name", "raw", "l")} for r in got[: 2 * size]] == expected
    assert [{name: r[name] for name in ("id", "name")} for r in got[2 * size :]] == plain


def test_values_of_files_that_are_copied_as_they_are(
    warehouse: Warehouse, batch: Batches, s3: Any, bucket: str
) -> None:
    def to_s3(message: Message, key: str) -> Message:
        s3.upload_file(message["manifest"][0].removeprefix("file://"), bucket, key)
        return message | {"manifest": [f"s3://{bucket}/{key}"]}

    size = len(HOSTILE)
    messages = [
        schema(),
        to_s3(batch(content(0), batch_id=HOSTILE[0]), "it's; DROP TABLE x; --/a\"b'.parquet"),
        to_s3(batch(content(size), batch_id=HOSTILE[2], file_format="jsonl"), "it's \"é/☃ 'x.jsonl.gz"),
        state(1),
    ]
    for _ in range(2):
        warehouse.load(messages)
        assert warehouse.table() == content(0) + content(size)


@pytest.mark.parametrize("method", METHODS)
def test_names(method: str, warehouse: Warehouse, batch: Batches) -> None:
    names = [text for text in HOSTILE if text]
    columns = pa.schema([(names[0], pa.int64()), *((name, pa.string()) for name in names[1:])])
    rows = [{names[0]: n, **{name: f"{name} {n}" for name in names[1:]}} for n in range(3)]
    messages = []
    for stream in names:
        messages += [
            schema(stream, columns, keys=(names[0],)),
            batch(rows[:1], stream=stream, columns=columns, batch_id=f"{stream} 1", version=2),
            batch(rows[1:2], stream=stream, columns=columns, file_format="jsonl", version=2),
            record(stream, version=2, **rows[2]),
            activate(2, stream),
        ]
    layout = {"dist_key": names[0], "sort_keys": [names[1], names[0]]}
    warehouse.load([*messages, state(1)], load_method=method, hard_delete=True, **layout)
    found = warehouse.contents()
    assert len(found) == len(names)
    for table, (kinds, lines) in found.items():
        assert len(lines) == 3, table
        assert len(kinds) >= len(names)
        columns_of = [c for c in kinds if not c.startswith("_sdc_")]
        first = next(c for c, kind in kinds.items() if kind == "bigint" and c in columns_of)
        got = warehouse.table(table, order=f'"{first}"')
        for n, row in enumerate(got):
            assert sorted(str(row[c]) for c in columns_of) == sorted(str(v) for v in rows[n].values())


def refusal(warehouse: Warehouse, messages: list[Message], settings: dict[str, Any]) -> str:
    """Return the error message for the settings; empty if they are accepted."""
    try:
        warehouse.load(messages, **settings)
    except (FatalError, ConfigValidationError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", [text for text in HOSTILE if text.strip()])
def test_settings(name: str, warehouse: Warehouse, batch: Batches, bucket: str) -> None:
    """Each is either accepted as the exact name, or refused in one line."""
    attempts: dict[str, Any] = {
        "default_target_schema": name,
        "s3_stage": f"s3://{bucket}/{name}",
        "dist_key": {"*": name},
        "sort_keys": {"*": [name]},
        "grants": {"select": [name]},
        "copy_role_arn": name,
        "user": name,
        "dbname": name,
    }
    taken = set()
    for setting, value in attempts.items():
        stream = f"rows_{setting}"
        messages = [schema(stream), batch(content(0), stream=stream, batch_id="a"), state(1)]
        error = refusal(warehouse, messages, {setting: value})
        assert "\n" not in error
        assert warehouse.config["password"] not in error
        where = name.lower() if setting == "default_target_schema" else warehouse.schema
        if not error:
            taken.add(setting)
            got = warehouse.run(f"SELECT * FROM {warehouse.quoted(stream, where)} ORDER BY id")
            assert got == content(0)
    if name.lower() != warehouse.schema:
        warehouse.drop(name.lower())
    paths = set() if "${" in name else {"s3_stage"}  # a variable that was not set
    assert taken == ({"default_target_schema", *paths} if name.isprintable() else set())


def test_grants_to_those_whose_names_are_hostile(
    warehouse: Warehouse, batch: Batches, rs: psycopg.Connection[Any], cloud: Cloud
) -> None:
    user, group, password = 'u"; DROP TABLE sentinel.x; --', "g'); DROP TABLE sentinel.x; --", "Hostile-1"
    quoted, table = user.replace('"', '""'), warehouse.quoted("rows")
    rs.execute(f"CREATE USER \"{quoted}\" PASSWORD '{password}'")
    rs.execute(f'CREATE GROUP "{group}"')
    try:
        grants = {"select": [user, f"group:{group}"], "delete": [f"group:{group}"]}
        warehouse.load([schema(), batch(content(0)), state(1)], grants=grants)
        with cloud.redshift_connection(user=user.lower(), password=password) as theirs:
            assert theirs.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (len(HOSTILE),)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                theirs.execute(f"DELETE FROM {table}")
    finally:
        warehouse.drop()
        rs.execute(f'DROP USER "{quoted}"')
        rs.execute(f'DROP GROUP "{group}"')


def test_columns_that_redshift_takes_for_one(warehouse: Warehouse, batch: Batches) -> None:
    names = [
        *("ID", "Id", "id", "a b", "a_b", "a-b", 'a"b', "select", "User", "tableoid", "oid", "_sdc_order", "é", "e"),
        *("x" * 200, "x" * 199 + "y", "x" * 127, "日" * 70, "1", "_1", "default", "tag", "AZ64", "$", "_sdc_row"),
    ]
    columns = pa.schema([(name, pa.int64()) for name in names])
    content = [{name: 100 * row + n for n, name in enumerate(names)} for row in range(3)]
    messages = [
        schema(columns=columns, keys=("id", "ID")),
        batch(content[:1], columns=columns),
        batch(content[1:2], columns=columns, file_format="jsonl"),
        record(**content[2]),
        state(1),
    ]
    for method in ("upsert", "upsert", "overwrite"):
        warehouse.load(messages, load_method=method)
        kinds = warehouse.columns("rows")
        kinds.pop("_sdc_rank", None)
        assert len(kinds) == len(names)
        assert max(len(name.encode()) for name in kinds) <= 127
        got = warehouse.table()
        assert [sorted(row.values()) for row in got] == [[100 * n + i for i in range(len(names))] for n in range(3)]
        assert [(row["id"] % 100, row["a_b"] % 100, row["select"] % 100) for row in got] == [(2, 4, 7)] * 3
