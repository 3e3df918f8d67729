"""The base of the load methods of all warehouses: one for each stream, while its SCHEMA stays the same."""

from __future__ import annotations

import abc
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from singer_arrow.errors import DataError, IdentityError
from singer_arrow.load.dead_letters import Rejected, Rejects
from singer_arrow.load.item import Item
from singer_arrow.load.metrics import Tally
from singer_arrow.naming import REJECTED
from singer_arrow.storage.urls import Url

DEAD_LETTER_HINT = "Or set on_bad_row: dead_letter, which puts such rows aside and loads the others"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadContext:
    """From one stream into its table; a warehouse's own has its client and its table too."""

    stream: str
    tally: Tally
    logger: logging.Logger
    replay_loads: bool = False  # batches that were loaded before are loaded again
    keys: tuple[str, ...] = ()  # columns
    removes_batches: bool = False  # once the STATE behind them is out
    most_rejected: int | None = None  # rows of an item; None: the first bad one ends the run
    deleted_column: str | None = None  # of upsert: not null where the row of the key is to be deleted
    rank_column: str = ""  # of upsert: the rank of the rows; see `batch.message`


class Prepared(Protocol):
    """An item that is prepared for its load, and its size in it, in bytes."""

    @property
    def item(self) -> Item[Any]: ...
    @property
    def bytes(self) -> int: ...


ContextT = TypeVar("ContextT", bound=LoadContext)
PreparedT = TypeVar("PreparedT", bound=Prepared)


class LoadMethod(abc.ABC, Generic[ContextT, PreparedT]):
    """The base of the load methods, which `LoadScheduler` calls.

    It calls `prepare` for items and `stage` for groups of them, in parallel and in any order; then `publish` for each
    group, of `ordered` methods in the order of the messages, one call at a time; then `removable_files`, which are
    removed after the STATE of the group has left; and `finish` of `deferred` ones.
    """

    ordered: ClassVar[bool] = False  # groups are published in the order of their items
    deferred: ClassVar[bool] = False  # groups become part of the table at the end of the run, by `finish`
    merges: ClassVar[bool] = False  # rows replace those with the same keys
    keeps_ledger: ClassVar[bool] = False  # `loaded` returns which batches the table has
    streams: ClassVar[bool] = False  # each file of records is a load, after `WarehouseRun.record_age_seconds`

    def __init__(self, context: ContextT) -> None:
        self.context = context

    @property
    def leaves_out_loaded(self) -> bool:
        """Return whether batches that were loaded before are skipped.

        False if rows replace others: batches loaded later may have replaced the rows of such a batch, and need not come
        again after it.
        """
        return self.keeps_ledger and not self.merges and not self.context.replay_loads

    def prepare(self, item: Item[Any]) -> PreparedT:
        """Prepare an item for its load, unless its batch was loaded before; a DataError names the file or stream."""
        if self.keeps_ledger:
            self.void_if_emptied()
        if item.plan_log and not item.has_state and self.leaves_out_loaded:
            self._check_log(*item.plan_log)
        if item.batch_id and self.leaves_out_loaded and (when := self.loaded(item.batch_id)):
            self.skip(item.batch_id, f"at {when:%Y-%m-%d %H:%M:%S} UTC", item.rows)
            return self.nothing(item)
        try:
            part = self.make_ready(item)
        except DataError as error:
            raise self.named(error, item) from None
        if not item.is_temporary:
            self._check_count(item, self.rows_found(part))
            self.context.tally.add(files=len(item.urls))
        return part

    def _check_log(self, of_source: str, of_log: str) -> None:
        """Refuse batches of a run without STATE whose objects the table has from another plan log.

        Under the ids of this log they would be loaded a second time.
        """
        found = self.loaded_of([of_source, of_log])
        if of_source in found and of_log not in found:
            raise IdentityError(
                f"Stream {self.context.stream!r}: the table has rows of the same paths from another plan log, and this "
                "run has no STATE, so it would load all of them a second time; nothing was loaded. Was plan_root, or "
                "the root of the batch storage, changed, or the log removed? Restore it, or run the tap with its "
                "STATE; to load all anew, empty the table, or set replay: load for one run"
            )

    def entries_of_logs(self, items: Iterable[Item[Any]]) -> dict[str, int]:
        """Return what the ledger gets, beside the batches of some items, about the plan logs that they are of."""
        if not self.keeps_ledger or self.merges:
            return {}
        entries = {entry for item in items for entry in item.plan_log}
        found = self.loaded_of(sorted(entries)) if entries and self.leaves_out_loaded else {}
        return dict.fromkeys(sorted(entries - found.keys()), 0)

    def _check_count(self, item: Item[Any], found: int | None) -> None:
        """Refuse a batch whose files have another number of rows than its message, unless they are what the tap reads.

        Such objects may be newer; other files were cut off or replaced.
        """
        if not item.is_source and None not in (found, item.rows) and found != item.rows:
            msg = f"its BATCH message counts {item.rows:,} rows, its files have {found:,}; one was replaced or cut off"
            hint = "Remove the batch file, and run the tap again"
            raise DataError(msg, url=item.urls[0] if item.urls else f"stream {item.stream!r}", hint=hint)

    def rows_found(self, part: PreparedT) -> int | None:  # noqa: ARG002 - each warehouse has parts of its own
        """Return the number of rows in the files of an item, rejected rows included; None if it is not known."""
        return None

    @abc.abstractmethod
    def make_ready(self, item: Item[Any]) -> PreparedT:
        """Prepare an item for its load."""

    @abc.abstractmethod
    def nothing(self, item: Item[Any]) -> PreparedT:
        """Return the prepared item for an item of which nothing is loaded."""

    @abc.abstractmethod
    def stage(self, parts: Sequence[PreparedT]) -> Any:
        """Load a group into a staging table."""

    def publish(self, staged: Any) -> None:
        """Make a staged group part of the table."""

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

    def kind(self, item: Item[Any]) -> str:
        """Return the kind of an item; only items of one kind are grouped."""
        return item.file_format

    def void_if_emptied(self) -> None:
        """Void the entries of the ledger if the table was emptied; called before this run adds its first row."""

    def expect(self, batch_id: str) -> None:
        """Announce a batch that `prepare` will get, so that one query of the ledger looks up several."""

    def loaded(self, batch_id: str) -> datetime | None:  # noqa: ARG002 - load methods with a ledger override it
        """Return when the batch was loaded into the table as it is now, in UTC.

        None if it was not, or if that is decided later, by `loaded_of`: a ledger may look up groups instead of batches.
        """
        return None

    def loaded_of(self, batch_ids: Sequence[str]) -> dict[str, datetime]:  # noqa: ARG002 - load methods with a ledger override it
        """Return those of a group's batches that were loaded into the table as it is now, and when, in UTC."""
        return {}

    def fresh(self, parts: Sequence[PreparedT]) -> list[PreparedT]:
        """Return the parts of a group whose batches were not loaded before; the others are counted as skipped."""
        ids = [batch_id for part in parts if (batch_id := part.item.batch_id)]
        if not ids or not self.leaves_out_loaded:
            return list(parts)
        loaded = self.loaded_of(ids)
        rows = {part.item.batch_id: part.item.rows for part in parts}
        for batch_id, when in loaded.items():
            self.skip(batch_id, f"at {when:%Y-%m-%d %H:%M:%S} UTC", rows[batch_id])
        return [part for part in parts if part.item.batch_id not in loaded]

    def rejects(self, item: Item[Any]) -> Rejects | None:
        """Return a collection for the rejected rows of an item; None if there may be none."""
        most = self.context.most_rejected
        return None if most is None and not item.rejected else Rejects(most, item.origins, item.rejected)

    def log_rejected(self, rows: Sequence[Rejected]) -> None:
        """Count rows that were put into the table of rejected rows, and log the first of the stream."""
        if rows and not self.context.tally.counts().get("rejected"):
            self.context.logger.warning(
                "Stream %r: %s. It is not loaded, but written to table %s; further rows of the stream are only counted",
                self.context.stream,
                rows[0],
                REJECTED,
            )
        self.context.tally.add(rejected=len(rows))

    def named(self, error: DataError, item: Item[Any]) -> DataError:
        """Return the error without the name of a temporary file of gathered records."""
        if not item.is_temporary:
            return self.hinted(error)
        hint = error.hint or "Give the column another type in the tap's schema, or leave it out by selection"
        return error.placed(
            f"RECORD messages of stream {self.context.stream!r}",
            hint=f"{hint}. {DEAD_LETTER_HINT}" if self.context.most_rejected is None else hint,
        )

    def hinted(self, error: DataError) -> DataError:
        """Return the error of a file, with the alternative for a single row if a row caused it."""
        is_of_row = error.line is not None or error.row is not None
        return error.hinting(DEAD_LETTER_HINT) if is_of_row and self.context.most_rejected is None else error

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
