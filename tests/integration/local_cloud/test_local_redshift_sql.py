"""The local Redshift executes or refuses SQL as Redshift does, by both drivers."""

import datetime as dt
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from redshift_client import Client, Open, Refused, refused
from waiting import wait_until

# -- tables


def test_the_layout_of_tables_is_kept(sql: Client, schema: str) -> None:
    sql(
        'create table t (id bigint identity(1, 1), "Key" varchar(10) encode zstd not null, at timestamptz,'
        " primary key (id), unique (at)) diststyle key distkey (key) compound sortkey (at, key)"
    )
    sql("create table if not exists t (id int)")
    sql("insert into t (key) values ('a'), ('b')")
    assert sql("select id, key from t order by id") == [(1, "a"), (2, "b")]
    definition = 'select "column", type, encoding, distkey, sortkey, "notnull" from pg_table_def where tablename = %s'
    expected = [
        ("id", "bigint", "none", False, 0, True),
        ("key", "character varying(10)", "zstd", True, 2, True),
        ("at", "timestamp with time zone", "none", False, 1, False),
    ]
    assert sql(definition, ("t",)) == expected
    sql("create table alike (like t including defaults)")
    assert sql(definition, ("alike",)) == expected
    info = sql('select "table", diststyle, sortkey1, tbl_rows from svv_table_info where schema = %s', (schema,))
    assert sorted(info) == [("alike", "KEY(key)", "at", 0), ("t", "KEY(key)", "at", 2)]


def test_columns_are_described(sql: Client, schema: str) -> None:
    sql("create table t (a varchar, b varchar(max), c text, d decimal, e decimal(38,37), f super, g varbyte(16777216))")
    found = sql(
        "select column_name, data_type, character_maximum_length, numeric_precision, numeric_scale, is_nullable"
        " from svv_columns where table_schema = %s and table_name = 't' order by ordinal_position",
        (schema,),
    )
    assert found == [
        ("a", "character varying", 256, None, None, "YES"),
        ("b", "character varying", 65535, None, None, "YES"),
        ("c", "character varying", 256, None, None, "YES"),
        ("d", "numeric", None, 18, 0, "YES"),
        ("e", "numeric", None, 38, 37, "YES"),
        ("f", "super", None, None, None, "YES"),
        ("g", "binary varying", None, None, None, "YES"),
    ]


def test_when_a_table_was_made(sql: Client) -> None:
    moments = []
    for _ in range(2):
        sql("drop table if exists t")
        sql("create table t (id int)")
        sql("alter table t add column more int")
        moments += sql("select relcreationtime from pg_class_info where reloid = 't'::regclass")
        time.sleep(0.01)
    assert moments[0] < moments[1]
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    assert now - moments[1][0] < dt.timedelta(minutes=1)


def test_temporary_tables_are_the_sessions(connect: Open, sql: Client) -> None:
    for name in ("staging", "#staged"):
        sql(f"create temp table {name} (id int)")
        sql(f"insert into {name} values (1)")
        assert sql(f"select id from {name}") == [(1,)]
        assert refused(connect(), f"select id from {name}").code == "42P01"


def test_statements_that_change_nothing_here(sql: Client) -> None:
    sql("create table t (id int, name varchar(5))")
    for statement in (
        "vacuum",
        "vacuum full t to 99 percent",
        "analyze t",
        "alter table t alter diststyle all",
        "alter table t alter sortkey (id)",
        "alter table t alter column name encode lzo",
        "alter table t add primary key (id)",
        "set query_group to 'loads'",
        "set wlm_query_slot_count to 3",
    ):
        sql(statement)
    assert sql("show query_group") == [("loads",)]


def test_names_fold_to_lower_case_by_default(sql: Client) -> None:
    sql('create table "Mixed Case" ("Some Name" int)')
    assert sql.names('select "SOME NAME" from "MIXED CASE"') == ["some name"]
    sql("set enable_case_sensitive_identifier to true")
    assert sql.names('select 1 as "As Written"') == ["As Written"]
    sql("set enable_case_sensitive_identifier to off")
    assert sql.names('select 2 as "As Written"') == ["as written"]


@pytest.mark.parametrize("name", ["n" * 63, "n" * 64, "n" * 127, "ä" * 63, "wörld " * 15, 'quo"te ' * 10])
def test_names_of_up_to_127_bytes(sql: Client, schema: str, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    sql(f"create table {quoted} ({quoted} int, other varchar(1))")
    sql(f"alter table {quoted} add column more int")
    sql(f"insert into {quoted} ({quoted}) values (1)")
    assert sql.names(f"select {quoted}.* from {quoted}") == [name, "other", "more"]
    columns = "select column_name from svv_columns where table_schema = %s and table_name = %s and ordinal_position = 1"
    assert sql(columns, (schema, name)) == [(name,)]
    assert sql("select tablename from pg_table_def where tablename = %s", (name,))[0] == (name,)
    assert name in refused(sql, f"create table {quoted} (id int)").message


def test_longer_names_are_cut(sql: Client) -> None:
    assert sql.names(f'select 1 as "{"x" * 200}"') == ["x" * 127]
    assert sql.names(f'select 1 as "{"x" * 126}ä"') == ["x" * 126]


@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("insert into t values (1) on conflict do nothing", "42601", 'syntax error at or near "ON"'),
        ("insert into t values (1) returning id", "42601", 'syntax error at or near "RETURNING"'),
        ("create table x (a jsonb)", "42704", 'type "jsonb" does not exist'),
        ("create table x (a uuid)", "42704", 'type "uuid" does not exist'),
        ("create table x (a bytea)", "0A000", 'unsupported type "bytea"'),
        ("create table x (a int[])", "0A000", "unsupported type"),
        ("create table x (a varchar(65536))", "22023", "length for type varchar cannot exceed 65535"),
        ("create table x (a varbyte(16777217))", "22023", "cannot exceed 16777216"),
        ("create table x (a decimal(39, 0))", "22023", "NUMERIC precision 39 must be between 1 and 38"),
        ("create table x (a int, oid int)", "42701", 'column name "oid" conflicts with a system column name'),
        ("create table x (a int) distkey (b)", "42703", 'column "b"'),
        ("create table x (a int check (a > 0))", "42601", "syntax error"),
        ("create table x (a int) inherits (t)", "42601", "syntax error"),
        ("create table if not exists x as select 1 as a", "42601", "syntax error"),
        ("create index i on t (id)", "0A000", "not supported"),
        ("create sequence s", "0A000", "not supported"),
        ("alter table t add column a int, add column b int", "42601", 'syntax error at or near ","'),
        ("alter table t add column if not exists a int", "42601", 'syntax error at or near "NOT"'),
        ("alter table t add column a int not null", "0A000", "non-null default"),
        ("alter table t drop column id, drop column name", "42601", 'syntax error at or near ","'),
        ("alter table t alter column id type bigint", "0A000", "only VARCHAR"),
        ("alter table t alter column name type varchar(5)", "0A000", "target column size"),
        ("alter table t alter column name type varchar(10)", "0A000", "should be different"),
        ("alter table t alter column name set not null", "42601", "syntax error"),
        ("select id::jsonb from t", "42704", 'type "jsonb" does not exist'),
        ("select '{}' ->> 'a'", "42883", "operator does not exist"),
        ("select distinct on (id) id from t", "42601", 'syntax error at or near "ON"'),
        ("savepoint here", "0A000", "not supported"),
        ("lock table t in share mode", "42601", 'syntax error at or near "in"'),
        ("truncate t, t", "42601", "syntax error"),
        ("insert into t (id) values (null)", "23502", "Cannot insert a NULL value into column id"),
    ],
)
def test_what_redshift_refuses(sql: Client, statement: str, code: str, words: str) -> None:
    sql("create table t (id int not null, name varchar(10))")
    error = refused(sql, statement)
    assert (error.code, words in error.message) == (code, True), error


# -- VARCHAR counts bytes


def test_varchar_counts_bytes(sql: Client) -> None:
    sql("create table t (id int, name varchar(4), raw varbyte(2))")
    sql("insert into t (name) values ('ää'), ('abcd'), (%s)", ("äbc",))
    for text in ("äää", "abcde", "äabc"):
        error = refused(sql, f"insert into t (name) values ('{text}')")
        assert (error.code, error.message) == ("22001", "value too long for type character varying(4)")
    assert refused(sql, "insert into t (raw) values (to_varbyte('abc', 'utf8'))").code == "22001"
    sql("create table long (name varchar(100))")
    sql("insert into long values ('äää')")
    for table in ("t", "alike"):
        if table == "alike":
            sql("create table alike (like t)")
        assert refused(sql, f"insert into {table} (name) select name from long").code == "22001"


def test_varchar_is_widened_outside_of_transactions_only(connect: Open, sql: Client, schema: str) -> None:
    sql(
        "create table t (name varchar(4) encode lzo, other varchar(4) default 'x',"
        " dictionary varchar(4) encode bytedict)"
    )
    client = connect(autocommit=False)
    error = refused(client, f"alter table {schema}.t alter column name type varchar(8)")
    assert (error.code, error.message) == ("25001", "ALTER TABLE ALTER COLUMN cannot run inside a transaction block")
    client.connection.rollback()
    for size in (8, 65535):
        sql(f"alter table t alter column name type varchar({size})")
    sql("insert into t (name) values (%s)", ("ä" * 32767,))
    assert refused(sql, "insert into t (name) values (%s)", ("ä" * 32768,)).code == "22001"
    assert "default" in refused(sql, "alter table t alter column other type varchar(8)").message
    assert "encoding is BYTEDICT" in refused(sql, "alter table t alter column dictionary type varchar(8)").message


def test_varchar_is_widened_by_two_sessions_at_once(connect: Open, sql: Client, schema: str) -> None:
    sql("create table t (name varchar(4))")
    blocker = connect(autocommit=False)
    blocker(f"lock {schema}.t")
    clients = [connect(), connect()]
    with ThreadPoolExecutor(2) as pool:
        widening = [
            pool.submit(client, f"alter table {schema}.t alter column name type varchar(8)") for client in clients
        ]
        waiting = "select count(*) from pg_locks where not granted and relation = 't'::regclass"
        try:
            wait_until(lambda: sql(waiting) == [(2,)])
        finally:
            blocker.connection.rollback()
        errors = [error for future in widening if (error := future.exception(60))]
    assert [(type(e), str(e)) for e in errors] == [(Refused, "0A000 target column size should be different ")]
    sql("insert into t values ('12345678')")


# -- functions


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("nvl(null, 'a')", "a"),
        ("nvl2(null, 'a', 'b')", "b"),
        ("convert(integer, '12')", 12),
        ("'12.345'::decimal(5, 1)", Decimal("12.3")),
        ("cast('abc' as varchar(2))", "ab"),
        ("octet_length('ä')", 2),
        ("len('ä')", 1),
        ("from_varbyte(to_varbyte('00ff', 'hex'), 'base64')", "AP8="),
        ("json_serialize(json_parse('[1.10,null]'))", "[1.10, null]"),
        ("json_extract_path_text('{\"a\":{\"b\":\"c\"}}', 'a', 'b')", "c"),
        ("can_json_parse('{')", False),
        ("dateadd(month, 1, '2024-01-31'::timestamp)", dt.datetime(2024, 2, 29)),  # noqa: DTZ001 - has no zone
        ("datediff(day, '2024-01-01 23:00'::timestamp, '2024-01-03 01:00'::timestamp)", 2),
        ("datediff(month, '2023-12-31'::timestamp, '2024-02-01'::timestamp)", 2),
        ("sha2('a', 256)", hashlib.sha256(b"a").hexdigest()),
        ("'2024-01-01 12:00:00'::timestamp at time zone 'UTC'", dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)),
        ("(select listagg(n, '-') within group (order by n desc) from (select 1 n union all select 2) x)", "2-1"),
        ("(select approximate count(distinct n) from (select 1 n union all select 2) x)", 2),
        ("(select count(*) from (select 1 minus select 1) x)", 0),
    ],
)
def test_functions_of_redshift(sql: Client, expression: str, value: object) -> None:
    assert sql(f"select {expression}") == [(value,)]


def test_the_time_is_without_a_zone(sql: Client) -> None:
    [(now, begun)] = sql("select getdate(), sysdate")
    here = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    assert abs(here - now) < dt.timedelta(seconds=30)
    assert abs(here - begun) < dt.timedelta(seconds=30)


def test_text_in_a_super_column_is_text_until_parsed(sql: Client) -> None:
    sql("create table staging (doc varchar(100))")
    sql("insert into staging values ('{\"a\": 1}')")
    sql("create table t (doc super)")
    sql("insert into t select doc from staging")
    sql("insert into t select json_parse(doc) from staging")
    assert sql("select json_serialize(doc) from t") == [('"{\\"a\\": 1}"',), ('{"a": 1}',)]
    assert refused(sql, "select json_parse('{')").code == "22P02"


# -- MERGE


@pytest.fixture
def merged(sql: Client) -> Client:
    """Create a table `t`, and a table `s` to merge into it."""
    sql("create table t (id int, name varchar(10))")
    sql("create table s (id int, name varchar(10))")
    sql("insert into t values (1, 'old'), (2, 'two')")
    sql("insert into s values (1, 'new'), (3, 'three')")
    return sql


def test_merge_updates_and_inserts(merged: Client) -> None:
    merged(
        "merge into t using s as n on t.id = n.id when matched then update set name = n.name"
        " when not matched then insert (id, name) values (n.id, n.name)"
    )
    assert merged("select * from t order by id") == [(1, "new"), (2, "two"), (3, "three")]
    merged(
        "merge into t using s on t.id = s.id when not matched then insert values (s.id, 'x') when matched then delete"
    )
    assert merged("select * from t order by id") == [(2, "two")]


def test_merge_removes_duplicates(merged: Client) -> None:
    merged("insert into t values (1, 'older')")
    merged("merge into t using s on t.id = s.id remove duplicates")
    assert merged("select * from t order by id") == [(1, "new"), (2, "two"), (3, "three")]


def test_merge_refuses_a_key_that_comes_twice(merged: Client) -> None:
    merged("insert into s values (1, 'again')")
    error = refused(
        merged,
        "merge into t using s on t.id = s.id when matched then update set name = s.name"
        " when not matched then insert values (s.id, s.name)",
    )
    assert (error.code, error.message) == ("XX000", "Found multiple matches to update the same tuple.")


@pytest.mark.parametrize(
    "text",
    [
        "merge into t a using s on a.id = s.id {update} {insert}",
        "merge into t using (select * from s) s on t.id = s.id {update} {insert}",
        "merge into t using s on t.id = s.id {update}",
        "merge into t using s on t.id = s.id {insert}",
        "merge into t using s on t.id = s.id when matched then update set t.name = s.name {insert}",
        "merge into t using s on t.id = s.id when matched and s.id > 1 then delete {insert}",
        "merge into t using s on t.id = s.id {update} {update} {insert}",
        "merge into t using s on t.id < s.id {update} {insert}",
    ],
)
def test_forms_of_merge_that_redshift_refuses(merged: Client, text: str) -> None:
    update = "when matched then update set name = s.name"
    statement = text.format(update=update, insert="when not matched then insert values (s.id, s.name)")
    assert refused(merged, statement).code in ("42601", "0A000")
