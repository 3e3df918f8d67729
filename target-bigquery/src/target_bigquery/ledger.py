"""The ledger `_sdc_batches`: which batch was loaded by which job, so that none is loaded twice.

A batch's entry is written before its load job is inserted. Whoever meets the batch again looks at that job: done means
loaded, running means wait, failed means load again; absent means that its process died, or sleeps: its id is taken
with a job that does nothing, so that it cannot be inserted any more, and the batch is loaded again. Each writer reads
the ledger once more after it wrote, so of two processes that load one batch at once, at least one sees the other. It
then does the same; only if the other's entry is the older one, it first waits for that job to appear, so that they do
not take each other's ids for ever.

A batch that goes through the Storage Write API has a claim for its job: one that does nothing but name the write
stream that holds the batch, whole and ended, and that is to be committed. Nobody commits one that is not claimed, and
whoever finds a claim commits it, which cannot be done twice; so a claim means loaded, an id taken otherwise means load
again. BigQuery forgets write streams within days: what was committed is written down a second time, as `SETTLED`.

Entries count for the table that their job loaded, and only for its present contents: those of jobs that ended before
the table was created, or before it was found empty, are void. The latter is kept for good in a mark, an entry with an
empty batch_id.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from singer_arrow.errors import LoadError
from singer_arrow.singer.names import LEDGER
from target_bigquery import migrate, sql
from target_bigquery.answers import Job, Table
from target_bigquery.client import BigQuery
from target_bigquery.names import job_prefix
from target_bigquery.write_errors import Kind, WriteError

logger = logging.getLogger("target-bigquery")
FORGOTTEN = timedelta(days=150)
"""BigQuery keeps jobs for about 180 days; an older entry without its job counts as loaded."""
_LONGEST_JOB = timedelta(days=1)
SETTLED = ":committed"
"""What the job's id ends with in a second entry, of a batch whose write stream was committed at `started_at`."""
_SETTLED_AT_ONCE = 500
PATIENCE_SECONDS = 300.0
"""How long the job of another process may take to appear while this one waits: its file is being uploaded."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the ledger; `started_at` is the server's time."""

    batch_id: str
    job_id: str
    rows: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job: whether it loaded its batches, and when it ended."""

    loaded: bool
    ended: datetime


class StreamLedger:
    """The ledger of one stream's table; safe to use from any thread.

    Args:
        client: The dataset.
        stream: Name of the stream.
        table: Its table, as it was when the run began with it.
    """

    def __init__(self, client: BigQuery, stream: str, table: Table) -> None:
        self._client = client
        self._stream = stream
        self._table = client.path(table.name)
        self._count = sql.count_rows(client.quoted(table.name), table.filtered_by)
        self._prefix = job_prefix(self._table)
        self._since = table.created
        self._ours: set[str] = set()
        self._outcomes: dict[str, Outcome] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.RLock()
        self._entries: dict[str, list[Entry]] | None = None
        self._settled: list[Entry] = []
        self._exists = False

    def look(self) -> None:
        """Read the entries, unless that was done; of a table that was emptied they are void, which rows would hide."""
        self._open(create=False)

    def loaded(self, batch_id: str) -> datetime | None:
        """When the batch was loaded into the table as it is now; None if it was not.

        Waits for a job that is still running.
        """
        self._open(create=True)
        for entry in sorted(self._known(batch_id), key=lambda e: e.job_id not in self._outcomes):
            outcome = self._outcome(entry)
            if outcome.loaded and outcome.ended >= self._since:
                return outcome.ended
        return None

    def begin(self, batches: Mapping[str, int]) -> tuple[str, set[str]]:
        """Write entries for a load that is about to begin.

        Args:
            batches: Number of rows by batch_id.

        Returns:
            The id for its job, and the batches that somebody else has loaded meanwhile. If there are any, the id is of
            no use: begin again without them.
        """
        self._open(create=bool(batches))
        job_id = f"{self._prefix}{uuid.uuid4().hex}"
        with self._lock:
            self._ours.add(job_id)
        if not batches:
            return job_id, set()
        self._write(batches, job_id)
        theirs = self._loaded_meanwhile(batches, job_id)
        if theirs:
            self._client.occupy(job_id)  # it will not be inserted; whoever waits for it need not
        return job_id, theirs

    def committed(self, batches: Mapping[str, int], job_id: str, when: datetime) -> None:
        """The write stream that the job claims was committed; that is written down with the next entries."""
        with self._lock:
            self._settled += [Entry(batch, f"{job_id}{SETTLED}", rows, when) for batch, rows in batches.items()]

    def write_down(self) -> None:
        """Write down what was committed, if anything was."""
        while self._settled:
            self._write({}, "")

    def _write(self, batches: Mapping[str, int], job_id: str) -> None:
        """Write entries of a job, and with them some of those that are settled."""
        with self._lock:
            settled = self._settled[:_SETTLED_AT_ONCE]
        parameters: dict[str, Any] = {"stream": self._stream, "job": job_id}
        for i, (batch, rows) in enumerate(batches.items()):
            parameters |= {f"batch_{i}": batch, f"rows_{i}": rows}
        for i, entry in enumerate(settled):
            parameters |= {f"settled_batch_{i}": entry.batch_id, f"settled_job_{i}": entry.job_id}
            parameters |= {f"settled_rows_{i}": entry.rows, f"settled_at_{i}": entry.started_at}
        text = sql.add_ledger_entries(self._client.quoted(LEDGER), len(batches), len(settled))
        self._client.query(text, parameters, what=f"Writing to {self._client.path(LEDGER)}")
        with self._lock:
            self._settled = [e for e in self._settled if e not in settled]

    def void(self, at: datetime) -> None:
        """From now on, what jobs loaded that ended before that time does not count."""
        if not self._client.table(LEDGER):
            return
        self._client.query(
            sql.add_ledger_mark(self._client.quoted(LEDGER)),
            {"stream": self._stream, "job": self._prefix, "at": at},
            what=f"Writing to {self._client.path(LEDGER)}",
        )
        self._since = max(self._since, at)

    def _open(self, *, create: bool) -> None:
        """Read the entries before this run adds the first row; without a ledger there are none."""
        with self._lock:
            if self._entries is None or (create and not self._exists):
                if create:
                    migrate.prepare_ledger(self._client)
                self._exists = create or self._client.table(LEDGER) is not None
                self._entries = self._read() if self._exists and self._entries is None else self._entries or {}

    def _known(self, batch_id: str) -> Sequence[Entry]:
        return (self._entries or {}).get(batch_id, ())

    def _read(self) -> dict[str, list[Entry]]:
        answer = self._client.query(
            sql.ledger_entries(self._client.quoted(LEDGER)),
            {"stream": self._stream},
            what=f"Reading {self._client.path(LEDGER)}",
        )
        entries = self._unsettled(self._of_table(answer.rows))
        self._since = max([self._since, *(e.started_at for e in entries if not e.batch_id)])
        by_batch: dict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            if entry.batch_id:
                by_batch[entry.batch_id].append(entry)
        if any(e.started_at + _LONGEST_JOB >= self._since for e in entries if e.batch_id):
            self._void_if_empty()
        return by_batch

    def _void_if_empty(self) -> None:
        """A table that was filled and is empty now was emptied on purpose; it must fill again."""
        count = self._client.query(self._count, what=f"Counting the rows of {self._table}")
        if not count.rows[0]["rows"] and count.started:
            logger.info("Table %s was emptied; batches that were loaded before are loaded again", self._table)
            self.void(count.started)

    def _of_table(self, rows: Sequence[Mapping[str, Any]]) -> list[Entry]:
        entries = [Entry(r["batch_id"], r["job_id"], r["rows"], r["started_at"]) for r in rows]
        return [e for e in entries if e.job_id.startswith(self._prefix)]

    def _unsettled(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries under the ids of their jobs; what became of those that are settled is known from here on."""
        found = []
        with self._lock:
            for entry in entries:
                job_id = entry.job_id.removesuffix(SETTLED)
                if job_id != entry.job_id:
                    self._outcomes[job_id] = Outcome(loaded=True, ended=entry.started_at)
                found.append(replace(entry, job_id=job_id))
        return found

    def _loaded_meanwhile(self, batches: Mapping[str, int], job_id: str) -> set[str]:
        """Batches that another process has loaded, among entries that were not there when this one began."""
        answer = self._client.query(
            sql.ledger_entries_of(self._client.quoted(LEDGER)),
            {"stream": self._stream, "ids": list(batches)},
            what=f"Reading {self._client.path(LEDGER)}",
        )
        entries = self._unsettled(self._of_table(answer.rows))
        known = {e.job_id for batch in batches for e in self._known(batch)}
        mine = min((e.started_at, e.job_id) for e in entries if e.job_id == job_id)
        loaded = set()
        for entry in entries:
            if entry.job_id in known or entry.job_id in self._ours:
                continue
            is_older = (entry.started_at, entry.job_id) < mine
            outcome = self._outcome(entry, patience=PATIENCE_SECONDS if is_older else 0.0)
            if outcome.loaded and outcome.ended >= self._since:
                loaded.add(entry.batch_id)
        return loaded

    def _outcome(self, entry: Entry, *, patience: float = 0.0) -> Outcome:
        with self._lock:
            lock = self._locks[entry.job_id]
        with lock:
            if entry.job_id not in self._outcomes:
                self._outcomes[entry.job_id] = self._settle(entry, patience)
            return self._outcomes[entry.job_id]

    def _settle(self, entry: Entry, patience: float) -> Outcome:
        """Find out what became of an entry's job, or see to it that nothing can become of it."""
        job = self._client.job(entry.job_id)
        if job is None and datetime.now(UTC) - entry.started_at > FORGOTTEN:
            return Outcome(loaded=True, ended=entry.started_at + _LONGEST_JOB)
        if job is None and patience:
            logger.info("Another run is about to load some of the same batches; waiting for it")
            job = self._client.job(entry.job_id, patience=patience)
        if job is None:
            job = self._client.occupy(entry.job_id)
        if job is None:
            logger.info("Job %s of an interrupted run never began; its batches are loaded again", entry.job_id)
            return Outcome(loaded=False, ended=entry.started_at)
        if job.claims:
            return self._settle_claim(entry, job.claims)
        if not job.is_done:
            logger.info("Job %s of another run is still loading; waiting for it", job.id)
            job = self._client.wait(job.id, f"Waiting for job {job.id}")
        return Outcome(loaded=is_own_load(job, self._table), ended=job.ended or entry.started_at)

    def _settle_claim(self, entry: Entry, write_stream: str) -> Outcome:
        """Commit the write stream that an entry's job claims, unless that was done.

        Raises:
            LoadError: BigQuery has forgotten it.
        """
        writes = self._client.writes
        try:
            when = writes.committed(write_stream)
            if when is None:
                logger.info("A write stream of an interrupted run holds all of its rows; it is committed now")
                when = writes.commit(write_stream) or writes.committed(write_stream)
        except WriteError as error:
            if error.kind not in (Kind.GONE, Kind.ANEW):
                raise
            return self._forgotten(entry)
        ended = when or datetime.now(UTC)
        alike = [e for entries in (self._entries or {}).values() for e in entries if e.job_id == entry.job_id]
        self.committed({e.batch_id: e.rows for e in [*alike, entry]}, entry.job_id, ended)
        return Outcome(loaded=True, ended=ended)

    def _forgotten(self, entry: Entry) -> Outcome:
        """What counts where nobody knows whether a write stream was committed: a table that is younger has none of it.

        Raises:
            LoadError: The table is older.
        """
        if entry.started_at < self._since:
            return Outcome(loaded=False, ended=entry.started_at)
        ledger = self._client.quoted(LEDGER)
        msg = (
            f"Stream {self._stream!r}: a run ended while it committed batch {entry.batch_id}, at "
            f"{entry.started_at:%Y-%m-%d %H:%M:%S} UTC, and BigQuery has forgotten that write stream since, so nobody "
            f"can tell whether the {entry.rows} rows are in table {self._table}. Look there; to load them, run "
            f"{sql.forget_entries(ledger, entry.job_id)}; to leave them out, run "
            f"{sql.rename_entries(ledger, entry.job_id, f'{entry.job_id}{SETTLED}')}"
        )
        raise LoadError(msg)


def is_own_load(job: Job, table: str) -> bool:
    """Whether a job that is done has loaded rows into a table (`project.dataset.table`)."""
    return job.succeeded and job.kind == "load" and job.table in (table, None)
