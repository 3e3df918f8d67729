"""In-memory model of BigQuery's side of the ledger's protocol."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from target_bigquery.ledger import StreamLedger
from target_bigquery.resources import Job, QueryResult, Table
from target_bigquery.storage_write.client import WriteError, WriteErrorKind

START = datetime.now(UTC)


class KilledError(Exception):
    """Raised where the process is killed."""


class Server:
    """BigQuery's side of the protocol: a table of entries, jobs with unique ids, and a clock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: list[dict[str, Any]] = []
        self.jobs: dict[str, Job] = {}
        self.streams: dict[str, WriteStream] = {}
        self.rows: Counter[str] = Counter()
        self.created = START
        self.asked: list[int] = []
        """Number of entries that each query of the ledger returned."""
        self._ticks = 0

    def now(self) -> datetime:
        self._ticks += 1
        return START + timedelta(milliseconds=self._ticks)

    def insert(
        self, job_id: str, kind: str, batches: Sequence[str] = (), error: str | None = None, claims: str | None = None
    ) -> Job | None:
        """Insert a job, unless one with this id exists."""
        with self.lock:
            if job_id in self.jobs:
                return None
            if error is None:
                self.rows.update(batches)
            table = "p.d.t" if kind == "load" else None
            ended = self.now()
            job = Job(job_id, kind, is_done=True, ended=ended, error=error, table=table, claims=claims)
            self.jobs[job_id] = replace(job, is_nothing=kind == "query" and claims is None)
            return self.jobs[job_id]

    def opened(self, batches: Sequence[str]) -> str:
        """Create a finalized pending write stream that contains these batches."""
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
    """The batches of a write stream, and when they were committed."""

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
    """The server as seen by one process, which may die or pause before any request."""

    def __init__(self, server: Server, chance: random.Random, *, die: float = 0.0, sleep: float = 0.0) -> None:
        self._server, self._chance, self._die, self._sleep = server, chance, die, sleep

    def step(self) -> None:
        if self._chance.random() < self._die:
            raise KilledError
        if self._chance.random() < self._sleep:
            time.sleep(self._chance.random() / 100)

    def path(self, table: str) -> str:
        return f"p.d.{table}"

    def new_job_id(self, prefix: str) -> str:
        return f"{prefix}{uuid.uuid4().hex}"

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
        self.step()  # an entry has the time at which its statement began, but is readable only after its end
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


def entered(server: Server, batch: str, job_id: str) -> None:
    server.entries.append({"batch_id": batch, "job_id": job_id, "rows": 1, "started_at": server.now()})


def opened(server: Server, replay: str | None = None) -> StreamLedger:
    client: Any = Client(server, random.Random(0))
    return StreamLedger(client, "s", table(server), replay)
