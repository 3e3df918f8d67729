"""The ledger with a server in memory: concurrent, paused and killed processes load each batch once."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ledger_server import Client, KilledError, Server, entered, opened, table

from singer_arrow.errors import LoadError
from target_bigquery import ledger as ledger_module
from target_bigquery.ledger import COMMITTED, FORGOTTEN, StreamLedger


def run(server: Server, batches: Sequence[str], chance: random.Random, **client: float) -> None:
    """Run a process with the steps of AppendOnly and StreamedAppend, in given groups."""
    connection: Any = Client(server, chance, **client)
    ledger = StreamLedger(connection, "s", table(server))
    rest = list(batches)
    while rest:
        size = chance.randint(1, 4)
        for batch in rest[:size]:
            ledger.expect(batch)
        group, rest = [b for b in rest[:size] if ledger.loaded(b) is None], rest[size:]
        group = [b for b in group if b not in ledger.loaded_of(group)]
        stream, held = "", list[str]()
        while group:
            if chance.random() < 0.5 and held != group:
                stream, held = server.opened(group), group
            job_id, theirs = ledger.begin(dict.fromkeys(group, 1))
            if theirs:
                group = [b for b in group if b not in theirs]
                continue
            connection.step()
            if held == group:
                if not connection.claim(job_id, stream):
                    continue
                when = connection.commit(stream) or connection.committed(stream)
                ledger.committed(dict.fromkeys(group, 1), job_id, when)
                break
            error = "backendError" if chance.random() < 0.1 else None
            job = server.insert(job_id, "load", group, error)
            connection.step()
            if job is not None and job.error is None:
                break
    ledger.write_commits()


def quietly(*arguments: Any, **options: Any) -> None:
    try:
        run(*arguments, **options)
    except KilledError:
        return


@pytest.mark.parametrize("seed", range(60))
def test_each_batch_is_loaded_exactly_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "PATIENCE_SECONDS", 0.05)
    chance = random.Random(seed)
    server = Server()
    batches = [f"b{n}" for n in range(12)]
    for _ in range(4):
        threads = []
        for _ in range(chance.randint(1, 3)):
            own = random.Random(chance.random())
            options = {"die": chance.choice([0, 0.01, 0.05]), "sleep": chance.choice([0, 0.3])}
            first = chance.randint(0, 6)
            threads.append(threading.Thread(target=quietly, args=(server, batches[first:], own), kwargs=options))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not [b for b, times in server.rows.items() if times > 1]
    run(server, batches, chance)
    assert server.rows == Counter(batches)
    server.streams.clear()  # BigQuery deletes them; the last run has recorded the committed ones
    again = opened(server)
    assert again.loaded_of(batches).keys() == set(batches)


@pytest.fixture
def server() -> Server:
    """Return a server where batch `a` was entered for job `prefix_1`, which does not exist."""
    server = Server()
    server.rows["something"] = 1
    entered(server, "a", f"{opened(server).prefix}1")
    return server


def job_id(server: Server) -> str:
    return str(server.entries[0]["job_id"])


def test_done_means_loaded(server: Server) -> None:
    server.insert(job_id(server), "load", ["a"])
    assert opened(server).loaded("a") == server.jobs[job_id(server)].ended
    assert opened(server).loaded("b") is None


def test_failed_means_load_again(server: Server) -> None:
    server.insert(job_id(server), "load", ["a"], error="invalid")
    assert opened(server).loaded("a") is None


def test_absent_means_take_the_id_and_load_again(server: Server) -> None:
    assert opened(server).loaded("a") is None
    assert server.jobs[job_id(server)].kind == "query"
    assert opened(server).loaded("a") is None


def test_absent_for_so_long_that_bigquery_has_forgotten_it_means_loaded(server: Server) -> None:
    server.created = datetime.now(UTC) - FORGOTTEN * 3
    server.entries[0]["started_at"] = datetime.now(UTC) - FORGOTTEN - timedelta(days=1)
    assert opened(server).loaded("a") is not None
    assert server.jobs == {}


def test_jobs_into_other_tables_do_not_count(server: Server) -> None:
    server.insert(job_id(server), "load", ["a"])
    server.entries[0]["job_id"] = "target_bigquery_0123456789abcdef_1"
    server.insert("target_bigquery_0123456789abcdef_1", "load", ["a"])
    assert opened(server).loaded("a") is None


def test_what_was_loaded_before_the_table_was_made_is_void(server: Server) -> None:
    server.insert(job_id(server), "load", ["a"])
    server.created = server.now()
    with pytest.raises(LoadError, match="not the one into which the batches of stream 's' were loaded"):
        opened(server).loaded("a")
    assert opened(server, "load").loaded("a") is None
    assert opened(server).loaded("a") is None


def test_an_emptied_table_voids_for_good(server: Server) -> None:
    server.insert(job_id(server), "load", ["a"])
    server.rows.clear()
    assert opened(server).loaded("a") is None
    server.rows["something"] = 1
    assert opened(server).loaded("a") is None
    ledger = opened(server)
    again, theirs = ledger.begin({"a": 1})
    assert theirs == set()
    server.insert(again, "load", ["a"])
    assert opened(server).loaded("a") is not None


def test_a_job_that_ends_after_the_table_was_found_empty_is_not_void(server: Server) -> None:
    server.rows.clear()
    opened(server).loaded("b")  # finds it empty while the job has not started
    server.insert(job_id(server), "load", ["a"])
    assert opened(server).loaded("a") is not None


# Claims


def test_a_claim_means_loaded_and_is_committed_by_the_run_that_finds_it(server: Server) -> None:
    server.insert(job_id(server), "query", claims=server.opened(["a"]))
    ledger = opened(server)
    when = ledger.loaded("a")
    assert when == next(iter(server.streams.values())).committed is not None
    assert server.rows["a"] == 1
    assert opened(server).loaded("a") == when
    assert server.rows["a"] == 1
    ledger.write_commits()
    assert server.entries[-1] == server.entries[0] | {"job_id": f"{job_id(server)}{COMMITTED}", "started_at": when}
    server.streams.clear()
    assert opened(server).loaded("a") == when


def test_a_claim_for_a_write_stream_that_is_forgotten_is_for_people(server: Server) -> None:
    server.insert(job_id(server), "query", claims="projects/p/datasets/d/tables/t/streams/x")
    with pytest.raises(LoadError, match=r"batch a,.* whether the 1 rows .*DELETE FROM `p`.* WHERE job_id = '.*_1'; .*"):
        opened(server).loaded("a")
    server.created = server.now()
    assert opened(server, "load").loaded("a") is None  # the table is younger


def test_a_forgotten_write_stream_is_nobodys_question_where_the_batch_was_loaded_again(server: Server) -> None:
    server.insert(job_id(server), "query", claims="projects/p/datasets/d/tables/t/streams/x")
    entered(server, "a", f"{opened(server).prefix}2{COMMITTED}")
    assert opened(server).loaded("a") is not None


def test_what_is_settled_is_written_with_the_next_entries_and_once(server: Server) -> None:
    ledger = opened(server)
    first, _ = ledger.begin({"b": 1, "c": 1})
    ledger.committed({"b": 1, "c": 1}, first, server.now())
    ledger.begin({"d": 1})
    ledger.begin({"e": 1})
    ledger.write_commits()
    commits = [e["batch_id"] for e in server.entries if e["job_id"] == f"{first}{COMMITTED}"]
    assert commits == ["b", "c"]
    assert opened(server).loaded("b") is not None


# Reads of a large ledger


def test_all_entries_of_a_committed_write_stream_are_written_down(server: Server) -> None:
    """Also for batches that the run has not received: BigQuery may have deleted the stream when they are sent."""
    server.entries.append(server.entries[0] | {"batch_id": "b"})
    server.insert(job_id(server), "query", claims=server.opened(["a", "b"]))
    ledger = opened(server)
    assert ledger.loaded("a") is not None
    ledger.write_commits()
    server.streams.clear()
    assert opened(server).loaded("b") is not None
    assert server.rows["b"] == 1


def test_a_run_waits_for_a_job_whose_entry_appeared_after_it_began(server: Server) -> None:
    ledger = opened(server)
    ledger.void_if_emptied()
    job = f"{ledger.prefix}2"
    entered(server, "b", job)
    inserted = threading.Timer(0.05, server.insert, (job, "load", ["b"]))
    inserted.start()
    assert ledger.loaded_of(["b"]).keys() == {"b"}
    inserted.join()
    assert server.rows["b"] == 1


def test_a_thread_that_waits_for_another_run_does_not_hold_up_one_that_ends_the_wait(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run enters `a` and `b` after this one entered `b` and before it enters `a`, and waits for this one.

    So the thread with `a` waits for the other job, and the one with `b`, whose entry is older, takes its id.
    """
    monkeypatch.setattr(ledger_module, "PATIENCE_SECONDS", 5.0)
    is_waiting, appeared = threading.Event(), list[bool]()

    class Overtaken(Client):
        def write(self, batch: str, job: str, at: datetime) -> None:
            super().write(batch, job, at)
            if batch == "b":
                entered(server, "a", other)
                entered(server, "b", other)
                waits.start()
                assert is_waiting.wait(60)

        def job(self, job_id: str, *, patience: float = 0.0) -> Any:
            if patience:
                is_waiting.set()
            found = super().job(job_id, patience=patience)
            if patience:
                appeared.append(found is not None)
            return found

    connection: Any = Overtaken(server, random.Random(0))
    ledger = StreamLedger(connection, "s", table(server))
    other = f"{ledger.prefix}2"
    waits = threading.Thread(target=ledger.begin, args=({"a": 1},))
    assert ledger.loaded_of(["a", "b"]) == {}
    assert ledger.begin({"b": 1})[1] == set()
    waits.join()
    assert server.jobs[other].is_nothing
    assert appeared == [True]
