"""The ledger against a server in memory: processes that race, pause and die load every batch exactly once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from singer_arrow.errors import LoadError
from singer_arrow.load.ledger_lookup import PAGE
from target_bigquery import ledger as ledger_module
from target_bigquery.connection.resources import Job, QueryResult, Table
from target_bigquery.ledger import COMMITTED, FORGOTTEN, StreamLedger
from target_bigquery.storage_write.error_kinds import WriteError, WriteErrorKind

START = datetime.now(UTC)


class KilledError(Exception):
    """The process dies here."""


class Server:
    """BigQuery's part of the protocol: a table of entries, jobs with unique ids, a clock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: list[dict[str, Any]] = []
        self.jobs: dict[str, Job] = {}
        self.streams: dict[str, WriteStream] = {}
        self.rows: Counter[str] = Counter()
        self.created = START
        self.asked: list[int] = []
        """How many entries each query of the ledger returned."""
        self._ticks = 0

    def now(self) -> datetime:
        self._ticks += 1
        return START + timedelta(milliseconds=self._ticks)

    def insert(
        self, job_id: str, kind: str, batches: Sequence[str] = (), error: str | None = None, claims: str | None = None
    ) -> Job | None:
        """The job, if there was none of that id."""
        with self.lock:
            if job_id in self.jobs:
                return None
            if error is None:
                self.rows.update(batches)
            table = "p.d.t" if kind == "load" else None
            ended = self.now()
            self.jobs[job_id] = Job(job_id, kind, is_done=True, ended=ended, error=error, table=table, claims=claims)
            return self.jobs[job_id]

    def opened(self, batches: Sequence[str]) -> str:
        """A pending write stream that holds these batches, and is ended."""
        with self.lock:
            name = f"projects/p/datasets/d/tables/t/streams/{len(self.streams)}"
            self.streams[name] = WriteStream(list(batches))
            return name

    def commit(self, name: str) -> datetime | None:
        with self.lock:
            stream = self.streams[name]
            if stream.committed is not None:
                return None
            stream.committed = self.now()
            self.rows.update(stream.batches)
            return stream.committed


@dataclass
class WriteStream:
    """Batches, and when they were committed."""

    batches: list[str]
    committed: datetime | None = None


def found(entry: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a query with these parameters finds an entry; there is one stream."""
    if "ids" in given:
        return entry["batch_id"] in given["ids"]
    if "since" in given:
        return entry["batch_id"] != "" and entry["started_at"] >= given["since"]
    if "first" in given:
        return given["first"] <= entry["started_at"] <= given["last"]
    return (entry["started_at"], entry["job_id"]) == (given["at"], given["job"])


class Client:
    """What one process sees of the server; it may die or sleep before any request."""

    def __init__(self, server: Server, chance: random.Random, *, die: float = 0.0, sleep: float = 0.0) -> None:
        self._server, self._chance, self._die, self._sleep = server, chance, die, sleep

    def step(self) -> None:
        if self._chance.random() < self._die:
            raise KilledError
        if self._chance.random() < self._sleep:
            time.sleep(self._chance.random() / 100)

    def path(self, table: str) -> str:
        return f"p.d.{table}"

    def quoted(self, table: str) -> str:
        return f"`p`.`d`.`{table}`"

    def table(self, name: str) -> object:
        return name

    def query(self, text: str, parameters: Mapping[str, Any] | None = None, *, what: str) -> QueryResult:
        self.step()
        given = dict(parameters or {})
        with self._server.lock:
            now = self._server.now()
            if text.startswith("SELECT COUNT"):
                return QueryResult([{"rows": self._server.rows.total()}], now)
            if text.startswith("SELECT"):
                rows = [e for e in self._server.entries if found(e, given)]
                rows = rows[: int(text.rpartition("LIMIT ")[2])] if "LIMIT" in text else rows
                self._server.asked.append(len(rows))
                return QueryResult(rows, now)
        self.step()  # an entry's time is that of its statement's begin; it can be read only after its end
        if "''" in text:
            self.write("", given["job"], given["at"])
        for name, batch in given.items():
            if name.startswith("batch_"):
                self.write(batch, given["job"], now)
            if name.startswith("settled_batch_"):
                number = name.rpartition("_")[2]
                self.write(batch, given[f"settled_job_{number}"], given[f"settled_at_{number}"])
        self.step()
        return QueryResult([], now)

    def write(self, batch: str, job: str, at: datetime) -> None:
        with self._server.lock:
            self._server.entries.append({"batch_id": batch, "job_id": job, "rows": 1, "started_at": at})

    def job(self, job_id: str, *, patience: float = 0.0) -> Job | None:
        end = time.monotonic() + patience
        while True:
            self.step()
            if (found := self._server.jobs.get(job_id)) or time.monotonic() >= end:
                return found
            time.sleep(0.001)

    def wait(self, job_id: str, what: str) -> Job:
        return self._server.jobs[job_id]

    def occupy(self, job_id: str) -> Job | None:
        self.step()
        return None if self._server.insert(job_id, "query") else self._server.jobs[job_id]

    def claim(self, job_id: str, write_stream: str) -> bool:
        self.step()
        taken = self._server.insert(job_id, "query", claims=write_stream)
        return taken is not None or self._server.jobs[job_id].claims == write_stream

    @property
    def writes(self) -> Client:
        return self

    def committed(self, name: str) -> datetime | None:
        self.step()
        if name not in self._server.streams:
            raise WriteError("forgotten", WriteErrorKind.UNKNOWN_STREAM)
        return self._server.streams[name].committed

    def commit(self, name: str) -> datetime | None:
        self.step()
        return self._server.commit(name)


def table(server: Server) -> Table:
    return Table("t", (), (), server.created, {}, None, (), None)


def run(server: Server, batches: Sequence[str], chance: random.Random, **client: float) -> None:
    """A process: what AppendOnly and StreamedAppend do, in groups of its own choice."""
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
    server.streams.clear()  # BigQuery forgets them; the last run has written down what was committed
    again = opened(server)
    assert again.loaded_of(batches).keys() == set(batches)


def entered(server: Server, batch: str, job_id: str) -> None:
    server.entries.append({"batch_id": batch, "job_id": job_id, "rows": 1, "started_at": server.now()})


def opened(server: Server) -> StreamLedger:
    client: Any = Client(server, random.Random(0))
    return StreamLedger(client, "s", table(server))


@pytest.fixture
def server() -> Server:
    """A server where batch `a` was entered for job `prefix_1`, which does not exist."""
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
    opened(server).loaded("b")  # finds it empty while the job is still to come
    server.insert(job_id(server), "load", ["a"])
    assert opened(server).loaded("a") is not None


# Claims


def test_a_claim_means_loaded_and_is_committed_by_whoever_finds_it(server: Server) -> None:
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
    assert opened(server).loaded("a") is None  # the table is younger


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


# What is read of a large ledger


@pytest.fixture
def large() -> Server:
    """A server whose ledger has 20,000 batches that were loaded, by jobs of ten batches."""
    server = Server()
    prefix = opened(server).prefix
    for job in range(2_000):
        batches = [f"old-{10 * job + n}" for n in range(10)]
        at = server.now()
        server.entries += [
            {"batch_id": batch, "job_id": f"{prefix}{job}", "rows": 1, "started_at": at} for batch in batches
        ]
        server.insert(f"{prefix}{job}", "load", batches)
    return server


def test_a_run_of_new_batches_reads_its_own_entries_alone(large: Server) -> None:
    ledger = opened(large)
    ledger.void_if_emptied()
    for group in range(10):
        batches = [f"new-{group}-{n}" for n in range(30)]
        for batch in batches:
            ledger.expect(batch)
            assert ledger.loaded(batch) is None
        assert ledger.loaded_of(batches) == {}
        job_id, _ = ledger.begin(dict.fromkeys(batches, 1))
        large.insert(job_id, "load", batches)
    assert len(large.asked) == 22  # when it begins, its first batch; and twice a group: before and after its entries
    assert sum(large.asked) == 10 * 30


def test_batches_that_come_again_are_read_in_pages(large: Server) -> None:
    ledger = opened(large)
    for n in range(20_000):
        assert ledger.loaded(f"old-{n}") is not None
    assert len(large.asked) <= 1 + 2 * 20_000 / PAGE * 1.1
    assert max(large.asked) == PAGE


def test_batches_that_follow_loaded_ones_are_known_to_be_new(large: Server) -> None:
    ledger = opened(large)
    assert ledger.loaded("old-19999") is not None
    assert ledger.loaded("new") is None
    assert ledger.loaded_of(["new", "old-3"]).keys() == {"old-3"}
    assert ledger.loaded("old-4") is not None  # an old one was found, so the next ones are looked up at once again


def test_batches_that_were_announced_are_looked_up_together(large: Server) -> None:
    ledger = opened(large)
    for n in range(0, 20_000, 4_000):
        ledger.expect(f"old-{n}")
    ledger.void_if_emptied()
    asked = len(large.asked)
    assert all(ledger.loaded(f"old-{n}") for n in range(0, 20_000, 4_000))
    assert len(large.asked) == asked == 2


def test_all_entries_of_a_committed_write_stream_are_written_down(server: Server) -> None:
    """Also those of its batches that the run has not met; BigQuery may have forgotten it when they come."""
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
