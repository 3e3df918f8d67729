"""The connection of target-redshift, against the local Redshift with and without faults."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from redshift_lines import Open, rows
from waiting import wait_until

from local_cloud import Cloud
from singer_arrow.errors import ConfigError, CredentialsError, LoadError, NotFoundError, ServiceError
from target_redshift import connection, sql
from target_redshift.client import Redshift
from target_redshift.copy import load_errors
from target_redshift.resources import SessionLostError


@pytest.mark.filterwarnings("ignore:ssl:DeprecationWarning")  # the driver's
class TestLogin:
    @pytest.mark.parametrize(
        ("given", "kind", "words"),
        [
            ({"password": "hush"}, CredentialsError, "check the settings user and password, or iam"),
            ({"user": "stranger"}, CredentialsError, "check the settings user and password, or iam"),
            ({"dbname": "nowhere"}, NotFoundError, "check the setting dbname"),
            ({"host": "nowhere.invalid"}, ConfigError, "there is no host 'nowhere.invalid'"),
            ({"port": 1}, ConfigError, "the connection was refused"),
            ({"ssl": True}, ConfigError, "ssl: false"),
        ],
    )
    @pytest.mark.usefixtures("tried_once")
    def test_wrong_settings_are_an_error_at_once(self, open_client: Open, given: Any, kind: type, words: str) -> None:
        with pytest.raises(kind, match=words) as caught:
            open_client(**given).now()
        assert "hush" not in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_what_listens_is_no_redshift(self, open_client: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "LOGIN_SECONDS", 0.5)
        with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ServiceError, match="Connecting to"):
            open_client(port=silent.getsockname()[1]).now()

    def test_statements_may_take_longer_than_the_log_in(
        self, open_client: Open, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "LOGIN_SECONDS", 3)
        cloud.redshift_faults({"match": "SELECT 4711", "delay_s": 4})
        assert open_client().query("SELECT 4711", what="test").value == 4711


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
    def test_a_killed_session_is_not_a_refused_statement(self, client: Redshift, cloud: Cloud, at: str) -> None:
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

    def test_a_commit_without_an_answer_is_an_error(self, client: Redshift, cloud: Cloud) -> None:
        table = client.quoted("a")
        client.query(f"CREATE TABLE {table} (b INTEGER)", what="test")
        cloud.redshift_faults({"match": "^COMMIT", "action": "kill", "at": "after", "times": 1})
        with client.session() as session, pytest.raises(SessionLostError), session.transaction("test"):
            session.execute(f"INSERT INTO {table} VALUES (1)", what="test")
        assert rows(client, "a") == [(1,)]


def test_close_ends_sessions_in_use(open_client: Open) -> None:
    client, watcher = open_client(), open_client()
    stack = ExitStack()
    idle = stack.enter_context(client.session())
    busy = stack.enter_context(client.session())
    ids = [idle.id, busy.id]

    def count(state: str = "%") -> int:
        pids = f"({ids[0]}, {ids[1]})"
        text = f"SELECT COUNT(*) FROM pg_stat_activity WHERE pid IN {pids} AND state LIKE '{state}'"
        return int(watcher.query(text, what="Looking for sessions").value)

    assert count() == 2
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(busy.execute, "SELECT pg_sleep(60)", what="Waiting")
        wait_until(lambda: count("active") == 1)
        client.close()
        with pytest.raises(SessionLostError):
            waiting.result()
    stack.close()
    assert idle.broken
    wait_until(lambda: count() == 0)


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
        (bad,) = load_errors(client, session, "bad")
        assert (bad.line, bad.column, bad.value) == (1, "id", "many")
        assert load_errors(client, session, "good") == []
        assert load_errors(client, session, "missing") == []
