"""A stream of files: what is new since its STATE becomes batches or records."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from singer_arrow.batch.message import Batch
from singer_arrow.errors import ConfigError, DataError, ObjectChangedError
from singer_arrow.executors import ordered_streams
from singer_arrow.formats import RESCUED, ReadOptions
from singer_arrow.json_schema import from_json_schema
from singer_arrow.singer.sdk_tap import ArrowStream, Encode, Encoded
from tap_s3_files.bookmarks import Bookmark
from tap_s3_files.catalog import METADATA, parse_type, set_columns
from tap_s3_files.changed import MOST_TRIES, Changed, Retold
from tap_s3_files.config import BatchSettings, StreamSettings
from tap_s3_files.forms import Forms, left_out
from tap_s3_files.groups import names as group_names
from tap_s3_files.history import Version, version_of
from tap_s3_files.plan import Form, Position, Segment, Todo, after_rows, after_task, unsent
from tap_s3_files.planning import TARGET_BYTES, plan_again, plan_of
from tap_s3_files.progress import Counts, Progress
from tap_s3_files.replication.intake import Receiver
from tap_s3_files.rows import NEW_VERSION, Job, Piece, Worker, read
from tap_s3_files.store import PartsRecord, SegmentStore

if TYPE_CHECKING:
    import pyarrow as pa

    from tap_s3_files.convert import Step
    from tap_s3_files.tap import TapS3Files

logger = logging.getLogger("tap-s3-files")
_MODIFIED = "_sdc_source_modified_at"

Waves = Iterator[Iterator[Segment]]
"""Segments in portions. Those of a portion are there; the next portion may have to be waited for."""


def read_options(settings: StreamSettings) -> ReadOptions:
    """How the files of a stream are read."""
    # Numbers are taken as text where the schema says text: merging the types of files may have made that of them.
    return ReadOptions(
        compression=settings.compression, loose_text=True, on_bad_row=settings.on_bad_row, **settings.options
    )


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
        self._forms: Forms | None = None
        self._retold: Retold | None = None
        self._waits = False

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
        plan = self._plan(batch.target_bytes)
        at = plan.bookmark
        with self.progress.told(self.log):
            for segments in plan.waves:
                # Closed at once when something fails: an error's traceback would keep its tasks going.
                with closing(self._steps(plan, batch, unsent(plan.bookmark, segments))) as steps:
                    for todo, step in steps:
                        if step is None:
                            at = after_task(at, todo.segment, todo.number, durable=plan.store is not None)
                            if self._may_pass():
                                yield at.to_state()
                            continue
                        self.tell(plan.form_of(todo).schema)
                        self.progress.add(step.counts)
                        if step.batch is not None:
                            yield step.batch
                        if step.after is not None and plan.store is not None:
                            at = after_rows(at, todo.segment, todo.number, step.after.rows)
                            if self._may_pass():
                                yield at.to_state()
            yield at.to_state()
        self.log(self.progress.line())

    def _steps(self, plan: Plan, batch: BatchSettings, todos: Iterator[Todo]) -> Generator[tuple[Todo, Step | None]]:
        """The steps of tasks that run in parallel, each with its task, in the order of the plan; None ends a task."""
        begun: deque[Todo] = deque()

        def run(todo: Todo, stages: list[Stage], record: PartsRecord | None, stop: threading.Event) -> Iterator[Step]:
            from tap_s3_files.convert import convert

            at, size = todo.start, todo.segment.target_bytes
            for job, end in stages:
                worker = self._worker(stop)
                for step in convert(job, todo.task, worker, batch, size, start=at, until=end, record=record):
                    at = step.after or at
                    yield step

        def tasks(todos: Iterator[Todo]) -> Iterator[Callable[[threading.Event], Iterable[Step]]]:
            for todo in todos:
                begun.append(todo)
                yield partial(run, todo, self._stages(plan, todo), plan.record(todo))

        while True:
            problem: DataError | None = None
            with closing(ordered_streams(self.tap.pool, tasks(todos), 2 * self.tap.settings.max_workers)) as streams:
                for steps in streams:
                    try:
                        for step in steps:
                            yield begun[0], step
                            if step.after is not None:
                                begun[0] = replace(begun[0], start=step.after)
                    except DataError as error:
                        problem = error
                        break
                    yield begun.popleft(), None
            if problem is None:
                return
            plan.forms.answer(problem, begun[0])
            todos = chain(tuple(begun), todos)
            begun.clear()

    def rows(self, encode: Encode[Encoded]) -> Generator[Encoded]:
        """See ArrowStream; STATE leaves after the rows of each task."""
        if self.is_mapped_away:
            return
        if self.wanted_encoding() and (setting := self.records_needed_by()) and self.is_whole_run:
            self.log(f"RECORD messages are sent although batch_config is set: {setting} changes single records")
        plan = self._plan(TARGET_BYTES)
        at = plan.bookmark
        with self.progress.told(self.log):
            for todo in unsent(at, chain.from_iterable(plan.waves)):
                yield from self._records(plan, todo, encode)
                at = after_task(at, todo.segment, todo.number, durable=plan.store is not None)
                if self._may_pass():
                    self.write_state(at.to_state())
            self.write_state(at.to_state())
        self.log(self.progress.line())

    def _records(self, plan: Plan, todo: Todo, encode: Encode[Encoded]) -> Iterator[Encoded]:
        worker, at = self._worker(threading.Event()), todo.start
        while True:
            form = plan.form_of(todo)
            self.tell(form.schema)
            try:
                with closing(read(self._job(plan, form), todo.task, worker, at)) as pieces:
                    for piece in pieces:
                        if piece.batch is not None:
                            sent, problem = yield from _encoded(encode, piece.batch)
                            self.progress.add(Counts(rows_written=sent))
                            if problem is not None:
                                self.progress.add(Counts(rows_read=sent))
                                at, url = _within_piece(piece, sent, at), todo.task.objects[piece.after.object].url
                                raise problem if problem.url is not None else problem.at(url)
                        self.progress.add(piece.counts)
                        at = piece.after
            except ObjectChangedError as error:
                text = f"{error}; the rest of its old version is left out; {NEW_VERSION}"
                self.log(text, level=logging.WARNING)
                self.progress.add(Counts(skipped_objects=1))
                at = Position(at.object + 1)
            except DataError as error:
                plan.forms.answer(error, todo)
            else:
                return

    def _may_pass(self) -> bool:
        """Whether STATE may pass what was read: no object of it has a new version that is not planned."""
        if self.progress.has_changed and self._retold is not None:
            self._retold.plan(self.progress.take_changed())
        self._waits = self._waits or self.progress.has_changed
        return not self._waits

    def totals(self) -> Mapping[str, Any]:
        """See ArrowStream."""
        return asdict(self.progress.counts)

    def _stages(self, plan: Plan, todo: Todo) -> list[Stage]:
        ends = plan.forms.ends(todo)
        forms = [plan.forms.at(todo.segment, todo.number, rows) for rows in (todo.start.rows, *ends)]
        return list(zip((self._job(plan, form) for form in forms), [*ends, None], strict=True))

    def _job(self, plan: Plan, form: Form) -> Job:
        settings, schema = self.settings, from_json_schema(form.schema)
        options = replace(
            read_options(settings),
            on_bad_row=form.on_bad_row,
            on_drift="rescue" if form.on_drift == "rescue" else "raise",
            known=None if settings.columns is not None else plan.deselected,
            left_out=plan.deselected,
            fixed=set_columns(schema, settings.types),
        )
        return Job(
            stream=self.name,
            schema=schema,
            metadata_columns=self._has_metadata and not set(METADATA.names).isdisjoint(schema.names),
            format=settings.format,
            options=options,
            version=self.version,
            partitions=settings.partitions,
            passthrough=form.passthrough,
            archived=settings.archived,
        )

    def _worker(self, stop: threading.Event) -> Worker:
        return Worker(self.tap.storage, self.tap.budget, self.progress, stop, self.tap.settings.held_bytes)

    @property
    def is_told(self) -> bool:
        """Whether a queue tells of the stream's objects in this run."""
        whole = self.is_whole_run and self.replication_method != "FULL_TABLE"
        return whole and self.tap.settings.sqs is not None and self.selected and not self.is_mapped_away

    @cached_property
    def _deselected(self) -> frozenset[str]:
        return frozenset(left_out(self.schema, self.selected_schema))

    def forms(self, store: SegmentStore | None) -> Forms:
        """The forms of the run's rows, from before its first SCHEMA on; made once, with the store of its plan.

        Raises:
            ConfigError: Values are to be rescued, and the catalog has no column for them.
        """
        if self._forms is None:
            settings, batch, schema = self.settings, self.tap.settings.batch, self.selected_schema
            if settings.rescues and RESCUED not in schema["properties"]:
                msg = (
                    f"Stream {self.name!r}: on_bad_row or on_drift is rescue, and the catalog selects no column "
                    f"{RESCUED!r}; select it, or write the catalog anew with --discover"
                )
                raise ConfigError(msg)
            passes = batch and self.tap.settings.passthrough and (batch.format, batch.compression) != ("jsonl", "none")
            own = [*(METADATA.names if self._has_metadata else ()), *([RESCUED] if settings.rescues else [])]
            groups = sorted(group_names(settings.partitions.paths[0])) if settings.partitions.paths else []
            form = Form(
                schema,
                json.dumps([self._has_metadata, settings.partitions.hive, *groups]),
                settings.on_bad_row,
                settings.on_drift,
                batch.format if batch and passes else "",
            )
            types = {column: parse_type(column, text) for column, text in settings.types.items()}
            self._forms = Forms(form, store, keys=settings.key_properties, types=types, own=own)
        return self._forms

    def _plan(self, target_bytes: int) -> Plan:
        settings = self.tap.settings
        root = settings.plan_root
        store = SegmentStore(self.tap.storage, root, self.name) if root and self.is_whole_run else None
        forms, deselected = self.forms(store), self._deselected
        if self.is_told:
            receiver = self.tap.intake.receivers[self.name]
            return Plan(receiver.bookmark, receiver.store, self._told_waves(receiver), forms, deselected)
        full = self.replication_method == "FULL_TABLE"
        start, segments = plan_of(self.tap, self.settings, store, target_bytes, full_table=full, dress=forms.dress)
        return Plan(start, store, self._waves(segments, store, forms, start.segment), forms, deselected)

    def _told_waves(self, receiver: Receiver) -> Waves:
        """What the queue tells of; then what of it has changed since."""
        self._retold = Retold(receiver, self.tap.storage)
        yield from self.tap.intake.waves(self.name)
        while receiver.is_waiting:
            yield receiver.segments()

    def _waves(self, segments: Iterator[Segment], store: SegmentStore | None, forms: Forms, first: int) -> Waves:
        """The segments; then, as long as objects have changed before they were read, those of what is new since."""
        last: Segment | None = None

        def noted(segments: Iterator[Segment]) -> Iterator[Segment]:
            nonlocal last
            for segment in segments:
                last = segment
                yield segment

        yield noted(segments)
        unread: set[Version] = set()
        for tries in range(MOST_TRIES + 1):
            objects = self.progress.take_changed()
            if last is None or not objects:
                return
            unread.update(map(version_of, objects))
            changed = Changed(objects, unread, store, first, last)
            yield noted(plan_again(self.tap, self.settings, changed, forms.dress, is_last=tries == MOST_TRIES))


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does for a stream: where it begins, where its plan is kept, its segments, and the forms of their rows.

    `deselected` are the columns of the catalog that are not wanted, and the members of objects, by their paths.
    """

    bookmark: Bookmark
    store: SegmentStore | None
    waves: Waves
    forms: Forms
    deselected: frozenset[str]

    def form_of(self, todo: Todo) -> Form:
        """The form of the rows that are still to be sent of a task, up to where it changes."""
        return self.forms.at(todo.segment, todo.number, todo.start.rows)

    def record(self, todo: Todo) -> PartsRecord | None:
        """Which batch files of a task are made already, if plans are kept."""
        if self.store is None:
            return None
        return self.store.parts(todo.segment.number, todo.number, is_new=self.forms.is_new(todo.segment))


def _encoded(encode: Encode[Encoded], batch: pa.RecordBatch) -> Generator[Encoded, None, tuple[int, DataError | None]]:
    """What is made of a batch; returns of how many rows, and the error that ended it."""
    from singer_arrow.singer.records import rows_in

    rows = 0
    try:
        for item in encode(batch):
            yield item
            rows += rows_in(item)
    except DataError as error:
        return rows, error
    return rows, None


def _within_piece(piece: Piece, sent: int, start: Position) -> Position:
    """Where a task goes on after the first rows of a piece were sent, which began at `start`."""
    if piece.batch is None or not sent:
        return start
    return Position(piece.after.object, piece.after.rows - piece.batch.num_rows + sent, None)


Stage = tuple[Job, int | None]
"""How rows of a task are read, and the row before which that ends; None: the task's end."""
