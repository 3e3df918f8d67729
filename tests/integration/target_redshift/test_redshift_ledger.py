"""The ledger of target-redshift, against the local Redshift with and without faults."""

from __future__ import annotations

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from redshift_lines import ORDERS, Open, rows

from singer_arrow.errors import LoadError
from singer_arrow.load.method import PAGE
from singer_arrow.naming import LEDGER
from target_redshift import sql, tables
from target_redshift.client import Redshift
from target_redshift.connection import Session
from target_redshift.ledger import MARK, StreamLedger
from target_redshift.resources import QueryResult


class TestLedger:
    def load(self, client: Redshift, ledger: StreamLedger, *batches: str) -> set[str]:
        """Load batches as the target does; those that another process has loaded are skipped."""
        with client.session() as session, session.transaction("test"):
            ledger.lock(session)
            known = ledger.loaded_meanwhile(session, batches).keys()
            mine = [b for b in batches if b not in known]
            for batch in mine:
                session.execute(f"INSERT INTO {client.quoted('orders')} (note) VALUES (%s)", [batch], what="test")
            ledger.add(session, dict.fromkeys(mine, 1))
        return set(known)

    def open(self, client: Redshift, stream: str = "orders") -> StreamLedger:
        return StreamLedger(client, stream, tables.prepare_table(client, "orders", ORDERS).table)

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

    def test_only_entries_of_batches_that_come_are_read(
        self, client: Redshift, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read: list[int] = []
        execute = Session.execute

        def counted(session: Session, text: str, *args: Any, **options: Any) -> QueryResult:
            answer = execute(session, text, *args, **options)
            if LEDGER in text:
                read.append(len(answer.rows))
            return answer

        self.load(client, self.open(client), *(f"old-{n}" for n in range(3_000)))
        ledger = self.open(client)
        monkeypatch.setattr(Session, "execute", counted)
        new = [f"new-{n}" for n in range(100)]
        assert not any(ledger.loaded(batch) for batch in new)
        assert ledger.loaded_of(new) == {}
        assert read == [1, 0, 0]  # the oldest entry, the first batch, and the group's
        assert ledger.loaded_of(["old-7"]).keys() == {"old-7"}
        assert read[3:] == [1, PAGE]

    def test_batches_that_come_again_are_read_in_pages(self, client: Redshift, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("target_redshift.ledger.PAGE", 4)
        for n in range(12):
            self.load(client, self.open(client), f"b{n}")
        ledger = self.open(client)
        assert ledger.loaded("b0")
        client.query(f"DELETE FROM {client.quoted(LEDGER)}", what="test")
        assert [bool(ledger.loaded(f"b{n}")) for n in (1, 3, 4)] == [True, True, False]

    def test_marks_of_loads_are_no_entries_of_batches(self, client: Redshift) -> None:
        self.load(client, self.open(client), f"{MARK}1")
        client.query(f"TRUNCATE {client.quoted('orders')}", what="test")
        assert self.open(client).loaded("a") is None
        assert len(rows(client, LEDGER)) == 1

    def test_two_that_load_the_same_at_once(self, open_client: Open, client: Redshift) -> None:
        """Each sees the commits of the others, though its own session began before them."""
        clients = [open_client() for _ in range(5)]
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
        with pytest.raises(LoadError, match="it was made anew since, and has rows"):
            ledger.loaded("a")
        client.query(f"TRUNCATE {client.quoted('orders')}", what="test")
        assert ledger.loaded("a") is None
        assert self.load(client, ledger, "a") == set()
        assert self.open(client).loaded("a")

    def test_entries_of_other_streams_stay(self, client: Redshift) -> None:
        self.load(client, self.open(client, "another"), "x")
        self.load(client, self.open(client), "a")
        with client.session() as session, session.transaction("test"):
            self.open(client).clear(session)
        assert {row[1] for row in rows(client, LEDGER)} == {"another in orders"}

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
