"""COPY into a staging table, its rows counted; the cause of one that fails."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singer_arrow.batch.files import read_file
from singer_arrow.errors import DataError, LoadError, RetriableError, ServiceError, SingerArrowError
from singer_arrow.load.dead_letters import BatchRejects
from singer_arrow.naming import STAGING
from singer_arrow.schema.arrow_schema import json_field
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from target_redshift import sql
from target_redshift.client import Redshift
from target_redshift.columns import BYTES, TEXT, StagingColumn, file_schema, has_nested, ignores_case, upload_columns
from target_redshift.connection import Session
from target_redshift.conversion import (
    MAX_BASE64,
    ConvertibleTextError,
    LongTextError,
    UnloadableValue,
    first_unloadable,
    holds_json,
)
from target_redshift.ledger import MARK
from target_redshift.merge_pruning import Bound
from target_redshift.resources import CopyRefusedError, ExpiredError, LoadErrorRow
from target_redshift.tables import Destination
from target_redshift.types import MAX_VARBYTE, MAX_VARCHAR, Column
from target_redshift.uploads import CopyFile, Layout, PreparedItem, S3StagingFolder, UploadEncoding

# COPYs the files of a copy batch into a staging table and counts the rows.


class CountError(LoadError):
    """COPY loaded another number of rows than expected."""

    code = "row-count"


@dataclass(frozen=True, slots=True)
class CopyBatch:
    """Files of one layout that one COPY loads; `is_staged_here`: this run wrote them and removes them later."""

    layout: Layout
    files: tuple[CopyFile, ...]
    manifest: Url
    is_staged_here: bool

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.files)

    @property
    def bytes(self) -> int:
        return sum(f.bytes for f in self.files)


class StagingTables:
    """The staging tables of a group, and the session that they belong to."""

    def __init__(self, client: Redshift) -> None:
        self._client = client
        self._stack = ExitStack()
        self.session: Session = self._stack.enter_context(client.session())
        self.columns: dict[str, Sequence[StagingColumn]] = {}  # of each table that COPY filled, by its quoted name
        self.merged: str | None = None  # the quoted name of the table that has the rows of all of them, for `upsert`
        self.bounds: Sequence[Bound] = ()  # where the keys of that table lie
        self.deletions = 0  # number of its rows that mark their key as deleted
        self.last = ""  # the name of the table that was made last
        self._made: list[str] = []

    @property
    def staged(self) -> dict[str, list[str]]:
        """The names of the columns of each table that COPY filled."""
        return {name: [c.name for c in staged if c.constant is None] for name, staged in self.columns.items()}

    def name(self) -> str:
        """Return the quoted name of one more temporary table of this session, dropped when this is closed."""
        self.last = f"{STAGING}{uuid.uuid4().hex}"
        name = sql.quoted(self.last)
        self._made.append(name)
        return name

    def copy(self, copy_batch: CopyBatch, what: str, options: Sequence[str] = ()) -> None:
        """Make a staging table, and COPY files into it; it is an error if Redshift takes another number of rows.

        `ServiceError` also if credentials expired meanwhile and there are new ones.
        """
        name = self.name()
        self.session.execute(sql.create_staging(name, copy_batch.layout.columns), what=what)
        access, layout = self._client.access(), copy_batch.layout
        given: dict[str, Any] = {"manifest": str(copy_batch.manifest), "access": access, "options": options}
        if layout.file_format == "parquet":
            text = sql.copy_parquet(name, **given, nested=has_nested(layout.columns))
        elif layout.file_format == "csv":
            text = sql.copy_csv(name, **given, compression=layout.compression)
        else:
            ignore_case = ignores_case(layout.columns)
            text = sql.copy_json(name, **given, compression=layout.compression, ignore_case=ignore_case)
        try:
            self.session.execute(text, what=what)
        except ExpiredError as error:
            if access.role is None and self._client.access() == access:
                raise  # there are no newer ones
            raise ServiceError(str(error)) from None
        rows = int(self.session.execute(sql.COPIED_ROWS, what=what).value)
        if rows != copy_batch.rows:
            raise CountError(
                f"{what}: COPY took {rows} of {copy_batch.rows} rows from {copy_batch.files[0].url}; run the tap again"
            )
        self.columns[name] = copy_batch.layout.columns

    def needed_bytes(
        self,
        destination: Destination,
        staged: Mapping[str, Sequence[str]],
        copy_batches: Sequence[CopyBatch],
        storage: Storage,
    ) -> dict[str, int]:
        """Return the bytes of the longest staged text of each column that is not of the greatest width.

        `staged` has the quoted names of staging tables, and their columns. If a text is longer than its column may get,
        the error names file, row and column; it is a ConvertibleTextError if conversion of the file can keep the text.
        """
        growing = [name for name in destination.texts if destination.lengths.get(name, 0) < MAX_VARCHAR]
        needed: dict[str, int] = {}
        for table, held in staged.items():
            names = [name for name in growing if name in held]
            if names:
                what = f"Measuring texts for table {self._client.path(destination.name)}"
                (found,) = self.session.execute(sql.longest_texts(table, names), what=what).rows
                for name, length in zip(names, found, strict=True):
                    needed[name] = max(needed.get(name, 0), int(length or 0))
        for name, length in needed.items():
            most = max(self._client.settings.varchar_max, destination.lengths.get(name, 0))
            if length <= most:
                continue
            column = next(c for c in destination.columns if c.name == name)
            if column.is_rescued:
                raise ConvertibleTextError(f"a text has {length:,} bytes", column=column.source)
            placed = first_unloadable_value(copy_batches, [column], storage, most)
            reason = f"a text has {length:,} bytes, and Redshift's column takes {most:,}"
            hint = "Shorten it or leave the column out in the tap"
            raise placed or LongTextError(reason, column=column.source, hint=hint)
        return needed

    def close(self) -> None:
        """Remove the tables, and give the session back."""
        try:
            while self._made and not self.session.broken:
                name = self._made.pop()
                self.session.execute(sql.drop_table(name), what=f"Dropping temporary table {name}")
        except RetriableError:
            self.session.close()  # the tables go with it
        finally:
            self._stack.close()


# A group: items that are loaded together, and their files in copy batches.


@dataclass(slots=True, eq=False)
class Group:
    """Items that have rows and are loaded together, also if none of these is loaded."""

    parts: list[PreparedItem]
    copy_batches: list[CopyBatch] = field(default_factory=list)
    mark: str = field(default_factory=lambda: f"{MARK}{uuid.uuid4().hex}")  # a unique id, for the ledger
    tables: StagingTables | None = None  # as long as their session lasts
    may_be_committed: bool = False  # the answer to a COMMIT was lost

    @property
    def rows(self) -> int:
        return sum(p.rows for p in self.parts)

    @property
    def rejected(self) -> list[BatchRejects]:
        return [BatchRejects(p.item.batch_id, p.rejects.rows) for p in self.parts if p.rejects]


def copy_batches(
    parts: Sequence[PreparedItem],
    staging_folder: S3StagingFolder,
    columns: Sequence[Column],
    upload_format: str,
    *,
    ordered: bool,
) -> Iterator[CopyBatch]:
    """Put the rows of a group's parts, one at least, where COPY finds them, and write the manifests.

    `columns` are the table's, which rows are uploaded for; `ordered` rows have the column of their order in the stream.
    """
    names = (parts[0].item.stream, parts[0].item.batch_id or "records")
    by_layout: dict[Layout, tuple[Layout, list[CopyFile]]] = {}
    for part in parts:
        for layout, file in part.files:
            by_layout.setdefault(layout.key, (layout, []))[1].append(file)
    for layout, files in by_layout.values():
        yield CopyBatch(layout, tuple(files), staging_folder.put_manifest(files, *names), is_staged_here=False)
    spools = [part.spool for part in parts if part.spool and part.rows]
    if not spools:
        return
    if any(part.has_long_json for part in parts):
        upload_format = "jsonl"  # COPY parses its objects itself, and takes some megabytes of them
    encoding = UploadEncoding(upload_format, file_schema(columns, upload_format, ordered=ordered))
    layout = Layout(
        upload_format,
        tuple(upload_columns(columns, upload_format, ordered=ordered)),
        None if upload_format == "parquet" else "gzip",
    )
    uploaded = staging_folder.upload(spools, encoding, *names)
    try:
        manifest = staging_folder.put_manifest(uploaded, *names)
    except BaseException:
        staging_folder.remove([Url.parse(file.url) for file in uploaded])
        raise
    yield CopyBatch(layout, uploaded, manifest, is_staged_here=True)


def ours(copy_batches: Sequence[CopyBatch]) -> list[Url]:
    """Return what was staged for COPY: manifests, and files that are not the tap's."""
    files = [
        Url.parse(file.url) for copy_batch in copy_batches if copy_batch.is_staged_here for file in copy_batch.files
    ]
    return [*files, *(copy_batch.manifest for copy_batch in copy_batches)]


# Why a COPY failed, or what a staging table holds that the table cannot: which file, row, column and value.

_ABOUT_TEXT = re.compile(r"UTF-?8|length exceeds|NUL|too long|longer than", re.IGNORECASE)
logger = logging.getLogger("target-redshift")


def failed_copy(
    client: Redshift, tables: StagingTables, copy_batch: CopyBatch, storage: Storage, error: LoadError
) -> SingerArrowError:
    """Return the error of the last COPY into staging tables, with file, row, column and value where they can be found.

    Redshift's tables of load errors name file, line and column. Where they hold nothing, or are about text, the text
    and binary values of the tap's own files are checked.
    """
    long = (TEXT, BYTES)
    texts = [c.column for c in copy_batch.layout.columns if c.column and (c.type in long or c.column.kind == "SUPER")]
    most_binary = MAX_VARBYTE if copy_batch.layout.file_format == "parquet" else MAX_BASE64
    found = load_errors(client, tables.session, tables.last)
    if found and not any(_ABOUT_TEXT.search(bad.reason) for bad in found):
        return with_load_errors(error, found)
    try:
        unloadable = first_unloadable_value([copy_batch], texts, storage, MAX_VARCHAR, most_binary=most_binary)
        return unloadable or with_load_errors(error, found)
    except DataError as bad:  # the file is invalid: the better error
        return bad
    except SingerArrowError as unreadable:
        logger.debug("The files could not be looked at: %s", unreadable)
        return with_load_errors(error, found)


def load_errors(client: Redshift, session: Session, table: str) -> list[LoadErrorRow]:
    """Return the load errors of a COPY into a temporary table of the session, the newest first.

    Session numbers are reused, and a session runs several COPYs, so the id of the temporary table is compared too.

    All users can read `sys_load_error_detail`, which has no values; `stl_load_errors` has them, but not all users can
    read it, and serverless does not have it.
    """
    what, found = "Reading load errors", list[LoadErrorRow]()
    try:
        which = [session.id, session.execute(sql.TABLE_ID, [table], what=what).value]
    except SingerArrowError as error:
        logger.debug("%s", error)  # the error of the COPY is reported instead
        return []
    for text in (sql.LOAD_ERRORS, sql.OLD_LOAD_ERRORS):
        try:
            with client.session() as other:
                found = [LoadErrorRow.of(row) for row in other.execute(text, which, what=what).rows] or found
        except SingerArrowError as error:
            logger.debug("%s", error)
        if any(bad.value for bad in found):
            break
    return found


def with_load_errors(error: SingerArrowError, bad: Sequence[LoadErrorRow]) -> SingerArrowError:
    """Return the error of a COPY with the load errors of the system tables."""
    if not bad:
        return error
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    what = str(error).partition(": ")[0]
    hint = "correct the file, or the column's type in the tap, or set on_bad_row: dead_letter"
    return CopyRefusedError(f"{what}: {bad[0]}{more}; {hint}", bad[0])


def first_unloadable_value(
    copy_batches: Sequence[CopyBatch],
    columns: Sequence[Column],
    storage: Storage,
    most: int,
    *,
    most_binary: int = MAX_VARBYTE,
) -> DataError | None:
    """Return the first value in files loaded as they are that is too long for its column, has a NUL, or is not UTF-8.

    It is a `ConvertibleTextError` if conversion of the file can keep the value.
    """

    def look(array: pa.Array, column: Column) -> UnloadableValue | None:
        bad = first_unloadable(array, most_binary if column.kind == "VARBYTE" else most, is_json=holds_json(column))
        if bad and bad.kind is LongTextError and (column.is_rescued or holds_json(column)):
            return replace(bad, kind=ConvertibleTextError)
        return bad

    return _first(copy_batches, columns, storage, _as_text, look)


def null_key(copy_batches: Sequence[CopyBatch], columns: Sequence[Column], storage: Storage) -> DataError | None:
    """Return the first null in key columns of files loaded as they are."""

    def look(array: pa.Array, column: Column) -> UnloadableValue | None:  # noqa: ARG001 - as all that look
        row = pc.index(array.is_null(), True).as_py()
        hint = "Set other key_properties, or load_method: append-only"
        return None if row < 0 else UnloadableValue(row, "a key property is null", hint)

    return _first(copy_batches, columns, storage, lambda c: pa.field(c.source, c.arrow), look)


def _as_text(column: Column) -> pa.Field:
    if column.kind == "VARBYTE":
        return pa.field(column.source, pa.binary())
    return json_field(column.source) if holds_json(column) else pa.field(column.source, pa.string())


def _first(
    copy_batches: Iterable[CopyBatch],
    columns: Sequence[Column],
    storage: Storage,
    field: Callable[[Column], pa.Field],
    look: Callable[[pa.Array, Column], UnloadableValue | None],
) -> DataError | None:
    schema = pa.schema([field(c) for c in columns])
    for copy_batch in copy_batches:
        for file in [] if copy_batch.is_staged_here or not columns else copy_batch.files:
            before = 0
            for batch in read_file(storage, file.url, format=copy_batch.layout.file_format, schema=schema):
                for column, array in zip(columns, batch.columns, strict=True):
                    if bad := look(array, column):
                        return bad.error(file.url, column.source, before, copy_batch.layout.file_format)
                before += batch.num_rows
    return None
