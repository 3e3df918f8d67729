"""The ledger `_sdc_batches`: which batch was loaded by which job, so that none is loaded twice.

A batch's entry is written before its load job is inserted. A run that receives the batch again checks that job:

- done: the batch is loaded;
- running: the run waits for it;
- failed: the batch is loaded again;
- absent: its process was killed or is suspended. The run takes the job's id with a job that does nothing, so that the
  load job can no longer be inserted, and loads the batch again.

Each writer reads the entries of its batches once more after it wrote its own, so of two processes that load one batch
at once, at least one sees the other's entry and treats it in the same way. If the other entry is the older one, it
first waits for that job to appear, so that two processes do not take each other's ids forever.

Only entries of batches that a run brings are read; see `BatchLookup`.

A batch that goes through the Storage Write API has a claim as its job: a job that only names the finalized write stream
that holds the batch. A write stream is committed only if it is claimed, and any run that finds a claim commits its
stream; BigQuery commits a stream once. So a claim means loaded, and an id taken otherwise means load again. BigQuery
forgets write streams within days, so a commit is recorded in a second entry whose job id ends with `COMMITTED`.

Entries count for the table that their job loaded, and only for its present contents. Both are kept in marks, entries
with an empty batch_id: the newest one (that with the most `rows`) holds in its job_id when the table was created, and
entries of jobs that ended before its `started_at` are void: the table was found empty then, or its rows were replaced.
If another table has rows, the user decides.

upsert leaves out no batch, but writes the entries of a group before its MERGE, with the id of that job. Where overwrite
replaces the rows, the entries of the new ones are written in the same way, and with them a mark of the job: if it is
done, but its run was killed before it voided the former entries, they are void.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from singer_arrow.errors import LoadError, NotFoundError
from singer_arrow.load.method import LOG, MADE_ANEW, BatchLookup, KnownLog, Ledger, Proof, another_table, known_log
from singer_arrow.naming import LEDGER
from target_bigquery import sql
from target_bigquery.client import BigQuery
from target_bigquery.resources import AlreadyExistsError, MissingError, QueryResult, Table
from target_bigquery.storage_write.client import WriteError, WriteErrorKind
from target_bigquery.types import job_prefix

logger = logging.getLogger("target-bigquery")
FORGOTTEN = timedelta(days=150)
"""BigQuery keeps jobs for about 180 days; an older entry without its job counts as loaded."""
_FIELDS = [
    {"name": "batch_id", "type": "STRING", "description": "The tap's id of the batch; empty: a mark"},
    {"name": "stream", "type": "STRING"},
    {"name": "job_id", "type": "STRING", "description": "The load job that holds the batch, @ and its project"},
    {"name": "rows", "type": "INTEGER"},
    {"name": "started_at", "type": "TIMESTAMP"},
]
_ABOUT = "Which batches were loaded by which job; do not edit. Written by target-bigquery."
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_JOB = timedelta(days=1)
COMMITTED = ":committed"
"""What the job's id ends with in a second entry, of a batch whose write stream was committed at `started_at`."""
_COMMITS_AT_ONCE = 500
_ENTERED_AT_ONCE = 2000  # a query takes 10,000 parameters
_PAGE_TIME = timedelta(days=31)
"""How far behind an entry the next ones are read: with partitions of a month, that is two of them."""
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
    """Outcome of a job: whether it loaded its batches, and when it ended."""

    loaded: bool
    ended: datetime


class StreamLedger(Ledger):
    """The ledger of one stream's table, as it was when the run began with it; safe to use from any thread.

    `replay` is the setting: whether entries of another table count for this one; with None that is an error,
    with `merges` a warning, as no batch is left out. `prefix` begins the ids of jobs into the table; `exists` is
    whether there is a ledger, as far as this run has looked.
    """

    def __init__(
        self, client: BigQuery, stream: str, table: Table, replay: str | None = None, *, merges: bool = False
    ) -> None:
        super().__init__()
        self.client = client
        self.stream = stream
        self._table = client.path(table.name)
        self._count = sql.count_rows(client.quoted(table.name), table.filtered_by)
        self._is_count_billed = table.filtered_by is not None
        self.prefix = job_prefix(self._table)
        self._name, self._created, self._replay, self._merges = table.name, table.created, replay, merges
        self._since = _EVER
        self._mark: Entry | None = None
        self._is_identified = False
        self._ours: set[str] = set()
        self._outcomes: dict[str, Outcome] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.RLock()
        self._opening = threading.Lock()
        self._lookup: BatchLookup[list[Entry]] = BatchLookup(self._find, self._following)
        self._opened: datetime | None = None
        self._is_open = False
        self._commits: list[Entry] = []
        self.exists = False

    def proof(self, batch_id: str) -> Proof:
        self._open(create=True, identify=False)
        with self._opening:
            if not self._is_identified and self._is_rebuilt():
                return Proof.REBUILT
        if self.loaded_of([batch_id]):
            return Proof.LOADED
        was_loaded = any(self._outcome(entry).loaded for entry in self._lookup.of([batch_id]).get(batch_id, ()))
        return Proof.EMPTIED if was_loaded else Proof.UNKNOWN

    def void_if_emptied(self) -> None:
        """Void the entries of a table that was emptied; once, before this run adds rows."""
        self._open(create=False)

    def loaded(self, batch_id: str) -> datetime | None:
        """Return when the batch was loaded into the table as it is now.

        None if it was not, or if `loaded_of` is to find that out for its whole group; see `BatchLookup.early`. Waits
        for a job that is still running.
        """
        self._open(create=True)
        return self._loaded_at(self._lookup.early(batch_id) or ())

    def loaded_of(self, batches: Collection[str]) -> dict[str, datetime]:
        """Return those of the batches that were loaded into the table as it is now, and when; waits as `loaded`."""
        self._open(create=True)
        times = {batch: self._loaded_at(entries) for batch, entries in self._lookup.of(batches).items()}
        return {batch: when for batch, when in times.items() if when}

    def _loaded_at(self, entries: Iterable[Entry]) -> datetime | None:
        """Return when a batch was loaded, or when a plan log brought rows last."""

        def order(entry: Entry) -> tuple[bool, timedelta]:
            is_of_log = entry.batch_id.startswith(LOG)
            return not is_of_log and entry.job_id not in self._outcomes, _EVER - entry.started_at

        for entry in sorted(entries, key=order):
            is_recent = self._opened is None or entry.started_at >= self._opened  # its writer may be about to load
            outcome = self._outcome(entry, patience=PATIENCE_SECONDS if is_recent else 0.0)
            if outcome.loaded and outcome.ended >= self._since:
                return outcome.ended
        return None

    def count_entered(self) -> int:
        parameters = {"stream": self.stream, "prefix": self.prefix, "since": self._counted_since}
        return int(self._query(sql.COUNT_ENTERED, parameters, "Reading").rows[0]["entered"] or 0)

    def has_from(self, log: str, place: str) -> bool:
        self._open(create=True)
        return self._loaded_at(self._read(sql.LEDGER_LASTS_FROM, {"log": log, "place": place})[0]) is not None

    def logs(self) -> list[KnownLog]:
        self._open(create=True)
        found = dict[str, KnownLog]()
        for entry in self._read(sql.LEDGER_LOGS, {"prefix": self.prefix, "since": self._since})[0]:
            found.setdefault(entry.batch_id, known_log(entry.batch_id, entry.started_at))
        return list(found.values())

    def rows_of(self, batch_id: str) -> int:
        return max((entry.rows for entry in self._lookup.known(batch_id) or ()), default=0)

    def count_rows(self) -> int | None:
        if self._is_count_billed:
            return None
        count: int = self.client.query(self._count, what=f"Counting the rows of {self._table}").rows[0]["rows"]
        return count

    def begin(self, batches: Mapping[str, int], more: Mapping[str, int] | None = None) -> tuple[str, set[str]]:
        """Write entries for a load that is about to begin, the number of rows by batch_id, and `more` with them.

        Return the id for its job, and the batches that another run has loaded meanwhile. If there are any, the id is of
        no use: begin again without them.
        """
        more = more or {}
        self._open(create=bool(batches or more))
        job_id = self.client.new_job_id(self.prefix)
        with self._lock:
            self._ours.add(job_id)
        known = {entry.job_id for entries in self._lookup.of(batches).values() for entry in entries}
        if batches or more:
            self._write({**batches, **more}, job_id)
        if not batches:
            return job_id, set()
        # which of them has another process loaded, by entries of jobs that were not known before this one's?
        entries, _ = self._read(sql.LEDGER_ENTRIES_OF, {"ids": list(batches)})
        mine = min((e.started_at, e.job_id) for e in entries if e.job_id == job_id)
        theirs = set[str]()
        for entry in entries:
            if entry.job_id in known or entry.job_id in self._ours:
                continue
            is_older = (entry.started_at, entry.job_id) < mine
            outcome = self._outcome(entry, patience=PATIENCE_SECONDS if is_older else 0.0)
            if outcome.loaded and outcome.ended >= self._since:
                theirs.add(entry.batch_id)
        if theirs:
            self.client.occupy(job_id)  # no load job will have it: ends the wait of other runs
        return job_id, theirs

    def committed(self, batches: Mapping[str, int], job_id: str, when: datetime) -> None:
        """Record that the write stream which the job claims was committed; written with the next entries."""
        with self._lock:
            self._commits += [Entry(batch, f"{job_id}{COMMITTED}", rows, when) for batch, rows in batches.items()]

    def write_commits(self) -> None:
        """Write the recorded commits to the ledger, if there are any."""
        while self._commits:
            self._write({}, "")

    def _write(self, batches: Mapping[str, int], job_id: str) -> None:
        """Write entries of a job, and with them some of those that are settled."""
        with self._lock:
            commits = self._commits[:_COMMITS_AT_ONCE]
        parameters: dict[str, Any] = {"stream": self.stream, "job": job_id}
        for i, (batch, rows) in enumerate(batches.items()):
            parameters |= {f"batch_{i}": batch, f"rows_{i}": rows}
        for i, entry in enumerate(commits):
            parameters |= {f"settled_batch_{i}": entry.batch_id, f"settled_job_{i}": entry.job_id}
            parameters |= {f"settled_rows_{i}": entry.rows, f"settled_at_{i}": entry.started_at}
        text = sql.add_ledger_entries(len(batches), len(commits))
        self._query(text, parameters, "Writing to")
        with self._lock:
            self._commits = [e for e in self._commits if e not in commits]

    def enter(self, entries: Mapping[str, int], *, replaces: bool) -> str:
        """Write entries for a query or copy that is about to run, and return the id for its job.

        With `replaces` it replaces the table's rows, and what was entered for them is void once it is done.
        """
        self._open(create=bool(entries), identify=False)
        job_id, written = self.client.new_job_id(self.prefix), [("", 0), *entries.items()][not replaces :]
        for first in range(0, len(written) if self.exists else 0, _ENTERED_AT_ONCE):
            self._write(dict(written[first : first + _ENTERED_AT_ONCE]), job_id)
        return job_id

    def void(self, at: datetime) -> None:
        """Void the entries of jobs that ended before a time, at which the table's rows were replaced."""
        self._open(create=False)
        if self.exists and (table := self.client.table(self._name)):
            self._created = table.created  # a copy may have made it anew
            self._record(at)
            self.write_commits()

    @property
    def _id(self) -> str:
        """The job_id of the mark of the table as it is now."""
        return f"{self.prefix}table:{self._created:%Y%m%dT%H%M%S.%f}"

    def _record(self, since: datetime) -> None:
        """Note since when entries count for the table as it is now; written with the next entries."""
        with self._lock:
            self._mark = Entry("", self._id, self._mark.rows + 1 if self._mark else 1, since)
            self._commits.append(self._mark)
            self._since, self._is_identified = since, True

    def _identify(self) -> None:
        """Check that the entries are about the table as it is now; once, before one of them counts.

        If they are about another table, and this one has rows, `replay` decides, or it is an error.
        """
        with self._opening:
            if self._is_identified or not self._is_rebuilt():
                return
            if self._replay is None:
                if not self._merges:
                    raise another_table(self._table, self.stream)
                logger.warning(MADE_ANEW, self._table, self.stream)
            self._record(self._counted_since if self._replay == "skip" else self._created)
            self.write_commits()

    @property
    def _counted_since(self) -> datetime:
        return max(self._since, self._mark.started_at if self._mark else _EVER)

    def _is_rebuilt(self) -> bool:
        """Return whether the entries are about another table; if not, note that they are about this one."""
        for _ in range(2):  # another run may have written its mark meanwhile
            is_new = not self._has_entries(self._counted_since)
            if is_new or (self._mark is None and self._has_entries(self._created)):  # earlier versions wrote none
                self._record(max(self._since, self._created))
            else:
                self._take_marks(self._read(sql.LEDGER_ENTRIES_OF, {"ids": [""]})[0])
            if self._is_identified:
                return False
        return True

    def _open(self, *, create: bool, identify: bool = True) -> None:
        """Read the marks and check whether the table is empty, before this run adds the first row.

        With `create`, the ledger is there afterwards, and with `identify` about the table as it is now.
        """
        with self._opening:
            if create and not self.exists:
                if self.client.table(LEDGER) is None:
                    with suppress(AlreadyExistsError):
                        self.client.create_table(
                            LEDGER,
                            _FIELDS,
                            partition=("started_at", "MONTH"),  # old entries go by whole partitions, which is free
                            cluster=("stream", "batch_id"),
                            description=_ABOUT,
                        )
                self.exists = True
            elif not self._is_open:
                self.exists = self.client.table(LEDGER) is not None
            if self.exists and not self._is_open:
                self._lookup.open()
            self._is_open = True
        if create and identify:
            self._identify()

    def _find(self, batches: Sequence[str]) -> Mapping[str, list[Entry]]:
        """Return the entries of batches; with the first ones also the marks since when entries count."""
        is_first = self._opened is None
        parameters = {"ids": ["", *batches] if is_first else list(batches)}
        rows, started = self._read(sql.LEDGER_ENTRIES_OF, parameters)
        if is_first:
            self._take_marks(rows)
            self.has_batches = self._is_identified
            self._void_if_emptied()
            self._opened = started or datetime.now(UTC)
        return _by_batch(rows)

    def _take_marks(self, rows: Sequence[Entry]) -> None:
        """Note which table the entries are about, and since when they count."""
        marks = [e for e in rows if not e.batch_id]
        of_tables = [e for e in marks if e.job_id.startswith(f"{self.prefix}table:")]  # earlier versions wrote others
        self._mark = max(of_tables, key=lambda e: (e.rows, e.started_at), default=None)
        self._is_identified = self._mark is not None and self._mark.job_id == self._id
        counted = [e.started_at for e in marks if e.job_id in (self.prefix, self._id)]
        self._since = max(counted, default=_EVER)
        # of runs that were killed after they replaced the rows?
        newest = max(self._since, self._mark.started_at if self._mark else _EVER, datetime.now(UTC) - FORGOTTEN)
        for entry in sorted(marks, key=lambda e: e.started_at):
            if entry.started_at > newest and entry.job_id != self.prefix and entry not in of_tables:
                outcome = self._outcome(entry)
                if outcome.loaded and outcome.ended >= self._created:
                    self._record(outcome.ended)

    def _following(self, entries: list[Entry]) -> Mapping[str, list[Entry]]:
        """Return the entries from the time of the newest of these on, at most a page."""
        first = max(entry.started_at for entry in entries)
        parameters = {"prefix": self.prefix, "first": first, "last": first + _PAGE_TIME}
        return _by_batch(self._read(sql.LEDGER_ENTRIES_BETWEEN, parameters)[0])

    def _read(self, text: str, parameters: Mapping[str, Any]) -> tuple[list[Entry], datetime | None]:
        """Return the entries of the table that a query finds, under the ids of their jobs, and the query's time.

        The outcome of those that are settled is kept.
        """
        answer, found = self._query(text, {"stream": self.stream, **parameters}, "Reading"), list[Entry]()
        with self._lock:
            for row in answer.rows:
                if not row["job_id"].startswith(self.prefix):
                    continue
                job_id = row["job_id"].removesuffix(COMMITTED)
                if job_id != row["job_id"]:
                    self._outcomes[job_id] = Outcome(loaded=True, ended=row["started_at"])
                found.append(Entry(row["batch_id"], job_id, row["rows"], row["started_at"]))
        return found, answer.started

    def _void_if_emptied(self) -> None:
        """Void all entries if the table was filled and is empty: it was emptied on purpose, and must fill again.

        Counting is free, and is done first, unless the table requires a condition on its partitions.
        """
        since = self._since - _LONGEST_JOB
        if self._is_count_billed and not self._has_entries(since):
            return
        count = self.client.query(self._count, what=f"Counting the rows of {self._table}")
        if not count.rows[0]["rows"] and count.started and self._has_entries(since):
            logger.info("Table %s was emptied; batches that were loaded before are loaded again", self._table)
            self.has_batches = False
            self._record(count.started)
            self.write_commits()

    def _has_entries(self, since: datetime) -> bool:
        parameters = {"stream": self.stream, "prefix": self.prefix, "since": since}
        return bool(self._query(sql.HAS_LEDGER_ENTRIES, parameters, "Reading").rows)

    def _query(self, text: str, parameters: Mapping[str, Any], verb: str) -> QueryResult:
        """Run a query of the ledger; it is an error if the ledger was dropped during this run."""
        path = self.client.path(LEDGER)
        try:
            text = text.format(ledger=self.client.quoted(LEDGER))
            return self.client.query(text, parameters, what=f"{verb} {path}")
        except (MissingError, NotFoundError) as error:
            raise LoadError(
                f"{error}. The ledger was dropped during this run, so it is not known any more which batches table "
                f"{self._table} has: before the next run, undrop {path} (time travel keeps it for some days) or empty "
                "the table"
            ) from None

    def _outcome(self, entry: Entry, *, patience: float = 0.0) -> Outcome:
        with self._lock:
            lock, is_known = self._locks[entry.job_id], entry.job_id in self._outcomes
        if patience and not is_known and self.client.job(entry.job_id) is None:
            # without the lock of the job: a thread of this run that need not wait takes its id, which ends all waits
            logger.info("Another run is about to load some of the same batches; waiting for it")
            self.client.job(entry.job_id, patience=patience)
        with lock:
            if entry.job_id not in self._outcomes:
                self._outcomes[entry.job_id] = self._find_outcome(entry)
            return self._outcomes[entry.job_id]

    def _find_outcome(self, entry: Entry) -> Outcome:
        """Return the outcome of an entry's job; takes the id of a job that does not exist."""
        job = self.client.job(entry.job_id)
        if job is None and datetime.now(UTC) - entry.started_at > FORGOTTEN:
            return Outcome(loaded=True, ended=entry.started_at + _LONGEST_JOB)
        if job is None:
            job = self.client.occupy(entry.job_id)
        if job is None:
            logger.info("Job %s of an interrupted run never began; its batches are loaded again", entry.job_id)
            return Outcome(loaded=False, ended=entry.started_at)
        if job.claims:
            return self._commit_claimed(entry, job.claims)
        if not job.is_done:
            logger.info("Job %s of another run is still loading; waiting for it", job.id)
            job = self.client.wait(job.id, f"Waiting for job {job.id}")
        is_loaded = job.error is None and not job.is_nothing and job.table in (self._table, None)
        return Outcome(loaded=is_loaded, ended=job.ended or entry.started_at)

    def _commit_claimed(self, entry: Entry, write_stream: str) -> Outcome:
        """Commit the write stream that an entry's job claims, unless that was done.

        One that BigQuery has forgotten was not loaded if the table is younger; else that is not known, an error.
        """
        writes = self.client.writes
        try:
            when = writes.committed(write_stream)
            if when is None:
                logger.info("A write stream of an interrupted run holds all of its rows; it is committed now")
                when = writes.commit(write_stream) or writes.committed(write_stream)
        except WriteError as error:
            if error.kind not in (WriteErrorKind.UNKNOWN_STREAM, WriteErrorKind.NEW_STREAM):
                raise
            if entry.started_at < self._since:
                return Outcome(loaded=False, ended=entry.started_at)
            ledger = self.client.quoted(LEDGER)
            raise LoadError(
                f"Stream {self.stream!r}: a run ended while it committed batch {entry.batch_id}, at "
                f"{entry.started_at:%Y-%m-%d %H:%M:%S} UTC, and BigQuery has forgotten that write stream since, so it "
                f"is unknown whether the {entry.rows} rows are in table {self._table}. Check the table; to load them, "
                f"run {sql.FORGET_ENTRIES.format(ledger=ledger, job=entry.job_id)}; to leave them out, run "
                f"{sql.RENAME_ENTRIES.format(ledger=ledger, job=entry.job_id, now=f'{entry.job_id}{COMMITTED}')}"
            ) from None
        ended = when or datetime.now(UTC)
        of_job = {"job": entry.job_id, "at": entry.started_at}
        alike, _ = self._read(sql.LEDGER_ENTRIES_OF_JOB, of_job)
        self.committed({e.batch_id: e.rows for e in [*alike, entry]}, entry.job_id, ended)
        return Outcome(loaded=True, ended=ended)


def _by_batch(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.batch_id:
            found[entry.batch_id].append(entry)
    return dict(found)


def remove_old(client: BigQuery, ledgers: Collection[StreamLedger], days: int) -> None:
    """Remove entries older than some days of the tables of one or more ledgers, except those that later runs need.

    They are kept for longer than any job takes, so that none of them belongs to one that runs.
    """
    prefixes = {ledger.prefix for ledger in ledgers}
    length = len(next(iter(prefixes)))  # which all have
    text = sql.DELETE_LEDGER_ENTRIES.format(ledger=client.quoted(LEDGER), length=length, days=days)
    parameters = {
        "streams": sorted({ledger.stream for ledger in ledgers}),
        "prefixes": sorted(prefixes),
        "passed": sorted(set[str]().union(*(ledger.passed for ledger in ledgers))),
        "kept": sorted(set[str]().union(*(ledger.proved for ledger in ledgers))),
    }
    client.query(text, parameters, what=f"Removing old entries from {client.path(LEDGER)}")
