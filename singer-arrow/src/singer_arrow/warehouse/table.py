"""The base of the tables, one for each stream while its SCHEMA stays the same; descriptions, owners of columns."""

from __future__ import annotations

import abc
import itertools
import logging
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from singer_arrow.batch import files
from singer_arrow.batch.files import FileProperties
from singer_arrow.batch.message import Batch, Ranks
from singer_arrow.casting.from_text import shorten
from singer_arrow.errors import ConfigError, SchemaError
from singer_arrow.load.convert import RANK, Conversion, CutDigits, UploadColumn
from singer_arrow.load.dead_letters import RecordOrigins, Rejected, cut
from singer_arrow.load.method import LOG, NO_LOG, AnyLoadMethod, ContextT, Item, last_entry, no_log_of
from singer_arrow.naming import NamingRules, column_names, digest, owner_key, plain_column
from singer_arrow.records.parse import DELETED_COLUMN, VERSION_COLUMN, MetadataColumns
from singer_arrow.records.validation import fits_schema, validator
from singer_arrow.schema.json_schema import from_json_schema
from singer_arrow.storage.urls import Url
from singer_arrow.warehouse.run import WarehouseRun
from singer_arrow.warehouse.settings import APPEND, UPSERT, ExistingColumn, LoadSettings, base, mark

# Settings for the layout of new tables: the columns that they name, and whether a table has that layout.

ColumnT = TypeVar("ColumnT", bound=UploadColumn)
OTHERS = "Stream %r: table %s is another stream's, so rows go to table %s; name another one by the setting streams"


def taken_table(stream: str, table: str) -> ConfigError:
    """Return the error for a table that the settings name for a stream, and that belongs to another one."""
    return ConfigError(
        f"Stream {stream!r}: setting 'table' or 'tables' names table {table}, which belongs to another stream; nothing "
        "of the stream was loaded. Several folders go into one table as one stream, with a list of paths, or with "
        "{name:*} in its path for a column of their names. If the stream was renamed, give it its former name. Else "
        "name a table that does not exist, or drop this one"
    )


def layout_column(
    setting: str, given: object, stream: str, columns: Sequence[ColumnT], named: str, *, logger: logging.Logger
) -> ColumnT | None:
    """Return the column that a setting names; None, logged, where this stream lacks a column that it names for all.

    `given` is the value of the setting: for all streams, or an object from streams to such values; `named` the property
    or column in it. ConfigError: it names, for this stream, a column that there is not.
    """
    column = _find(columns, named)
    if column is None:
        if isinstance(given, Mapping):
            raise ConfigError(f"Setting {setting!r} names column {named!r}, which stream {stream!r} does not have")
        logger.warning("Stream %r has no column %r, so %s does not apply to its table", stream, named, setting)
    return column


def warn_of_layout(
    table: str,
    setting: str,
    named: Sequence[str],
    has: Sequence[str],
    columns: Sequence[UploadColumn],
    *,
    by: str,
    without: str,
    logger: logging.Logger,
) -> None:
    """Warn if a table is not laid out by the columns that a setting names, nor by those of which they are variants.

    `has` are the columns that it is laid out by; `by` and `without` describe it with such columns and without.
    """

    def is_by(name: str, own: str) -> bool:
        column = _find(columns, name)
        return own.lower() in ([column.name.lower(), base(column).lower()] if column else [name.lower()])

    if named and not (len(named) == len(has) and all(map(is_by, named, has))):
        now = f"{by} {', '.join(has)}" if has else without
        logger.warning("Table %s is %s; %s applies to new tables alone", table, now, setting)


def _find(columns: Sequence[ColumnT], name: str) -> ColumnT | None:
    """Return the column of the property of that name, else the column of that name."""
    return next((c for c in columns if c.source == name), None) or next(
        (c for c in columns if c.name.lower() == name.lower()), None
    )


# Descriptions of a stream and its properties from its SCHEMA, for tables and columns. Pure.

PropertyPath = tuple[str, ...]
"""The name of a property, after those of the objects that it is in; items of lists have their list's."""
MOST_OF_TABLE, MOST_OF_COLUMN = 16_384, 1_024
"""Characters that BigQuery takes; what is longer is cut, for all warehouses alike."""


@dataclass(frozen=True, slots=True)
class Descriptions:
    """Descriptions of a table and of its columns; none is empty."""

    table: str | None = None
    columns: Mapping[PropertyPath, str] = field(default_factory=dict)


def descriptions_of(schema: Mapping[str, Any]) -> Descriptions:
    """Return the `description` of a SCHEMA, and those of its properties at every depth."""
    return Descriptions(_text(schema, MOST_OF_TABLE), dict(_within(schema, ())))


def _within(node: Any, path: PropertyPath) -> Iterator[tuple[PropertyPath, str]]:
    if not isinstance(node, Mapping):
        return
    for name, inner in node.get("properties", {}).items():
        if isinstance(inner, Mapping) and (text := _text(inner, MOST_OF_COLUMN)):
            yield (*path, name), text
        yield from _within(inner, (*path, name))
    for inner in (node.get("items"), *node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from _within(inner, path)


def _text(node: Mapping[str, Any], most: int) -> str | None:
    given = node.get("description")
    text = given.replace("\0", "").strip() if isinstance(given, str) else ""
    return shortened(text, most) or None


def shortened(text: str, most: int) -> str:
    """Return a text cut to at most so many characters, with an ellipsis where it is cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


# The base of the tables of warehouses: one for each stream, while its SCHEMA stays the same.
#
# A warehouse supplies the table for a stream, its load methods, a conversion for its types, and the SQL that removes
# old versions.

_MOST_ID = 1000  # bytes of a batch's id that are kept where it is given a suffix; the ledger's column takes 1,024


def is_nullable(prop: Any) -> bool:
    """Return whether a property of a SCHEMA may be null: also by `anyOf`, or without a type."""
    return prop is True or (isinstance(prop, Mapping) and fits_schema(None, validator(prop)))


def nullable_paths(properties: Mapping[str, Any], path: PropertyPath = ()) -> Iterator[PropertyPath]:
    """Yield the paths of the properties that may be null, at every depth."""
    for name, prop in properties.items():
        at, node = (*path, name), prop
        if is_nullable(prop):
            yield at
        while isinstance(node, Mapping) and isinstance(node.get("items"), Mapping):
            node = node["items"]
        if isinstance(node, Mapping) and isinstance(inside := node.get("properties"), Mapping):
            yield from nullable_paths(inside, at)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStream:
    """A stream while its SCHEMA stays the same, as its rows come to the table."""

    name: str
    schema: Mapping[str, Any]  # of the rows, with the metadata columns that they have
    key_properties: tuple[str, ...]
    metadata: MetadataColumns
    required: frozenset[str] = frozenset()  # properties that rows must have, beside the keys
    left_out: frozenset[str] = frozenset()  # properties of the tap's SCHEMA that are left out on purpose


class WarehouseTable(abc.ABC):
    """The table of one stream while its SCHEMA stays the same, and what is done with the stream's messages.

    SchemaError: the table or the stream's SCHEMA cannot be used.
    """

    run: WarehouseRun[LoadSettings]
    settings: LoadSettings
    """The settings for the stream."""
    given: pa.Schema
    """Arrow schema of the stream's SCHEMA."""
    columns: Sequence[UploadColumn]
    """The columns of the table that the stream fills."""
    method: AnyLoadMethod
    """The load method."""
    is_of_logs = False
    """Whether the stream comes from a tap that follows plan logs, if it sends batches; see `stream_ends.WHOLE`."""
    alone_bytes: float = math.inf
    """A batch of one Parquet file of so many bytes is a load of its own, for speed."""

    def __init__(self, run: WarehouseRun[LoadSettings], stream: TableStream) -> None:
        self.run, self.logger, self.settings = run, run.logger, run.settings_of(stream.name)
        self.stream_name, self.schema, self.metadata = stream.name, stream.schema, stream.metadata
        self.key_properties = stream.key_properties
        self.tally = run.tallies.of(stream.name)
        required, properties = stream.required.union(self.key_properties), self.schema["properties"]
        self._of_files = FileProperties(required, stream.left_out, self.tally.left_out.of_file)
        self._never_null = frozenset(p for p in required if p in properties and not is_nullable(properties[p]))
        self._places = itertools.count()
        self._is_first = stream.name not in run.folders_read  # else this run may have loaded batches into the table
        self._cut: CutDigits = run.once(CutDigits, stream.name, stream.name, self.logger)
        if self.metadata.marks_deletions and DELETED_COLUMN not in self.schema["properties"]:
            self.logger.warning(
                "Stream %r marks deleted rows by %s, which is left out, so they are loaded like others; set "
                "hard_delete to delete them (with load_method: upsert), or add_record_metadata to keep the column",
                self.stream_name,
                DELETED_COLUMN,
            )
        if self.settings.load_method == UPSERT:
            properties = {**self.schema["properties"], RANK: {"type": ["null", "string"]}}
            self.schema = {**self.schema, "properties": properties}
        load_method = self.settings.load_method or APPEND
        if load_method == UPSERT and not self.key_properties:
            raise ConfigError(
                f"Stream {self.stream_name!r} has load_method upsert, and no key_properties by which its rows would "
                "replace others; nothing of the stream was loaded. Set its key_properties in the tap or in the "
                "target's setting streams, or set its load_method to append-only"
            )
        self.given = from_json_schema(self.schema)
        self.columns = self.prepare_table()
        self._names = {column.source: column.name for column in self.columns}
        if missing := [key for key in self.key_properties if key not in self._names]:
            key = shorten(missing[0])
            raise SchemaError(
                f"Key property {key} of stream {self.stream_name!r} is not among the properties of its SCHEMA"
            )
        self.method = self.make_load_method(load_method, tuple(self._names[key] for key in self.key_properties))

    @abc.abstractmethod
    def prepare_table(self) -> Sequence[UploadColumn]:
        """Create or alter the table, so that it has a column for each property of `given`, and return these columns.

        SchemaError: the table or the stream's SCHEMA cannot be used.
        """

    @abc.abstractmethod
    def make_load_method(self, load_method: str, keys: tuple[str, ...]) -> AnyLoadMethod:
        """Return the load method of the setting; `keys` are columns, of upsert at least one."""

    @abc.abstractmethod
    def conversion(self, constants: Mapping[str, Any], *, keys: tuple[str, ...], place: int | None) -> Conversion[Any]:
        """Return the conversion of the rows of an item; see `Conversion`."""

    @abc.abstractmethod
    def remove_versions(self, version: int, *, version_column: str, deleted_column: str | None) -> int:
        """Remove the rows of versions before this one, and return their number; rows without a version stay.

        `deleted_column` gets the time of deletion; None: the rows are deleted.
        """

    def has_rows(self) -> bool | None:
        """Return whether the table has rows; None: it is not known."""
        return None

    def has_ranks(self) -> bool:
        """Return whether the table has a column of ranks, as rows were merged into it."""
        return False

    def had_rows(self) -> bool | None:
        """Return whether the table had rows before this run; None: it is not known, as some may be of this run."""
        known, name = self.run.had_rows, self.stream_name
        if name not in known:
            known[name] = self.has_rows() if self._is_first else None
        return known[name]

    def warehouse_time(self) -> datetime:
        """Return the time in UTC by the warehouse's clock, which all runs share."""
        return datetime.now(UTC)

    def take_batch(self, batch: Batch) -> None:
        """Add a BATCH message to what the scheduler loads."""
        self.tally.add(batches=1)
        self.run.folders_read.setdefault(self.stream_name, set()).update(u.rpartition("/")[0] for u in batch.manifest)
        log = batch.plan_log if batch.batch_id else None  # its entries in the ledger: see `LoadMethod.entries_of_logs`
        plan_log: tuple[str, ...] = (f"{LOG}{log.source}", f"{LOG}{log.source}_{log.log}") if log else ()
        follows = self._own_id(batch.stream, log.follows) if log and self.method.keeps_ledger else None
        continues = log.continues if log and self.method.keeps_ledger else None
        if continues:
            continues = continues._replace(batch=self._own_id(batch.stream, continues.batch) or "")
        batch = replace(batch, batch_id=self._own_id(batch.stream, batch.batch_id))
        last = ""
        if log and batch.batch_id and batch.row_count != 0:  # else no STATE names it
            last = last_entry(log.log, log.place, batch.batch_id, follows or "")
            self.method.context.ledger.newest[plan_log[1]] = batch.batch_id
        no_log = no_log_of(batch.stream) if self.is_of_logs else ""
        for entry in (*plan_log, *([follows, no_log] if follows else [])) if self.method.keeps_ledger else ():
            self.method.context.ledger.expect(entry, is_of_run=False)
        if batch.batch_id and self.method.leaves_out_loaded:
            if (self.stream_name, batch.batch_id) in self.run.claimed:
                self.logger.info("Batch %s came twice in this run and is loaded once", batch.batch_id)
                self.tally.add(skipped=1)
                return
            self.run.claimed.add((self.stream_name, batch.batch_id))
            self.method.context.ledger.expect(batch.batch_id)
            self.method.context.ledger.expect(NO_LOG, is_of_run=False)
        item = Item(
            urls=batch.manifest,
            file_format=batch.format,
            conversion=self._conversion(self.metadata.values(batch.version), batch.ranks),
            batch_id=batch.batch_id,
            rows=batch.row_count,
            bytes=batch.byte_count,
            is_source=batch.passthrough,
            stream=self.stream_name,
            plan_log=plan_log,
            last=last,
            follows=follows,
            continues=continues,
            objects=log.objects if log else None,
            rejected=tuple(Rejected.of_tap(row) for row in batch.rejected),
            has_state=log is not None and log.has_state,
            no_log=no_log,
            properties=replace(self._of_files, report=lambda *_: None) if batch.passthrough else self._of_files,
        )
        is_file = batch.format == "parquet" and len(batch.manifest) == 1
        alone = is_file and (batch.byte_count or 0) >= self.alone_bytes
        self.run.scheduler.add(self.method, item, alone=alone)

    def _own_id(self, stream: str, batch_id: str | None) -> str | None:
        """Return the id of a batch in the ledger: equal ids of two streams of one table become different."""
        if not batch_id or stream == self.stream_name:
            return batch_id
        return f"{cut(batch_id, _MOST_ID)}@{digest(f'{stream} {batch_id}', 16)}"

    @cached_property
    def record_schema(self) -> pa.Schema | None:
        """Arrow schema that records are parsed to; None: they are passed on as JSON Lines."""
        merged = {RANK: None} if self.method.merges else {}
        return self.conversion(merged, keys=(), place=None).read_schema

    def take_records(
        self, path: Path | None, rows: int, *, token: int, since: float, origins: RecordOrigins | None
    ) -> None:
        """Add a file of records to what the scheduler loads; the load method removes the file.

        It is of JSON Lines, or a spool of `record_schema` (see `batch.files`), by its suffix; None: all were refused.
        `since`: when the first was read, by time.monotonic. `origins` are the lines of the input of the records, and
        those that were refused; None: the first one ends the run.
        """
        item = Item(
            urls=(str(Url.parse(str(path))),) if path else (),
            file_format=files.RECORD_SPOOL if path and path.suffix == files.RECORD_SPOOL_SUFFIX else "jsonl",
            conversion=self._conversion({}, since=since),
            rows=rows,
            bytes=path.stat().st_size if path else 0,
            is_temporary=True,
            no_log=no_log_of(self.stream_name) if self.is_of_logs else "",
            stream=self.stream_name,
            origins=origins,
        )
        self.run.scheduler.add(self.method, item, token=token, alone=self.method.loads_each_file, since=since)

    def warn_of_rows(self) -> None:
        """Warn where all rows of a stream come as RECORD messages to be appended to those of an earlier run."""
        if not (self.method.merges or self.method.deferred or self.metadata.tracks_versions) and self.had_rows():
            self.logger.warning(
                "Stream %r comes whole, without a STATE or as FULL_TABLE, in RECORD messages to be appended, and its "
                "table has rows: those of earlier runs will be there twice. Empty the table first, or set load_method "
                "to upsert or overwrite; batches (batch_config of the tap) would be recognised",
                self.stream_name,
            )

    def warn_of_no_rows(self) -> None:
        """Warn where the tap sends what is new since its STATE alone, and nothing of before is there."""
        if self.had_rows() is False:
            self.logger.warning(
                "Stream %r: its table is empty, and the tap sends only what is new since its STATE, so rows of earlier "
                "runs are not in it; to load all, run it without that STATE (singer-arrow run: --full-refresh)",
                self.stream_name,
            )

    def activate_version(self, version: int) -> None:
        """Remove the rows of older versions, once all that was read before is in the table."""
        self.run.drain_stream(self.stream_name)
        if self.method.deferred:
            self.run.scheduler.hold(self.method, self.run.checkpoints.open())
            self.method.replace_table()
            return
        if not self.metadata.tracks_versions:
            self.logger.warning(
                "ACTIVATE_VERSION of stream %r has no effect: rows carry no version; "
                "set add_record_metadata or hard_delete",
                self.stream_name,
            )
            return
        hard = self.settings.hard_delete
        gone = self.remove_versions(
            version,
            version_column=self._names[VERSION_COLUMN],
            deleted_column=None if hard else self._names[DELETED_COLUMN],
        )
        verb = "deleted" if hard else "marked as deleted"
        self.logger.info("Stream %r: version %d is active, %d older rows %s", self.stream_name, version, gone, verb)

    def load_context(self, kind: type[ContextT], keys: tuple[str, ...], **more: Any) -> ContextT:
        """Return the context of a load method, with `more` that a warehouse's own has."""
        settings = self.settings
        return kind(
            stream=self.stream_name,
            tally=self.tally,
            logger=self.logger,
            has_rows=self.had_rows,
            only_adds=not (self.metadata.tracks_versions or self.has_ranks()),
            replay=settings.replay,
            keys=keys,
            removes_batches=settings.clean_up_batch_files,
            most_rejected=settings.most_rejected,
            deleted_column=self._names.get(DELETED_COLUMN) if settings.hard_delete else None,
            rank_column=self._names.get(RANK, ""),
            **more,
        )

    def _conversion(
        self, constants: Mapping[str, Any], ranks: Ranks = (), *, since: float | None = None
    ) -> Conversion[Any]:
        if not self.method.merges:
            made = self.conversion(constants, keys=(), place=None)
            return replace(made, never_null=self._never_null, cut=self._cut)
        different = {rank for runs in ranks for _, rank in runs}
        if not different:
            # The rank is the time, as the warehouse has it, of their arrival. Rows that wait for others, the first read
            # at `since` by time.monotonic, are as old as the last of these, but records have not waited for longer than
            # they may: a run that slept has older ones.
            waited = time.monotonic() - since - self.run.limits.age_seconds if since is not None else 0.0
            moment = self.run.moment(self.warehouse_time) - timedelta(seconds=max(0.0, waited))
            different = {f"received {moment:%Y-%m-%d %H:%M:%S.%f}"}
        rank = different.pop() if len(different) == 1 else None
        made = self.conversion({**constants, RANK: rank}, keys=self.key_properties, place=next(self._places))
        return replace(made, never_null=self._never_null, cut=self._cut, ranks=ranks if different else ())


# Which property each column of a table belongs to, as the first line of its description or comment names it. Pure.
#
# Several properties may become one column name: `order-id` and `order_id`, in Redshift also `ID` and `id`. So where the
# name of a column is not that of its property, its first line is `singer_property: "order-id"`, and the column stays
# with that property, whatever SCHEMA brings later. A table records its owners once any of its columns has such a line:
# then a column without one belongs to the property of exactly its name. A table without any, made by an earlier version
# or copied without descriptions, gets them with its next run, `null` for columns that the stream does not fill; until
# then `column_names` has a rule.

_MOST_ADDED = 20  # new columns that are named
MARK = "singer_property: "
UNKNOWN = f"{MARK}null"
"""The line of a column whose owner is not known: the first property that fills it gets it."""


def owner_line(column: UploadColumn, *, always: bool = False) -> str | None:
    """Return the first line of the description of a new column; None if it needs none.

    It has one `always`, or if its name is not that of its property.
    """
    if column.variant_of:
        return mark(column.variant_of)
    return f"{MARK}{owner_key(column.source)}" if always or column.name != column.source else None


def has_line(text: str | None) -> bool:
    """Return whether a description begins with a line of an owner."""
    return (text or "").startswith(MARK)


def is_described(text: str | None) -> bool:
    """Return whether a description has more than the line of an owner."""
    return bool(text and (not has_line(text) or text.rstrip().partition("\n")[2]))


def owner(text: str | None, name: str, *, recorded: bool) -> str | None:
    """Return the owner of a column with this description and name; `recorded`: its table records owners."""
    if not has_line(text):
        return owner_key(name) if recorded else None
    first = (text or "").partition("\n")[0].rstrip()
    return None if first == UNKNOWN else first.removeprefix(MARK)


def columns_named(properties: Sequence[str], existing: Iterable[ExistingColumn], rules: NamingRules) -> dict[str, str]:
    """Return the column of each property, see `column_names`; variant columns of the table belong to no property."""
    existing = tuple(existing)
    own = {e.name: e.owner for e in existing if e.variant_of is None}
    return column_names(properties, rules, own, [e.name for e in existing if e.variant_of is not None])


def log_new(
    table: str,
    stream: str,
    columns: Iterable[UploadColumn],
    existing: Iterable[ExistingColumn],
    variants: Iterable[tuple[str, str]],
    *,
    rules: NamingRules,
    keys: Collection[str],
    logger: logging.Logger,
) -> None:
    """Log the columns that a table gets, and warnings of them as `check_new`.

    `variants` are new ones, with their columns.
    """
    columns, existing = list(columns), list(existing)
    if added := [
        f"{shorten(name)} ({kind})" for name, kind in _added(columns, existing) if not name.startswith("_sdc_")
    ]:
        more = f" and {len(added) - _MOST_ADDED:,} more" if len(added) > _MOST_ADDED else ""
        word, names = "column" if len(added) == 1 else "columns", ", ".join(added[:_MOST_ADDED])
        logger.info("Table %s gets new %s from stream %r: %s%s", table, word, stream, names, more)
    for warning in check_new(table, columns, existing, rules, keys):
        logger.warning("%s", warning)
    for variant, column in variants:
        text = "Table %s: values of stream %r that do not fit column %r go into column %r"
        logger.warning(text, table, stream, column, variant)


def _added(
    columns: Iterable[UploadColumn], existing: Iterable[ExistingColumn], path: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the names and types of the columns that a table lacks, also of fields in a RECORD; no variants."""
    have = {e.name.lower(): e for e in existing}
    for column in columns:
        there = have.get(column.name.lower())
        if there is None and not column.variant_of:
            yield f"{path}{column.name}", column.kind
        elif there is not None and (inside := getattr(column, "fields", None)):
            yield from _added(inside, getattr(there, "fields", ()), f"{path}{column.name}.")


def check_new(
    table: str,
    columns: Iterable[UploadColumn],
    existing: Iterable[ExistingColumn],
    rules: NamingRules,
    keys: Collection[str],
) -> list[str]:
    """Return warnings of new columns whose plain names are those of other properties in the table, and of new `keys`.

    SchemaError: such a column is one of the `keys`, by which rows are found, so that no row would be.
    """
    have, warnings = {e.name.lower(): e for e in existing}, list[str]()
    for column in columns:
        if inside := getattr(column, "fields", None):  # of a RECORD
            there = have.get(column.name.lower())
            warnings += check_new(f"{table}, {column.name}", inside, getattr(there, "fields", ()), rules, ())
        there = have.get(plain_column(column.source, rules).lower())
        if column.source in keys and there is None:
            warnings.append(
                f"Table {table}: key property {column.source!r} has no column yet, so no row that is there is found by "
                "it, and each stays beside its new version; if it is another name of a key, load the table anew"
            )
        if there is None or column.variant_of or column.name.lower() in have:
            continue
        whose = f"column {there.name!r} belongs to " + (
            f"property {there.owner}" if there.owner else "another property"
        )
        if column.source in keys:
            raise SchemaError(
                f"Table {table}: {whose}, so by key property {column.source!r} no row of the table would be found; "
                f"rename the property by stream_maps, or describe the column by {MARK}{owner_key(column.source)}"
            )
        warnings.append(f"Table {table}: property {column.source!r} goes into column {column.name!r}, because {whose}")
    return warnings
