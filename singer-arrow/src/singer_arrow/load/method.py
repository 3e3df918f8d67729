"""Base of load methods; items; ledgers, and looking batches up in them; counts of a stream."""

from __future__ import annotations

import abc
import enum
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from singer_sdk import metrics

from singer_arrow.batch.files import FileProperties, LeftOut
from singer_arrow.batch.message import ContinuedLog, LogObjects
from singer_arrow.casting.from_text import shorten
from singer_arrow.errors import DataError, IdentityError, LoadError
from singer_arrow.load.dead_letters import BatchRejects, RecordOrigins, Rejected, Rejects
from singer_arrow.naming import REJECTED, bytes_in_words, counted, digest
from singer_arrow.run_figures import PROGRESS_LINE
from singer_arrow.storage.urls import Url

DEAD_LETTER_HINT = "Or set on_bad_row: dead_letter, which puts such rows aside and loads the others"
PAGE = 2_000
"""How many entries of a ledger are read that follow a batch that was found."""
_MOST_LEFT_OUT = 20  # maximum number of properties that are named because they were left out
_MOST_LINES = 10  # maximum number of streams with a progress line each; more of them get one line together
_RARE = ("rows_before", "nul_characters", "long_texts", "write_streams", "rejected", "schema_changes")

# What the messages of a stream bring to its load method.

ConversionT = TypeVar("ConversionT")


@dataclass(frozen=True)  # no slots: Python 3.11 fails to make one by `Item[...](...)` of a frozen class with slots
class Item(Generic[ConversionT]):
    """What one message brings, or a file of records: files of one format, to be converted alike."""

    urls: tuple[str, ...]
    file_format: str  # `parquet`, `jsonl` or `arrow`
    conversion: ConversionT
    batch_id: str | None = None  # the tap's, if it gives one
    rows: int | None = None  # in all files, if the tap sends it
    bytes: int | None = None  # of the files, if the tap sends it
    is_temporary: bool = False  # the target's own files, removed once they are loaded
    is_source: bool = False  # not the tap's own files but what it reads, so never removed
    stream: str = ""
    plan_log: tuple[str, ...] = ()  # of its source and itself, in the ledger; see `LoadMethod.entries_of_logs`
    last: str = ""  # the entry in the ledger that it gets if it is the last of its plan log in a load; see `LAST`
    has_state: bool = False  # the run of the tap has a STATE
    no_log: str = ""  # the entry of the ledger for rows of the stream without a plan log, if its tap follows them
    follows: str | None = None  # the batch before that STATE, which the table must have too
    continues: ContinuedLog | None = None  # the plan log before its own, which was begun at a STATE
    objects: LogObjects | None = None  # of its plan log
    properties: FileProperties | None = None  # required of the files; None: of records, which were checked
    rejected: tuple[Rejected, ...] = ()  # that the tap could not read, put with the others into the table for them
    origins: RecordOrigins | None = None  # of records; None: not needed

    @property
    def log_id(self) -> str:
        """The id of its plan log, as messages have it."""
        return self.plan_log[1].rpartition("_")[2]

    def remove_files(self) -> None:
        """Remove the files, which are temporary ones."""
        for url in self.urls:
            Url.parse(url).local_path().unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on local disk; `url` is where it came from, for messages."""

    path: Path
    url: str
    is_temporary: bool


# Count the rows, files and loads of each stream, and log them: progress lines, closing lines and metrics.


@dataclass(slots=True)
class LoadCounts:
    """Counts of one stream."""

    batches: int = 0  # BATCH messages
    records: int = 0  # RECORD messages
    files: int = 0  # of the BATCH messages
    load_jobs: int = 0  # of BigQuery, or COPY statements of Redshift
    rows: int = 0  # loaded
    bytes: int = 0  # of the loaded files
    skipped: int = 0  # batches that earlier runs had loaded
    rows_before: int = 0  # of these batches, as far as their messages count them
    nul_characters: int = 0  # replaced or removed
    long_texts: int = 0  # moved to another column because they are too long for their own
    write_streams: int = 0  # of BigQuery's Storage Write API, used instead of load jobs
    rejected: int = 0  # rows written to the table `_sdc_rejected` instead
    schema_changes: int = 0  # columns that its table got, or that were widened


class Tally:
    """The counts of one stream; safe to use from any thread."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self._counts = LoadCounts()
        self.left_out = LeftOut()
        self.was_sent_whole = False  # batches that were left out are of a run without STATE
        self._phases = defaultdict[str, float](float)
        self._lock = threading.Lock()
        self._started: float | None = None
        self._ended = 0.0

    def add(self, **counts: int) -> None:
        """Add to the counts by name; the stream's time is from the first call to the last."""
        with self._lock:
            self._ended = time.monotonic()
            if self._started is None:
                self._started = self._ended
            for name, value in counts.items():
                setattr(self._counts, name, getattr(self._counts, name) + value)

    def spend(self, phase: str, seconds: float) -> None:
        with self._lock:
            self._phases[phase] += seconds

    def phases(self) -> dict[str, float]:
        """Return the seconds by phase: prepare, stage, publish, finish."""
        with self._lock:
            return dict(self._phases)

    @property
    def seconds(self) -> float:
        """Seconds from the first count to the last."""
        with self._lock:
            return 0.0 if self._started is None else self._ended - self._started

    def counts(self) -> dict[str, int]:
        """Return all counts by name; those that are rare only if they are not zero."""
        with self._lock:
            counts = asdict(self._counts)
        return {name: count for name, count in counts.items() if count or name not in _RARE}

    def line(self) -> str:
        """Return the counts in words: `flights: 1,000 rows (12.3 MB) from 2 batches (2 files) in 1 load, 2.1 s`."""
        return _line(self.stream, self.counts(), self.seconds)


class Tallies:
    """The counts of all streams of a run."""

    def __init__(self) -> None:
        self._of: dict[str, Tally] = {}
        self._logged: dict[str, Mapping[str, int]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Tally]:
        return iter(list(self._of.values()))

    def of(self, stream: str) -> Tally:
        """Return the counts of a stream; only the thread that reads messages may call this."""
        return self._of.setdefault(stream, Tally(stream))

    def log_progress(self, logger: logging.Logger) -> bool:
        """Log a line for each stream whose counts have changed since the last call, and return whether one was logged.

        Many streams have one line together. Must be called from one thread only.
        """
        nothing = Tally("").counts()
        changed = [t for t in list(self._of.values()) if t.counts() != self._logged.get(t.stream, nothing)]
        self._logged.update((t.stream, t.counts()) for t in changed)
        lines = [total(changed)] if len(changed) > _MOST_LINES else [t.line() for t in changed]
        for line in lines:
            logger.info("Progress of %s", line, extra=PROGRESS_LINE)
        return bool(lines)

    def report(self, logger: logging.Logger) -> None:
        """Log the closing line of each stream, and its counts as a metric of the SDK."""
        for tally in self._of.values():
            logger.info("Loaded %s", tally.line())
            counts = tally.counts()
            if left_out := tally.left_out.total().most_common():
                named = ", ".join(f"{shorten(name)} ({counted(n, 'value')})" for name, n in left_out[:_MOST_LEFT_OUT])
                more = f" and {len(left_out) - _MOST_LEFT_OUT:,} more" if len(left_out) > _MOST_LEFT_OUT else ""
                logger.warning(
                    "Stream %r: properties that its SCHEMA or its table lacks were left out: %s%s",
                    tally.stream,
                    named,
                    more,
                )
            if rejected := counts.get("rejected"):
                rows = counted(rejected, "row")
                logger.warning("Stream %r: rejected %s; see table %s", tally.stream, rows, REJECTED)
            if counts["skipped"] and not counts["rows"] and tally.was_sent_whole:
                logger.warning(
                    "Stream %r: nothing was loaded, because earlier runs loaded all of its batches (%s); to load them "
                    "again, also after a full refresh, empty the table or set replay: load",
                    tally.stream,
                    f"{counts['skipped']:,}",
                )
            tags = {"stream": tally.stream, **counts, "seconds": round(tally.seconds, 3)}
            metrics.log(
                metrics.get_metrics_logger(),
                metrics.Point("counter", metrics.Metric.BATCH_COUNT, counts["batches"], tags),
            )


def total(tallies: Sequence[Tally]) -> str:
    """Return the counts of several streams together, as the sentence of `Tally.line`."""
    counts = Counter[str]()
    for tally in tallies:
        counts.update(tally.counts())
    return _line(f"{len(tallies)} streams", counts, max(t.seconds for t in tallies))


def _line(what: str, counts: Mapping[str, int], seconds: float) -> str:
    """Return a sentence with all counts that are not zero; the number of rows is always there."""
    n = Counter(counts)
    files = f" ({counted(n['files'], 'file')})" if n["files"] else ""
    sources = [counted(n["batches"], "batch", "batches") + files] if n["batches"] else []
    sources += [counted(n["records"], "record")] if n["records"] else []
    loads = [counted(n["load_jobs"], "load")] if n["load_jobs"] else []
    loads += [counted(n["write_streams"], "write stream")] if n["write_streams"] else []
    size = f" ({bytes_in_words(n['bytes'])})" if n["bytes"] else ""
    origin = f" from {' and '.join(sources)}" if sources else ""
    ways = f" in {' and '.join(loads)}" if loads else ""
    notes = [
        (n["skipped"], f"{counted(n['skipped'], 'batch', 'batches')} skipped because earlier runs loaded them"),
        (n["nul_characters"], f"{counted(n['nul_characters'], 'NUL character')} replaced or removed"),
        (n["long_texts"], f"{counted(n['long_texts'], 'long text')} moved to another column"),
        (n["rejected"], f"{counted(n['rejected'], 'row')} rejected"),
    ]
    rows = f"{what}: {counted(n['rows'], 'row')}{size}{origin}{ways}, {seconds:,.1f} s"
    return "; ".join([rows, *(note for count, note in notes if count)])


# What load methods ask about the batches that a table has.


LOG = "_sdc_log_"
"""Entries of plan logs, as against batches, begin so: those of a source, and of one of its logs.

Both are written together, again whenever another log of the source brings rows than the last time. So the log that
brought rows last is the one whose newest entry is as new as that of its source.
"""
NO_LOG = f"{LOG}none"
"""The entry of a ledger for rows that came without a plan log: by RECORD messages, or batches of FULL_TABLE."""


def no_log_of(stream: str) -> str:
    """Return the entry for such rows of a stream whose tap follows plan logs; each run that brings some writes it."""
    return f"{NO_LOG}_{digest(stream, 16)}"


OF_LOG = f"{LOG}of "
"""The entry of the objects of a plan log begins so; the log and where its objects are follow."""


class KnownLog(NamedTuple):
    """A plan log that brought rows into a table: where its objects are, and when it was first."""

    log: str
    objects: LogObjects
    since: datetime


def objects_entry(log: str, objects: LogObjects) -> str:
    """Return the entry of the objects of a plan log; of too many places it has their buckets, or none."""
    buckets = sorted({"/".join([*root.split("/", 3)[:3], ""]) for root in objects.roots})
    for roots in (objects.roots, buckets):
        words = (log, objects.kind, objects.begin, objects.end, *roots)
        entry = OF_LOG + " ".join(quote(word, safe="/:") for word in words)
        if len(entry) <= LONGEST_ENTRY:
            return entry
    return OF_LOG + " ".join(quote(word, safe="/:") for word in words[:4])


def known_log(entry: str, since: datetime) -> KnownLog:
    """Return what such an entry says."""
    log, kind, begin, end, *roots = map(unquote, entry.removeprefix(OF_LOG).split(" "))
    return KnownLog(log, LogObjects(tuple(roots), kind, begin, end), since)


LAST = "_sdc_last "
"""The entry of the last batch of a plan log in a load begins so.

The log, the batch's place in it, the batch, and the batch before the STATE of the run follow, with blanks between. A
STATE may come after such a batch, so the batch's own entry stays in the ledger as long as this one does. That is, until
two later runs have come after it.
"""
LAST_BATCH, BATCH_BEFORE, LAST_PARTS = 4, 5, 5
"""Which parts of such an entry, from 1, are the batch and the one before the STATE, and how many parts there are."""
LONGEST_ENTRY = 1024
"""Bytes of an entry's id."""


def last_entry(log: str, place: str, batch_id: str, follows: str) -> str:
    """Return the entry of the last batch of a plan log in a load; empty if the ids of the batches fit in none."""
    entry = f"{LAST}{log} {place} {batch_id} {follows}"
    return entry if entry.count(" ") == LAST_PARTS - 1 and len(entry.encode()) <= LONGEST_ENTRY else ""


class Proof(enum.Enum):
    """What a ledger knows about the batch before a STATE."""

    LOADED = "it is in the table"
    EMPTIED = "it was loaded, and the table was emptied since"
    REBUILT = "the ledger is about a former table of that name, and this one has rows"
    UNKNOWN = "the ledger does not have it"


class Ledger:
    """Which batches the table of a stream has, as it is now; this one knows of none. Times are in UTC."""

    _lookup: BatchLookup[Any] | None = None
    has_batches = False  # before this run, once `void_if_emptied` was called

    def __init__(self) -> None:
        self.skipped_rows = 0  # of batches that this run left out, as the ledger counts them, if it sends all of them
        self.proving = threading.Lock()
        self.proved = set[str]()  # the batches before the STATEs of this run; a table may lack them if it was empty
        self.noted = set[str]()  # the entries of plan logs that came with rows that this run has loaded
        self.lasts = set[str]()  # the batches that have an entry as the last one of a load of this run
        self.newest: dict[str, str] = {}  # by plan log the last batch with rows that this run was sent

    @property
    def passed(self) -> set[str]:
        """The batches with an entry as the last one after which others came in this run."""
        return self.lasts.difference(self.newest.values())

    def proof(self, batch_id: str) -> Proof:
        """Return what is known about the batch before a STATE; called before this run adds its first row.

        Of a table that was rebuilt, it leaves the entries as they are.
        """
        return Proof.LOADED if self.loaded_of([batch_id]) else Proof.UNKNOWN

    def has_from(self, log: str, place: str) -> bool:  # noqa: ARG002 - ledgers override it
        """Return whether the table has a batch of a plan log, at a place in it or behind."""
        return False

    def logs(self) -> list[KnownLog]:
        """Return the plan logs that have brought rows into the table."""
        return []

    def rows_of(self, batch_id: str) -> int:  # noqa: ARG002 - ledgers override it
        """Return the rows of a batch that is known to be loaded."""
        return 0

    def count_rows(self) -> int | None:
        """Return the number of rows in the table; None if that would cost something."""
        return None

    def count_entered(self) -> int:
        """Return the number of rows of the batches that the table has, or a former one of that name."""
        return 0

    def void_if_emptied(self) -> None:
        """Void the entries if the table was emptied; called before this run adds its first row."""

    def expect(self, batch_id: str, *, is_of_run: bool = True) -> None:
        """Announce a batch that `loaded` will be asked for, so that one query looks up several; returns at once.

        Not `is_of_run`: the run does not bring it, so that it begins no page; see `BatchLookup`.
        """
        if self._lookup is not None:
            self._lookup.expect(batch_id, is_of_run=is_of_run)

    def loaded(self, batch_id: str) -> datetime | None:  # noqa: ARG002 - ledgers that look up single batches override it
        """Return when the batch was loaded; None also if that is decided later, for its whole group, by `loaded_of`."""
        return None

    def loaded_of(self, batch_ids: Collection[str]) -> dict[str, datetime]:  # noqa: ARG002 - ledgers override it
        """Return those of a group's batches that were loaded, and when."""
        return {}


# Look batches up in a ledger by few queries, whose cost does not depend on how many entries the ledger has.
#
# A batch that a run sends again is best recognised before its files are read; for a new one it is early enough when its
# group is loaded. So a run begins by looking batches up as they arrive, as many at once as have arrived. After a query
# that finds none of its batches, the following ones are looked up group by group, until one is found again. A batch
# that is found is mostly followed by those that were loaded after it, so the next entries of the ledger are read with
# it.

FoundT = TypeVar("FoundT")


def another_table(path: str, stream: str) -> LoadError:
    """Return the error for a table with rows, where the ledger is about a former one of that name."""
    return LoadError(
        f"Table {path} is not the one into which the batches of stream {stream!r} were loaded: it was made anew since, "
        "and has rows; nothing was loaded. If it has the rows of all batches, set replay: skip for one run; if it "
        "lacks some, as after it was restored to an earlier time, empty it, and run the tap without STATE"
    )


MADE_ANEW = (
    "Table %s was made anew since stream %r was merged into it, and has rows. If it lacks some of them, as after it "
    "was restored to an earlier time, run the tap without STATE (singer-arrow run: --full-refresh)"
)


class BatchLookup(Generic[FoundT]):
    """What a ledger has about the batches of a run; safe to use from any thread.

    `find` returns what it has about some batches, without those that it does not know; `following` what it has about
    the batches that were entered next, at most `PAGE` entries.
    """

    def __init__(
        self,
        find: Callable[[Sequence[str]], Mapping[str, FoundT]],
        following: Callable[[FoundT], Mapping[str, FoundT]],
    ) -> None:
        self._find = find
        self._following = following
        self._asking = threading.Lock()
        self._expected: dict[str, None] = {}  # in their order
        self._of_others = set[str]()
        self._answers: dict[str, FoundT | None] = {}
        self._page: Mapping[str, FoundT] = {}
        self._is_eager = True

    def expect(self, batch_id: str, *, is_of_run: bool = True) -> None:
        """Look this batch up with the next one; returns at once."""
        if not is_of_run:
            self._of_others.add(batch_id)
        if batch_id not in self._answers:
            self._expected[batch_id] = None

    def open(self) -> None:
        """Look up the batches that are expected; asks the ledger even if there is none."""
        with self._asking:
            self._ask(())

    def early(self, batch_id: str) -> FoundT | None:
        """Return what is known about a batch before its group is loaded; None also if it was not looked up."""
        if not self._is_known(batch_id) and self._is_eager:
            with self._asking:
                if not self._is_known(batch_id) and self._is_eager:  # another thread may have asked meanwhile
                    self._ask((batch_id,))
        return self.known(batch_id)

    def of(self, batch_ids: Collection[str]) -> dict[str, FoundT]:
        """Return what the ledger has about some batches; those that were not looked up before are looked up now."""
        with self._asking:
            if not self._answers.keys() >= set(batch_ids):
                self._ask(batch_ids)
        answers = {batch_id: self._answers[batch_id] for batch_id in batch_ids}
        return {batch_id: found for batch_id, found in answers.items() if found is not None}

    def known(self, batch_id: str) -> FoundT | None:
        """Return what earlier queries have found about a batch."""
        return self._answers[batch_id] if batch_id in self._answers else self._page.get(batch_id)

    def _is_known(self, batch_id: str) -> bool:
        return batch_id in self._answers or batch_id in self._page

    def _ask(self, batch_ids: Collection[str]) -> None:
        """Look up batches, and with them those that are expected and not in the page; the lock is held."""
        expected = list(self._expected)
        for batch_id in expected:
            del self._expected[batch_id]
        asked = dict.fromkeys([*batch_ids, *(b for b in expected if b not in self._page)])
        ids = [batch_id for batch_id in asked if batch_id not in self._answers]
        found = self._find(ids)
        if last := next((b for b in reversed(ids) if b in found and b not in self._of_others), None):
            self._page = self._following(found[last])
        self._answers.update({batch_id: found.get(batch_id) for batch_id in ids})
        if ids:
            self._is_eager = last is not None


# The base of the load methods of all warehouses: one for each stream, while its SCHEMA stays the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadContext:
    """From one stream into its table; a warehouse's own has its client and its table too."""

    stream: str
    tally: Tally
    logger: logging.Logger
    ledger: Ledger = field(default_factory=Ledger)  # which batches the table has
    has_rows: Callable[[], bool | None] = lambda: None  # the table, before the first load; None: it is not known
    only_adds: bool = False  # no load has replaced or deleted single rows of the table, as far as it shows
    replay: str | None = None  # `load`: batches that were loaded before are loaded again; see the setting
    keys: tuple[str, ...] = ()  # columns
    removes_batches: bool = False  # once the STATE behind them is out
    most_rejected: int | None = None  # rows of an item; None: the first bad one ends the run
    deleted_column: str | None = None  # of upsert: not null where the row of the key is to be deleted
    rank_column: str = ""  # of upsert: the rank of the rows; see `batch.message`


@dataclass(frozen=True, slots=True)
class Prepared(Generic[ConversionT]):
    """An item that is prepared for its load; each warehouse adds where its rows are."""

    item: Item[ConversionT]
    rows: int = 0
    bytes: int = 0
    rejects: Rejects | None = None  # its rows that are not loaded, if the settings allow some


ContextT = TypeVar("ContextT", bound=LoadContext)
PreparedT = TypeVar("PreparedT", bound=Prepared[Any])


class LoadMethod(abc.ABC, Generic[ContextT, PreparedT]):
    """The base of the load methods, which `LoadScheduler` calls.

    It calls `prepare` for items and `stage` for groups of them, in parallel and in any order; then `publish` for each
    group, of `ordered` methods in the order of the messages, one call at a time; then `removable_files`, which are
    removed after the STATE of the group has left; and `finish` of `deferred` ones.
    """

    ordered: ClassVar[bool] = False  # groups are published in the order of their items
    deferred: ClassVar[bool] = False  # groups become part of the table at the end of the run, by `finish`
    merges: ClassVar[bool] = False  # rows replace those with the same keys
    keeps_ledger: ClassVar[bool] = False  # the context's ledger holds which batches the table has
    loads_each_file: ClassVar[bool] = False  # each file of records is a load, after `WarehouseRun.record_age_seconds`
    prepared_class: ClassVar[type[Any]]  # `PreparedT`; of an item alone: nothing of it is loaded

    def __init__(self, context: ContextT) -> None:
        self.context = context
        self._has_warned = self._has_named_rejected = False
        self._compared = dict[str, str]()  # by plan log what there is to say of rows that others brought
        self.renewed = set[str]()  # entries of plan logs that the ledger has, and gets again
        self.leaves_out_loaded = self.keeps_ledger and not self.merges and context.replay != "load"
        """Whether batches that were loaded before are skipped.

        Not if rows replace others: batches loaded later may have replaced the rows of such a batch, and need not come
        again after it.
        """

    @cached_property
    def _had_rows(self) -> bool | None:
        return self.context.has_rows()

    def prepare(self, item: Item[Any]) -> PreparedT:
        """Prepare an item for its load, unless its batch was loaded before; a DataError names the file or stream."""
        ledger = self.context.ledger
        if item.follows:
            self._prove_state(item, item.follows)
        if item.continues:
            self._prove_beginning(item, item.continues)
        if self.keeps_ledger:
            ledger.void_if_emptied()
        warning = self._rows_of_others(item) if item.plan_log and self.leaves_out_loaded else ""
        if item.batch_id and self.leaves_out_loaded and (when := ledger.loaded(item.batch_id)):
            self._skip_loaded(item, when)
            nothing: PreparedT = self.prepared_class(item)
            return nothing
        if warning and not self._has_warned:
            self._has_warned = True
            self.context.logger.warning("Stream %r: %s", self.context.stream, warning)
        try:
            part = self.make_ready(item)
        except DataError as error:
            if not item.is_temporary:
                raise self.hinted(error) from None
            hint = error.hint or "Give the column another type in the tap's schema, or leave it out by selection"
            raise error.placed(  # without the name of the temporary file
                f"RECORD messages of stream {self.context.stream!r}",
                hint=f"{hint}. {DEAD_LETTER_HINT}" if self.context.most_rejected is None else hint,
            ) from None
        if not item.is_temporary:
            found = part.rows + len(part.rejects or ())
            # what the tap reads may be newer than its message; other files were cut off or replaced
            if not item.is_source and item.rows is not None and found != item.rows:
                msg = f"its BATCH message counts {item.rows:,} rows, its files have {found:,}"
                hint = "Remove the batch file, and run the tap again"
                raise DataError(
                    f"{msg}; one was replaced or cut off",
                    url=item.urls[0] if item.urls else f"stream {item.stream!r}",
                    hint=hint,
                )
            self.context.tally.add(files=len(item.urls))
        return part

    def _prove_state(self, item: Item[Any], batch_id: str) -> None:
        """Check once that the table has the batch before the STATE of the run; an IdentityError: rows may be missing.

        A table that was empty before this run, or was emptied, gets what is new; a warning says so.
        """
        ledger, stream = self.context.ledger, self.context.stream
        with ledger.proving:
            if batch_id in ledger.proved:
                return
            proof = ledger.proof(batch_id)
            if proof is Proof.REBUILT and self.context.replay == "skip" and self.context.only_adds:
                entered, count = ledger.count_entered(), ledger.count_rows()
                if count is not None and count >= entered:  # a whole copy, as the user says
                    ledger.loaded_of([batch_id])
                    proof = ledger.proof(batch_id)
            if proof is Proof.EMPTIED and self._had_rows is not False:
                self.context.logger.warning(
                    "Stream %r: its table was emptied since it got batch %s, which this run's STATE comes after, and "
                    "the tap sends only what is new since its STATE, so rows of earlier runs are not in it; to load "
                    "all, run it without that STATE (singer-arrow run: --full-refresh)",
                    stream,
                    batch_id,
                )
            if proof is Proof.LOADED and not self.merges and self.context.replay != "skip":
                self._check_since(batch_id, item.no_log)
            if proof in (Proof.LOADED, Proof.EMPTIED) or (proof is Proof.UNKNOWN and self._had_rows is False):
                ledger.proved.add(batch_id)
                return
        if proof is Proof.REBUILT:
            why = "which went into a former table of that name: this one was made anew since, and has rows"
            causes = (
                "If it was restored to an earlier time, empty it and run the tap without STATE. If it has the rows of "
                "all batches, set replay: skip for one run, which counts them"
            )
            if self.context.replay == "skip":
                causes = (
                    "It has fewer rows than its ledger counts, or rows were merged into it, so that replay: skip needs "
                    "a run without STATE. If rows are missing, empty the table before, and leave replay out"
                )
        elif ledger.loaded_of(item.plan_log):
            why = "which the table's ledger lacks, though it has others of the same plan log"
            causes = (
                "If that batch was loaded into another dataset or table, run the tap without STATE (singer-arrow run: "
                "--full-refresh), which brings what is missing. If the ledger lost entries, bring them back, or empty "
                "the table and run the tap without STATE"
            )
        else:
            why = "and the table has rows, but its ledger knows nothing of that plan log"
            causes = (
                "If earlier runs loaded another dataset or table, name that one again. If this one is a clone, or was "
                "restored to an earlier time, empty it and run the tap without STATE. If the ledger was dropped or "
                "lost entries, bring it back"
            )
        if self.merges:
            causes = (
                "Run the tap without STATE (singer-arrow run: --full-refresh), which brings what is missing. If "
                "earlier runs loaded another dataset or table, you may name that one again instead"
            )
        raise IdentityError(
            f"Stream {stream!r}: this run's STATE comes after batch {batch_id}, {why}. Rows may be missing in between, "
            f"so nothing was loaded. {causes}"
        )

    def _prove_beginning(self, item: Item[Any], continues: ContinuedLog) -> None:
        """Check once that a plan log begins where the table ends, which got its rows by the log before it.

        An IdentityError: the STATE at which the log was begun is not the last one, so rows would be missing, or come
        twice. Once a batch of the log is in the table, it was proved.
        """
        ledger, (_, of_log) = self.context.ledger, item.plan_log
        is_behind = item.follows and item.follows != continues.batch
        if is_behind or of_log in ledger.proved or ledger.proof(of_log) is Proof.LOADED:
            return
        if continues.batch:
            self._prove_state(item, continues.batch)
        with ledger.proving:
            if of_log in ledger.proved:
                return
            if self.leaves_out_loaded and ledger.has_from(continues.log, continues.place):
                raise IdentityError(
                    f"Stream {self.context.stream!r}: this run's plan log was begun at a STATE, and the table has rows "
                    "that the log before it brought after that STATE, which this one would load a second time; nothing "
                    "was loaded. Begin it again by --new-plan-log with the STATE of the last run; or empty the table, "
                    "and begin it by --new-plan-log without a STATE"
                )
            ledger.proved.add(of_log)

    def _check_since(self, batch_id: str, no_log: str) -> None:
        """Check that no row came without a plan log since the batch before the STATE, or raise IdentityError."""
        known = self.context.ledger.loaded_of([batch_id, no_log]) if no_log else {}
        if no_log in known and known[no_log] > known[batch_id]:
            raise IdentityError(
                f"Stream {self.context.stream!r}: this run's STATE comes after batch {batch_id}, since which the table "
                "got rows by RECORD messages, or by replication method FULL_TABLE, of which its ledger has no batches. "
                "This run could load them a second time, so nothing was loaded. Run the tap with the STATE of the last "
                "run; or empty the table, and run it without STATE. If those rows are of other files, set replay: skip "
                "for one run"
            )

    def _rows_of_others(self, item: Item[Any]) -> str:
        """Return a warning if the table has rows that this run, which sends the whole stream, may append again.

        An IdentityError: it would, as they came by another plan log of the same source, or by none.
        """
        of_source, of_log = item.plan_log
        had_rows = item.has_state or self._had_rows  # before the ledger, as another run may be loading
        known, stream = self.context.ledger.loaded_of([of_source, of_log, NO_LOG]), self.context.stream
        if of_source in known and of_log in known and known[of_log] < known[of_source]:
            raise IdentityError(
                f"Stream {stream!r}: since this run's plan log brought rows, another plan log brought rows of the same "
                "paths, which this one would load a second time; nothing was loaded. If plan_root, or the root of the "
                "batch storage, was changed back, restore that of the last runs, and their STATE; or begin a new log "
                "here with their STATE and --new-plan-log; or empty the table and run the tap without STATE"
            )
        if item.has_state:
            return ""
        if of_source in known and of_log not in known:
            raise IdentityError(
                f"Stream {stream!r}: the table has rows of the same paths from another plan log, and "
                "this run has no STATE, so it would load all of them a second time; nothing was loaded. Was "
                "plan_root, or the root of the batch storage, changed, or the log removed? Restore it, or run the "
                "tap with its STATE; to load all anew, empty the table, or set replay: load for one run"
            )
        if of_source in known and NO_LOG in known and self.context.replay != "skip":
            raise IdentityError(
                f"Stream {stream!r}: the table has rows of the same paths that came by RECORD "
                "messages, or by replication method FULL_TABLE, of which its ledger has no batches, and this run "
                "has no STATE, so it would load them a second time; nothing was loaded. Run the tap with its "
                "STATE; to load all anew, empty the table; if those rows are of other files, set replay: skip "
                "for one run"
            )
        if not had_rows or (of_source in known and NO_LOG not in known):
            return ""
        with self.context.ledger.proving:
            if of_log not in self._compared:
                self._compared[of_log] = self._warning_of_others(item, NO_LOG in known)
            return self._compared[of_log]

    def _warning_of_others(self, item: Item[Any], has_rows_of_none: bool) -> str:
        """Return what there is to say of the rows that others brought into the table of a run without STATE."""
        sent = "and the tap sends the whole stream to be appended: rows of the same files will be there twice"
        logs, rows = self.context.ledger.logs(), self.context.ledger.count_rows()
        has_rows_of_none |= rows is None or rows > self.context.ledger.count_entered()
        if has_rows_of_none or not logs:
            way = "by RECORD messages, by batches without a plan log or by another tool"
            cure = "If it has no others, empty it; or use upsert or overwrite"
            return f"its table has rows that came {way}, {sent}. {cure}"
        for log in logs:
            if log.log != item.log_id and (item.objects is None or log.objects.overlaps(item.objects)):
                where = ", ".join(log.objects.roots) or "the same places"
                return (
                    f"its table has rows from {where}, which another plan log has brought since "
                    f"{log.since:%Y-%m-%d %H:%M:%S} UTC, {sent}. If that was this pipeline, restore its plan_root and "
                    "run it with its STATE; if it was another one, give both paths that share no file, or use upsert"
                )
        return ""

    @abc.abstractmethod
    def make_ready(self, item: Item[Any]) -> PreparedT:
        """Prepare an item for its load."""

    @abc.abstractmethod
    def stage(self, parts: Sequence[PreparedT]) -> Any:
        """Load a group into a staging table; or into the table itself, where that is atomic and needs no order."""

    def publish(self, staged: Any) -> None:
        """Make a staged group part of the table, durably; does nothing where `stage` or `finish` makes it so."""

    def finish(self) -> None:
        """Make all of a deferred load method part of the table."""

    def removable_files(self, parts: Sequence[PreparedT], staged: Any) -> list[Url]:  # noqa: ARG002 - a warehouse may have staged files
        """Return the files that may be removed once the group is durable."""
        if not self.context.removes_batches:
            return []
        items = [p.item for p in parts if not p.item.is_temporary and not p.item.is_source]
        return [Url.parse(url) for item in items for url in item.urls]

    def replace_table(self) -> None:
        """Replace the table of a deferred load method at the end of the run even if the run has no row for it."""

    def entries_of_logs(self, items: Iterable[Item[Any]]) -> dict[str, int]:
        """Return what the ledger gets, beside the batches of some items in their order, about their plan logs.

        The last batch of each log has an entry of its own. A log and its source get theirs, unless the log was the last
        one, or brings rows again on purpose by `replay: load`, as to redo a day: the other log goes on then. A run with
        a STATE, which brings what is new alone, adds no source to rows that came by none: a run without STATE is to
        name them. Nor is it to load rows again that came by none beside batches.
        """
        items, ledger, entries = list(items), self.context.ledger, dict[str, int]()
        lasts = {item.plan_log: item for item in items if item.last}  # of each log the last one
        ledger.lasts.update(item.batch_id for item in lasts.values() if item.batch_id)
        entries |= {item.last: 0 for item in lasts.values()}
        logs = {item.plan_log: item.has_state for item in items if item.plan_log}
        places = {
            item.plan_log: objects_entry(item.log_id, item.objects)
            for item in items
            if item.plan_log and item.objects is not None
        }
        is_mixed = ledger.has_batches and not self.deferred and not all(item.plan_log for item in items)
        asked = [*(entry for pair in logs for entry in pair), *places.values()]
        asked += [NO_LOG, *(item.no_log for item in items if item.no_log)] if is_mixed else []
        found = ledger.loaded_of(asked) if asked and self.keeps_ledger else {}
        for (of_source, of_log), has_state in logs.items():
            is_last = of_source in found and found.get(of_log) == found[of_source]
            if of_source in found and self.context.replay == "load" and not self.merges:
                entries |= {} if of_log in found else {of_log: 0}
            elif not is_last and (of_source in found or self.deferred or not (has_state and self._had_rows)):
                entries |= {of_source: 0, of_log: 0}
        entries |= {entry: 0 for entry in places.values() if entry not in found}
        if is_mixed and NO_LOG not in found:
            entries[NO_LOG] = 0
        entries |= {item.no_log: 0 for item in items if is_mixed and item.no_log and not item.plan_log}
        self.renewed.update(found.keys() & entries.keys())
        return {entry: rows for entry, rows in entries.items() if entry not in ledger.noted}

    def note(self, entries: Iterable[str]) -> None:
        """Note that rows were loaded, and the ledger has these entries with them."""
        self.context.ledger.noted.update(entry for entry in entries if entry.startswith(LOG))

    def fresh(self, parts: Sequence[PreparedT]) -> list[PreparedT]:
        """Return the parts of a group whose batches were not loaded before; the others are counted as skipped."""
        items = {batch_id: part.item for part in parts if (batch_id := part.item.batch_id)}
        loaded = self.context.ledger.loaded_of(list(items)) if items and self.leaves_out_loaded else {}
        for batch_id, when in loaded.items():
            self._skip_loaded(items[batch_id], when)
        return [part for part in parts if part.item.batch_id not in loaded]

    def rejects(self, item: Item[Any]) -> Rejects | None:
        """Return a collection for the rejected rows of an item; None if there may be none."""
        most = self.context.most_rejected
        return None if most is None and not item.rejected else Rejects(most, item.origins, item.rejected)

    def log_rejected(self, batches: Iterable[BatchRejects]) -> None:
        """Count rows that were put into the table of rejected rows, and log the first of the stream.

        Those that the tap could not read it has logged.
        """
        rows = [row for batch in batches for row in batch.rows]
        own = [row for row in rows if not row.is_of_tap]
        if own and not self._has_named_rejected:
            self._has_named_rejected = True
            self.context.logger.warning(
                "Stream %r: %s. It is not loaded, but written to table %s; further rows of the stream are only counted",
                self.context.stream,
                own[0],
                REJECTED,
            )
        self.context.tally.add(rejected=len(rows))

    def hinted(self, error: DataError) -> DataError:
        """Return the error of a file, with the alternative for a single row if a row caused it."""
        is_of_row = error.line is not None or error.row is not None
        return error.hinting(DEAD_LETTER_HINT) if is_of_row and self.context.most_rejected is None else error

    def _skip_loaded(self, item: Item[Any], when: datetime) -> None:
        ledger, batch_id = self.context.ledger, item.batch_id
        assert batch_id
        self.context.tally.was_sent_whole |= not item.has_state
        if item.plan_log and not item.has_state:
            with ledger.proving:
                ledger.skipped_rows += ledger.rows_of(batch_id)
        self.skip(batch_id, f"at {when:%Y-%m-%d %H:%M:%S} UTC", item.rows)

    def warn_of_missing_rows(self) -> None:
        """Warn once at the end of the run if the table has fewer rows than those of its batches that were left out.

        They do not come again: someone has deleted rows, or filled the table from a copy that lacks some.
        """
        ledger, tally = self.context.ledger, self.context.tally.counts()
        skipped, ledger.skipped_rows = ledger.skipped_rows, 0
        if not (skipped and self.context.only_adds) or (count := ledger.count_rows()) is None:
            return
        if (lost := skipped + tally["rows"] - count) > 0:
            self.context.logger.warning(
                "Stream %r: its table has %s, %s fewer than its ledger counts for the batches that were loaded before, "
                "and are left out: rows were deleted, or the table was filled from a copy that lacks some. If they are "
                "missing, empty the table and run the tap without STATE",
                self.context.stream,
                counted(count, "row"),
                f"{lost:,}",
            )

    def skip(self, batch_id: str, when: str, rows: int | None = None) -> None:
        """Log and count that a batch is left out, and when it was loaded: `at 2026-11-20 16:30:00 UTC`."""
        self.context.tally.add(skipped=1, rows_before=rows or 0)
        self.context.logger.info(
            "Stream %r: batch %s was loaded %s and is left out; to load it again set replay: load, or empty the table",
            self.context.stream,
            batch_id,
            when,
        )


AnyLoadMethod = LoadMethod[Any, Any]
