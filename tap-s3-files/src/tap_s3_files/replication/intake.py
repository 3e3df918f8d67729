"""New objects by a queue: messages are gathered, what they name is planned, and only then are they deleted.

From the moment that a segment is durable it is the queue: a tap never learns whether the target committed, so the next
start follows the segments that its STATE has not passed. A message that is lost sight of before that comes again.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from singer_arrow.errors import DataError, NotFoundError
from singer_arrow.object_info import ObjectInfo
from singer_arrow.storage import Storage
from tap_s3_files.bookmarks import Bookmark
from tap_s3_files.config import SqsSettings
from tap_s3_files.history import History, last_marks, mark, version_of
from tap_s3_files.objects import Claim
from tap_s3_files.plan import Segment, in_order, in_window
from tap_s3_files.replication.events import Event, parse
from tap_s3_files.replication.queue import LONGEST_WAIT, Message, Queue
from tap_s3_files.segments import TOLD, extend, take_up
from tap_s3_files.store import SegmentStore

logger = logging.getLogger("tap-s3-files")
MOST_MESSAGES = 2000
"""Messages that are gathered before what they name is planned."""
HEADS_AT_ONCE = 16


class Receiver:
    """A stream that is told of its objects: what it has to read, and what it knows already.

    Args:
        claim: Which objects are its.
        store: Where its plan is kept.
        state: Where earlier runs left it.
        target_bytes: Size of the batch files of new segments.
        dress: Gives new segments their schema.
    """

    def __init__(
        self,
        claim: Claim,
        store: SegmentStore,
        state: Bookmark | None,
        target_bytes: int,
        dress: Callable[[Segment], Segment] = lambda segment: segment,
    ) -> None:
        self.claim, self.store, self._target_bytes, self._dress = claim, store, target_bytes, dress
        told = take_up(store, state)
        self.bookmark, self._marks = told.bookmark, told.marks
        self._waiting = deque(told.numbers)
        self._next, self._before = told.next_number, told.before

    def segments(self) -> Iterator[Segment]:
        """The segments to read that are planned by now; each is given once."""
        while self._waiting:
            yield self.store.read(self._waiting.popleft())

    @property
    def is_waiting(self) -> bool:
        """Whether segments to read are planned that were not given yet."""
        return bool(self._waiting)

    def knows(self, info: ObjectInfo) -> bool:
        """Whether an object is in a segment already, or was in one."""
        return mark(version_of(info)) in self._marks

    def plan(self, objects: Iterable[ObjectInfo]) -> None:
        """Make durable that objects are to be read."""
        for segment in extend(
            self.store,
            in_order(objects),
            stream=self.claim.stream,
            fingerprint=TOLD,
            number=self._next,
            history=History(until=self._before),
            target_bytes=self._target_bytes,
            dress=self._dress,
        ):
            self._waiting.append(segment.number)
            self._next, self._before = segment.number + 1, segment.after
            self._marks.update((mark(version_of(o)), None) for o in segment.objects)
        self._marks = last_marks(self._marks)


@dataclass(slots=True)
class Counts:
    """What became of messages and of the objects that they named."""

    messages: int = 0
    planned: int = 0
    known: int = 0
    gone: int = 0
    foreign: int = 0
    unreadable: int = 0

    def line(self, deleted: bool) -> str:
        """In words."""
        left = "deleted" if deleted else "left in the queue"
        parts = [
            f"{self.messages:,} messages, {self.planned:,} objects planned",
            *([f"{self.known:,} were known already"] if self.known else []),
            *([f"{self.gone:,} are gone"] if self.gone else []),
            *([f"{self.foreign:,} messages were of no stream of this run and were {left}"] if self.foreign else []),
            *(
                [f"{self.unreadable:,} could not be read and were left to the dead-letter queue"]
                * bool(self.unreadable)
            ),
        ]
        return ", ".join(parts)


@dataclass(slots=True)
class _Sorted:
    """What a round of messages comes to."""

    new: dict[str, dict[str, ObjectInfo]] = field(default_factory=dict)
    done: list[Message] = field(default_factory=list)
    left: list[Message] = field(default_factory=list)


class Intake:
    """One queue, and the streams of a run that share it.

    Args:
        queue: Whose messages are taken.
        receivers: The streams that are read in this run, by name.
        others: What other streams of the settings would take: their messages are never deleted.
        storage: Where objects are looked at.
        settings: How long is waited, and what happens to messages of no stream.
    """

    def __init__(
        self,
        queue: Queue,
        receivers: Mapping[str, Receiver],
        others: Sequence[Claim],
        storage: Storage,
        settings: SqsSettings,
    ) -> None:
        self.receivers = receivers
        self._queue, self._others, self._storage, self._settings = queue, others, storage, settings
        self._left: dict[str, Message] = {}
        self._counts = Counts()
        self._began = time.time()
        self._over = False

    def waves(self, stream: str) -> Iterator[Iterator[Segment]]:
        """The segments of a stream, in portions: what is there, then what each round of messages brings.

        Ends when the queue was dry for `max_wait_seconds`. Where several streams share it, it ends after the messages
        that were sent before the run began: the streams that wait for their turn must get one.
        """
        receiver = self.receivers[stream]
        yield receiver.segments()
        while not self._over:
            with self._queue.heartbeat():
                self._over = not self._round()
            yield receiver.segments()
            if self._over:
                self._queue.release(self._left.values())
                logger.info("%s: %s", self._queue.url, self._counts.line(self._settings.delete_unmatched))

    def _round(self) -> bool:
        """Take what is there; whether there may be more to wait for."""
        messages = self._gather()
        if not messages:
            return False
        found = self._sort(messages)
        for stream, new in found.new.items():
            self.receivers[stream].plan(new.values())
            self._counts.planned += len(new)
        self._queue.delete(found.done)
        self._queue.let_go(found.left)
        self._left.update((m.id, replace(m, body="")) for m in found.left)
        self._counts.messages += len(messages)
        return len(self.receivers) == 1 or any(m.sent < self._began for m in messages)

    def _gather(self) -> list[Message]:
        end = time.monotonic() + self._settings.max_wait_seconds
        while True:
            wait = math.ceil(end - time.monotonic())
            got = self._fresh(self._queue.receive(min(max(wait, 1), LONGEST_WAIT)))
            if got or time.monotonic() >= end:
                break
        while got and len(got) < MOST_MESSAGES:
            more = self._fresh(self._queue.receive_many())
            if not more:
                break
            got += more
        return list({m.id: m for m in got}.values())

    def _fresh(self, messages: Sequence[Message]) -> list[Message]:
        """Those that were not looked at and left before in this run."""
        again = [m for m in messages if m.id in self._left]
        self._queue.let_go(again)
        self._left.update((m.id, replace(m, body="")) for m in again)
        return [m for m in messages if m.id not in self._left]

    def _sort(self, messages: Sequence[Message]) -> _Sorted:
        """Find the objects that are new to a stream, and tell the messages that are dealt with from those to leave."""
        found = _Sorted()
        told = [(m, parse(m.body)) for m in messages]
        wanted = {
            e: [r for r in self.receivers.values() if _tells_of(e, r.claim)] for _, events in told for e in events or ()
        }
        with ThreadPoolExecutor(HEADS_AT_ONCE) as pool:
            taken = [event for event, receivers in wanted.items() if receivers]
            looks = dict(zip(taken, pool.map(self._look, taken), strict=True))
        for message, events in told:
            if events is None or any(isinstance(looks.get(e), DataError) for e in events):
                reason = next((str(x) for e in events or () if isinstance(x := looks.get(e), DataError)), None)
                logger.warning(
                    "Message %s was left to the dead-letter queue: %s", message.id, reason or "it is no event of S3"
                )
                self._counts.unreadable += 1
                found.left.append(message)
                continue
            settled = [[self._settle(found, r, looks[e]) for r in wanted[e]] for e in events]
            of_others = any(_tells_of(e, claim) for e in events for claim in self._others)
            is_outside = any(not all(of_event) for of_event in settled)
            of_nobody = any(not of_event for of_event in settled) and not self._settings.delete_unmatched
            if of_others or is_outside or of_nobody:
                self._counts.foreign += not any(map(any, settled))
                found.left.append(message)  # what is planned of it is known when it comes again
            else:
                found.done.append(message)
        return found

    def _settle(self, found: _Sorted, receiver: Receiver, info: object) -> bool:
        """Whether a stream has nothing more to ask of a message for this object, once what is new is planned."""
        new = found.new.setdefault(receiver.claim.stream, {})
        if not isinstance(info, ObjectInfo):
            return True
        if not in_window(info, *receiver.claim.window):
            return False
        name = mark(version_of(info))
        if name in new or receiver.knows(info):
            self._counts.known += 1
        else:
            new[name] = info
        return True

    def _look(self, event: Event) -> ObjectInfo | DataError | None:
        """The object of an event as it is now; None if there is none; the error if its key cannot be used."""
        for url in event.urls:
            if url.key.endswith("/"):  # a folder marker
                return None
            try:
                return self._storage.head(url)
            except NotFoundError:
                continue
            except DataError as error:
                return error
        logger.warning("%s is gone since the queue told of it", event.urls[0])
        self._counts.gone += 1
        return None


def _tells_of(event: Event, claim: Claim) -> bool:
    """Whether an event tells of a new object of a stream."""
    return event.created and any(claim.holds(url) for url in event.urls)
