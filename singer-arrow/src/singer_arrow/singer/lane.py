"""What the lanes of all warehouses and load methods share: one for each stream, while its SCHEMA stays the same."""

from __future__ import annotations

import abc
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from singer_arrow.errors import DataError
from singer_arrow.singer.items import Item
from singer_arrow.singer.tally import Tally
from singer_arrow.urls import Url


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """From one stream into its table; a warehouse's own has its client and its table too.

    Args:
        stream: Name of the stream.
        tally: The stream's counts.
        logger: The target's.
        replay_loads: Batches that were loaded before are loaded again.
        keys: Key columns.
        removes_batches: Batch files are removed once the STATE behind them is out.
    """

    stream: str
    tally: Tally
    logger: logging.Logger
    replay_loads: bool = False
    keys: tuple[str, ...] = ()
    removes_batches: bool = False


class Ready(Protocol):
    """An item that is ready to be loaded."""

    @property
    def item(self) -> Item[Any]:
        """What it was made of."""

    @property
    def bytes(self) -> int:
        """What it weighs in a load."""


WayT = TypeVar("WayT", bound=Way)
PartT = TypeVar("PartT", bound=Ready)


class Lane(abc.ABC, Generic[WayT, PartT]):
    """The base of the lanes; see `loads.Lane` for what is called when.

    Class attributes say what a load method is like: `ordered` and `deferred` as `loads.Lane` does; `merges`, that rows
    replace those with the same keys; `keeps_ledger`, that `loaded` knows which batches the table has.
    """

    ordered: ClassVar[bool] = False
    deferred: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    keeps_ledger: ClassVar[bool] = False

    def __init__(self, way: WayT) -> None:
        self.way = way

    @property
    def leaves_out_loaded(self) -> bool:
        """Whether batches that were loaded before are left out."""
        return self.keeps_ledger and not self.way.replay_loads

    def prepare(self, item: Item[Any]) -> PartT:
        """Make an item ready, unless its batch was loaded before.

        Raises:
            DataError: It holds something else than SCHEMA says; names the file, or the stream of the records.
        """
        if item.batch_id and self.leaves_out_loaded and (when := self.loaded(item.batch_id)):
            self.skip(item.batch_id, f"at {when:%Y-%m-%d %H:%M:%S} UTC")
            return self.nothing(item)
        try:
            part = self.make_ready(item)
        except DataError as error:
            raise self.named(error, item) from None
        if not item.is_temporary:
            self.way.tally.add(files=len(item.urls))
        return part

    @abc.abstractmethod
    def make_ready(self, item: Item[Any]) -> PartT:
        """Make an item ready for its load."""

    @abc.abstractmethod
    def nothing(self, item: Item[Any]) -> PartT:
        """The part of an item of which nothing is loaded."""

    @abc.abstractmethod
    def stage(self, parts: Sequence[PartT]) -> Any:
        """Load a group."""

    def publish(self, staged: Any) -> None:
        """Make a staged group part of the table."""

    def finish(self) -> None:
        """Make all of a deferred lane part of the table."""

    def left(self, parts: Sequence[PartT], staged: Any) -> list[Url]:  # noqa: ARG002 - a warehouse may have staged files
        """See `loads.Lane`."""
        if not self.way.removes_batches:
            return []
        items = [p.item for p in parts if not p.item.is_temporary and not p.item.is_source]
        return [Url.parse(url) for item in items for url in item.urls]

    def will_replace(self) -> None:
        """A deferred lane's table is to be replaced even if the run brings no row."""

    def kind(self, item: Item[Any]) -> str:
        """Only items of one kind share a group."""
        return item.file_format

    def loaded(self, batch_id: str) -> datetime | None:  # noqa: ARG002 - whoever keeps a ledger looks there
        """When the batch was loaded into the table as it is now, in UTC; None if it was not."""
        return None

    def named(self, error: DataError, item: Item[Any]) -> DataError:
        """The error in words that help: nobody knows the file that records were gathered in."""
        if not item.is_temporary:
            return error
        hint = "Give the column another type in the tap's schema, or leave it out by selection"
        return DataError(
            error.reason,
            url=f"RECORD messages of stream {self.way.stream!r}",
            column=error.column,
            hint=error.hint or hint,
        )

    def skip(self, batch_id: str, when: str) -> None:
        """Say and count that a batch is left out.

        Args:
            batch_id: The tap's.
            when: It was loaded: `at 2026-11-20 16:30:00 UTC`, `just now by another run`.
        """
        self.way.tally.add(skipped=1)
        self.way.logger.info(
            "Stream %r: batch %s was loaded %s and is left out; to load it again set replay: load, or empty the table",
            self.way.stream,
            batch_id,
            when,
        )
