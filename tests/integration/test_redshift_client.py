"""The connection, the tables and the ledger of target-redshift, against the local Redshift and its faults."""

from __future__ import annotations

import datetime as dt
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest
from local_settings import of_redshift

from local_cloud import Cloud
from singer_arrow.errors import ConfigError, CredentialsError, LoadError, NotFoundError, SchemaError, ServiceError
from singer_arrow.singer.names import LEDGER, staging_name
from target_redshift import connection, migrate, sql
from target_redshift.answers import SessionLostError
from target_redshift.client import UNKNOWN_SLICES, Redshift
from target_redshift.config import Settings
from target_redshift.ledger import StreamLedger
from target_redshift.types import ddl_type

ORDERS = pa.schema([("id", pa.int64()), ("note", pa.string()), ("at", pa.timestamp("us", "UTC"))])
Connect = Callable[..., Redshift]


@pytest.fixture
def connect(cloud: Cloud, schema: str) -> Iterator[Connect]:
    """Opens clients with settings of one's own; faults that a test sets end with it."""
    clients: list[Redshift] = []

    def connect(**settings: Any) -> Redshift:
        config = of_redshift(cloud, default_target_schema=schema, s3_stage="s3://stage/redshift")
        clients.append(Redshift(Settings.from_config(config | settings)))
        return clients[-1]

    yield connect
    cloud.redshift_faults()
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Connect) -> Redshift:
    """A client whose schema and ledger are there."""
    client = connect()
    migrate.prepare_schema(client)
    return client


def rows(client: Redshift, table: str) -> list[Any]:
    return client.query(f"SELECT * FROM {client.quoted(table)} ORDER BY 1", what="test").rows


@pytest.mark.filterwarnings("ignore:ssl:DeprecationWarning")  # the driver's
class TestLogin:
    @pytest.mark.parametrize(
        ("given", "kind", "said"),
        [
            ({"password": "hush"}, CredentialsError, "check user, password or iam"),
            ({"user": "nobody"}, CredentialsError, "check user, password or iam"),
            ({"dbname": "nowhere"}, NotFoundError, "check the setting dbname"),
            ({"host": "nowhere.invalid"}, ConfigError, "there is no host 'nowhere.invalid'"),
            ({"port": 1}, ConfigError, "nobody listens there"),
            ({"ssl": True}, ConfigError, "ssl: false"),
        ],
    )
    def test_what_is_wrong_is_said_at_once(self, connect: Connect, given: Any, kind: type, said: str) -> None:
        began = time.monotonic()
        with pytest.raises(kind, match=said) as caught:
            connect(**given).now()
        assert time.monotonic() - began < 5
        assert "hush" not in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_what_listens_is_no_redshift(self, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "LOGIN_SECONDS", 0.5)
        with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ServiceError, match="Connecting to"):
            connect(port=silent.getsockname()[1]).now()

    def test_statements_may_take_longer_than_the_log_in(
        self, connect: Connect, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "LOGIN_SECONDS", 0.5)
        cloud.redshift_faults({"match": "SELECT 4711", "delay_s": 1.0})
        assert connect().query("SELECT 4711", what="test").value == 4711


class TestSessions:
    def test_they_are_used_again(self, client: Redshift) -> None:
        with client.session() as first:
            number = first.id
        with client.session() as second:
            assert second.id == number
            with client.session() as third:
                assert third.id != number

    def test_idle_ones_are_not_trusted_for_ever(self, client: Redshift, monkeypatch: pytest.MonkeyPatch) -> None:
        with client.session() as first:
            number = first.id
        monkeypatch.setattr(connection, "IDLE_SECONDS", -1.0)
        with client.session() as second:
            assert second.id != number

    def test_old_ones_are_let_go(self, client: Redshift, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "MOST_STATEMENTS", 3)
        with client.session() as session:
            number = session.id
            while session.statements < 3:
                session.execute("SELECT 1", what="test")
        with client.session() as session:
            assert session.id != number

    def test_one_that_is_left_in_a_transaction_does_not_come_back(self, client: Redshift) -> None:
        with client.session() as session:
            number = session.id
            session.in_transaction = True
        with client.session() as session:
            assert session.id != number

    def test_an_error_rolls_back_and_leaves_the_session_usable(self, client: Redshift) -> None:
        with client.session() as session:

            def run() -> None:
                with session.transaction("test"):
                    session.execute(f"CREATE TABLE {client.quoted('a')} (b INTEGER)", what="test")
                    session.execute("SELECT 1 FROM nothing", what="test")

            with pytest.raises(NotFoundError):
                run()
            assert not session.broken
            assert session.execute("SELECT 1", what="test").value == 1
        assert client.table("a") is None

    def test_values_are_bound_whatever_they_hold(self, client: Redshift) -> None:
        hostile = "'; DROP TABLE x; -- \\ %s $1 \n ü🙂"
        assert client.query("SELECT CAST(%s AS VARCHAR(100))", [hostile], what="test").value == hostile

    @pytest.mark.parametrize("at", ["before", "middle", "after"])
    def test_a_killed_one_is_told_from_one_that_refuses(self, client: Redshift, cloud: Cloud, at: str) -> None:
        cloud.redshift_faults({"match": "SELECT 4711", "action": "kill", "at": at, "times": 1})
        with client.session() as session:
            with pytest.raises(SessionLostError, match="connection to Redshift was lost|terminating"):
                session.execute("SELECT 4711", what="test")
            assert session.broken
        with client.session() as session:
            assert session.execute("SELECT 4711", what="test").value == 4711

    def test_what_may_be_repeated_is(self, client: Redshift, cloud: Cloud) -> None:
        cloud.redshift_faults(
            {"match": "SELECT 4711", "action": "error", "times": 1},
            {"match": "SELECT 4711", "action": "kill", "times": 1},
        )
        assert client.query("SELECT 4711", what="test").value == 4711

    def test_a_commit_whose_answer_is_lost_is_told(self, client: Redshift, cloud: Cloud) -> None:
        table = client.quoted("a")
        client.query(f"CREATE TABLE {table} (b INTEGER)", what="test")
        cloud.redshift_faults({"match": "^COMMIT", "action": "kill", "at": "after", "times": 1})
        with client.session() as session, pytest.raises(SessionLostError), session.transaction("test"):
            session.execute(f"INSERT INTO {table} VALUES (1)", what="test")
        assert rows(client, "a") == [(1,)]


class TestSchema:
    def test_it_is_made_with_its_ledger_by_many_at_once(self, connect: Connect, rs: Any, schema: str) -> None:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(migrate.prepare_schema, [connect(grants={"select": ["public"]}) for _ in range(6)]))
        found = connect().table(LEDGER)
        assert found
        assert [c.name for c in found.columns] == ["batch_id", "stream", "rows", "loaded_at"]

    def test_slices_are_asked_for_unless_they_are_set(self, connect: Connect, cloud: Cloud) -> None:
        assert connect().slices() == 2
        assert connect(slices=12).slices() == 12
        cloud.redshift_faults({"match": "stv_slices", "action": "error", "code": "42501", "message": "denied"})
        assert connect().slices() == UNKNOWN_SLICES


class TestTables:
    def test_a_table_is_made_as_the_settings_say(self, connect: Connect, rs: Any, schema: str) -> None:
        client = connect(
            dist_key="ID", sort_keys={"Ord*": ["at", "id"]}, grants={"select": ["public"]}, varchar_max=100
        )
        migrate.prepare_schema(client)
        made = migrate.prepare_table(client, "Orders", ORDERS)
        assert made.name == "orders"
        assert [ddl_type(c) for c in made.columns] == ["BIGINT", "VARCHAR(100)", "TIMESTAMPTZ"]
        assert made.lengths == {"note": 100}
        assert client.layout("orders") == ("id", ["at", "id"])
        assert rs.execute("SELECT has_table_privilege('public', %s, 'select')", [f"{schema}.orders"]).fetchone() == (
            True,
        )

    def test_grants_to_nobody(self, connect: Connect, client: Redshift) -> None:
        with pytest.raises(ConfigError, match="'?nobody_at_all.*does not exist; check the setting grants"):
            migrate.prepare_table(connect(grants={"select": ["nobody_at_all"]}), "orders", ORDERS)
        assert client.table("orders") is None

    def test_it_is_made_once_by_many_at_once(self, connect: Connect, client: Redshift) -> None:
        clients = [connect() for _ in range(6)]
        with ThreadPoolExecutor(6) as pool:
            made = list(pool.map(lambda c: migrate.prepare_table(c, "orders", ORDERS), clients))
        assert {m.table.created for m in made} == {made[0].table.created}

    def test_streams_whose_names_collide_get_tables_of_their_own(self, client: Redshift) -> None:
        names = [migrate.prepare_table(client, s, ORDERS).name for s in ("a-b", "a.b", "A_B", "a-b")]
        assert names[0] == names[3] == "a_b"
        assert len(set(names)) == 3

    def test_a_table_of_somebody_else_is_taken(self, client: Redshift) -> None:
        client.query(
            f"CREATE TABLE {client.quoted('orders')} (id BIGINT, more INTEGER DEFAULT 7 NOT NULL)", what="test"
        )
        made = migrate.prepare_table(client, "orders", ORDERS)
        assert [c.name for c in made.table.columns] == ["id", "more", "note", "at"]
        assert [c.name for c in made.columns] == ["id", "note", "at"]

    def test_new_columns_are_added_by_many_at_once(self, connect: Connect, client: Redshift) -> None:
        migrate.prepare_table(client, "orders", ORDERS)
        wider = ORDERS.append(pa.field("x", pa.float64())).append(pa.field("y", pa.list_(pa.int64())))
        clients = [connect() for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda c: migrate.prepare_table(c, "orders", wider), clients))
        for one in made:
            assert [ddl_type(c) for c in one.table.columns][3:] == ["DOUBLE PRECISION", "SUPER"]

    def test_what_does_not_fit_is_named(self, client: Redshift) -> None:
        client.query(f"CREATE TABLE {client.quoted('orders')} (id INTEGER)", what="test")
        with pytest.raises(SchemaError, match=r"Table test_\w+\.orders: Column 'id' is of type INTEGER in the table"):
            migrate.prepare_table(client, "orders", ORDERS, ["id"])
        assert "id__integer" in [c.name for c in migrate.prepare_table(client, "orders", ORDERS).columns]
        client.query(f"CREATE TABLE {client.quoted('other')} (must BIGINT NOT NULL)", what="test")
        with pytest.raises(SchemaError, match="requires column 'must'"):
            migrate.prepare_table(client, "other", ORDERS)

    def test_settings_that_name_no_column(self, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
        client = connect(dist_key="nothing")
        migrate.prepare_schema(client)
        migrate.prepare_table(client, "orders", ORDERS)
        assert "has no column 'nothing', so dist_key does not apply" in caplog.text
        with pytest.raises(ConfigError, match="'sort_keys' names column 'nothing'"):
            migrate.prepare_table(connect(sort_keys={"a": ["nothing"]}), "a", ORDERS)
        nested = pa.schema([("s", pa.list_(pa.int64()))])
        with pytest.raises(ConfigError, match="which is SUPER"):
            migrate.prepare_table(connect(dist_key="s"), "b", nested)

    def test_tables_that_are_laid_out_otherwise(self, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
        first = connect(dist_key="id", sort_keys=["at"])
        migrate.prepare_schema(first)
        migrate.prepare_table(first, "orders", ORDERS)
        migrate.prepare_table(first, "orders", ORDERS)
        assert "applies to new tables alone" not in caplog.text
        migrate.prepare_table(connect(dist_key="note", sort_keys=["id", "at"]), "orders", ORDERS)
        assert "orders is distributed by id; dist_key applies to new tables alone" in caplog.text
        assert "orders is sorted by at; sort_keys applies to new tables alone" in caplog.text

    def test_keys_that_cannot_be_compared(self, client: Redshift) -> None:
        made = migrate.prepare_table(client, "a", pa.schema([("s", pa.list_(pa.int64()))]))
        with pytest.raises(SchemaError, match="cannot be a key"):
            migrate.check_keys(client, made, ["s"])

    def test_texts_get_wider_columns(self, connect: Connect, client: Redshift) -> None:
        made = migrate.prepare_table(client, "orders", ORDERS)
        late = migrate.prepare_table(connect(), "orders", ORDERS)
        migrate.widen(client, made, {"note": 300})
        migrate.widen(client, made, {"note": 900})
        assert made.lengths == {"note": 1024}
        migrate.widen(client, late, {"note": 300})  # somebody else has done it
        migrate.widen(client, late, {"note": 65_535})
        table = client.table("orders")
        assert table
        assert str(table.columns[1]) == "VARCHAR(65535)"

    def test_leftovers_of_yesterday_are_removed(self, client: Redshift, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("old", "other"):
            client.query(f"CREATE TABLE {client.quoted(staging_name(name, 'x'))} (a INTEGER)", what="test")
        migrate.remove_leftovers(client, "old")
        assert client.tables_named(staging_name("old"))
        later = client.now() + dt.timedelta(days=2)
        monkeypatch.setattr(client, "now", lambda: later)
        migrate.remove_leftovers(client, "old")
        assert not client.tables_named(staging_name("old"))
        assert client.tables_named(staging_name("other"))


class TestLedger:
    def load(self, client: Redshift, ledger: StreamLedger, *batches: str) -> set[str]:
        """Load batches as the target does; those that somebody else has loaded are left out."""
        with client.session() as session, session.transaction("test"):
            ledger.lock(session)
            known = ledger.loaded_meanwhile(session, batches).keys()
            mine = [b for b in batches if b not in known]
            for batch in mine:
                session.execute(f"INSERT INTO {client.quoted('orders')} (note) VALUES (%s)", [batch], what="test")
            ledger.add(session, dict.fromkeys(mine, 1))
        return set(known)

    def open(self, client: Redshift, stream: str = "orders") -> StreamLedger:
        return StreamLedger(client, stream, migrate.prepare_table(client, "orders", ORDERS).table)

    def notes(self, client: Redshift) -> list[str]:
        return sorted(note for _, note, _ in rows(client, "orders"))

    def test_what_was_loaded_is_known(self, client: Redshift) -> None:
        ledger = self.open(client)
        assert ledger.loaded("a") is None
        self.load(client, ledger, "a", "b'\\")
        again = self.open(client)
        assert abs(again.loaded("a") - client.now()) < dt.timedelta(minutes=1)  # type: ignore[operator]
        assert again.loaded("b'\\")
        assert again.loaded("c") is None
        assert self.open(client, "another").loaded("a") is None

    def test_entries_that_are_not_kept_are_asked_for(self, client: Redshift, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("target_redshift.ledger.KEPT", 2)
        for batch in "abc":
            self.load(client, self.open(client), batch)
        ledger = self.open(client)
        assert [bool(ledger.loaded(batch)) for batch in "abcd"] == [True, True, True, False]
        client.query(f"DELETE FROM {client.quoted(LEDGER)}", what="test")
        assert [bool(ledger.loaded(batch)) for batch in "abc"] == [False, True, True]

    def test_two_that_load_the_same_at_once(self, connect: Connect, client: Redshift) -> None:
        """Each sees what the others have committed, though its own session began before."""
        clients = [connect() for _ in range(5)]
        ledgers = [self.open(c) for c in clients]
        assert not any(ledger.loaded("a") for ledger in ledgers)
        start = threading.Barrier(5)

        def run(number: int) -> set[str]:
            start.wait()
            return self.load(clients[number], ledgers[number], "a", f"own-{number}")

        with ThreadPoolExecutor(5) as pool:
            left_out = list(pool.map(run, range(5)))
        assert sorted(map(len, left_out)) == [0, 1, 1, 1, 1]
        assert self.notes(client) == ["a", *(f"own-{n}" for n in range(5))]

    @pytest.mark.parametrize("how", ["DELETE FROM {}", "TRUNCATE {}"])
    def test_an_emptied_table_fills_again(self, client: Redshift, how: str) -> None:
        self.load(client, self.open(client), "a")
        client.query(how.format(client.quoted("orders")), what="test")
        assert self.open(client).loaded("a") is None
        assert rows(client, LEDGER) == []

    def test_a_table_that_was_made_anew_fills_again(self, client: Redshift) -> None:
        self.load(client, self.open(client), "a")
        client.query(sql.drop_table(client.quoted("orders")), what="test")
        ledger = self.open(client)
        client.query(f"INSERT INTO {client.quoted('orders')} (id) VALUES (7)", what="test")
        assert ledger.loaded("a") is None
        assert self.load(client, ledger, "a") == set()
        assert self.open(client).loaded("a")

    def test_entries_of_other_streams_stay(self, client: Redshift) -> None:
        self.load(client, self.open(client, "another"), "x")
        self.load(client, self.open(client), "a")
        with client.session() as session, session.transaction("test"):
            self.open(client).clear(session)
        assert [row[:2] for row in rows(client, LEDGER)] == [("x", "another")]

    def test_more_entries_than_one_statement_takes(self, client: Redshift, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("target_redshift.ledger._AT_ONCE", 7)
        batches, ledger = {f"b{n}": n for n in range(20)}, self.open(client)
        with client.session() as session, session.transaction("test"):
            ledger.lock(session)
            ledger.add(session, batches)
            assert ledger.loaded_meanwhile(session, batches).keys() == batches.keys()

    def test_a_transaction_that_fails_leaves_no_entry(self, client: Redshift) -> None:
        ledger = self.open(client)

        def run() -> None:
            with client.session() as session, session.transaction("test"):
                ledger.lock(session)
                ledger.add(session, {"a": 1})
                session.execute("SELECT 1/0", what="test")

        with pytest.raises(LoadError):
            run()
        assert rows(client, LEDGER) == []


def test_close_ends_sessions_in_use(connect: Connect) -> None:
    client, watcher = connect(), connect()
    stack = ExitStack()
    idle = stack.enter_context(client.session())
    busy = stack.enter_context(client.session())
    ids = [idle.id, busy.id]

    def count() -> int:
        text = f"SELECT COUNT(*) FROM pg_stat_activity WHERE pid IN ({ids[0]}, {ids[1]})"
        return int(watcher.query(text, what="Looking for sessions").value)

    assert count() == 2
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(busy.execute, "SELECT pg_sleep(5)", what="Waiting")
        time.sleep(0.3)
        began = time.monotonic()
        client.close()
        with pytest.raises(SessionLostError):
            waiting.result()
        assert time.monotonic() - began < 3
    stack.close()
    assert idle.broken
    end = time.monotonic() + 10
    while count() and time.monotonic() < end:
        time.sleep(0.1)
    assert count() == 0


def test_load_errors_are_those_of_one_copy(client: Redshift, cloud: Cloud, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="bad.csv", Body=b"many\n")
    access = sql.Access(
        access_key_id=cloud.env["AWS_ACCESS_KEY_ID"], secret_access_key=cloud.env["AWS_SECRET_ACCESS_KEY"]
    )
    with client.session() as session:
        for name in ("bad", "good"):
            session.execute(f"CREATE TEMP TABLE {name} (id INTEGER)", what="Creating")
        text = f"COPY bad FROM 's3://{bucket}/bad.csv' {access.clause} FORMAT AS CSV"
        with pytest.raises(LoadError):
            session.execute(text, what="Copying")
        (bad,) = client.load_errors(session, "bad")
        assert (bad.line, bad.column, bad.value) == (1, "id", "many")
        assert client.load_errors(session, "good") == []
        assert client.load_errors(session, "missing") == []
