"""Discovery: the objects from which schemas are inferred, and the schema of each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import pyarrow as pa

from singer_arrow.errors import ArchivedError, DataError, EmptyObjectError, ObjectChangedError, SingerArrowError
from singer_arrow.formats import FORMATS
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.runtime.threads import ordered_results
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.urls import Url
from tap_s3_files.catalog import refuse_reserved, sample_objects, with_row_advice
from tap_s3_files.listing.listing import Listing
from tap_s3_files.listing.path_match import find
from tap_s3_files.run import TapRun, no_match
from tap_s3_files.settings import StreamSettings
from tap_s3_files.stream_job import format_of

MAX_LISTED = 1000
"""Objects that are listed for schema inference if new objects come from a queue."""

logger = logging.getLogger("tap-s3-files")


def inferred_schemas(
    run: TapRun, fail: Callable[[str, SingerArrowError], None]
) -> Iterator[tuple[StreamSettings, dict[Url, pa.Schema], list[pa.Field]]]:
    """Yield each stream that has objects, with the schemas of its samples, and its partition columns.

    `fail` is called with the name and the error of a stream that has no object, whose samples are archived or cannot be
    read, or that has a column named as one that the tap adds; it may raise it.
    """
    settings = run.settings
    samples: dict[str, list[ObjectInfo]] = {}
    folders: dict[str, list[pa.Field]] = {}
    for stream in settings.streams:
        try:
            if settings.sqs:  # a bucket that is too large to be listed has a queue
                found_objects = find(run.storage, settings.paths(stream), own=run.own_roots)
                listed = Listing(islice(found_objects, MAX_LISTED))
            else:
                listed = run.list_for_discovery(stream)
            found_samples = sample_objects(listed, settings.sample_files, *settings.window(stream))
            folders[stream.name] = partition_columns(stream, listed)
            bookmark = run.bookmark(stream.name)
            may_be_empty = settings.sqs or settings.is_backfill(stream)
            if not listed and not may_be_empty and not (bookmark and bookmark.watermark):
                raise no_match(stream)
            if not found_samples and not stream.types:
                nothing = "no object matches its path" if may_be_empty else "its objects are gone"
                why = "all its objects are empty" if listed else nothing
                logger.warning("Stream %r is left out of this run: %s, so its columns are unknown", stream.name, why)
            samples[stream.name] = found_samples
        except SingerArrowError as error:
            fail(stream.name, error)
    streams = [stream for stream in settings.streams if stream.name in samples]

    def attempt(stream: StreamSettings, info: ObjectInfo) -> pa.Schema | SingerArrowError | None:
        try:
            return infer_schema(run, stream, info)
        except SingerArrowError as error:  # the samples of other streams are inferred too
            return error

    tasks = (partial(attempt, s, info) for s in streams for info in samples[s.name])
    results = ordered_results(run.pool, tasks, 2 * settings.max_workers)
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
        if schemas or stream.types:
            yield stream, schemas, folders[stream.name]


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
