"""New objects by a queue: messages are gathered, what they name is planned, and only then are they deleted.

From the moment that a segment is durable it is the queue: a tap never learns whether the target committed, so the next
start follows the segments that its STATE has not passed. A message that is lost sight of before that comes again.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain

from singer_arrow.errors import DataError, NotFoundError
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import Storage
from tap_s3_files.listing.path_match import ObjectFilter
from tap_s3_files.plan.model import Segment, Version, in_window, version_of
from tap_s3_files.plan.stream_plan import StreamPlan
from tap_s3_files.replication.s3_event import Event, parse_events
from tap_s3_files.replication.sqs_queue import MAX_WAIT, Message, Queue
from tap_s3_files.settings import SqsSettings

logger = logging.getLogger("tap-s3-files")
MAX_MESSAGES = 2000
"""Messages that are gathered before what they name is planned."""
HEADS_AT_ONCE = 16


class SqsEvents:
    """One queue, and the streams of a run that share it, with their plans.

    Messages for `others`, the other streams of the settings, are never deleted.
    """

    def __init__(
        self,
        queue: Queue,
        plans: Mapping[str, StreamPlan],
        others: Sequence[ObjectFilter],
        storage: Storage,
        settings: SqsSettings,
    ) -> None:
        self.plans = plans
        self._queue, self._others, self._storage, self._settings = queue, others, storage, settings
        self._kept: dict[str, Message] = {}
        self._counts = Counter[str]()
        """What became of messages and of the objects that they named."""
        self._began = time.time()
        self._over = False

    def waves(self, stream: str) -> Iterator[Iterator[Segment]]:
        """Yield the segments of a stream in portions: the unfinished ones, then those of each round of messages.

        Ends when the queue was dry for `max_wait_seconds`. Where several streams share it, it ends after the messages
        that were sent before the run began: the streams that wait for their turn must get one.
        """
        plan = self.plans[stream]
        yield chain(plan.unfinished_segments(), plan.queued_segments())
        while not self._over:
            with self._queue.heartbeat():
                self._over = not self._round()
            yield plan.queued_segments()
            if self._over:
                self._queue.release(self._kept.values())
                counts, left = self._counts, "deleted" if self._settings.delete_unmatched else "left in the queue"
                texts = {
                    "known": "were known already",
                    "gone": "are gone",
                    "foreign": f"messages were of no stream of this run and were {left}",
                    "unreadable": "could not be read and were left to the dead-letter queue",
                }
                parts = [f"{counts['messages']:,} messages", f"{counts['planned']:,} objects planned"]
                parts += [f"{counts[kind]:,} {text}" for kind, text in texts.items() if counts[kind]]
                logger.info("%s: %s", self._queue.url, ", ".join(parts))

    def _round(self) -> bool:
        """Take what is there; whether there may be more to wait for."""
        messages = self._gather()
        if not messages:
            return False
        # What is new to a stream, the messages to delete and those to keep
        new: dict[str, dict[Version, ObjectInfo]] = {}
        done, left = list[Message](), list[Message]()
        parsed = [(m, parse_events(m.body)) for m in messages]
        plans_of = {
            e: [r for r in self.plans.values() if _concerns(e, r.object_filter)]
            for _, events in parsed
            for e in events or ()
        }
        with ThreadPoolExecutor(HEADS_AT_ONCE) as pool:
            taken = [event for event, receivers in plans_of.items() if receivers]
            found_objects = dict(zip(taken, pool.map(self._head, taken), strict=True))
        for message, events in parsed:
            if events is None or any(isinstance(found_objects.get(e), DataError) for e in events):
                reason = next((str(x) for e in events or () if isinstance(x := found_objects.get(e), DataError)), None)
                logger.warning(
                    "Message %s was left to the dead-letter queue: %s", message.id, reason or "it is no event of S3"
                )
                self._counts["unreadable"] += 1
                left.append(message)
                continue
            settled = [[self._settle(new, r, found_objects[e]) for r in plans_of[e]] for e in events]
            of_others = any(_concerns(e, object_filter) for e in events for object_filter in self._others)
            is_outside = any(not all(of_event) for of_event in settled)
            is_unmatched = any(not of_event for of_event in settled) and not self._settings.delete_unmatched
            if of_others or is_outside or is_unmatched:
                self._counts["foreign"] += not any(map(any, settled))
                left.append(message)  # what is planned of it is known when it comes again
            else:
                done.append(message)
        for stream, found in new.items():
            self.plans[stream].queue(found.values())
            self._counts["planned"] += len(found)
        self._queue.delete(done)
        self._queue.drop(left)
        self._kept.update((m.id, replace(m, body="")) for m in left)
        self._counts["messages"] += len(messages)
        return len(self.plans) == 1 or any(m.sent < self._began for m in messages)

    def _gather(self) -> list[Message]:
        end = time.monotonic() + self._settings.max_wait_seconds
        while True:
            wait = math.ceil(end - time.monotonic())
            got = self._fresh(self._queue.receive(min(max(wait, 1), MAX_WAIT)))
            if got or time.monotonic() >= end:
                break
        while got and len(got) < MAX_MESSAGES:
            more = self._fresh(self._queue.receive_many())
            if not more:
                break
            got += more
        return list({m.id: m for m in got}.values())

    def _fresh(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that were not read and left before in this run."""
        again = [m for m in messages if m.id in self._kept]
        self._queue.drop(again)
        self._kept.update((m.id, replace(m, body="")) for m in again)
        return [m for m in messages if m.id not in self._kept]

    def _settle(self, found: dict[str, dict[Version, ObjectInfo]], plan: StreamPlan, info: object) -> bool:
        """Return whether a stream needs this object of a message no more, and plan it if it is new."""
        new = found.setdefault(plan.object_filter.stream, {})
        if not isinstance(info, ObjectInfo):
            return True
        if not in_window(info, *plan.object_filter.window):
            return False
        version = version_of(info)
        if version in new or plan.is_known(info):
            self._counts["known"] += 1
        else:
            new[version] = info
        return True

    def _head(self, event: Event) -> ObjectInfo | DataError | None:
        """Return the object of an event as it is now; None if there is none; the error if its key cannot be used."""
        for url in event.urls:
            if url.key.endswith("/"):  # a folder marker
                return None
            try:
                return self._storage.head(url)
            except NotFoundError:
                continue
            except DataError as error:
                return error
        logger.warning("%s was deleted since its event was sent", event.urls[0])
        self._counts["gone"] += 1
        return None


def _concerns(event: Event, object_filter: ObjectFilter) -> bool:
    """Return whether an event names a new object of a stream."""
    return event.created and any(object_filter.matches(url) for url in event.urls)
