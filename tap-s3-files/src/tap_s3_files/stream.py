"""A stream of files: what is new since its STATE becomes batches or records."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from singer_arrow.batch.message import Batch
from singer_arrow.errors import ConfigError, DataError, DriftError, ObjectChangedError
from singer_arrow.read_options import RESCUED
from singer_arrow.run_figures import StreamFigures
from singer_arrow.runtime.threads import ordered_streams
from singer_arrow.schema.arrow_schema import parse_type
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.sdk.tap import ArrowStream, ArrowTap, Encode, Encoded
from tap_s3_files.discover import METADATA, SchemaEvolution, excluded, set_columns
from tap_s3_files.lake.table import DELETED
from tap_s3_files.plan import StreamPlan
from tap_s3_files.plan_log import PlanLog
from tap_s3_files.plan_model import PendingTask, Position, Segment, after_rows, after_task
from tap_s3_files.progress import Counts, Progress
from tap_s3_files.read import NEW_VERSION, BadRows, read
from tap_s3_files.run import StreamJob, TapRun, TaskContext
from tap_s3_files.settings import TARGET_BYTES, Bookmark, StreamSettings, rows_identity

if TYPE_CHECKING:
    from tap_s3_files.convert import Step
    from tap_s3_files.sqs import SqsEvents


logger = logging.getLogger("tap-s3-files")
_MODIFIED = "_sdc_source_modified_at"


class FileStream(ArrowStream):
    """One entry of the setting `streams`."""

    maps_columns = True

    def __init__(
        self,
        tap: ArrowTap,
        run: TapRun,
        settings: StreamSettings,
        schema: Mapping[str, Any],
        *,
        events: Callable[[], SqsEvents],
    ) -> None:
        """Make the stream; `events` returns the reader of the queue of new objects, where the settings have a queue."""
        self.settings = settings
        self.run = run
        self._events = events
        self._has_catalog = tap.input_catalog is not None
        super().__init__(tap, schema=tap.interned(dict(schema)), name=settings.name)
        self.shard = str(run.settings.shard) if run.settings.shard else None
        self.load_method = settings.load_method
        self.primary_keys = list(settings.key_properties)
        self.forced_replication_method = "INCREMENTAL"
        self._run_id = secrets.token_hex(8)
        self.replication_key = (
            _MODIFIED if _MODIFIED in schema["properties"] and self.run.settings.metadata_columns else None
        )
        self.progress = Progress(settings.name)
        self._is_held = False
        self._waits_for_end = False
        """Nothing but this run knows of objects that have changed, which it reads at its end."""

    @property
    def replication_method(self) -> str:
        """The setting of the stream, else what the catalog has, else INCREMENTAL."""
        method: str = self.settings.replication_method or super().replication_method
        return method

    @property
    def is_sent_whole(self) -> bool:
        return self.replication_method == "FULL_TABLE" or self.run.bookmark(self.name) is None

    def batch_encoding(self) -> tuple[str, str, str] | None:
        batch = self.run.settings.batch
        return (batch.format, batch.compression, str(batch.root)) if batch else None

    def batches(self) -> Generator[Batch | Mapping[str, Any]]:
        """Yield the batches of each task, then the STATE after it, in the order of the plan."""
        batch = self.run.settings.batch
        assert batch is not None
        if self.is_mapped_away:
            return
        plan = self._start(batch.target_bytes)
        at = plan.bookmark
        with self.progress.logged(self.log):
            for segments in self._portions(plan):
                # Closed at once when something fails: an error's traceback would keep its tasks going.
                with closing(self._steps(self._pending_tasks(plan, segments))) as steps:
                    for pending, step in steps:
                        if step is None:
                            self.progress.task_done(pending.task.ended_objects, pending.task.bytes)
                            if self._replan_and_may_pass(plan, pending):
                                at = after_task(at, pending, durable=plan.log is not None)
                                if pending.task.objects and not self._waits_for_end:
                                    yield self._state(at)
                            continue
                        self.send_schema(self._evolution.schema)
                        self.progress.add(step.counts)
                        if step.batch is not None:
                            log_id = plan.log_id(pending.segment, pending.number, pending.start.rows)
                            yield replace(step.batch, plan_log=log_id)
                            at = replace(at, batch=step.batch.batch_id or "") if step.batch.row_count != 0 else at
                        if step.after is not None and plan.log is not None and self._replan_and_may_pass(plan, pending):
                            at = after_rows(at, pending, step.after.rows)
                            yield self._state(at)
            yield self._state(at if self._is_held else plan.end(at))

    def _steps(self, pending_tasks: Iterator[PendingTask]) -> Generator[tuple[PendingTask, Step | None]]:
        """Yield the steps of tasks that run in parallel, in the order of the plan; None ends a task.

        Where a file needs a wider schema, the tasks that are begun are begun again with it, behind their last steps.
        """
        from tap_s3_files.convert import convert_task

        settings, begun = self.run.settings, deque[PendingTask]()

        def begin(pending_tasks: Iterable[PendingTask]) -> Iterator[PendingTask]:
            for pending in pending_tasks:
                begun.append(pending)
                yield pending

        def convert(context: TaskContext, pending: PendingTask, stop: threading.Event) -> Iterator[Step]:
            return convert_task(replace(context, stop=stop), pending)

        while True:
            context, problem = self.task_context(), None
            if settings.dask is None:
                tasks = (partial(convert, context, pending) for pending in begin(pending_tasks))
                running = ordered_streams(self.run.pool, tasks, 2 * settings.max_workers)
            else:
                from tap_s3_files.dask_cluster import remote_steps

                running = remote_steps(settings, context, begin(pending_tasks))
            with closing(running):
                for steps in running:
                    try:
                        for step in steps:
                            yield begun[0], step
                            if step.after is not None:
                                begun[0] = replace(begun[0], start=step.after)  # after drift it continues here
                    except DataError as error:
                        problem = error
                        break
                    yield begun.popleft(), None
            if problem is None:
                return
            self._evolution.evolve_for(problem)
            pending_tasks = chain(tuple(begun), pending_tasks)
            begun.clear()

    def rows(self, encode: Encode[Encoded]) -> Generator[Encoded]:
        """Yield the encoded rows; STATE is written after the rows of each task."""
        if self.is_mapped_away:
            return
        if self.batch_encoding() and (setting := self.records_needed_by()) and self.is_whole_run:
            advice = "; 'columns' of the stream renames, leaves out and sets columns in batches" * (
                setting == "stream_maps"
            )
            self.log(f"RECORD messages are sent although batch_config is set: {setting} changes single records{advice}")
        if self.run.settings.dask is not None and self.is_whole_run:
            setting = self.records_needed_by()
            msg = f"Stream {self.name!r}: executor dask sends BATCH messages only, and {setting} changes single records"
            raise ConfigError(msg)
        plan = self._start(TARGET_BYTES)
        plan.as_records = True
        at = plan.bookmark
        with self.progress.logged(self.log):
            for pending in self._pending_tasks(plan, chain.from_iterable(self._portions(plan))):
                yield from self._records(pending, encode)
                self.progress.task_done(pending.task.ended_objects, pending.task.bytes)
                if self._replan_and_may_pass(plan, pending):
                    at = replace(after_task(at, pending, durable=plan.log is not None), batch="")  # none is before it
                    if not self._waits_for_end:
                        self.write_state(self._state(at))
            self.write_state(self._state(at if self._is_held else plan.end(at)))

    def _records(self, pending: PendingTask, encode: Encode[Encoded]) -> Iterator[Encoded]:
        """Yield the encoded rows of a task; with a wider schema those behind the last row that fitted."""
        from singer_arrow.records.validation import rows_in
        from tap_s3_files.convert import batch_of_bad_rows

        task, at, bad = pending.task, pending.start, BadRows(self.settings.max_bad_rows)

        def send_bad_rows() -> None:
            if rows := bad.take():
                self.write_rejected(batch_of_bad_rows(self.job(), task, at.object, rows))

        while True:
            self.send_schema(self._evolution.schema)
            try:
                with closing(read(self.task_context(), task, at, starts=pending.starts)) as pieces:
                    for piece in pieces:
                        if piece.batch is not None:
                            sent = 0
                            try:
                                for encoded in encode(piece.batch):
                                    yield encoded
                                    sent += rows_in(encoded)
                            except DataError as error:
                                self.progress.add(Counts(rows_read=sent, rows_written=sent))
                                if sent:
                                    rows = piece.after.rows - piece.batch.num_rows + sent
                                    at = Position(piece.after.object, rows, None)
                                url = task.objects[piece.after.object].url
                                raise error if error.url is not None else error.at(url) from None
                            self.progress.add(Counts(rows_written=sent))
                        self.progress.add(piece.counts)
                        bad.add(piece.rejected)
                        if piece.after.object > at.object:
                            send_bad_rows()
                        at = piece.after
            except ObjectChangedError as error:
                send_bad_rows()
                reason = f"{error}; the rest of its old version is left out; {NEW_VERSION}"
                self.progress.skip(task.objects[at.object], reason)
                at = Position(at.object + 1)
            except DataError as error:
                self._evolution.evolve_for(error)  # which raises it again unless it is drift
            else:
                return

    def _replan_and_may_pass(self, plan: StreamPlan, pending: PendingTask) -> bool:
        """Plan new versions of objects that changed; return whether STATE may pass a task: no earlier one waits."""
        planned = pending.segment.tasks[pending.number].objects
        # by the window, or the path
        is_left = not (pending.task.objects or pending.is_sent_later) and pending.passes and plan.shard is None
        left = planned if is_left else [o for o in planned if o in self.progress.skipped_objects]
        if left and plan.log is not None:
            plan.log.leave_out(pending.segment, pending.number, left)
        if self.progress.has_changed and plan.log is not None:
            plan.replan(self.run.storage, self.progress.take_changed())
        self._waits_for_end = self._waits_for_end or self.progress.has_changed
        self._is_held = self._is_held or not pending.passes
        return not self._is_held

    def figures(self) -> StreamFigures:
        batch = self.run.settings.batch
        return self.progress.figures(outputs=(str(batch.root),) if batch and self.sends_batches else ())

    def totals(self) -> Mapping[str, Any]:
        return asdict(self.progress.counts)

    def task_context(self) -> TaskContext:
        """Return what the stream's tasks are run with in this process, with its schema as it is now."""
        return TaskContext(self.job(), self.run.storage, self.run.budget, self.progress)

    def job(self) -> StreamJob:
        """Return how the stream's objects are read, with its schema as it is now."""
        settings, schema = self.settings, from_json_schema(self._evolution.schema)
        columns = settings.mapped
        columns.check(schema, self.name)
        source = columns.source(schema)
        deselected = frozenset(columns.sources_of(self._deselected, self.schema["properties"], source.names))
        batch = self.run.settings.batch
        made = self.columns_made(schema.names) if self.sends_batches else None
        if made is None and self.sends_batches and (known := self.columns_made()):
            name = next(name for name, column in known.items() if name != column and name in schema.names)
            msg = f"Stream {self.name!r}: stream_maps makes a column {name!r}, and now a file has one"
            raise ConfigError(f"{msg}; give it a name that no file has")
        passes = batch and self.run.settings.passthrough and batch.can_pass
        options = replace(
            settings.read,
            on_drift="rescue" if settings.on_drift == "rescue" else "raise",
            known_columns=None if settings.chosen is not None or settings.is_table else deselected | columns.sources,
            excluded_members=deselected,
            declared_columns=set_columns(source, {**settings.types, **columns.types}),
            json_output=not self.sends_batches or (batch is not None and batch.format == "jsonl"),
        )
        return StreamJob(
            stream=self.name,
            schema=schema,
            metadata_columns=self.run.settings.metadata_columns and not set(METADATA.names).isdisjoint(source.names),
            format="parquet" if settings.is_table else settings.format,
            options=options,
            batch=batch,
            version=self.version,
            partitions=settings.partitions,
            passthrough=batch.format if batch and passes else "",
            archived=settings.archived,
            settings=self._rows_identity,
            run=self._run_id if self.replication_method == "FULL_TABLE" else "",
            max_bad_rows=settings.max_bad_rows,
            shows_rows=not (settings.columns or self._deselected or self.records_needed_by() or made),
            held_bytes=self.run.settings.held_bytes,
            columns=columns,
            made=made,
            table=self.run.table(settings).columns if settings.is_table else None,
            rows_left=self.run.table(settings).rows_left if settings.is_table else None,
        )

    @property
    def reads_queue(self) -> bool:
        """Whether the stream's objects come from the queue in this run."""
        whole = self.is_whole_run and self.replication_method != "FULL_TABLE"
        return whole and self.run.settings.sqs is not None and self.selected and not self.is_mapped_away

    @cached_property
    def _deselected(self) -> frozenset[str]:
        return frozenset(excluded(self.schema, self.selected_schema))

    @cached_property
    def _rows_identity(self) -> str:
        names, made = self.selected_schema["properties"], self.columns_made() if self.sends_batches else None
        maps = [*({*names} - {*made}), *(f"{n} = {c!r}" for n, c in made.items() if n != c)] if made else ()
        left_out = [*self._deselected, *maps]
        return rows_identity(self.settings, left_out, metadata_columns=self.run.settings.metadata_columns)

    @cached_property
    def _evolution(self) -> SchemaEvolution:
        settings = self.settings
        own = [
            *(METADATA.names if self.run.settings.metadata_columns else ()),
            *([RESCUED] if settings.rescues else []),
            *([DELETED.name] if settings.table.change_feed else []),
        ]
        types = [parse_type(column, text) for column, text in {**settings.types, **settings.mapped.types}.items()]
        return SchemaEvolution(
            self.selected_schema,
            is_fixed=settings.on_drift != "evolve",
            keys=settings.key_properties,
            types={made.name: made for declared in types for made in settings.mapped.made_of(declared)},
            own=own,
            columns=settings.mapped,
        )

    def plan_log(self) -> PlanLog | None:
        """Return the stream's plan log, if plans are kept."""
        root = self.run.settings.plan_root
        return PlanLog(self.run.storage, root, self.name) if root and self.is_whole_run else None

    def plan(self, log: PlanLog | None, target_bytes: int, *, is_shared: bool = False) -> StreamPlan:
        """Return the stream's plan in this run; `is_shared`: it is only written, for several runs to share."""
        if self.settings.after_load is not None and self.replication_method == "FULL_TABLE":
            reason = "the catalog has FULL_TABLE, and a run would send what is still there alone"
            raise ConfigError(f"Stream {self.name!r}: setting 'after_load': {reason}; use INCREMENTAL")
        return self.run.plan(
            self.settings,
            log,
            target_bytes,
            rows_identity=self._rows_identity,
            full_table=self.replication_method == "FULL_TABLE",
            is_shared=is_shared,
            sends=self.is_whole_run and not is_shared,
        )

    def write_plan(self, target_bytes: int) -> int:
        """Append what is new to the plan log, and return the number of new segments; nothing is sent."""
        from tap_s3_files.read import find_ranges

        plan, count = self.plan(self.plan_log(), target_bytes, is_shared=True), 0
        if plan.log is None:
            msg = f"Stream {self.name!r}: --write-plan needs 'plan_root' or 'batch_config', and no FULL_TABLE"
            raise ConfigError(msg)
        for segment in self.run.listed_segments(self.settings, plan):
            count += segment.number >= plan.first_new
            if segment.number >= plan.first_new - 1:  # a run may have ended before it found the ranges of the last one
                find_ranges(self.task_context(), plan.log, segment.tasks)
        return count

    def _state(self, at: Bookmark) -> dict[str, Any]:
        return {**at.to_state(), "shard": self.shard or ""}

    def _start(self, target_bytes: int) -> StreamPlan:
        if self.settings.rescues and RESCUED not in self.selected_schema["properties"]:
            raise ConfigError(
                f"Stream {self.name!r}: on_bad_row or on_drift is rescue, and the catalog selects no column "
                f"{RESCUED!r}; select it, or write the catalog anew with --discover"
            )
        if self.settings.table.change_feed and DELETED.name not in self.selected_schema["properties"]:
            msg = (
                f"Stream {self.name!r}: setting 'change_feed' needs the column {DELETED.name}, which the catalog lacks"
            )
            raise ConfigError(f"{msg}; select it, or write the catalog anew with --discover")
        shard, setting = self.run.settings.shard, self.records_needed_by()
        if shard is not None and self.is_whole_run:  # shards load in any order, and must fill a table as one run does
            reason = ""
            if not self._has_catalog and shard.count > 1:
                reason = "needs --catalog, so that all shards have one schema; write it with --discover"
            elif self.replication_method == "FULL_TABLE":
                reason = "is not for FULL_TABLE: each shard would replace the table; use INCREMENTAL"
            elif self.primary_keys:
                order = "shards do not keep the order of the rows of a key"
                reason = f"is not for key properties: {order}; leave one of them out"
            elif setting:
                reason = f"needs BATCH messages, and {setting} changes single records; leave one of them out"
            if reason:
                raise ConfigError(f"Stream {self.name!r}: setting 'shard' {reason}")
        if self.settings.is_table:
            self._evolve_for_table()
        return self._events().plans[self.name] if self.reads_queue else self.plan(self.plan_log(), target_bytes)

    def _evolve_for_table(self) -> None:
        """Add columns that a table has got since the catalog was written."""
        from singer_arrow.enforcement.enforce import columns_to_read, included_field, type_name, widened_field

        table, settings = self.run.table(self.settings), self.settings
        while settings.chosen is None:
            job = self.job()
            source = settings.mapped.source(job.schema)
            options = replace(job.options, known_columns=job.options.excluded_members | settings.mapped.sources)
            try:
                names = columns_to_read(table.schema, source, options, table.url)
                ours = [source.field(name) for name in names if name not in options.declared_columns]
                found = [widened_field(f, included_field(table.schema.field(f.name), source, options)) for f in ours]
                if not (wider := [field for field in found if field is not None]):
                    return
                reason = f"the table has it as {type_name(table.schema.field(wider[0].name))}"
                raise DriftError(reason, wider, url=table.url, column=wider[0].name)
            except DriftError as error:
                self._evolution.evolve_for(error)  # which raises it again if that does not help

    def _pending_tasks(self, plan: StreamPlan, segments: Iterable[Segment]) -> Iterator[PendingTask]:
        """Yield the tasks that are still to be sent; those of a segment are counted as planned at its begin."""
        for segment in segments:
            pending = list(plan.pending_tasks(segment))
            self.progress.plan(sum(len(p.task.ended_objects) for p in pending), sum(p.task.bytes for p in pending))
            yield from pending

    def _portions(self, plan: StreamPlan) -> Iterator[Iterator[Segment]]:
        """Yield the segments in portions, the next of which may have to be waited for.

        At the end come those of objects that have changed during the run.
        """
        if self.reads_queue:
            yield from self._events().waves(self.name)
        else:
            segments = self.run.listed_segments(self.settings, plan, self.progress.expect)
            yield self.progress.timed("plan", segments)
        self.complete_until = plan.complete_until if self.run.settings.replication.manifest is None else None
        while self.progress.has_changed or plan.has_queued:
            if self.progress.has_changed:
                plan.replan(self.run.storage, self.progress.take_changed())
            yield plan.queued_segments()
