"""Tables of a lake as streams: their versions, the files that each adds, and their columns.

The log of a table takes the place of a listing. A version adds files, which are never changed, and removes others. What
a version adds is read once, by the reader of Parquet; one that rewrites files without a change of rows (dataChange is
false in Delta Lake) adds nothing. A version that removes rows is an error, unless `change_feed` or `ignore_deletes` is
set.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import ConfigError, DataError, NotFoundError, SingerArrowError, one_line
from singer_arrow.read_options import ReadOptions, ReadProgress
from singer_arrow.schema.arrow_schema import canonical
from singer_arrow.settings import setting
from singer_arrow.storage.listing import EPOCH
from singer_arrow.storage.places import OBJECT_STORAGE, is_within, place_of
from singer_arrow.storage.urls import IMMUTABLE, ObjectInfo, Url, has_glob, shown

if TYPE_CHECKING:
    from singer_arrow.formats.base import JoiningFormat
    from singer_arrow.reading.objects import ObjectReader
    from singer_arrow.storage.store import Storage

logger = logging.getLogger("tap-s3-files")
TABLES = ("delta", "iceberg")
"""Values of the setting `format` whose paths are tables."""
ANEW = (
    "to load the table anew, empty the target's table and begin a new plan log without STATE (--new-plan-log), or use "
    "replication_method: FULL_TABLE with load_method: overwrite"
)
ANEW_HINT = ANEW[:1].upper() + ANEW[1:]
DELETED = pa.field("_sdc_deleted_at", pa.timestamp("us", "UTC"))
"""The column of a change feed that has the time at which a row was deleted."""
CHANGES = "_change_type"
"""The column of files of changes; among the values of a file, the time of these."""
GONE = f"a vacuum, or the expiry of a version, has removed it before it was read; {ANEW}"
_OF_TABLES = ("as_of", "catalog", "change_feed", "ignore_deletes", "allowed_roots")
"""Settings of streams that are tables only."""
NO_VALUES: Mapping[str, str | None] = {}
"""Partition columns of files that have none."""


def _roots(given: Iterable[str]) -> tuple[Url, ...]:
    """Read the setting `allowed_roots`."""
    roots = {text: place_of(text) for text in given}
    for text, root in roots.items():
        if root is None or root.scheme not in ("file", *OBJECT_STORAGE):
            raise ConfigError(
                f"Setting 'allowed_roots' has {shown(text)!r}; a root reads s3://bucket/folder or /folder"
            )
    return tuple(root for root in roots.values() if root is not None)


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Settings of a stream that is a table."""

    as_of: int | str | None = setting(
        "For a table that is read with FULL_TABLE: the version to read, by its number (Iceberg: id of a snapshot), or "
        "by a time, such as `2026-05-01T00:00:00Z`."
    )
    catalog: str | None = setting(
        "For Iceberg: name of a catalog in the configuration of pyiceberg, such as `prod` for variables like "
        "`PYICEBERG_CATALOG__PROD__URI`; the path is then the name of the table, such as `shop.orders`."
    )
    change_feed: bool = setting(
        "For a table with key properties: send updated and deleted rows too, by the change data feed of Delta Lake, "
        "the delete files of Iceberg, or files that were removed. Deleted ones have a time in the column "
        "`_sdc_deleted_at`, by which upsert with `hard_delete` removes them.",
        default=False,
    )
    ignore_deletes: bool = setting(
        "For a table: what a version removes stays in the target's table. A version that deletes rows sends nothing; "
        "one that updates or merges rows sends all rows of the files that it writes, which needs key properties and "
        "upsert. Otherwise such a version ends the run.",
        default=False,
    )
    allowed_roots: tuple[Url, ...] = setting(
        "For a table: folders or buckets, such as `s3://other/lake`, that may hold files of it, like its own folder. "
        "A shallow clone of Delta Lake, and a table of Iceberg with `add_files` or `write.data.path`, has such files.",
        default=(),
        kind=tuple[str, ...],
        parse=_roots,
    )

    def check(self, given: Mapping[str, Any], urls: Sequence[Url], where: str) -> None:
        """Refuse settings of a stream that contradict each other."""
        if given.get("format") not in TABLES:
            if name := next((n for n in _OF_TABLES if given.get(n)), ""):
                msg = f"Setting '{where}{name}' is for tables; set format to {' or '.join(TABLES)}, or leave it out"
                raise ConfigError(msg)
            return
        kind = given["format"]
        if len(urls) > 1 or has_glob(urls[0].key):
            raise ConfigError(f"Setting '{where}path' must be the folder of one table, as format is {kind}")
        if self.as_of is not None and given.get("replication_method") != "FULL_TABLE":
            msg = f"Setting '{where}as_of' reads one version of a table: set replication_method to FULL_TABLE"
            raise ConfigError(msg)
        for root in self.allowed_roots if not self.catalog else ():
            if root.scheme != urls[0].scheme:
                msg = (
                    f"Setting '{where}allowed_roots' has {root}, and the files of {urls[0]} can only be on its storage"
                )
                raise ConfigError(f"{msg}; leave it out")
        if self.catalog and kind != "iceberg":
            raise ConfigError(f"Setting '{where}catalog' is for iceberg, and format is {kind}; leave it out")
        if self.change_feed and (self.ignore_deletes or not given.get("key_properties")):
            msg = f"Setting '{where}change_feed' needs key_properties, and is no ignore_deletes"
            raise ConfigError(f"{msg}; change them, or leave it out")
        for name, value in (("after_load", None), ("partition_columns", True), ("on_bad_row", "rescue")):
            if given.get(name) and value in (None, given[name]):
                raise ConfigError(f"Setting '{where}{name}' is not for tables, and format is {kind}; leave it out")
        if given.get("on_drift") == "rescue":
            msg = f"Setting '{where}on_drift' is rescue, and the columns of a table are known; use evolve or fail"
            raise ConfigError(msg)


# Where the files of a table may be.


@dataclass(frozen=True, slots=True)
class TablePlaces:
    """The places that the log of a table may name: its own folder, and what `allowed_roots` has.

    The log is data, and anyone who writes it could otherwise have any file of this machine, of any bucket or of any
    server read.
    """

    table: Url
    own: Url
    allowed: tuple[Url, ...] = ()

    def check(self, address: str | Url) -> Url:
        """Return the URL of an address in the log; DataError if it is elsewhere."""
        place, text = place_of(address), shown(str(address))
        own = place_of(self.own)
        roots = (*([own] if own is not None else []), *self.allowed)
        if place is not None and is_within(place, roots):
            return Url.parse(address) if isinstance(address, str) else address
        reason = f"its log names {text!r}, which is not in the folder of the table ({self.own})"
        if self.allowed:
            reason = f"{reason}, nor in allowed_roots ({', '.join(map(str, self.allowed))})"
        if place is None or place.scheme not in {root.scheme for root in roots}:
            raise DataError(f"{reason}, nor on its storage", url=self.table, hint="Copy such files into the table")
        folder = shown(str(place._replace(key=place.key.rpartition("/")[0])))
        hint = f"If its files may be there, set the stream's allowed_roots, with {folder!r} in it"
        raise DataError(reason, url=self.table, hint=hint)


# A version of a table, and a file that it adds.

_KEY = re.compile(r"(delta|iceberg):([^:]+):(\d{20})(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table, whose id is `table`: its number, which ascends, and its time.

    A snapshot of Iceberg has an id, and the number is its time in milliseconds. That of a version of Delta Lake is the
    time that its commit has.
    """

    kind: str
    table: str
    number: int
    at: datetime
    snapshot: int | None = None

    def __str__(self) -> str:
        return f"version {self.number}" if self.kind == "delta" else f"snapshot {self.snapshot}"

    @property
    def key(self) -> str:
        """Its name in watermarks and segments."""
        snapshot = "" if self.snapshot is None else f":{self.snapshot}"
        return f"{self.kind}:{self.table}:{self.number:020d}{snapshot}"

    @classmethod
    def of(cls, key: str, at: datetime) -> TableVersion | None:
        """Return the version that a key names; None if it is that of an object."""
        found = _KEY.fullmatch(key)
        if found is None:
            return None
        return cls(found[1], found[2], int(found[3]), at, int(found[4]) if found[4] else None)


def is_version(key: str) -> bool:
    """Return whether a watermark's key names a version of a table."""
    return _KEY.fullmatch(key) is not None


class TableFile(NamedTuple):
    """A file that a version adds, with the values of its partition columns as text.

    If rows of it are deleted, `deletes` is the key of the version that knows which. With the keys of two versions, its
    rows are those that the second one has deleted.
    """

    info: ObjectInfo
    values: Mapping[str, str | None]
    deletes: str = ""


_LARGEST = 1 << 50


def file_info(url: Url, size: object, at: datetime, table: Url) -> ObjectInfo:
    """Return a file of a table with the size that its log says; DataError if no file can have that."""
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < _LARGEST:
        raise DataError(f"its log says that {url} has {size} bytes", url=table, hint="Restore the log")
    return ObjectInfo(url, size, IMMUTABLE, at)


def unlike_its_log(storage: Storage, info: ObjectInfo) -> SingerArrowError:
    """Return the error for a file of a table that cannot be read as the log has it."""
    try:
        found = storage.head(info.url)
    except NotFoundError:
        return NotFoundError(f"{info.url} was planned, and is gone: {GONE}")
    reason = f"the log of its table says that it has {info.size:,} bytes, and it has {found.size:,}"
    if found.size == info.size:
        reason = "it is empty, and so no Parquet" if not info.size else "it was replaced while it was read"
    return DataError(reason, url=info.url, hint="Restore the file, or the log that its writer made")


RowsLeft = Callable[["Storage", str, Url], pa.BooleanArray]


class LakeTable(Protocol):
    """A table, opened at the version that a run reads up to."""

    url: Url
    version: TableVersion
    schema: pa.Schema
    columns: TableColumns | None
    opened: datetime
    rows_left: RowsLeft | None
    """Returns true for each row of a file that a version, by its key, has not deleted; may run anywhere."""

    def files(self, since: TableVersion | None, upto: TableVersion, keys: Sequence[str]) -> Iterable[TableFile]:
        """Return the files that were added since a version, in the order of versions; without one, all of a version.

        Their times ascend with the versions. An error: a version removes rows, or is not known any more.
        """
        ...


TableSource = tuple[type[Any], Url, TableSettings]
"""The class of a table, its URL and its settings."""


@lru_cache(maxsize=2)
def _masks(storage: Storage, source: TableSource, key: str) -> Mapping[Url, pa.BooleanArray]:
    table, url, settings = source
    version = TableVersion.of(key, EPOCH)
    assert version is not None
    number = version.number if version.kind == "delta" else version.snapshot
    found: Mapping[Url, pa.BooleanArray] = table(storage, url, replace(settings, as_of=number)).masks()
    return found


def rows_left(source: TableSource, storage: Storage, key: str, file: Url) -> pa.BooleanArray:
    """Return true for each row of a file that is to be sent, by the `deletes` of a TableFile."""
    import pyarrow.compute as pc

    *before, after = key.split()
    left = _masks(storage, source, after)[file]
    if not before:
        return left
    earlier = _masks(storage, source, before[0]).get(file)
    return pc.invert(left) if earlier is None else pc.and_not(earlier, left)


_MARK = "\0"


def value_text(value: str | bytes | UUID | None) -> str | None:
    """Return a partition value as `TableFile.values` has it: bytes and UUIDs are marked, and text like a mark too."""
    if isinstance(value, UUID):
        return f"{_MARK}u{value}"
    if isinstance(value, bytes):
        return f"{_MARK}b{value.hex()}"
    return f"{_MARK}s{value}" if value is not None and value.startswith(_MARK) else value


def partition_value(text: str | None, field: pa.Field, url: Url) -> Any:
    """Return the value of a partition column of a file, whose text is in the table's log."""
    from singer_arrow.casting.from_arrow import fit
    from singer_arrow.casting.from_text import BadValueError

    if text is None:
        return None
    kind, rest = (text[1:2], text[2:]) if text.startswith(_MARK) else ("", text)
    if not kind and pa.types.is_binary(field.type):
        return rest.encode()
    try:
        if kind == "b":
            found = pa.array([bytes.fromhex(rest)], pa.binary())
        elif kind == "u":
            found = pa.array([UUID(rest).bytes], pa.uuid())
        else:
            found = pa.array([rest], pa.string())
        return fit(found, field)[0].as_py()
    except (BadValueError, pa.ArrowException):
        raise DataError(f"its partition value {text!r} is no {field.type}", url=url, column=field.name) from None


def library(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        if error.name != name:
            raise
        raise ConfigError(
            f"Setting 'format' is {extra}, which needs {name}: pip install 'singer-arrow-tap-s3-files[{extra}]'"
        ) from None


def moment(milliseconds: int, table: Url) -> datetime:
    """Return a time of a table's log; DataError if no calendar has it."""
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        reason = f"its log has the time {one_line(str(milliseconds))} (milliseconds since 1970), which no calendar has"
        raise DataError(reason, url=table, hint="Restore the log") from None


def sends_added(url: Url, what: str, operation: str, settings: TableSettings, *, adds: bool, has_keys: bool) -> bool:
    """Return whether the files are sent that a version adds which also removes rows; an error: it ends a run."""
    sends = f"{'' if adds else 'adds nothing and '}removes rows"
    if not settings.ignore_deletes:
        hint = f"Set ignore_deletes to keep such rows in the target's table; {ANEW}"
        raise DataError(f"{what} ({operation}) {sends}, and rows of it may be loaded", url=url, hint=hint)
    if operation.upper() == "DELETE" or not adds:
        logger.warning("%s: %s (%s) %s, which stay in the target's table", url, what, operation, sends)
        return False
    if not has_keys:
        reason = f"{what} ({operation}) writes rows again that may be loaded, and the stream has no key properties"
        raise DataError(reason, url=url, hint=f"Set key_properties, and load_method: upsert; {ANEW}")
    again = "%s: %s (%s) writes rows again that may be loaded; only a target with load_method upsert has them once"
    logger.warning(again, url, what, operation)
    return True


# Columns whose names in files are not those of the table: it knows them by an id, or by a name of its own in files.

ID, NAME = b"PARQUET:field_id", b"name"


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a table, each field at any depth with the metadata that its field in a file is known by: `key`.

    `variants` are those that are VARIANT, whether a file says so or has structs of their parts.
    """

    fields: pa.Schema
    key: bytes = ID
    variants: frozenset[str] = frozenset()

    def reader(self, kind: JoiningFormat) -> TableFormat:
        """Return a format that reads files of the table as if they had its names."""
        return TableFormat(kind, self)

    def in_file(self, schema: pa.Schema, file: pa.Schema, url: Url) -> pa.Schema:
        """Return a schema of the table's names with those of a file."""
        if self.key == ID and not any(f.metadata and ID in f.metadata for f in file):
            raise DataError("it has no field ids, by which the table knows its columns", url=url, hint="Write it anew")
        return pa.schema(self._named(list(schema), list(self.fields), list(file), url))

    def _named(self, ours: list[pa.Field], table: list[pa.Field], file: list[pa.Field], url: Url) -> Iterator[pa.Field]:
        known = {f.name: f for f in table}
        by_mark = {_mark_of(f, self.key): f for f in file}
        for own in ours:
            column = known.get(own.name)
            found = by_mark.get(_mark_of(column, self.key)) if column is not None else None
            if own.name == CHANGES:
                yield own
                continue
            if column is None or found is None:  # also one that the table has no longer
                yield own.with_name(f"{own.name} is not in the file")
                continue
            t = self._type(own.type, column.type, found.type, url)
            if column.name in self.variants:
                t = own.type
            elif pt.is_nested(found.type) and not pt.is_nested(own.type):
                whole = canonical(pa.schema([column])).field(0)
                if self._type(whole.type, column.type, found.type, url) != whole.type:
                    reason = "it is read as JSON, and the table has renamed members of it"
                    raise DataError(reason, url=url, column=own.name, hint="Read it as what it is in the table")
            yield own.with_name(found.name).with_type(t)

    def _type(self, own: pa.DataType, table: pa.DataType, file: pa.DataType, url: Url) -> pa.DataType:
        if pt.is_struct(own) and pt.is_struct(table) and pt.is_struct(file):
            return pa.struct(self._named(list(own), list(table), list(file), url))
        if pt.is_map(own) and pt.is_map(table) and pt.is_map(file):
            return pa.map_(own.key_type, self._type(own.item_type, table.item_type, file.item_type, url))
        if pt.is_list(own) and hasattr(table, "value_type") and hasattr(file, "value_type"):
            return pa.list_(self._type(own.value_type, table.value_type, file.value_type, url))
        return own


def _mark_of(field: pa.Field, key: bytes) -> bytes:
    """Return what a field of a table or of a file is known by."""
    known: Mapping[bytes, bytes] = field.metadata or {}
    return known.get(key, field.name.encode() if key == NAME else b"")


class TableFormat:
    """A format whose files are read with the names of a table's columns."""

    def __init__(self, kind: JoiningFormat, columns: TableColumns) -> None:
        self._kind, self._columns = kind, columns
        self.infer = kind.infer

    def join(self, readers: Sequence[ObjectReader], schema: pa.Schema, options: ReadOptions) -> None:
        """Read each file for itself."""

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        from singer_arrow.formats.parquet_read import read_footer

        file = read_footer(reader, reader.url).metadata.schema.to_arrow_schema()
        named = self._columns.in_file(schema, file, reader.url)
        variants = (n for own, n in zip(schema.names, named.names, strict=True) if own in self._columns.variants)
        options = replace(options, variant_columns=frozenset(variants))
        if named.names == schema.names and named.types == schema.types:
            yield from self._kind.read(reader, schema, options, progress)
            return
        options = replace(options, excluded_members=frozenset(), declared_columns=frozenset(), on_drift="ignore")
        for batch in self._kind.read(reader, named, options, progress):
            yield pa.record_batch(_Renamed(batch, schema))


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A batch with the names of another schema at all depths, handed over without a copy."""

    batch: pa.RecordBatch
    schema: pa.Schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.schema.__arrow_c_schema__(), self.batch.__arrow_c_array__(requested_schema)[1]
