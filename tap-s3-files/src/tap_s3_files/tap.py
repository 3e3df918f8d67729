"""The tap: command line, discovery, the streams of a run, the preview."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import click

from singer_arrow.batch.message import ContinuedLog, place_in_log
from singer_arrow.errors import ConfigError, DataError, IdentityError, NotFoundError, SingerArrowError, with_code
from singer_arrow.load.stream_ends import ONLY
from singer_arrow.naming import counted, folder_name
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.sdk.settings import add_setting_options, config_input
from singer_arrow.sdk.tap import ArrowTap
from singer_arrow.settings import json_schema, without_defaults
from singer_arrow.storage.places import is_within
from singer_arrow.storage.urls import Url, glob_match, glob_prefix, has_glob
from tap_s3_files.after_load import clean_up, marks_in
from tap_s3_files.discover import catalog_schema, inferred_schemas, source_schema
from tap_s3_files.folders import found_streams, same_name
from tap_s3_files.paths import ObjectFilter, fill_placeholders, placeholders
from tap_s3_files.plan import PlannedPaths, start_of
from tap_s3_files.plan_log import PlanLog
from tap_s3_files.plan_model import Segment, in_window, place_in_order, unsent
from tap_s3_files.run import TapRun
from tap_s3_files.settings import Bookmark, Settings, StreamSettings, Watermark
from tap_s3_files.sqs import Queue, SqsEvents
from tap_s3_files.stream import FileStream

if TYPE_CHECKING:
    from tap_s3_files.tables import Row, ShardShares


# Paths and the place of batch files, given on the command line instead of in settings. Pure.

_BATCH_HELP = (
    "URL below which batch files are written (Parquet); without it, and without batch_config, rows are records."
)
OTHER_COMMANDS = """\b
Other commands, with a --help of their own:
  tap-s3-files init URL...          Write a commented configuration for a bucket.
  tap-s3-files setup-queue PATH...  Make an SQS queue for the events of a bucket.
"""
"""What `--help` ends with."""
PREVIEWED_FOLDERS = 3
"""Streams that `--preview` shows of those that are found in folders by one pattern."""


class _RowCount(click.ParamType[int]):
    """A number of rows; a path in its place has an error of its own."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if str(value).isdecimal() and int(value):
            return int(value)
        msg = f"{value!r} is not a number of rows; put paths before --preview, or write --preview 10"
        raise click.BadParameter(msg, ctx, param)


def merge_paths(config: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Write `paths`, in place of `streams`, and `batch_root`, the place alone of `batch_config`, into settings."""
    if paths := given.get("paths"):
        config["streams"] = [{"name": stream_name(path), "path": path} for path in paths]
    if root := given.get("batch_root"):
        batches = config.get("batch_config") or {"encoding": {"format": "parquet"}}
        config["batch_config"] = {**batches, "storage": {**(batches.get("storage") or {}), "root": root}}


def stream_name(path: str) -> str:
    """Return the name of the stream that a path alone makes.

    It is the last part of the path that is a plain name: of `s3://shop/orders/**/*.csv` it is `orders`, of
    `s3://shop/orders.csv.gz` too, of `s3://shop/logs/orders-*.csv` too. Folders like `day=1` are no names. If there is
    none, it is the name of the bucket.
    """
    url = Url.parse(path)
    *folders, last = url.key.split("/")
    candidates = [url.bucket, *folders, re.split(r"[*?\[{]", last)[0].split(".")[0]]
    wild = next((n for n, part in enumerate(candidates) if has_glob(part)), len(candidates))
    before = re.split(r"[*?\[{]", candidates[wild])[0] if wild < len(candidates) else ""
    plain = [re.sub(r"\W+", "_", part).strip("_") for part in [*candidates[:wild], before] if "=" not in part]
    return next((name for name in reversed(plain) if re.search(r"[^\W\d_]", name)), "files")


# The tap.


def tap_schema() -> dict[str, Any]:
    """Return the JSON Schema of the settings."""
    schema, entry = json_schema(Settings), json_schema(StreamSettings)
    del entry["properties"]["name"], entry["properties"]["path"], entry["required"]
    schema["properties"]["defaults"] |= without_defaults(entry)
    return schema


class TapS3Files(ArrowTap):
    """Reads files from S3 (or another object store, or local disk) as Arrow and sends them as BATCH files."""

    name = "tap-s3-files"
    package_name = "singer-arrow-tap-s3-files"
    config_jsonschema: ClassVar[dict[str, Any]] = tap_schema()
    settings: Settings
    _most_folders: int | None = None  # streams of one pattern; None: all
    _clean_up_errors: Sequence[SingerArrowError] = ()

    def complete_settings(self, config: dict[str, Any]) -> None:
        Settings.complete(config)

    def check_settings(self) -> None:
        self.settings = Settings.from_config(self.config)
        if self.settings.sqs and (found := next((s.name for s in self.settings.streams if placeholders(s.name)), None)):
            msg = f"Setting 'replication.method' is sqs, and the folders of {found!r} are found by listing; use polling"
            raise ConfigError(msg)
        self._check_after_load()
        settings = self.settings
        given = "start_date" if settings.start else "end_date" if settings.end else ""
        given = given or ("replication.method" if settings.replication.method != "polling" else "")
        if given and (table := next((s.name for s in settings.streams if s.is_table), None)):
            msg = f"Stream {table!r} is a table, whose own log is read: setting '{given}' is not for it"
            raise ConfigError(f"{msg}; leave it out, or use a tap of its own")

    def _check_after_load(self) -> None:
        """Refuse what would lose rows, and what no request can restrict to the version that was loaded."""
        streams = self.settings.streams
        for stream, given in ((s, s.after_load) for s in streams if s.after_load is not None):
            problem, move = "", given.move
            elsewhere = next((p for p in (*stream.paths, *([move] if move else [])) if p.scheme != "s3"), None)
            if given.delete + bool(move) + bool(given.tag) != 1:
                problem = "needs one of delete: true, move: URL and tag: {NAME: VALUE}"
            elif self.settings.plan_root is None:
                problem = "needs 'batch_config' or 'plan_root', for the log of the versions that are read"
            elif stream.replication_method == "FULL_TABLE" or stream.load_method == "overwrite":
                problem = "is not for FULL_TABLE or overwrite: a run would replace the table by what is still there"
            elif self.settings.shard:
                problem = "is not for shards: the STATE of one passes what others load"
            elif placeholders(stream.name) and len(stream.paths) > 1:
                problem = "is for one 'path' where folders are streams: an object could be of two of them"
            elif elsewhere:
                problem = f"is for S3, where a request can be for one version of an object; {elsewhere} is elsewhere"
            elif given.delete and stream.read.on_bad_row == "skip":
                problem = "would delete rows that on_bad_row: skip leaves out; use dead_letter, or move the objects"
            elif move:
                folder = f"{move.key.rstrip('/')}/".lstrip("/")
                paths = ((p, glob_prefix(p.key)) for s in streams for p in s.paths if p.bucket == move.bucket)
                found = next((p for p, begin in paths if begin.startswith(folder) or folder.startswith(begin)), None)
                root = self.settings.plan_root.join("_plans")
                if found is not None:
                    problem = f"moves objects to {move}, where {found} may find them; use another bucket or folder"
                elif is_within(move, [root]) or is_within(root, [move]):  # a key decides where below it an object goes
                    problem = f"moves objects to {move}, where the plan log is, {root}; use another bucket or folder"
            if problem:
                raise ConfigError(f"Stream {stream.name!r}: setting 'after_load' {problem}")

    @classmethod
    def read_config(cls, sources: Sequence[str]) -> Mapping[str, Any]:
        """Return the settings of configuration files, or of the environment for `ENV`."""
        given: Mapping[str, Any] = config_input(cls, sources).config
        return given

    @classmethod
    def get_singer_command(cls) -> click.Command:
        """Return the SDK's command with paths, `--batch-root`, `--plan` and `--preview`."""
        command = super().get_singer_command()
        paths = [
            click.Argument(["paths"], nargs=-1, required=False, metavar="[PATH]..."),
            click.Option(["--batch-root", "batch_root"], help=_BATCH_HELP, metavar="URL"),
        ]
        add_setting_options(command, paths, merge_paths)
        # What shows something, or writes the plan, instead of running
        plan = "Show what a run would read: objects, bytes, tasks, batch files, formats and times. Reads no data."
        write = "List objects and append them to the plan log; send nothing."
        anew = (
            "Begin a new plan log on purpose: where the given --state ends, for runs that have it; without one at the "
            "beginning, to read all objects again into an empty table. Sends nothing."
        )
        after = "Do nothing but what after_load asks for with the objects that --state has passed: they are loaded."
        dry = "With --after-load: show what it would do."
        wait = "Do nothing but wait until the queue of replication.method sqs has a message, at most so many seconds."
        shards = "With --plan: show also what each of N shards would read; see the setting shard."
        targets = "With --plan: show also what loading needs, bigquery or redshift; repeatable."
        preview = (
            "Show the types and the first rows of each stream, 10 unless N is given. Writes no STATE and no files."
        )
        command.params += [
            click.Option(["--plan"], is_flag=True, help=plan),
            click.Option(["--write-plan"], is_flag=True, help=write),
            click.Option(["--new-plan-log"], is_flag=True, help=anew),
            click.Option(["--after-load"], is_flag=True, help=after),
            click.Option(["--dry-run"], is_flag=True, help=dry),
            click.Option(["--wait"], type=click.IntRange(min=1), help=wait, metavar="SECONDS"),
            click.Option(["--shard-count"], type=click.IntRange(min=1), help=shards, metavar="N"),
            click.Option(
                ["--target", "targets"], type=click.Choice(("bigquery", "redshift")), multiple=True, help=targets
            ),
            click.Option(["--preview"], type=_RowCount(), is_flag=False, flag_value="10", help=preview, metavar="[N]"),
        ]
        command.epilog = OTHER_COMMANDS
        return command

    @classmethod
    def invoke(
        cls,
        *,
        plan: bool = False,
        write_plan: bool = False,
        new_plan_log: bool = False,
        after_load: bool = False,
        dry_run: bool = False,
        wait: int | None = None,
        targets: Sequence[str] = (),
        shard_count: int | None = None,
        preview: int | None = None,
        **options: Any,
    ) -> None:
        if dry_run and not after_load:
            raise click.UsageError("--dry-run is for --after-load; --plan shows what a run would read")
        shows = plan or targets or shard_count or preview is not None
        is_other = shows or write_plan or new_plan_log or after_load or wait
        if options.get("about") or not is_other:
            super().invoke(**options)
            return
        tap = cls.from_options(**options)
        if after_load:
            if not options.get("state"):
                raise ConfigError("--after-load needs --state: what it has passed is loaded, and nothing else")
            tap.prepare(click.echo if dry_run else None, sends=False)
            tap.raise_failures()
            return
        if wait:
            if not tap.settings.sqs:
                raise ConfigError("--wait is for replication.method sqs")
            tap.queue.wait(wait)
            return
        if write_plan or new_plan_log:
            tap.begin_plan_logs(has_state=bool(options.get("state"))) if new_plan_log else tap.write_plan()
            return
        for line in tap.preview_lines(preview) if preview is not None else tap.plan_lines(targets, shard_count):
            click.echo(line)

    def start_state(self, stream: str) -> Mapping[str, Any]:
        if placeholders(stream):  # of which no folder was found
            return {}
        shard = self.settings.shard
        return {**Bookmark().to_state(), "shard": str(shard) if shard else ""}

    def write_plan(self) -> None:
        """List objects, and append those that are new to the plan logs."""
        if self.settings.sqs or self.settings.shard:
            raise ConfigError("--write-plan lists objects: it is for polling and inventory, without setting 'shard'")
        self.setup_mapper()
        for stream in self.streams.values():
            if isinstance(stream, FileStream) and stream.selected:
                count = stream.write_plan(self.settings.target_bytes)
                self.logger.info("Stream %r: %d segments are new in its plan", stream.name, count)

    def prepare(self, show: Callable[[str], None] | None = None, *, sends: bool = True) -> None:
        """Do what `after_load` asks for with the objects that the given STATE has passed, or show it.

        IdentityError: objects are gone that a run with the STATE `sends`. Other errors are raised later.
        """
        streams, errors = [s for s in self.shared.settings.streams if s.after_load], list[SingerArrowError]()
        selected = {s.name for s in self.streams.values() if s.selected} if streams and self.input_catalog else None
        if sends:
            self._check_folders()
        for stream in (s for s in streams if selected is None or s.name in selected):
            at, root, given = self.shared.bookmark(stream.name), self.settings.plan_root, stream.after_load
            assert root is not None
            assert given is not None
            log = PlanLog(self.shared.storage, root, stream.name, read_only=True)
            end = start_of(log, at, stream.name, sends=sends).segment
            if at is None or os.environ.get(ONLY):  # such a run does not know what other streams read
                continue
            try:
                others = [
                    ObjectFilter(s.name, tuple(p._replace(key=fill_placeholders(p.key, {})) for p in s.paths))
                    for s in self.settings.streams
                    if s.name not in (stream.name, stream.pattern) and not given.tag
                ]
                clean_up(
                    self.shared.storage,
                    given,
                    stream=stream.name,
                    state=self.given_state(stream.name),
                    end=end,
                    folder=log.url,
                    marks=log.marks,
                    objects=log.passed_objects,
                    others=others,
                    show=show,
                )
            except SingerArrowError as error:
                errors.append(error)
        self._clean_up_errors = errors

    def _check_folders(self) -> None:
        """Raise IdentityError if `after_load` has emptied a folder that was a stream, and the STATE lacks that."""
        storage, root, bookmarks = self.shared.storage, self.settings.plan_root, self._given_state.get("bookmarks", {})
        known = {folder_name(name) for name in (*bookmarks, *(s.name for s in self.shared.settings.streams))}
        for pattern in (s for s in self.settings.streams if placeholders(s.name)):
            if root is None or (
                bookmarks and pattern.after_load is None
            ):  # a run without STATE may have lost the setting
                continue
            glob, plans = fill_placeholders(pattern.name, {}), root.join("_plans")
            for folder in storage.folders(plans._replace(key=f"{plans.key}/")):
                if folder not in known and glob_match(glob, folder):
                    files = storage.list(plans.join(folder, "after-load-"))
                    if any(mark.gone for mark in marks_in(o.url.name for o in files)):
                        raise IdentityError(
                            f"Stream {pattern.name!r}: after_load has removed all objects of {folder!r}, which the "
                            "STATE does not have; a table would lack their rows. Give it the last STATE, which "
                            f"{plans.join(folder)} holds too, or another plan_root (docs/clean-up.md#sources)"
                        )

    def stream_names(self) -> set[str]:
        return super().stream_names() | self.shared.left_out

    def raise_failures(self) -> None:
        """Raise also what failed of `after_load`: last, as all rows are sent."""
        super().raise_failures()
        for error in self._clean_up_errors[1:]:
            self.logger.warning("%s", with_code(str(error), error.code))
        for error in self._clean_up_errors:
            raise error

    def begin_plan_logs(self, *, has_state: bool) -> None:
        """Begin a new plan log for each stream that the catalog selects, in place of the one it has.

        With a STATE the logs begin where it ends, and streams that it lacks are left as they are.
        """
        root = self.settings.plan_root
        if root is None:
            raise ConfigError("--new-plan-log needs 'plan_root' or 'batch_config'")
        selected = {s.name for s in self.streams.values() if s.selected} if self.input_catalog else None
        for stream in (s for s in self.shared.settings.streams if selected is None or s.name in selected):
            name, former = stream.name, None
            given = {key: value for key, value in self.given_state(name).items() if key != "shard"}
            at = Bookmark.from_state(given, name)
            if has_state and at is None:
                self.logger.info("Stream %r: the STATE does not have it; its plan log is left as it is", name)
                continue
            if at is None and self.settings.sqs:
                raise ConfigError(
                    f"Stream {name!r}: a queue announces new objects alone, so those that are there would be left out: "
                    "begin the log with replication.method polling, and let a run with it read them"
                )
            if at is not None:
                with suppress(DataError, IdentityError):
                    log = PlanLog(self.shared.storage, root, name, read_only=True)
                    begin = start_of(log, at, name, sends=False).segment
                    if log.next_number > begin:
                        msg = f"Stream {name!r}: its STATE has not passed segment {begin}; let a run send it first"
                        raise ConfigError(msg)
                    former = log
            if at is not None and at.is_begun:
                self.logger.warning(
                    "Stream %r: its STATE is within a segment that is gone. All objects of after %s are sent under new "
                    "ids, also those of the segment that were sent: with append-only, remove their rows first, and set "
                    "replay: load for one run",
                    name,
                    at.watermark.last_modified if at.watermark else "the beginning",
                )
            before = at.watermark if at is not None else None
            begin_anew = partial(
                PlanLog.begin_anew,
                self.shared.storage,
                root,
                name,
                before,
                given if at is not None else None,
                continues=ContinuedLog(at.log, at.batch, place_in_log(at.segment)) if at and at.log else None,
            )
            if before is None or stream.is_table:  # a table's own log says what was read
                url = begin_anew()
            else:
                url = self._begin_with_known(stream, before, former, begin_anew)
            where = f"after {before.last_modified}, for runs with this STATE" if before else "at the beginning"
            self.logger.info("Stream %r: a new plan log begins %s: %s", name, where, url)

    def _begin_with_known(
        self, stream: StreamSettings, before: Watermark, former: PlanLog | None, begin_anew: Callable[..., Url]
    ) -> Url:
        """Begin a log with the object versions that were read: those of the former log, else those that are there."""
        if former is not None and former.next_number > former.first_number:
            try:
                newest = former.read(former.next_number - 1)
                segments = former.segments(former.first_number, former.next_number)
                return begin_anew(known=(o for s in segments for t in s.tasks for o in t.ended_objects), like=newest)
            except (DataError, NotFoundError) as error:
                self.logger.warning("Stream %r: its former plan log cannot be read: %s", stream.name, error)
        unread = set[Url]()  # their events wait
        if self.settings.sqs:
            if held := self.queue.approximate_size(held=True):
                raise ConfigError(
                    f"Stream {stream.name!r}: its former plan log is not there, and a run has received about {held:,} "
                    f"messages of {self.queue.url}, whose objects may not be read; wait until it has ended, or until "
                    "visibility_timeout is over, or copy the former '_plans' to plan_root instead"
                )
            unread = self.queue.named()
        found, own = self.shared.listing(stream), self.shared.object_filter(stream)
        paths = PlannedPaths.of(own, is_inventory=self.settings.replication.manifest is not None)
        like = Segment(0, stream.name, 1, None, None, (), paths="" if self.settings.sqs else str(paths))
        known = (
            o
            for o in found.in_order(lambda o: in_window(o, *own.window) and o.url not in unread)
            if place_in_order(o) <= before
        )
        self.logger.warning(
            "Stream %r: its former plan log is not there. All objects that are there now and were last changed up to "
            "%s count as read%s",
            stream.name,
            before.last_modified,
            ", but those of events that wait in the queue" if self.settings.sqs else "",
        )
        return begin_anew(known=known, like=like)

    def plan_lines(self, targets: Sequence[str], shard_count: int | None = None) -> Iterator[str]:
        """Yield the lines that show what a run would read, what targets need to load it, and what shards would read."""
        from tap_s3_files import tables
        from tap_s3_files.tables import ShardShares, shard_lines

        if shard_count and self.settings.shard:
            raise ConfigError("--shard-count divides the whole plan: leave out setting 'shard'")
        shares = [ShardShares(s.name, shard_count) for s in self.shared.settings.streams] if shard_count else []
        rows = list(self._plan_rows(shares))
        yield from tables.plan_lines(rows)
        if any(row.columns is None for row in rows):
            self.logger.info("--plan reads no data: columns are known with --catalog; --preview reads samples")
        for target in targets:
            yield ""
            yield from tables.cost_lines(target, rows)
        if shares:
            yield ""
            yield from shard_lines(shares)

    def _plan_rows(self, shares: Sequence[ShardShares]) -> Iterator[Row]:
        """Yield what a run would read of each stream; its tasks are counted in the shares of the stream."""
        from tap_s3_files.tables import Row

        batch, root = self.settings.batch, self.settings.plan_root
        for number, stream in enumerate(self.shared.settings.streams):
            log = PlanLog(self.shared.storage, root, stream.name, read_only=True) if root else None
            full = stream.replication_method == "FULL_TABLE"
            plan = self.shared.plan(stream, log, self.settings.target_bytes, full_table=full, is_shared=bool(shares))
            segments = plan.unfinished_segments() if self.settings.sqs else self.shared.listed_segments(stream, plan)
            tasks = unsent(plan.bookmark, segments, plan.selects, plan.shard)
            tasks = shares[number].counted(tasks) if shares else tasks
            entry = self.input_catalog.get_stream(stream.name) if self.input_catalog else None
            columns = from_json_schema(entry.schema.to_dict()) if entry else None
            yield Row.of(stream.name, tasks, batches=batch is not None, file_format=stream.format, columns=columns)
        if self.settings.sqs:
            waiting = self.queue.approximate_size()
            self.logger.info("Besides, about %d messages wait in %s", waiting, self.queue.url)

    def preview_lines(self, count: int) -> Iterator[str]:
        """Yield the lines that show the first rows of each stream; no STATE is written, and no batch file."""
        from tap_s3_files.tables import preview_lines

        self._most_folders = PREVIEWED_FOLDERS
        self.setup_mapper()
        for number, stream in enumerate(self.streams.values()):
            assert isinstance(stream, FileStream)
            if number:
                yield ""
            yield from preview_lines(self.shared, stream.settings, stream.job(), count)

    @cached_property
    def shared(self) -> TapRun:
        """What the streams of this run share; a stream with placeholders is one for each folder that it finds."""
        run, streams = TapRun(self.settings, self.given_state), dict[str, StreamSettings]()
        bookmarks = self._given_state.get("bookmarks", {})
        for given in self.settings.streams:
            try:
                found = found_streams(run.storage, given) if placeholders(given.name) else [given]
                if not found and not bookmarks:
                    raise run.no_match(given)
            except SingerArrowError as error:
                self.fail_stream(given.name, error, is_only=len(self.settings.streams) == 1)
                continue
            shown = found[: self._most_folders]
            if placeholders(given.name):
                only = f", of which the first {len(shown)} are shown" if len(shown) < len(found) else ""
                self.logger.info("Stream %r: %s%s", given.name, counted(len(found), "folder"), only)
            for stream in shown:
                if (other := streams.setdefault(stream.name, stream)) is not stream:
                    raise same_name(other, stream)
        gone = sorted(bookmarks.keys() - streams.keys())
        if gone and self._most_folders is None and any(placeholders(s.name) for s in self.settings.streams):
            names = f"{', '.join(gone[:5])}{', ...' if len(gone) > 5 else ''}"
            self.logger.info("The STATE of %s without a folder is kept: %s", counted(len(gone), "stream"), names)
        run.settings = replace(self.settings, streams=tuple(streams.values()))
        return run

    @cached_property
    def queue(self) -> Queue:
        """The queue of S3 events."""
        sqs = self.settings.sqs
        assert sqs is not None
        return Queue(sqs.queue_url, self.settings.aws, visibility=sqs.visibility_timeout)

    @cached_property
    def sqs_events(self) -> SqsEvents:
        """The S3 events of all streams of this run that read the queue."""
        sqs, size = self.settings.sqs, self.settings.target_bytes
        assert sqs is not None
        streams = [s for s in self.streams.values() if isinstance(s, FileStream) and s.reads_queue]
        plans = {s.name: s.plan(s.plan_log(), size) for s in streams}
        others = [self.shared.object_filter(s) for s in self.shared.settings.streams if s.name not in plans]
        return SqsEvents(self.queue, plans, others, self.shared.storage, sqs)

    @property
    def catalog_dict(self) -> dict[str, Any]:
        """The catalog, with an entry for each pattern: its selection is that of folders which the catalog lacks."""
        catalog: dict[str, Any] = super().catalog_dict
        entries = {entry["tap_stream_id"]: entry for entry in catalog["streams"]}
        for pattern in dict.fromkeys(s.pattern for s in self.shared.settings.streams if s.pattern):
            some = [entries[s.name] for s in self.shared.settings.streams if s.pattern == pattern and s.name in entries]
            columns = {name: column for e in some for name, column in e["schema"]["properties"].items()}
            places = {tuple(m["breadcrumb"]): m for e in some for m in e["metadata"]}
            schema = {"type": "object", "properties": columns}
            more = {"schema": schema, "metadata": list(places.values()), "tap_stream_id": pattern, "stream": pattern}
            catalog["streams"] += [{**some[0], **more}] if some else []
        return catalog

    def setup_mapper(self) -> None:
        """Make the mapper, also for the folders that a given catalog lacks."""
        _ = self.streams  # which adds them to the catalog
        super().setup_mapper()

    def discover_streams(self) -> Sequence[FileStream]:
        """Return the streams of the settings; those of a given catalog have its schemas, and no object is read.

        Folders that it lacks are discovered, and selected as the entry of their pattern is.
        """
        catalog, streams = self.input_catalog, self.shared.settings.streams
        if catalog is None:
            return list(self._discovered(streams))
        patterns = {s.name: catalog.pop(s.name, None) for s in self.settings.streams if placeholders(s.name)}
        for name in catalog.keys() - {s.name for s in streams} if self._most_folders is None else ():
            where = "in the setting 'streams'" + (", or has no folder" if patterns else "")
            self.logger.warning("The catalog's stream %r is not %s; it is left out", name, where)
        known = {name: entry.schema.to_dict() for name, entry in catalog.items()}
        for s in (s for s in streams if s.name in known):
            s.mapped.check_catalog(known[s.name].get("properties", ()), s.name)
        nothing: Mapping[str, Any] = {"type": "object", "properties": {}}
        given = [self._stream(s, known.get(s.name, nothing)) for s in streams if s.name in known or not s.pattern]
        for pattern, entry in patterns.items():
            new = [s for s in streams if s.pattern == pattern and s.name not in known]
            is_selected = entry is None or entry.metadata.resolve_selection().get((), True)
            if new and (not is_selected or self.settings.shard):
                names = f"{', '.join(s.name for s in new[:5])}{', ...' if len(new) > 5 else ''}"
                why = "its entry is deselected" if not is_selected else "all shards need one catalog"
                text = "Stream %r: %s that the catalog lacks are left out, as %s: %s"
                self.logger.warning(text, pattern, counted(len(new), "folder"), why, names)
                continue
            for stream in self._discovered(new):
                self.add_to_catalog(stream, entry)
                given.append(stream)
        return given

    def _discovered(self, streams: Sequence[StreamSettings]) -> Iterator[FileStream]:
        """Yield streams with the schemas that are inferred from their objects."""
        fail = partial(self.fail_stream, is_only=len(self.shared.settings.streams) == 1)
        try:
            for s, inferred, partitions in inferred_schemas(self.shared, streams, fail):
                try:
                    source = source_schema(list(inferred.values()), s, partitions, sampled=list(inferred))
                    schema = catalog_schema(source, s, metadata_columns=self.settings.metadata_columns)
                except SingerArrowError as error:
                    fail(s.name, error)
                else:
                    yield self._stream(s, schema)
        except BaseException:
            self.shared.storage.cancelled.set()  # else the process would wait for samples that are asked for again
            raise

    def _stream(self, settings: StreamSettings, schema: Mapping[str, Any]) -> FileStream:
        return FileStream(self, self.shared, settings, schema, events=lambda: self.sqs_events)
