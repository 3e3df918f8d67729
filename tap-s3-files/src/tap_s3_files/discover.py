"""Samples of a stream and their types; the catalog, and columns that come later."""

from __future__ import annotations

import difflib
import json
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import (
    ArchivedError,
    ConfigError,
    DataError,
    DriftError,
    EmptyObjectError,
    ObjectChangedError,
    SchemaError,
    SingerArrowError,
    nearest,
    one_line,
)
from singer_arrow.formats import FORMATS
from singer_arrow.formats.base import NEARLY_TYPED, first_row
from singer_arrow.naming import counted
from singer_arrow.read_options import RESCUED
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.runtime.threads import ordered_results, repeat_every
from singer_arrow.schema.arrow_schema import is_json, json_field, merge_all, parse_type
from singer_arrow.schema.json_schema import ANNOTATION, from_json_schema, to_json_schema
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.columns import NO_COLUMNS, Columns
from tap_s3_files.lake.table import DELETED
from tap_s3_files.listing import Listing
from tap_s3_files.paths import find
from tap_s3_files.run import TapRun, format_of
from tap_s3_files.settings import StreamSettings

# The schema of a stream: inferred from some of its objects, with the types of the settings, changed by drift.

METADATA = pa.schema(
    [
        ("_sdc_source_bucket", pa.string()),
        ("_sdc_source_file", pa.string()),
        ("_sdc_source_lineno", pa.int64()),
        ("_sdc_source_modified_at", pa.timestamp("us", "UTC")),
        ("_sdc_source_etag", pa.string()),
    ]
)
"""The metadata columns: bucket, key, number of the row in its object from 1, time of the object's last change, ETag."""
MOST_COLUMNS = 10_000
"""As many as a table of BigQuery can have."""
_MOST_REASON = f"at most {MOST_COLUMNS:,} are read; keys that hold values? Choose some with the setting 'columns'"


def set_columns(schema: pa.Schema, types: Mapping[str, str]) -> frozenset[str]:
    """Return the columns of a schema that have the types of the setting `schema`.

    Others it may name too: a schema that a stream was planned with before they were set, or a catalog, has its own.
    """
    declared = (parse_type(column, text) for column, text in types.items() if column in schema.names)
    return frozenset(f.name for f in declared if f.equals(schema.field(f.name), check_metadata=True))


def sample_objects(
    listed: Listing, count: int, start: datetime | None = None, end: datetime | None = None
) -> list[ObjectInfo]:
    """Return the objects that a schema is inferred from: the newest and the oldest that hold a byte, within the window.

    If none lies within the window, all are looked at: the stream then has nothing to read, but a schema still.
    """
    newest = listed.newest(count, start, end)
    if not newest and (start or end):
        start = end = None
        newest = listed.newest(count, start, end)
    if len(newest) < count:
        return newest[::-1]
    oldest = listed.newest(count // 2, start, end, oldest=True)
    return [*oldest, *newest[: count - len(oldest)][::-1]]


def source_schema(
    inferred: Sequence[pa.Schema],
    stream: StreamSettings,
    partitions: Iterable[pa.Field] = (),
    *,
    sampled: Sequence[object] = (),
) -> pa.Schema:
    """Return the columns of a stream's files: those of the samples, merged, with the settings' types and selection.

    `partitions` are columns that folders give, which come before those of files with the same names; `sampled` are the
    URLs of the samples.
    """
    merged = {f.name: f for f in merge_all(inferred)}
    # Where no sample has a row, columns stay null: they fit the table's types, and change with the first value
    changed = {e.source or n for n, e in stream.mapped.entries.items() if e and (e.hash or e.mask or e.null_if)}
    has_values = stream.on_drift == "rescue" or not all(pt.is_null(f.type) for f in merged.values())
    merged |= {f.name: f for f in partitions}
    for column, text in stream.types.items():
        folded = {name.casefold(): name for name in merged if name not in stream.types}
        alike = difflib.get_close_matches(column.casefold(), folded, n=1, cutoff=0.8) if column not in merged else ()
        if alike:  # it is probably another spelling
            meant = folded[alike[0]]
            raise ConfigError(
                f"Stream {stream.name!r}: setting 'schema' names {column!r}, which is no column of its sampled files; "
                f"did you mean {meant!r}? If it is a column of later files, name {meant!r} in 'schema' too"
            )
        merged[column] = parse_type(column, text)
    for column, text in stream.mapped.types.items():
        declared, found = parse_type(column, text), merged.get(column)
        if found is None or declared.equals(found, check_metadata=True) or column in stream.types:
            continue
        beside = [
            f.name for f in stream.mapped.made_of(found) if (e := stream.mapped.entries.get(f.name)) and not e.read_as
        ]
        if beside:  # which would become another type without a word
            msg = f"Stream {stream.name!r}: setting 'columns' reads {column!r} as {text}, for a hash or another type"
            raise ConfigError(f"{msg}, and makes {beside[0]!r} of it too; add 'type: {text}' to {beside[0]!r}")
        merged[column] = declared
    if stream.chosen is not None:
        for column in stream.chosen:
            if column not in merged:
                raise _no_column(stream, "columns", column, merged)
        merged = {name: field for name, field in merged.items() if name in stream.chosen}
    if not merged:
        files = f"its files ({sampled[0]}{', ...' if len(sampled) > 1 else ''})" if sampled else "its files"
        raise SchemaError(f"Stream {stream.name!r}: no column was found in {files}; name them in the setting 'schema'")
    if len(merged) > MOST_COLUMNS:
        raise SchemaError(f"Stream {stream.name!r}: its files have {len(merged):,} columns ({_MOST_REASON})")
    return pa.schema([_open(f) if has_values or f.name in changed else f for f in merged.values()])


def _open(field: pa.Field) -> pa.Field:
    """Return the field as text, or as JSON text instead of an empty list or map, where no sample has a value."""
    t = field.type
    if pt.is_null(t):
        return pa.field(field.name, pa.string())
    if pt.is_struct(t):
        return pa.field(field.name, pa.struct([_open(f) for f in t]))
    if pt.is_list(t) or pt.is_map(t):
        inner = t.value_type if pt.is_list(t) else t.item_type
        opened = _open(pa.field("item", inner))
        if pt.is_null(inner) or is_json(opened):
            return json_field(field.name)
        return pa.field(field.name, pa.list_(opened.type) if pt.is_list(t) else pa.map_(t.key_type, opened.type))
    return field


def catalog_schema(source: pa.Schema, stream: StreamSettings, *, metadata_columns: bool) -> dict[str, Any]:
    """Return the JSON Schema of a stream as discovery reports it."""
    refuse_reserved(source.names, stream, metadata_columns=metadata_columns)
    own = [*(METADATA if metadata_columns else ()), *([json_field(RESCUED)] if stream.rescues else [])]
    own += [DELETED] if stream.table.change_feed else []
    schema = pa.schema([*source, *own])
    for column in stream.mapped.sources:
        entry = stream.mapped.entries.get(column)
        if column not in schema.names and (entry is None or not (entry.is_constant or entry.source)):
            raise _no_column(stream, "columns", column, schema.names)
        if column in source.names and entry is not None and not stream.mapped.made_of(source.field(column)):
            logger.warning("Stream %r: the files' column %r is left out: columns makes another", stream.name, column)
    schema = stream.mapped.schema(schema)
    for key in stream.key_properties:
        if key not in schema.names:
            raise _no_column(stream, "key_properties", key, schema.names)
    try:
        made = to_json_schema(schema, keys=stream.key_properties)
        stream.mapped.check(from_json_schema(made), stream.name)
        return made
    except SchemaError as error:
        raise SchemaError(f"Stream {stream.name!r}: {error}") from None


def refuse_reserved(
    names: Iterable[str], stream: StreamSettings, *, metadata_columns: bool, url: object = None
) -> None:
    """Refuse columns, of a file or of all, that are named as those which the tap adds.

    Columns that the stream does not read may have any name.
    """
    own = {*(METADATA.names if metadata_columns else ()), *([RESCUED] if stream.rescues else [])}
    own |= {DELETED.name} if stream.table.change_feed else set()
    taken = sorted(own.intersection(names if stream.chosen is None else {*names} & {*stream.chosen}))
    if taken:
        hint = "do not set on_bad_row or on_drift to rescue" if RESCUED in taken else "set metadata_columns to false"
        where = f"{url}: it has" if url is not None else f"Stream {stream.name!r}: its files have"
        raise SchemaError(f"{where} a column {taken[0]!r}, which is the name of a column that the tap adds; {hint}")


def _no_column(stream: StreamSettings, setting: str, column: str, known: Iterable[str]) -> ConfigError:
    names = list(known)
    hint = nearest(column, names) or f"; there are {', '.join(names[:20])}"
    return ConfigError(f"Stream {stream.name!r}: setting {setting!r} names {column!r}, which is no column{hint}")


_ROW_ADVICE = (
    "Correct the file, or set the stream's on_bad_row: skip leaves such rows out, rescue keeps them in _sdc_rescued, "
    "dead_letter puts them into the target's table _sdc_rejected"
)


def with_row_advice(error: DataError) -> DataError:
    """Return an error of a row with what a user of the tap can do about it; other errors as they are."""
    return error.hinting(_ROW_ADVICE) if error.code == "bad-row" else error


class SchemaEvolution:
    """The schema of one stream in one run, as a JSON Schema.

    `is_fixed`: it must not change; `keys` may not be null; `types`, which the settings give, do not change; `own`
    columns are not the files', of which `columns` makes the others.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        is_fixed: bool = False,
        keys: Sequence[str] = (),
        types: Mapping[str, pa.Field] | None = None,
        own: Iterable[str] = (),
        columns: Columns = NO_COLUMNS,
    ) -> None:
        self._columns = columns
        self.schema, self._is_fixed = schema, is_fixed
        self._keys, self._types, self._own = tuple(keys), types or {}, frozenset(own)

    def evolve_for(self, error: DataError) -> None:
        """Change the schema, so that the file that did not fit may be tried again; raise the error if none helps."""
        if not isinstance(error, DriftError):
            raise with_row_advice(error)
        known = self.schema["properties"]
        fields = [made for found in error.fields for made in self._columns.made_of(found)]
        if self._is_fixed and any(known.get(f.name, {}).get(ANNOTATION) != "null" for f in fields):
            raise with_row_advice(error)
        if (count := len(known.keys() | {f.name for f in fields})) > MOST_COLUMNS:
            reason = f"with its columns the stream has {count:,} ({_MOST_REASON})"
            raise DataError(reason, url=error.url, line=error.line)
        if any(f.name in self._own or (f.name in self._types and f.name in known) for f in fields):
            raise error
        wider = evolved(self.schema, [self._types.get(f.name, f) for f in fields], self._keys)
        if wider == self.schema:  # what the file needs is there, and did not help
            raise error
        logger.warning("%s. The schema changes from here on", str(error).removesuffix(f". {error.hint}"))
        self.schema = wider


def evolved(schema: Mapping[str, Any], fields: Sequence[pa.Field], keys: Sequence[str] = ()) -> dict[str, Any]:
    """Return a stream's JSON Schema with some columns added, or with other types. Pure."""
    more = to_json_schema(pa.schema(list(fields)), keys=keys)["properties"]
    return {**schema, "properties": {**schema["properties"], **more}}


def excluded(full: Mapping[str, Any], selected: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of columns, and of members of objects, that a JSON Schema has and another lacks. Pure."""
    for name, part in full.get("properties", {}).items():
        place = f"{path}{name}"
        kept = selected.get("properties", {}).get(name)
        if kept is None:
            yield place
            continue
        yield from excluded(part, kept, f"{place}.")
    for inner in ("items", "additionalProperties"):
        if isinstance(full.get(inner), Mapping) and isinstance(selected.get(inner), Mapping):
            yield from excluded(full[inner], selected[inner], path)


# Discovery: the objects from which schemas are inferred, and the schema of each.

MAX_LISTED = 1000
"""Objects that are listed for schema inference if new objects come from a queue."""
_LONGEST_ROW = 80
SILENT_SECONDS = 2.0
"""Inference says what it waits for after so many seconds, later less often."""
Result = TypeVar("Result")

logger = logging.getLogger("tap-s3-files")


def inferred_schemas(
    run: TapRun, chosen: Sequence[StreamSettings], fail: Callable[[str, SingerArrowError], None]
) -> Iterator[tuple[StreamSettings, dict[Url, pa.Schema], list[pa.Field]]]:
    """Yield each chosen stream that has objects, with the schemas of its samples, and its partition columns.

    `fail` is called with the name and the error of a stream that has no object, whose samples are archived or cannot be
    read, or that has a column named as one that the tap adds; it may raise it.
    """
    settings = run.settings
    samples: dict[str, list[ObjectInfo]] = {}
    folders: dict[str, list[pa.Field]] = {}
    tables: dict[str, dict[Url, pa.Schema]] = {}
    for stream in chosen:
        try:
            if stream.is_table:
                tables[stream.name] = {stream.urls[0]: run.table(stream).schema}
                refuse_reserved(
                    tables[stream.name][stream.urls[0]].names, stream, metadata_columns=settings.metadata_columns
                )
                continue
            if settings.sqs:  # a bucket that is too large to be listed has a queue
                found_objects = find(run.storage, settings.paths(stream), own=run.own_roots)
                listed = Listing(islice(found_objects, MAX_LISTED))
            else:
                listed = run.listing(stream, keep=True)
            found_samples = sample_objects(listed, settings.sample_files, *settings.window(stream))
            folders[stream.name] = partition_columns(stream, listed)
            bookmark = run.bookmark(stream.name)
            is_known = bookmark and bookmark.watermark and stream.replication_method != "FULL_TABLE"
            if not (listed or settings.sqs or stream.pattern or is_known):
                run.report_no_match(stream)
            if not listed and stream.pattern:
                logger.info("Folder %s has no object of stream %r", stream.places[0], stream.pattern)
                continue
            if not found_samples and not stream.types and stream.name not in run.left_out:
                nothing = "its objects are gone" if is_known else "no object matches its path"
                why = "all its objects are empty" if listed else nothing
                logger.warning("Stream %r is left out of this run: %s, so its columns are unknown", stream.name, why)
                run.left_out.add(stream.name)
            samples[stream.name] = found_samples
        except SingerArrowError as error:
            fail(stream.name, error)
    streams = [stream for stream in chosen if stream.name in samples]

    def attempt(stream: StreamSettings, info: ObjectInfo) -> pa.Schema | SingerArrowError | None:
        try:
            return infer_schema(run, stream, info)
        except SingerArrowError as error:  # the samples of other streams are inferred too
            return error

    tasks = (partial(attempt, s, info) for s in streams for info in samples[s.name])
    names = [stream.name for stream in streams for _ in samples[stream.name]]
    with closing(_announced(ordered_results(run.pool, tasks, 2 * settings.max_workers), names)) as results:
        for stream in (s for s in chosen if s.name in tables):
            yield stream, tables[stream.name], []
        for stream in streams:
            found = [(info.url, next(results)) for info in samples[stream.name]]
            problem = next(
                (e for _, e in found if isinstance(e, SingerArrowError) and not isinstance(e, ArchivedError)), None
            )
            if problem is not None:
                fail(stream.name, problem)
                continue
            schemas = {url: schema for url, schema in found if isinstance(schema, pa.Schema)}
            if not schemas and not stream.types:
                archived = next((e for _, e in found if isinstance(e, ArchivedError)), None)
                if archived is not None and stream.archived == "fail":
                    fail(stream.name, archived)
                elif archived is not None:
                    why = "its samples are archived, so its columns are unknown"
                    logger.warning("Stream %r is left out of this run: %s; give them in 'schema'", stream.name, why)
                    run.left_out.add(stream.name)
            _warn_of_nearly_typed(stream, schemas.values())
            if (first := first_row(schemas.values())) is not None:
                run.first_rows[stream.name] = first
                logger.warning("Stream %r: %s", stream.name, first_row_in_words(first))
            if schemas or stream.types:
                yield stream, schemas, folders[stream.name]


def _warn_of_nearly_typed(stream: StreamSettings, schemas: Iterable[pa.Schema]) -> None:
    """Warn of columns that become text because a few of their values are not of the type of the others."""
    found, texts = dict[str, str](), set[str]()
    for schema in schemas:
        nearly = json.loads((schema.metadata or {}).get(NEARLY_TYPED, "{}"))
        texts.update(f.name for f in schema if pt.is_string(f.type) and f.name not in nearly)
        found = nearly | found
    for column in sorted(found.keys() - stream.types.keys() - texts):
        if stream.chosen is None or column in stream.chosen:
            logger.warning("Stream %r: column %r is text: in the sample %s", stream.name, column, found[column])


def first_row_in_words(values: str) -> str:
    """Return what to do about a first line that names columns and looks like a row."""
    shown = one_line(values if len(values) <= _LONGEST_ROW else f"{values[:_LONGEST_ROW]}...")
    return (
        f"the first line ({shown}) names the columns, and looks like a row; set csv.header to false if it is one, "
        "to true if it is not"
    )


def _announced(results: Iterator[Result], streams: Sequence[str]) -> Generator[Result]:
    """Yield results as they come, one for each name of a stream; log what is awaited if that takes long."""
    done, began, due = 0, time.monotonic(), SILENT_SECONDS

    def look() -> None:
        nonlocal due
        if (seconds := time.monotonic() - began) >= due and done < len(streams):
            due = seconds + max(5.0, seconds / 10)
            place = f"{done:,} of {counted(len(streams), 'sampled object')}"
            logger.info("Inferring column types of %r: %s read, %.0f s", streams[done], place, seconds)

    with repeat_every(SILENT_SECONDS / 4, look, name="inference"):
        for result in results:
            done += 1
            yield result


def partition_columns(stream: StreamSettings, listed: Listing) -> list[pa.Field]:
    """Return the columns that the keys of a stream's objects give."""
    return stream.partitions.infer((o.url for o in listed) if stream.partitions.paths else listed.folders())


def infer_schema(run: TapRun, stream: StreamSettings, info: ObjectInfo) -> pa.Schema | ArchivedError | None:
    """Return the schema of an object; None if it is empty or gone, the error if it is archived."""
    reader = ObjectReader(run.storage, info.url, info=info, budget=run.budget)
    kind = FORMATS[format_of(stream.format, info.url)]
    try:
        schema = kind.infer(reader, stream.read, sample_bytes=run.settings.sample_bytes)
    except EmptyObjectError:
        return None
    except ArchivedError as error:  # it may have been read when it was none
        logger.warning("%s is archived; it is no sample", info.url)
        return error
    except DataError as error:
        raise with_row_advice(error) from None
    except ObjectChangedError:
        logger.warning("%s was replaced or deleted since it was listed; it is no sample", info.url)
        return None
    refuse_reserved(schema.names, stream, metadata_columns=run.settings.metadata_columns, url=info.url)
    return schema
