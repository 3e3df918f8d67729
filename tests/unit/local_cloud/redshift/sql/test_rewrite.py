"""Translation of Redshift SQL to PostgreSQL SQL, without a server."""

import re

import pytest

from local_cloud.redshift.errors import RedshiftError
from local_cloud.redshift.sql.names import LongNames, shortened
from local_cloud.redshift.sql.rewrite import rewrite
from local_cloud.redshift.sql.statement import (
    AlterType,
    CaseSensitive,
    Copy,
    CreateTable,
    Layout,
    Nothing,
    Plain,
    SetFaults,
    Settings,
    Statement,
    Truncate,
    Unload,
)


@pytest.fixture
def kept() -> dict[str, str]:
    """Return the long names that occurred."""
    return {}


@pytest.fixture
def settings(kept: dict[str, str]) -> Settings:
    return Settings(LongNames((), kept.__setitem__))


def one(text: str, settings: Settings) -> Statement:
    [statement] = rewrite(text, settings)
    return statement


def test_statements_end_at_semicolons_outside_of_strings_and_comments(settings: Settings) -> None:
    found = rewrite("select ';'; -- a;b\n;select $$;$$ ; /* ; */", settings)
    assert [statement.text for statement in found] == ["select ';'", "select $$;$$"]


def sql(text: str, settings: Settings) -> str:
    """Return PostgreSQL's SQL, without the limits of bytes and with single spaces."""
    statement = one(text, settings)
    assert isinstance(statement, Plain | CreateTable | Truncate)
    without = re.sub(r'CONSTRAINT "bytes_\d+_\w+" CHECK \(octet_length\(.*?\) <= \d+\)', "", statement.sql)
    return re.sub(r"\s+", " ", without).replace(" ,", ",").replace(" )", ")").strip()


@pytest.mark.parametrize(
    ("redshift", "postgresql"),
    [
        ("select 1", "select 1"),
        ('select "ÄBC", \'"ABC"\' from "T"', 'select "Äbc", \'"ABC"\' from "t"'),
        ("select * from #Staging", 'select * from "#staging"'),
        ("select nvl(a, sysdate)", "select coalesce(a, (transaction_timestamp() AT TIME ZONE 'UTC'))"),
        ("select t.sysdate, nvl", "select t.sysdate, nvl"),
        ("select a::varchar, b :: decimal ( 5 )", "select a::varchar(256), b ::numeric(5,0)"),
        ("select cast(nvl(a, 1) as varchar(max))", "select CAST(coalesce(a, 1) AS varchar(65535))"),
        ("select a::timestamp without time zone as b", "select a::timestamp as b"),
        ("select dateadd(day, 1, x)", "select dateadd('day', 1, x)"),
        ("select 1 minus select 2", "select 1 EXCEPT select 2"),
        ("begin isolation level serializable", "BEGIN"),
        ("start transaction read only", "BEGIN READ ONLY"),
        ("lock a, b.c", "LOCK TABLE a, b.c"),
        ("analyze t predicate columns", "ANALYZE t"),
        ("set query_group to 'x'", "SET redshift.query_group TO 'x'"),
        ("create schema s quota 5 gb", "create schema s"),
        ("create table t (a int encode az64, b text default 'x')",
         "CREATE TABLE t (a integer, b varchar(256) DEFAULT 'x')"),
        ("create table t (a int, primary key (a))", "CREATE TABLE t (a integer NOT NULL)"),
        ("create temp table t (like s.u)", "CREATE TEMP TABLE t (LIKE s.u INCLUDING CONSTRAINTS)"),
        ("create table #t as select 1 as a", 'CREATE TEMP TABLE "#t" AS select 1 as a'),
        ("create table t (a bigint identity(5, 2))",
         "CREATE TABLE t (a bigint GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 2))"),
        ("alter table t add column b varbyte(3)", "ALTER TABLE t ADD COLUMN b bytea"),
        ("alter table t rename column a to b", "alter table t rename column a to b"),
        ("grant select on t to group g, role \"R\", u", 'grant select on t to "group:g", "role:r", u'),
        ("create user u password 'Secret123' nocreateuser session timeout 60",
         "create USER u PASSWORD 'Secret123' NOSUPERUSER"),
        ("create user u password disable in group g", 'create USER u PASSWORD NULL IN ROLE "group:g"'),
    ],
)  # fmt: skip
def test_what_postgresql_gets(settings: Settings, redshift: str, postgresql: str) -> None:
    assert sql(redshift, settings) == postgresql


def test_spaces_comments_and_strings_stay(settings: Settings) -> None:
    text = "select  'a;b' /* one; /* two */ */ -- three;\n, $$;$$"
    assert [getattr(statement, "sql", "") for statement in rewrite(f"{text};\n;select 2;", settings)] == [
        text,
        "select 2",
    ]


def test_long_names_are_shortened_everywhere(settings: Settings, kept: dict[str, str]) -> None:
    name = "x" * 100
    short = shortened(name)
    assert len(short.encode()) == 63
    assert sql(f'select {name}, "{name}" from {name}', settings) == f'select "{short}", "{short}" from "{short}"'
    assert kept == {short: name}
    assert settings.names.full(short) == name
    assert settings.names.in_text(f'column "{short}" of "t"') == f'column "{name}" of "t"'
    assert settings.names.short("y" * 200) == shortened("y" * 127)


def test_the_layout_is_read(settings: Settings) -> None:
    statement = one('create table t (a int, "B" int encode zstd) distkey (a) interleaved sortkey (a, b)', settings)
    assert isinstance(statement, CreateTable)
    assert statement.layout == Layout("KEY(a)", "a", ("a", "b"), {"b": "zstd"})
    assert (
        sql("create table t (a int) diststyle auto sortkey auto encode auto", settings) == "CREATE TABLE t (a integer)"
    )


def test_each_text_column_has_a_limit_of_bytes(settings: Settings) -> None:
    statement = one("create table t (a varchar(7), b char, c varbyte, d int)", settings)
    assert isinstance(statement, Plain)
    limits = re.findall(r'"bytes_(\d+)_\w+" CHECK \(octet_length\((\w)\) <= (\d+)\)', statement.sql)
    assert limits == [("7", "a", "7"), ("1", "b", "1"), ("64000", "c", "64000")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("copy t from 's3://b/k' iam_role default", Copy),
        ("unload ('select 1') to 's3://b/k' iam_role default format parquet", Unload),
        ("truncate table t", Truncate),
        ("vacuum delete only t", Nothing),
        ("alter table t alter distkey a", Nothing),
        ("alter table t alter column a type varchar(9)", AlterType),
        ("set enable_case_sensitive_identifier = true", CaseSensitive),
        ("local cloud faults '[]'", SetFaults),
    ],
)
def test_what_the_proxy_does_itself(settings: Settings, text: str, kind: type) -> None:
    assert isinstance(one(text, settings), kind)


def test_the_rules_of_faults_are_read_with_their_backslashes(settings: Settings) -> None:
    statement = one(r"""local cloud faults '[{"match": "it''s \\d"}]'""", settings)
    assert isinstance(statement, SetFaults)
    assert statement.rules == r"""[{"match": "it's \d"}]"""


@pytest.mark.parametrize(
    "text",
    [
        "insert into t values (1) on conflict (id) do update set a = 1",
        "update t set a = 1 returning a",
        "delete from t returning *",
        "alter table t add column a int, b int",
        "alter table t drop column if exists a",
        "alter table t alter column a drop not null",
        "create table t (a int) partition by (a)",
        "create table t (a nothing)",
        "create table t (a int encode fast)",
        "create table t (a int",
        "create table t",
        "create unlogged table t (a int)",
        "merge into t using s on t.a = s.a when matched then update set a = 1 when not matched by source then delete",
        "truncate t restart identity",
        "unload ('select 1') to 'file:///x' iam_role default",
        "unload ('select 1') to 's3://b/k' iam_role default format parquet header",
        "create user u password 'alllowercase1'",
        "local cloud nothing",
    ],
)
def test_statements_that_are_refused_before_postgresql_gets_them(settings: Settings, text: str) -> None:
    with pytest.raises(RedshiftError):
        rewrite(text, settings)


@pytest.mark.parametrize(
    "text",
    [
        "select 'returning', \"returning\" from t where a in (select b from c)",
        "insert into t select 'on conflict' -- returning",
        "update t set a = case when b then 1 end from s where t.a = s.a",
        "insert into \"returning\" (\"conflict\") values ('it''s')",
    ],
)
def test_words_in_strings_and_names_are_none(settings: Settings, text: str) -> None:
    assert isinstance(one(text, settings), Plain)


def test_merge_keeps_its_clauses(settings: Settings) -> None:
    text = (
        'merge into "S"."T" using #new as n on "T".id = n.id and n.kind = 1'
        " when matched then update set a = case when n.a > 1 then n.a else 0 end, b = n.b"
        " when not matched then insert (id, a) values (n.id, nvl(n.a, 0))"
    )
    made = sql(text, settings)
    assert made.startswith('MERGE INTO "s"."t" USING "#new" n ON "t" . id = n . id and n . kind = 1 WHEN MATCHED THEN')
    assert "case when n . a > 1 then n . a else 0 end" in made
    assert made.endswith("WHEN NOT MATCHED THEN insert ( id, a) values ( n . id, coalesce ( n . a, 0))")


def test_many_plain_rows_are_passed_on_as_they_are(settings: Settings) -> None:
    row = "(1, -2.5e3, 'it''s \\\\ \\' (x); returning', null, TRUE, $1)"
    rows = ", ".join([row] * 1000)
    assert sql(f'insert into "T" (A, "B") values {rows};', settings) == f'insert into "t" (A, "b") values {rows};'


@pytest.mark.parametrize(
    ("value", "made"),
    [("'2'::decimal", "'2'::numeric(18,0)"), ("sysdate", "(transaction_timestamp() AT TIME ZONE 'UTC')")],
)
def test_one_value_that_is_not_plain_among_many(settings: Settings, value: str, made: str) -> None:
    rows = "(1, 'x'), " * 2000
    assert sql(f"insert into t values {rows}(1, {value})", settings) == f"insert into t values {rows}(1, {made})"
    with pytest.raises(RedshiftError):
        rewrite(f"insert into t values {rows}(1, 'x') returning a", settings)
    with pytest.raises(RedshiftError):
        rewrite(f"insert into t values {rows}(1, E'x')", settings)
    assert len(rewrite(f"insert into t values {rows}(1, 'x'); select 1", settings)) == 2
