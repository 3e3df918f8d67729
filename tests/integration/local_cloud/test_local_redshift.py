"""Sessions, values, transactions and accounts of the local Redshift, by both supported drivers."""

import datetime as dt
import json
import threading
import time
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import redshift_connector
from redshift_client import ROLE, Client, Lost, Open, Refused, opener, refused

from local_cloud import Cloud

# -- sessions


def test_a_session_is_one_of_redshift(connect: Open) -> None:
    client = connect()
    [(version, user, database)] = client("select version(), current_user, current_database()")
    assert version.startswith("PostgreSQL 8.0.2 on i686")
    assert "Redshift 1.0" in version
    assert (user, database) == ("demo", "dev")
    assert client("select count(*) from stv_slices") == [(2,)]
    assert client("show timezone") == [("UTC",)]
    assert client("select count(*) from stv_sessions where process = pg_backend_pid()") == [(1,)]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"password": "wrong"}, 'password authentication failed for user "demo"'),
        ({"user": "stranger"}, 'password authentication failed for user "stranger"'),
        ({"dbname": "nowhere"}, 'database "nowhere" does not exist'),
    ],
)
def test_who_may_not_enter(connect: Open, option: dict[str, str], words: str) -> None:
    with pytest.raises((psycopg.OperationalError, redshift_connector.Error)) as caught:
        connect(**option)
    assert words in str(caught.value)


the_drivers_own_warning = pytest.mark.filterwarnings("ignore:ssl:DeprecationWarning")


@the_drivers_own_warning
@pytest.mark.parametrize(
    ("driver", "options"), [("psycopg", {"sslmode": "require"}), ("redshift_connector", {"ssl": True})]
)
def test_tls_is_refused_clearly_where_there_is_none(cloud: Cloud, driver: str, options: dict[str, Any]) -> None:
    with pytest.raises((psycopg.OperationalError, redshift_connector.Error)) as caught:
        opener(cloud, driver)(**options)
    assert "SSL" in str(caught.value)


@the_drivers_own_warning
def test_tls_with_an_untrusted_certificate() -> None:
    with Cloud(["redshift"], redshift_tls=True) as cloud:
        assert cloud.env["TARGET_REDSHIFT_SSL"] == "true"
        with cloud.redshift_connection(sslmode="require") as connection:
            rows = connection.execute("select repeat('x', 100) from generate_series(1, 20000)").fetchall()
            assert len(rows) == 20_000
        with pytest.raises(redshift_connector.Error, match="CERTIFICATE_VERIFY_FAILED"):
            opener(cloud, "redshift_connector")(ssl=True)


def test_sessions_end_when_asked(connect: Open) -> None:
    one, other = connect(), connect()
    [(pid,)] = one("select pg_backend_pid()")
    assert other("select pg_terminate_backend(%s)", (pid,)) == [(True,)]
    with pytest.raises((Lost, Refused)):
        one("select 1")
    assert other("select 1") == [(1,)]


def test_a_statement_can_be_cancelled(rs: Any) -> None:
    timer = threading.Timer(0.2, rs.cancel_safe)
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        rs.execute("select pg_sleep(30)")
    timer.join()
    assert rs.execute("select 1").fetchone() == (1,)


# -- values


def test_values_of_every_type_come_back(sql: Client) -> None:
    sql(
        "create table t (i2 smallint, i4 integer, i8 bigint, r real, f double precision, d decimal(38,10), b boolean,"
        " c char(3), v varchar(20), dt date, ts timestamp, tz timestamptz, s super, vb varbyte(8))"
    )
    sql(
        "insert into t select 1, 2, 9223372036854775807, 0.5, 0.1, 1234567890123456789012345678.0123456789, true, 'ab',"
        " 'äöü', '2024-02-29', '2024-02-29 12:00:00.123456', '2024-02-29 12:00:00.123456+02',"
        " json_parse('{\"a\": 12345678901234567890.10}'), to_varbyte('YWJj', 'base64')"
    )
    [row] = sql("select * from t")
    assert row[:9] == (
        1,
        2,
        9223372036854775807,
        0.5,
        0.1,
        Decimal("1234567890123456789012345678.0123456789"),
        True,
        "ab ",
        "äöü",
    )
    assert row[9:12] == (
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 12, 0, 0, 123456),  # noqa: DTZ001 - TIMESTAMP has no zone
        dt.datetime(2024, 2, 29, 10, 0, 0, 123456, dt.UTC),
    )
    assert json.loads(row[12], parse_float=Decimal) == {"a": Decimal("12345678901234567890.10")}
    assert row[13] in ("abc", "616263")  # redshift_connector decodes the hexadecimal digits that the server sends
    assert sql("select json_serialize(s), from_varbyte(vb, 'hex') from t")[0][1] == "616263"


def test_parameters_are_bound(sql: Client) -> None:
    sql("create table t (id bigint, name varchar(50), at timestamptz, amount decimal(10,2), note varchar(9))")
    at = dt.datetime(2024, 2, 29, tzinfo=dt.UTC)
    name = 'it\'s \\ "quoted" ; -- äöü'
    for number in range(3):
        sql("insert into t values (%s, %s, %s, %s, %s)", (number, name, at, Decimal("1.10"), None))
    assert sql("select name, at, amount, note from t where id = %s", (2,)) == [(name, at, Decimal("1.10"), None)]
    assert sql("select count(*) from t where name = %s", (name,)) == [(3,)]


def test_a_backslash_in_a_string_escapes(sql: Client) -> None:
    assert sql(r"select 'a\\b', 'it''s', 'it\'s', 'a\tb'") == [("a\\b", "it's", "it's", "a\tb")]
    assert refused(sql, "select E'a'").message == 'type "e" does not exist'


def test_many_rows_come_and_go(rs: Any, schema: str) -> None:
    rs.execute(f"create schema {schema}")
    rs.execute(f"create table {schema}.t (id int, name varchar(100))")
    with rs.cursor() as cursor:
        # One pipeline of 30,000 statements: neither side may wait for the other.
        cursor.executemany(f"insert into {schema}.t values (%s, %s)", [(n, f"name {n}") for n in range(30_000)])
    assert rs.execute(f"select count(*), sum(id) from {schema}.t").fetchone() == (30_000, sum(range(30_000)))
    assert len(rs.execute(f"select a.* from {schema}.t a, {schema}.t b where b.id < 10").fetchall()) == 300_000


# -- transactions


def test_transactions_commit_and_roll_back(connect: Open, sql: Client, schema: str) -> None:
    sql("create table t (id int)")
    writer = connect(autocommit=False)
    writer(f"insert into {schema}.t values (1)")
    assert sql("select count(*) from t") == [(0,)]
    writer.connection.commit()
    assert sql("select count(*) from t") == [(1,)]
    writer(f"insert into {schema}.t values (2)")
    writer.connection.rollback()
    assert sql("select count(*) from t") == [(1,)]


def test_after_an_error_a_transaction_takes_nothing_more(connect: Open, schema: str) -> None:
    client = connect(autocommit=False)
    client(f"create schema {schema}")
    assert refused(client, "insert into nowhere values (1) on conflict do nothing").code == "42601"
    for statement in ("select 1", f"truncate {schema}.t", f"copy {schema}.t from 's3://x/y' {ROLE}"):
        assert refused(client, statement).code == "25P02"
    client.connection.rollback()
    assert client("select count(*) from svv_tables where table_schema = %s", (schema,)) == [(0,)]


def test_truncate_commits(connect: Open, sql: Client, schema: str) -> None:
    sql("create table t (id int)")
    sql("insert into t values (1)")
    client = connect(autocommit=False)
    client(f"create table {schema}.other (id int)")
    client(f"truncate {schema}.t")
    client.connection.rollback()
    assert sql("select count(*) from t") == [(0,)]
    assert sql("select count(*) from other") == [(0,)]


def test_a_transaction_sees_what_was_committed_when_its_lock_came(connect: Open, sql: Client, schema: str) -> None:
    sql("create table ledger (id int)")
    first, second = connect(autocommit=False), connect(autocommit=False)
    first(f"lock {schema}.ledger")
    seen: list[Any] = []

    def follow() -> None:
        second(f"lock table {schema}.ledger")
        seen.extend(second(f"select count(*) from {schema}.ledger"))
        second.connection.commit()

    thread = threading.Thread(target=follow)
    thread.start()
    first(f"insert into {schema}.ledger values (1)")
    time.sleep(0.2)
    assert thread.is_alive()
    first.connection.commit()
    thread.join()
    assert seen == [(1,)]


def test_a_change_of_the_same_rows_at_once_is_1023(connect: Open, sql: Client, schema: str) -> None:
    sql("create table t (id int, n int)")
    sql("insert into t values (1, 0)")
    first, second = connect(autocommit=False), connect(autocommit=False)
    second(f"select * from {schema}.t")
    first(f"update {schema}.t set n = 1")
    first.connection.commit()
    error = refused(second, f"update {schema}.t set n = 2")
    assert (error.code, error.message) == ("XX000", "1023")
    assert error.detail.startswith("Serializable isolation violation on table")


# -- users, groups and roles


def test_users_groups_and_roles_are_three_things(connect: Open, sql: Client, schema: str) -> None:
    name = f"same_{schema}"
    sql("create table t (id int)")
    try:
        sql(f"create group {name}")
        sql(f"create role {name}")
        sql(f"create user {name} password 'Secret-123' in group {name}")
        user = connect(user=name, password="Secret-123")
        assert refused(user, f"select * from {schema}.t").code == "42501"
        sql(f"grant usage on schema {schema} to group {name}")
        sql(f"grant select on t to role {name}")
        assert refused(user, f"select * from {schema}.t").code == "42501"
        sql(f"grant role {name} to {name}")
        assert user(f"select * from {schema}.t") == []
        assert refused(user, f"insert into {schema}.t values (1)").code == "42501"
        sql(f"grant insert, select on t to {name}")
        user(f"insert into {schema}.t values (1)")
        assert user("select count(*) from stl_load_errors") == [(0,)]
        user("create temp table own (id int) diststyle all")
        user("drop table own")
        with pytest.raises((psycopg.OperationalError, redshift_connector.Error)):
            connect(user=name, password="wrong")
    finally:
        sql(f"revoke all on t from {name}")
        sql(f"revoke all on t from role {name}")
        sql(f"revoke all on schema {schema} from group {name}")
        sql(f"drop user {name}")
        sql(f"drop group {name}")
        sql(f"drop role {name}")


@pytest.mark.parametrize("who", ["user", "group", "role"])
def test_grants_to_a_missing_grantee(sql: Client, who: str) -> None:
    sql("create table t (id int)")
    grantee = "missing_here" if who == "user" else f"{who} missing_here"
    assert refused(sql, f"grant select on t to {grantee}").message == f'{who} "missing_here" does not exist'


# -- several statements at once


def test_several_statements_in_one_message(rs: Any, schema: str) -> None:
    rs.execute(
        f"create schema {schema}; create table {schema}.t (id int) diststyle all; insert into {schema}.t values (1)"
    )
    assert rs.execute(f"select count(*) from {schema}.t").fetchone() == (1,)
    with pytest.raises(psycopg.errors.UndefinedTable):
        rs.execute(f"insert into {schema}.t values (2); select * from nowhere")
    assert rs.execute(f"select count(*) from {schema}.t").fetchone() == (1,)
