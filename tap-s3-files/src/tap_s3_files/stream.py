"""A stream of files: what is new since its STATE becomes batches or records."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from singer_arrow.batch.message import Batch
from singer_arrow.errors import NotFoundError
from singer_arrow.executors import ordered_streams
from singer_arrow.formats import ReadOptions
from singer_arrow.schema import from_json_schema
from singer_arrow.singer.records import to_records
from singer_arrow.singer.sdk_tap import ArrowStream
from tap_s3_files.bookmarks import Bookmark
from tap_s3_files.catalog import METADATA
from tap_s3_files.config import StreamSettings
from tap_s3_files.convert import Job, Worker, convert, read
from tap_s3_files.objects import Claim
from tap_s3_files.plan import Segment, Task, after_task, fingerprint
from tap_s3_files.progress import Progress
from tap_s3_files.replication.intake import Receiver
from tap_s3_files.replication.polling import known_key, new_objects
from tap_s3_files.segments import SegmentStore, extend, resume, without_plan

if TYPE_CHECKING:
    from tap_s3_files.tap import TapS3Files

TARGET_BYTES = 128 << 20
"""For segments that are planned without batch files."""
_MODIFIED = "_sdc_source_modified_at"

Waves = Iterator[Iterator[Segment]]
"""Segments in portions. Those of a portion are there; the next portion may have to be waited for."""


def read_options(settings: StreamSettings) -> ReadOptions:
    """How the files of a stream are read."""
    # Numbers are taken as text where the schema says text: merging the types of files may have made that of them.
    return ReadOptions(compression=settings.compression, loose_text=True, **settings.options)


class FileStream(ArrowStream):
    """One entry of the setting `streams`."""

    def __init__(self, tap: TapS3Files, settings: StreamSettings, schema: Mapping[str, Any]) -> None:
        self.settings = settings
        self.tap = tap
        super().__init__(tap, schema=dict(schema), name=settings.name)
        self.primary_keys = list(settings.key_properties)
        self.forced_replication_method = "INCREMENTAL"
        self.replication_key = _MODIFIED if _MODIFIED in schema["properties"] and self._has_metadata else None
        self.progress = Progress(settings.name)

    @property
    def _has_metadata(self) -> bool:
        return self.tap.settings.metadata_columns

    def wanted_encoding(self) -> tuple[str, str, str] | None:
        """See ArrowStream."""
        batch = self.tap.settings.batch
        return (batch.format, batch.compression, str(batch.root)) if batch else None

    def batches(self) -> Generator[Batch | Mapping[str, Any]]:
        """See ArrowStream: the batches of a task, then the STATE after it, in the order of the plan."""
        batch = self.tap.settings.batch
        assert batch is not None
        if self.is_mapped_away:
            return
        job = self._job()
        bookmark, store, waves = self._plan(batch.target_bytes)
        begun: deque[tuple[Segment, int]] = deque()

        def run(segment: Segment, task: Task, stop: threading.Event) -> Iterator[Batch]:
            return convert(job, task, self._worker(stop), batch, segment.target_bytes)

        def tasks(segments: Iterator[Segment]) -> Iterator[Callable[[threading.Event], Iterable[Batch]]]:
            for segment, number, task in unsent(bookmark, segments):
                begun.append((segment, number))
                yield partial(run, segment, task)

        window = 2 * self.tap.settings.max_workers
        at = bookmark
        with self.progress.told(self.log):
            for segments in waves:
                # Closed at once when something fails: an error's traceback would keep it, and its tasks, going.
                with closing(ordered_streams(self.tap.pool, tasks(segments), window)) as streams:
                    for results in streams:
                        yield from results
                        at = after_task(at, *begun.popleft(), durable=store is not None)
                        yield at.to_state()
            yield at.to_state()
        self.log(self.progress.line())

    def get_records(self, context: Any) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - the SDK's signature
        """The rows as records; after those of each task STATE leaves."""
        if self.is_mapped_away:
            return
        if self.wanted_encoding() and (setting := self.records_needed_by()) and self.is_whole_run:
            self.log(f"RECORD messages are sent although batch_config is set: {setting} changes single records")
        job = self._job()
        at, store, waves = self._plan(TARGET_BYTES)
        worker = self._worker(threading.Event())
        with self.progress.told(self.log):
            for segment, number, task in unsent(at, chain.from_iterable(waves)):
                for batch in read(job, task, worker):
                    yield from to_records(batch)
                at = after_task(at, segment, number, durable=store is not None)
                self.write_state(at.to_state())
            self.write_state(at.to_state())
        self.log(self.progress.line())

    def totals(self) -> Mapping[str, Any]:
        """See ArrowStream."""
        c = self.progress.counts
        return {"objects": c.objects, "skipped": c.skipped, "bytes": c.bytes, "batch_files": c.batch_files}

    def _job(self) -> Job:
        schema = from_json_schema(self.selected_schema)
        return Job(
            stream=self.name,
            schema=schema,
            metadata_columns=self._has_metadata and not set(METADATA.names).isdisjoint(schema.names),
            format=self.settings.format,
            options=read_options(self.settings),
            version=self.version,
            partitions=self.settings.partitions,
        )

    def _worker(self, stop: threading.Event) -> Worker:
        return Worker(self.tap.storage, self.tap.budget, self.progress, stop)

    @property
    def is_told(self) -> bool:
        """Whether a queue tells of the stream's objects in this run."""
        whole = self.is_whole_run and self.replication_method != "FULL_TABLE"
        return whole and self.tap.settings.sqs is not None and self.selected and not self.is_mapped_away

    def _plan(self, target_bytes: int) -> tuple[Bookmark, SegmentStore | None, Waves]:
        if self.is_told:
            receiver = self.tap.intake.receivers[self.name]
            return receiver.bookmark, receiver.store, self.tap.intake.waves(self.name)
        root = self.tap.settings.plan_root
        store = SegmentStore(self.tap.storage, root, self.name) if root and self.is_whole_run else None
        full = self.replication_method == "FULL_TABLE"
        start, segments = plan_of(self.tap, self.settings, store, target_bytes, full_table=full)
        return start, store, iter([segments])


def receiver_of(tap: TapS3Files, stream: StreamSettings, store: SegmentStore, target_bytes: int) -> Receiver:
    """A stream that a queue tells of its objects, as earlier runs left it."""
    state = Bookmark.from_state(tap.given_state(stream.name), stream.name)
    return Receiver(claim_of(tap, stream), store, state, target_bytes)


def claim_of(tap: TapS3Files, stream: StreamSettings) -> Claim:
    """Which of the objects that a queue or an inventory tells of are a stream's."""
    settings = tap.settings
    dates = (settings.start, settings.end)
    return Claim(stream.name, stream.paths, tuple(tap.own_roots), dates, settings.window(stream))


def plan_of(
    tap: TapS3Files, stream: StreamSettings, store: SegmentStore | None, target_bytes: int, *, full_table: bool = False
) -> tuple[Bookmark, Iterator[Segment]]:
    """Where a stream begins whose objects are listed, and its plan: at first what an earlier run left.

    Args:
        tap: Whose settings and STATE hold.
        stream: Which.
        store: Where its plan is kept, if it is.
        target_bytes: Size of the batch files of new segments.
        full_table: Begin as if there were no STATE.
    """
    settings = tap.settings
    state = None if full_table else Bookmark.from_state(tap.given_state(stream.name), stream.name)
    paths = fingerprint(settings.identity(stream))
    window = settings.window(stream)
    start = resume(store, state, paths, settings.overlap, window) if store else without_plan(state)

    def segments() -> Iterator[Segment]:
        yield from start.segments
        begin = known_key(start.history) if settings.keys_ascend and not full_table else None
        found = tap.listing(stream, begin=begin)
        if not found and start.history.until is None and not settings.is_backfill(stream):
            raise no_match(stream)
        yield from extend(
            store,
            new_objects(found, start.history, start=window[0], end=window[1]),
            stream=stream.name,
            fingerprint=paths,
            number=start.next_number,
            history=start.history,
            target_bytes=target_bytes,
        )

    return start.bookmark, segments()


def no_match(settings: StreamSettings) -> NotFoundError:
    """What is said where a stream has no object at all."""
    paths = ", ".join(str(p) for p in settings.paths)
    return NotFoundError(f"Stream {settings.name!r}: no object matches {paths}; check the path and its wildcards")


def unsent(bookmark: Bookmark, segments: Iterator[Segment]) -> Iterator[tuple[Segment, int, Task]]:
    """The tasks that are still to be sent, each with its segment and its number in it."""
    for segment in segments:
        for number, task in enumerate(segment.tasks):
            if segment.number != bookmark.segment or not bookmark.is_sent(number):
                yield segment, number, task
