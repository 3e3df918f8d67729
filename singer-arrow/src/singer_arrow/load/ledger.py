"""Look up batches in a ledger by few queries; waits between tries."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Generic, TypeVar

from singer_arrow.errors import LoadError

# What load methods ask about the batches that a table has.


class Ledger:
    """Which batches the table of a stream has, as it is now; this one knows of none. Times are in UTC."""

    def void_if_emptied(self) -> None:
        """Void the entries if the table was emptied; called before this run adds its first row."""

    def expect(self, batch_id: str) -> None:
        """Announce a batch that `loaded` will be asked for, so that one query looks up several."""

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
    msg = (
        f"Table {path} is not the one into which the batches of stream {stream!r} were loaded: it was made anew since, "
        "and has rows. If it has those of the batches, set replay: skip for one run; to load them all again, "
        "set replay: load for one run, or empty the table. Nothing was loaded"
    )
    return LoadError(msg)


PAGE = 2_000
"""How many entries are read that follow a batch that was found."""


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
        self._expected: deque[str] = deque()
        self._answers: dict[str, FoundT | None] = {}
        self._page: Mapping[str, FoundT] = {}
        self._is_eager = True

    def expect(self, batch_id: str) -> None:
        """Look this batch up with the next one; returns at once."""
        self._expected.append(batch_id)

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
        return self._answers[batch_id] if batch_id in self._answers else self._page.get(batch_id)

    def of(self, batch_ids: Collection[str]) -> dict[str, FoundT]:
        """Return what the ledger has about some batches; those that were not looked up before are looked up now."""
        with self._asking:
            if not self._answers.keys() >= set(batch_ids):
                self._ask(batch_ids)
        answers = {batch_id: self._answers[batch_id] for batch_id in batch_ids}
        return {batch_id: found for batch_id, found in answers.items() if found is not None}

    def _is_known(self, batch_id: str) -> bool:
        return batch_id in self._answers or batch_id in self._page

    def _ask(self, batch_ids: Collection[str]) -> None:
        """Look up batches, and with them those that are expected and not in the page; the lock is held."""
        expected = [self._expected.popleft() for _ in range(len(self._expected))]
        asked = dict.fromkeys([*batch_ids, *(b for b in expected if b not in self._page)])
        ids = [batch_id for batch_id in asked if batch_id not in self._answers]
        found = self._find(ids)
        if last := next((batch_id for batch_id in reversed(ids) if batch_id in found), None):
            self._page = self._following(found[last])
        self._answers.update({batch_id: found.get(batch_id) for batch_id in ids})
        if ids:
            self._is_eager = last is not None


# Wait between the attempts of a call that may succeed later, and log the reason from time to time.

LOGGED_SECONDS = 4.0
"""Pauses that are longer are logged."""
REPEATED_SECONDS = 30.0
"""Seconds of pauses after which the reason is logged again."""


class Waiting:
    """Sleep between the attempts of one call; log the reason before the first long pause, and about every 30 s."""

    def __init__(self, logger: logging.Logger, sleep: Callable[[float], None] = time.sleep) -> None:
        self._logger = logger
        self._sleep = sleep
        self._slept = 0.0
        self._due = 0.0

    def before_again(self, pause: float, why: object) -> None:
        """Sleep so many seconds before the next attempt; `why` is the error of the last one, on one line."""
        if pause > LOGGED_SECONDS and self._slept >= self._due:
            so_far = f", for {self._slept:,.0f} s so far" if self._due else ""
            self._due = self._slept + REPEATED_SECONDS
            self._logger.warning("%s; trying again%s", str(why).removesuffix("; run again"), so_far)
        self._slept += pause
        self._sleep(pause)


def pauses(
    deadline_seconds: float,
    *,
    first: float = 0.5,
    most: float = 32.0,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> Iterator[float | None]:
    """Yield the seconds to wait before each further attempt: doubled each time, randomized; None at the deadline."""
    end = clock() + deadline_seconds
    pause = first
    while clock() + pause < end:
        yield pause * (0.5 + chance() / 2)
        pause = min(most, pause * 2)
    yield None
