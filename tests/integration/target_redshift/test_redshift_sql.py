"""Every SQL statement of target-redshift, run on the local Redshift with plain and hostile names."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redshift_sql as docs
from local_settings import of_redshift

from local_cloud import Cloud
from singer_arrow.load.convert import RANK
from singer_arrow.warehouse.settings import mark
from target_redshift import sql
from target_redshift.client import Redshift
from target_redshift.columns import StagingColumn, upload_columns
from target_redshift.connection import Session
from target_redshift.resources import QueryResult
from target_redshift.settings import Settings
from target_redshift.sql import NULL_TEXT

AT = dt.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=dt.UTC)
ROW: dict[str, Any] = {
    "Order ID": 2**62,
    "note": "",
    "price": Decimal("1234567890.12"),
    "at": AT,
    "picture": b"\x00\xff'",
    "tags": '{"a":["x\'y",1.5,null]}',
    "lines": [{"sku": "ü", "quantity": 3}],
}
NULLS: dict[str, Any] = {"Order ID": 1}
HOSTILE = {
    "tame": "",
    "quotes": "a\"b'c; DROP TABLE x; --",
    "backslashes": "a\\b\\",
    "newline": "a\nb",
    "unicode": "n\u00e4ive \u540d\u524d",
    "percent": "%s %d %% {} $1 :name ?",
    "reserved": "select",
    "long": "l" * 200,
}


class Scenario:
    """Runs the examples of given names in order."""

    def __init__(self, session: Session, names: Any) -> None:
        self.session = session
        self.examples = docs.Examples(names)
        self.all = [e for chapter in self.examples.chapters() for e in chapter.examples]
        self.ran: set[str] = set()

    def run(self, name: str, number: int = 0, *, params: tuple[Any, ...] = ()) -> QueryResult:
        """Run an example; if there are several under a name, the one of that number."""
        example = [e for e in self.all if e.name == name][number]
        assert example.text.count("%s") >= len(params)
        self.ran.add(name)
        return self.session.execute(example.text, params, what=name)

    def do(self, text: str) -> QueryResult:
        """Run a statement of the test."""
        return self.session.execute(text, what="test")


@pytest.fixture
def client(cloud: Cloud, schema: str, s3: Any) -> Iterator[Redshift]:
    client = Redshift(Settings.from_config(of_redshift(cloud, default_target_schema=schema)))
    yield client
    client.close()


def named(hostile: str, schema: str, url: str) -> Any:
    """Return names in `schema`: plain ones, or hostile ones; in Redshift columns also have names of 127 bytes."""
    if not hostile:
        return docs.Names(schema=schema, stage=url, user=f"u_{schema}", role=docs.Names().role, access=KEYS)
    return docs.Names(
        schema=f"{schema}{hostile}"[:60],
        table=hostile,
        user=f"u_{schema}{hostile}"[:60],
        stage=url,
        comment=hostile,
        access=KEYS,
        staging=f"1{hostile}",
        other_staging=f"2{hostile}",
        merged=f"3{hostile}",
        rename=lambda name: f"{name}{hostile}",
    )


KEYS = sql.Access(access_key_id="local", secret_access_key="local")


@pytest.fixture
def put(cloud: Cloud, s3: Any, bucket: str) -> Any:
    """Puts a file and its manifest on S3; the manifest's key is always the same."""

    def put(body: bytes, key: str) -> str:
        s3.put_object(Bucket=bucket, Key=key, Body=body)
        entry = {"url": f"s3://{bucket}/{key}", "mandatory": True, "meta": {"content_length": len(body)}}
        s3.put_object(Bucket=bucket, Key="it's/a.manifest", Body=json.dumps({"entries": [entry]}).encode())
        return f"s3://{bucket}/it's/a.manifest"

    return put


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_every_text_runs(client: Redshift, rs: Any, schema: str, put: Any, hostile: str) -> None:
    url = put(b"", "none")
    names = named(hostile, schema, url)
    try:
        with client.session() as session:
            scenario = Scenario(session, names)
            accounts(rs, names.user)
            session_and_catalog(scenario)
            tables(scenario)
            copies(scenario, put)
            publishing(scenario)
            assert scenario.ran == {e.name for e in scenario.all}
            assert not session.broken
    finally:
        rs.execute(f"DROP SCHEMA IF EXISTS {sql.quoted(names.schema)} CASCADE")
        for kind in ("GROUP", "ROLE", "USER"):
            rs.execute(f"DROP {kind} {sql.quoted(names.user if kind == 'USER' else names.user + kind.lower())}")


def accounts(rs: Any, name: str) -> None:
    """Create a user, group and role with different names, because PostgreSQL has one namespace for all."""
    rs.execute(f"CREATE USER {sql.quoted(name)} PASSWORD 'Passw0rdX'")
    rs.execute(f"CREATE GROUP {sql.quoted(name + 'group')}")
    rs.execute(f"CREATE ROLE {sql.quoted(name + 'role')}")


def session_and_catalog(scenario: Scenario) -> None:
    names = scenario.examples.names
    scenario.run("SET_UTC")
    scenario.run("set_query_group")
    assert scenario.run("SESSION_ID").value == scenario.session.id
    for text in ("BEGIN", "COMMIT", "BEGIN", "ROLLBACK"):
        scenario.run(text)
    assert scenario.run("SLICES").value == 2
    assert abs(scenario.run("NOW").value - dt.datetime.now(dt.UTC).replace(tzinfo=None)) < dt.timedelta(minutes=1)
    assert not scenario.run("SCHEMA_EXISTS", params=(names.schema,)).rows
    scenario.run("create_schema")
    scenario.run("create_schema")
    assert scenario.run("SCHEMA_EXISTS", params=(names.schema.lower(),)).rows


def tables(scenario: Scenario) -> None:
    names, columns = scenario.examples.names, scenario.examples.columns
    schema, table = names.schema.lower(), folded(names.table)
    scenario.run("grant_usage")
    scenario.run("create_ledger")
    scenario.run("create_ledger")
    scenario.run("create_table", 0)
    scenario.run("drop_table")
    scenario.run("drop_table")
    scenario.run("create_table", 1)
    scenario.run("comment")
    user = names.user
    for number, grantee in enumerate((user, f"{user}group", f"{user}role", None)):
        text = next(e.text for i, e in enumerate(e for e in scenario.all if e.name == "grant") if i == number)
        scenario.ran.add("grant")
        scenario.do(text.replace(sql.quoted(user), sql.quoted(grantee)) if grantee else text)
    scenario.do(f"ALTER TABLE {scenario.examples.table} DROP COLUMN {sql.quoted(columns[3].name)}")
    at = sql.add_column(scenario.examples.table, columns[3])
    scenario.do(at)
    with pytest.raises(Exception, match="already exists"):
        scenario.run("add_column")
    scenario.run("widen_column")
    [(created, *_, column, comment)] = scenario.run("TABLE", params=(schema, table)).rows
    assert (column, comment) == (None, names.comment)
    assert abs(created - scenario.run("NOW").value) < dt.timedelta(minutes=1)
    found = scenario.run("COLUMNS", params=(schema, table)).rows
    assert {row[0] for row in found} == {folded(c.name) for c in columns}
    by_name = {row[0]: row for row in found}
    assert by_name[folded(columns[1].name)][2] == 1024
    assert tuple(by_name[folded(columns[2].name)][3:5]) == (12, 2)
    scenario.run("comment_column")
    found = {name: text for *_, name, text in scenario.run("TABLE", params=(schema, table)).rows}
    assert found == {None: names.comment, folded(columns[2].name): mark(columns[1].name)}
    laid_out = {row[0]: row[1:] for row in scenario.run("LAYOUT", params=(schema, table)).rows}
    assert laid_out[folded(columns[0].name)] == (True, 0)
    assert [laid_out[folded(c.name)] for c in columns[1:3]] == [(False, 1), (False, 2)]
    assert table in {row[0] for row in scenario.run("TABLES", params=(schema,)).rows}
    assert not scenario.run("has_rows").rows
    assert scenario.run("count_rows").value == 0


def folded(name: str) -> str:
    """Return a name as Redshift stores it."""
    return name.lower().encode()[:127].decode("utf-8", "ignore")


def copies(scenario: Scenario, put: Any) -> None:
    examples = scenario.examples
    scenario.run("create_staging")
    put(parquet(examples.file), "f.parquet")
    with pytest.raises(Exception, match="SERIALIZETOJSON|SUPER|column"):
        scenario.run("copy_parquet", 0)  # there is a list in it
    which = (scenario.session.id, scenario.run("TABLE_ID", params=(examples.names.staging,)).value)
    scenario.run("LOAD_ERRORS", params=which)
    scenario.run("OLD_LOAD_ERRORS", params=which)
    scenario.run("copy_parquet", 3)
    assert scenario.run("COPIED_ROWS").value == 2
    assert scenario.run("longest_texts").rows == [(0,)]
    assert scenario.run("key_facts").rows == [(0,)]
    assert scenario.run("key_facts", 2).rows == [(0, "1", str(ROW["Order ID"]), 1)]
    scenario.run("insert", 0)
    check(scenario)
    scenario.run("insert", 2)
    at = sql.quoted(examples.columns[3].name)
    [(times,)] = scenario.do(f"SELECT COUNT(*) FROM {examples.table} WHERE {at} = '2024-02-29 12:30:00+00'").rows
    assert times == 2
    jsonl = upload_columns(examples.columns, "jsonl")
    again(scenario, examples.staging, jsonl)
    put(json_lines(jsonl), "f.jsonl")
    scenario.do(with_keys(scenario, "copy_json", 2).replace(" REGION AS 'eu-west-1'", ""))
    put(gzip.compress(json_lines(jsonl)), "f.jsonl.gz")
    scenario.do(with_keys(scenario, "copy_json", 0))
    scenario.do(f"DELETE FROM {examples.table}")
    scenario.do(sql.insert(examples.table, examples.staging, jsonl, examples.columns))
    check(scenario, copies=2)
    again(scenario, next(iter(examples.converted)), jsonl)
    scenario.run("insert", 1)
    text = upload_columns(examples.columns, "csv")
    again(scenario, examples.staging, text)
    put(gzip.compress(csv_lines(text)), "f.csv.gz")
    scenario.do(with_keys(scenario, "copy_csv", 0))
    scenario.do(f"DELETE FROM {examples.table}")
    scenario.do(sql.insert(examples.table, examples.staging, text, examples.columns))
    check(scenario)


def with_keys(scenario: Scenario, name: str, number: int) -> str:
    """Return the example's text with keys instead of a role, which the local cloud lacks."""
    scenario.ran.add(name)
    text = [e.text for e in scenario.all if e.name == name][number]
    return text.replace(sql.Access(role=scenario.examples.names.role).clause, KEYS.clause)


def again(scenario: Scenario, staging: str, columns: list[StagingColumn]) -> None:
    scenario.do(sql.drop_table(staging))
    scenario.do(sql.create_staging(staging, columns))


def publishing(scenario: Scenario) -> None:
    examples = scenario.examples
    other = next(iter(examples.converted))
    scenario.do(f"DELETE FROM {examples.table}")
    again(scenario, examples.staging, examples.file)
    fill(scenario, examples.staging, examples.file, [(1, "one")])
    scenario.run("create_merged", 1)
    scenario.run("insert_all")
    scenario.do(sql.drop_table(examples.merged))
    for name, columns in ({examples.staging: examples.staged[examples.staging]} | examples.converted).items():
        again(scenario, name, list(columns))
    fill(scenario, examples.staging, examples.staged[examples.staging], [(1, "two"), (2, "three")], order=10)
    assert not scenario.run("duplicate_key").rows
    fill(scenario, other, examples.converted[other], [(2, "four")], order=20)
    fill(scenario, examples.staging, examples.staged[examples.staging], [(1, "old")], order=1)
    assert scenario.run("duplicate_key").rows
    scenario.run("create_merged", 0)
    with scenario.session.transaction("test"):
        scenario.run("lock")
        assert not scenario.run("ledger_entries_of", params=("s'\\", "a", "b", "c")).rows
        scenario.run("merge")
        scenario.run("add_ledger_entries", params=("a", "s'\\", 2, "_sdc_load_1", "s'\\", 0))
    assert texts(scenario) == [(1, "two"), (2, "four")]
    oldest = scenario.run("ledger_extent", params=("s'\\",)).value
    entries = scenario.run("ledger_entries_from", params=("s'\\", oldest)).rows
    assert [tuple(row) for row in entries] == [("a", oldest, 2)]
    assert scenario.run("count_entered", params=("s'\\",)).value == 2
    both = ("s'\\", "a", "b", "_sdc_load_1")
    assert len(scenario.run("ledger_entries_of", params=both).rows) == 2
    later = oldest + dt.timedelta(seconds=1)
    scenario.run("delete_ledger_marks", params=("s'\\", later))
    assert len(scenario.run("ledger_entries_of", params=both).rows) == 1
    scenario.run("delete_table_mark", params=("s'\\",))
    assert len(scenario.run("ledger_entries_of", params=both).rows) == 1
    scenario.run("delete_ledger_entries", params=("s'\\", oldest))
    assert len(scenario.run("ledger_entries_of", params=both).rows) == 1
    scenario.run("add_ledger_entries", params=("_sdc_last log 1 a ", "s'\\", 0, "b", "s'\\", 2))
    tomorrow = oldest + dt.timedelta(days=1)
    scenario.run("delete_old_entries", params=("s'\\", "other", tomorrow, "s'\\", "other"))
    assert [row[0] for row in scenario.run("ledger_entries_of", params=both).rows] == ["a"]
    assert scenario.run("last_entry_from", params=("s'\\", "log", "1")).rows
    assert not scenario.run("last_entry_from", params=("s'\\", "log", "2")).rows
    scenario.run("add_ledger_entries", params=("_sdc_log_of log    s3://b/", "s'\\", 0, "c", "s'\\", 2))
    assert [row[0] for row in scenario.run("log_entries", params=("s'\\",)).rows] == ["_sdc_log_of log    s3://b/"]
    scenario.run("clear_ledger", params=("s'\\",))
    assert not scenario.run("void_entry", params=("s'\\", "a")).rows
    scenario.run("void_last_entries", params=("s'\\",))
    assert scenario.run("void_entry", params=("s'\\", "a")).rows
    scenario.run("delete_last_entries", params=("s'\\", "a", "b", "s'\\", "c"))
    assert scenario.run("void_entry", params=("s'\\", "a")).rows
    assert scenario.run("ledger_extent", params=("s'\\",)).value is None
    rejected(scenario)
    scenario.run("merge", 2)
    assert texts(scenario) == [(1, "two"), (2, "four")]
    assert scenario.run("delete_matching").affected == scenario.run("delete_marked_rows").affected == 0
    rank = next(sql.quoted(c.name) for c in examples.columns if c.source == RANK)
    is_two = f"{sql.quoted(examples.columns[1].name)} = 'two'"
    scenario.do(f"UPDATE {examples.table} SET {rank} = 'a 2'")
    scenario.do(f"UPDATE {examples.merged} SET {rank} = CASE WHEN {is_two} THEN 'a 1' ELSE 'b 1' END")
    assert scenario.run("delete_superseded", 1).affected == 0  # its bounds on a time that is null
    assert scenario.run("delete_superseded").affected == 1
    assert scenario.run("delete_superseded").affected == 0
    assert scenario.run("mark_versions_deleted", params=(2,)).affected == 1
    assert scenario.run("mark_versions_deleted", params=(2,)).affected == 0
    assert scenario.run("delete_versions", params=(2,)).affected == 1
    scenario.run("delete_all")
    assert not scenario.run("has_rows").rows


def rejected(scenario: Scenario) -> None:
    scenario.run("create_rejected")
    row = ["s'\\", "a", "s3://b/f", 7, "c", "why", '{"a": 1}', 0]
    scenario.run("add_rejected", params=(*row, *row))
    assert scenario.run("delete_rejected", params=("s'\\", "a", "b")).affected == 2


def fill(
    scenario: Scenario, table: str, columns: list[StagingColumn], rows: list[tuple[int, str]], order: int | None = None
) -> None:
    names = [columns[0].name, columns[1].name] + ([columns[-1].name] if order is not None else [])
    for number, (key, text) in enumerate(rows):
        values = f"{key}, {sql.literal(text)}" + (f", {order + number}" if order is not None else "")
        scenario.do(f"INSERT INTO {table} ({', '.join(sql.quoted(n) for n in names)}) VALUES ({values})")


def texts(scenario: Scenario) -> list[Any]:
    key, text = (sql.quoted(c.name) for c in scenario.examples.columns[:2])
    return scenario.do(f"SELECT {key}, {text} FROM {scenario.examples.table} ORDER BY {key}").rows


def parquet(columns: list[StagingColumn]) -> bytes:
    schema = pa.schema([f for f in docs.SCHEMA if not pa.types.is_time(f.type)])
    assert len(columns) == len(schema)
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([ROW, NULLS], schema=schema), sink)
    return sink.getvalue()


def json_lines(columns: list[StagingColumn]) -> bytes:
    lines = []
    for row in (ROW, NULLS):
        keys = {c.column.source: folded(c.name) for c in columns if c.column}
        values = {key: row.get(source) for source, key in keys.items()}
        if row is ROW:
            values[keys["picture"]] = "AP8n"
            values[keys["tags"]] = json.loads(ROW["tags"])
            values[keys["opens"]] = "08:30:00.5"
        lines.append(json.dumps(values, default=str, ensure_ascii=False))
    return "\n".join(lines).encode()


def csv_lines(columns: list[StagingColumn]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    for row in (ROW, NULLS):
        values = [row.get(c.column.source) if c.column else None for c in columns]
        special = {"picture": "AP8n", "opens": "08:30:00.5", "lines": json.dumps(ROW["lines"])} if row is ROW else {}
        found = [special.get(c.column.source, v) if c.column else v for c, v in zip(columns, values, strict=True)]
        writer.writerow([NULL_TEXT if v is None else v for v in found])
    return out.getvalue().encode()


def check(scenario: Scenario, *, copies: int = 1) -> None:
    """Check that the table has `ROW` and `NULLS`, for any way of loading."""
    names = {c.source: sql.quoted(c.name) for c in scenario.examples.columns}
    plain = ", ".join(names[source] for source in ("Order ID", "note", "price", "at"))
    bytes_of, json_of = f"FROM_VARBYTE({names['picture']}, 'hex')", "JSON_SERIALIZE({})"
    picked = ", ".join([plain, bytes_of, json_of.format(names["tags"]), json_of.format(names["lines"])])
    rows = scenario.do(f"SELECT {picked} FROM {scenario.examples.table} ORDER BY {names['Order ID']} DESC").rows
    assert len(rows) == 2 * copies
    full = [r for r in rows if r[0] == ROW["Order ID"]]
    assert len(full) == copies
    for row in full:
        assert row[:4] == (ROW["Order ID"], "", ROW["price"], AT)
        assert row[4].lower() == "00ff27"
        assert json.loads(row[5]) == json.loads(ROW["tags"])
        assert json.loads(row[6]) == ROW["lines"]
    assert {tuple(r) for r in rows if r[0] == 1} == {(1, *[None] * 6)}


def test_rows_are_counted_also_where_the_driver_is_asked_twice(client: Redshift, schema: str) -> None:
    """The driver adds up the counts of one cursor; the target opens a new one each time."""
    client.query(sql.create_schema(schema), what="test")
    name = uuid.uuid4().hex
    with client.session() as session:
        session.execute(f'CREATE TEMP TABLE "{name}" (a INTEGER)', what="test")
        for _ in range(2):
            assert session.execute(f'INSERT INTO "{name}" VALUES (1), (2)', what="test").affected == 2
