"""Tables of Apache Iceberg: https://iceberg.apache.org/spec/

The library reads the metadata of such a table: its snapshots, and the manifests of the files that each adds.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa

from singer_arrow.errors import CredentialsError, DataError, NotFoundError, ServiceError, one_line
from singer_arrow.formats.base import OF_LIBRARIES
from singer_arrow.schema.arrow_schema import canonical
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.lake.table import (
    ANEW,
    ANEW_HINT,
    DELETED,
    RowsLeft,
    TableColumns,
    TableFile,
    TablePlaces,
    TableSettings,
    TableVersion,
    file_info,
    library,
    moment,
    rows_left,
    sends_added,
    value_text,
)

_METADATA = re.compile(r"(?:v?(\d+))?[^/]*\.metadata\.json(?:\.gz)?")
_DATA, _DELETES, _EQUALITY = 0, 1, 2  # content of manifests and files
_EXISTING, _ADDED, _REMOVED = 0, 1, 2  # status of the entries of manifests
_MOST_DELETED, _MOST_ROWS = 1 << 25, 1 << 30
"""Deleted rows of a table, and rows of a file of which some are deleted, at most: they are in memory."""
_AT_ONCE = 1 << 16  # numbers of rows as objects
_COMPACT = "Compact the table first (rewrite_data_files)"
NONE = 0
"""Used instead of the id of a snapshot, and of its time, for a table that has none yet."""


class IcebergTable:
    """A table of Apache Iceberg."""

    def __init__(self, storage: Storage, url: Url, settings: TableSettings) -> None:
        library("pyiceberg", "iceberg")
        from pyiceberg.io.pyarrow import schema_to_pyarrow
        from pyiceberg.schema import index_by_id

        self.url, self._storage, self._settings = url, storage, settings
        self.opened = datetime.now(UTC)
        self.rows_left: RowsLeft | None = partial(rows_left, (IcebergTable, url, settings))
        with self._errors():
            self._table = self._load()
            self._places = TablePlaces(url, self._folder(), settings.allowed_roots)
            snapshot = self._snapshot(settings.as_of)
            schemas, number = self._table.schemas(), snapshot.schema_id if snapshot is not None else None
            is_old = settings.as_of is not None and number is not None
            schema = schemas[number] if is_old else self._table.schema()
            columns = schema_to_pyarrow(schema)
        if number := next((n for n, f in index_by_id(schema).items() if f.initial_default is not None), None):
            reason, name = (
                "rows of older files have a default for it, which is not read",
                schema.find_column_name(number),
            )
            raise DataError(reason, url=url, column=name, hint="Rewrite the table without it")
        self.schema = canonical(columns)
        self.columns: TableColumns | None = TableColumns(columns)
        self.version = self._version_of(snapshot)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate errors of the library."""
        from pyiceberg import exceptions

        own = (e for e in vars(exceptions).values() if isinstance(e, type) and issubclass(e, Exception))
        known: tuple[type[Exception], ...] = (*own, *OF_LIBRARIES, AttributeError, AssertionError, zlib.error)
        try:
            yield
        except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError):
            raise NotFoundError(f"The catalog {self._settings.catalog!r} has no table {self.url.name!r}") from None
        except known as error:
            reason = one_line(" ".join(str(error).split())[:300])
            if isinstance(error, OSError):
                raise ServiceError(f"{self.url}: its metadata cannot be read ({reason}); try again") from None
            hint = "Check path and catalog, and whether pyiceberg reads such tables"
            raise DataError(f"its metadata cannot be read ({reason})", url=self.url, hint=hint) from None

    def _load(self) -> Any:
        """Return the table of a catalog, of its newest metadata file, or of the one that the path names."""
        from pyiceberg.catalog import load_catalog
        from pyiceberg.table import StaticTable

        if self._settings.catalog:
            catalog = load_catalog(self._settings.catalog, **_access_to(self._storage, None))
            return catalog.load_table(self.url.name)
        urls = {self.url}
        if not self.url.name.endswith(".metadata.json"):
            folder = self.url.join("metadata")
            listed = self._storage.list(folder._replace(key=f"{folder.key}/"))
            found = [(int(m[1] or -1), o.modified, o.url) for o in listed if (m := _METADATA.fullmatch(o.url.name))]
            if not found:
                msg = f"{self.url} is no table of Iceberg: it has no metadata/*.metadata.json; check the path"
                raise NotFoundError(f"{msg}, or set catalog")
            urls = {max(found)[2], max(found, key=lambda f: (f[1], f[0]))[2]}  # by number, and by time
            urls |= {url for number, _, url in found if number < 0}
        tables = [StaticTable.from_metadata(str(url), _access_to(self._storage, url)) for url in urls]
        if len({t.metadata.table_uuid for t in tables}) > 1:
            hint = "Set catalog, or make the path that of the metadata file"
            raise DataError("its folder metadata has files of several tables", url=self.url, hint=hint)
        return max(tables, key=lambda t: t.metadata.last_updated_ms)

    def _folder(self) -> Url:
        """Return the folder of the table: that of its metadata, whose place a setting or the catalog names."""
        if not self._settings.catalog and not self.url.name.endswith(".metadata.json"):
            return self.url
        folder = Url.parse(self._table.metadata_location)
        folder = folder._replace(key=folder.key.rpartition("/")[0])
        return folder._replace(key=folder.key.rpartition("/")[0]) if folder.name == "metadata" else folder

    def _snapshot(self, at: int | str | None) -> Any:
        if at is None:
            number, found = self._table.metadata.current_snapshot_id, self._table.current_snapshot()
            if found is None and number not in (None, -1):
                reason = f"its metadata has no snapshot {number}, which it names as the current one"
                raise DataError(reason, url=self.url, hint="Restore an earlier metadata file")
            return found
        if isinstance(at, int):
            found = self._table.snapshot_by_id(at)
        else:
            time = datetime.fromisoformat(at)
            time = time if time.tzinfo else time.replace(tzinfo=UTC)
            found = self._table.snapshot_as_of_timestamp(int(time.timestamp() * 1000))
        if found is None:
            hint = "Its metadata has other snapshots only; this one may have expired"
            raise DataError(f"it has no snapshot {at}", url=self.url, hint=hint)
        return found

    def _version_of(self, snapshot: Any) -> TableVersion:
        table = str(self._table.metadata.table_uuid)
        if snapshot is None:
            return TableVersion("iceberg", table, NONE, self.opened, NONE)
        at = min(moment(snapshot.timestamp_ms, self.url), self.opened)
        return TableVersion("iceberg", table, snapshot.timestamp_ms, at, snapshot.snapshot_id)

    def files(self, since: TableVersion | None, upto: TableVersion, keys: Sequence[str]) -> Iterable[TableFile]:
        with self._errors():
            if upto.snapshot == NONE:
                return []
            return list(self._whole(upto) if since is None else self._added(self._since(since, upto), since, keys))

    def _whole(self, upto: TableVersion) -> Iterator[TableFile]:
        """Yield the files of a snapshot, in the order of its manifests.

        One of an earlier commit is older, by a microsecond for each commit since then: of the rows of a key the last
        one is the newest.
        """
        snapshot = self._table.snapshot_by_id(upto.snapshot)
        if snapshot is None:
            raise self._expired(upto)
        if any(int(f.content) == _EQUALITY for f in self._live(snapshot, _DELETES)):
            reason = f"{upto} has equality deletes, which are not read"
            raise DataError(reason, url=self.url, hint="Compact the table first (rewrite_data_files)")
        masks, own = self._masks(snapshot), {DELETED.name: None} if self._settings.change_feed else {}
        for entry in self._entries(snapshot, _DATA):
            commits = (snapshot.sequence_number or 0) - (entry.sequence_number or 0)  # format version 1 has none
            file, at = entry.data_file, upto.at - timedelta(microseconds=commits)
            yield self._file(file, at, upto.key if Url.parse(file.file_path) in masks else "", **own)

    def _live(self, snapshot: Any, content: int) -> Iterator[Any]:
        """Yield the data files of a snapshot, or its delete files."""
        yield from (entry.data_file for entry in self._entries(snapshot, content))

    def _entries(self, snapshot: Any, content: int) -> Iterator[Any]:
        for manifest in self._manifests(snapshot):
            if int(manifest.content) == content:
                yield from manifest.fetch_manifest_entry(self._table.io)

    def _manifests(self, snapshot: Any) -> list[Any]:
        """Return the manifests of a snapshot; DataError if its list or one of them may not be where it is."""
        self._places.check(snapshot.manifest_list)
        found = list(snapshot.manifests(self._table.io))
        for manifest in found:
            self._places.check(manifest.manifest_path)
        return found

    def masks(self) -> Mapping[Url, pa.BooleanArray]:
        """Return true for each row of a file that delete files do not have, for the files of which some are deleted."""
        with self._errors():
            return self._masks(self._table.snapshot_by_id(self.version.snapshot))

    def _masks(self, snapshot: Any) -> Mapping[Url, pa.BooleanArray]:
        import pyarrow.compute as pc

        deletes = [f for f in self._live(snapshot, _DELETES) if int(f.content) != _EQUALITY]
        records = {f.file_path: f.record_count for f in self._live(snapshot, _DATA)} if deletes else {}
        deleted, left = dict[str, list[pa.Array]](), _MOST_DELETED
        for delete in deletes:
            for path, rows in self._rows_of(delete, records, left):
                lowest, highest = pc.min_max(rows).as_py().values()
                if not 0 <= lowest <= highest < records[path]:
                    raise self._odd_delete(delete, highest if lowest >= 0 else lowest, path, records[path])
                deleted.setdefault(path, []).append(rows)
                left -= len(rows)
                if left < 0:
                    raise self._too_many_deleted()
        if path := next((p for p in deleted if records[p] > _MOST_ROWS), ""):
            reason = f"rows of {path} are deleted, and it has {records[path]:,} rows; {_MOST_ROWS:,} are read at most"
            raise DataError(reason, url=self.url, hint=_COMPACT)
        return _RowsLeft({Url.parse(p): (records[p], rows) for p, rows in deleted.items()})

    def _odd_delete(self, delete: Any, row: int, path: str, count: int) -> DataError:
        reason = f"it deletes row {row:,} of {path}, which has {count:,} rows"
        return DataError(reason, url=self._places.check(delete.file_path), hint="Restore it, or compact the table")

    def _too_many_deleted(self) -> DataError:
        reason = f"its delete files have more than {_MOST_DELETED:,} rows of its data files"
        return DataError(reason, url=self.url, hint=_COMPACT)

    def _rows_of(self, file: Any, records: Mapping[str, int], most: int) -> Iterator[tuple[str, pa.Array]]:
        """Yield the rows that a file of position deletes or deletion vectors has, by the data file that they are of.

        `records` has the numbers of rows of all data files; a vector has `most` rows at most.
        """
        import pyarrow.compute as pc
        from pyiceberg.table.deletion_vector import PROPERTY_REFERENCED_DATA_FILE
        from pyiceberg.table.puffin import PuffinFile
        from pyroaring import BitMap

        url, kind = self._places.check(file.file_path), file.file_format.value
        data = bytes(self._storage.get(url).data)
        if kind == "PUFFIN":
            puffin = PuffinFile(data)
            for blob in puffin.footer.blobs:
                path = blob.properties[PROPERTY_REFERENCED_DATA_FILE]
                if path not in records:  # not any more
                    continue
                if blob.compression_codec is not None:
                    reason = f"a deletion vector in it is compressed ({blob.compression_codec}), which is not read"
                    raise DataError(reason, url=url, hint=_COMPACT)
                # Length and mark (4 bytes each), then the number of bitmaps (8), each behind the upper half of its rows
                packed = puffin.get_blob_payload(blob)[8:-4]
                number, at = int.from_bytes(packed[:8], "little"), 8
                for _ in range(number):
                    first = int.from_bytes(packed[at : at + 4], "little") << 32
                    rows = BitMap.deserialize(packed[at + 4 :])
                    at += 4 + len(rows.serialize())
                    if rows and first + rows.max() >= records[path]:
                        raise self._odd_delete(file, first + rows.max(), path, records[path])
                    if (most := most - len(rows)) < 0:
                        raise self._too_many_deleted()
                    if rows:
                        yield path, pc.add(pa.array(rows.to_array(), pa.uint32()).cast(pa.int64()), first)
        elif kind == "PARQUET":
            import pyarrow.parquet as pq

            for batch in pq.ParquetFile(pa.BufferReader(data)).iter_batches(columns=["file_path", "pos"]):
                for path in pc.unique(batch["file_path"]).to_pylist():
                    rows = batch["pos"].filter(pc.equal(batch["file_path"], path)).drop_null()
                    if path in records and len(rows):
                        yield path, rows
        else:
            reason = f"it has deletes as {kind}, which are read as Parquet and deletion vectors only"
            raise DataError(reason, url=url)

    def _since(self, since: TableVersion, upto: TableVersion) -> list[Any]:
        """Return the snapshots behind one, in order; an error: it is no ancestor, or one has expired."""
        found, number, passed = list[Any](), upto.snapshot, set[int]()
        while number is not None and number != since.snapshot:
            if number in passed:
                reason = f"snapshot {number} is an ancestor of itself"
                raise DataError(reason, url=self.url, hint="Restore an earlier metadata file")
            passed.add(number)
            snapshot = self._table.snapshot_by_id(number)
            if snapshot is None:
                raise self._expired(since)
            found.append(snapshot)
            number = snapshot.parent_snapshot_id
        if number is None and since.snapshot != NONE:
            reason = f"{since} was read, and is no ancestor of {upto}: it has expired, or the table was rolled back"
            raise DataError(reason, url=self.url, hint=ANEW_HINT)
        return found[::-1]

    def _expired(self, version: TableVersion) -> DataError:
        reason = f"{version}, or one behind it, has expired before it was read"
        return DataError(reason, url=self.url, hint=f"Run more often than snapshots expire; {ANEW}")

    def _added(self, snapshots: Iterable[Any], since: TableVersion, keys: Sequence[str]) -> Iterator[TableFile]:
        """Yield the files that snapshots add with new rows."""
        before, io = since.at, self._table.io
        for snapshot in snapshots:
            operation = str(snapshot.summary.operation.value) if snapshot.summary else "unknown operation"
            before = max(before + timedelta(microseconds=1), moment(snapshot.timestamp_ms, self.url))
            if operation == "replace":
                continue
            own = [m for m in self._manifests(snapshot) if m.added_snapshot_id == snapshot.snapshot_id]
            entries = [entry for m in own for entry in m.fetch_manifest_entry(io, discard_deleted=False)]
            entries.sort(key=lambda e: str(e.data_file.file_path))
            added, removed = (
                [e.data_file for e in entries if int(e.status) == status and int(e.data_file.content) == _DATA]
                for status in (_ADDED, _REMOVED)
            )
            deletes = [e.data_file for e in entries if int(e.data_file.content) != _DATA and int(e.status) != _EXISTING]
            what = f"snapshot {snapshot.snapshot_id}"
            if self._settings.change_feed:
                yield from self._changes(snapshot, (added, removed, deletes), before, keys)
                before += timedelta(microseconds=1)
                continue
            if (removed or deletes) and not sends_added(
                self.url, what, operation, self._settings, adds=bool(added), has_keys=bool(keys)
            ):
                continue
            yield from (self._file(f, before) for f in added)

    def _changes(
        self, snapshot: Any, files: tuple[list[Any], list[Any], list[Any]], at: datetime, keys: Sequence[str]
    ) -> Iterator[TableFile]:
        """Yield the files with the rows that a snapshot deletes, and then those with rows that it adds."""
        import pyarrow.compute as pc

        added, removed, deletes = files
        time, what = at.isoformat(), f"snapshot {snapshot.snapshot_id}"
        earlier: Mapping[Url, pa.BooleanArray] = {}
        later = earlier
        if removed or deletes:
            parent = self._table.snapshot_by_id(snapshot.parent_snapshot_id)
            if parent is None:
                raise self._expired(self._version_of(snapshot))
            before, after = self._version_of(parent).key, self._version_of(snapshot).key
            earlier, later = self._masks(parent), self._masks(snapshot)
            ours, marked = {f.file_path for f in added}, list[Any]()
            for file in self._live(snapshot, _DATA) if earlier or later else ():
                url = Url.parse(file.file_path)
                was, now = earlier.get(url), later.get(url)
                if was is not None and (now is None or pc.any(pc.and_not(now, was)).as_py()):
                    raise DataError(f"{what} brought deleted rows of {url} back", url=self.url, hint=ANEW_HINT)
                if now is not None and now != was and file.file_path not in ours:
                    marked.append(file)
            if (removed or marked) and any(int(f.content) == _EQUALITY for f in self._live(parent, _DELETES)):
                reason = f"{what} deletes rows of files, of which equality deletes may have deleted some before"
                raise DataError(reason, url=self.url, hint=f"Compact the table after such deletes; {ANEW}")
            for file in (f for f in deletes if int(f.content) == _EQUALITY):
                names = {self._table.schema().find_column_name(n) for n in file.equality_ids}
                parts = {self._table.schema().find_column_name(p.source_id) for p in self._parts(file)}
                if names != set(keys) or not parts <= names:
                    reason = f"{what} has equality deletes by {', '.join(sorted(names | parts))}"
                    raise DataError(f"{reason}, which are not key_properties", url=self.url, hint=ANEW_HINT)
                yield self._file(file, at, **{DELETED.name: time})
            for file in removed:
                key = before if Url.parse(file.file_path) in earlier else ""
                yield self._file(file, at, key, **{DELETED.name: time})
            for file in marked:
                yield self._file(file, at, f"{before} {after}", **{DELETED.name: time})
        for file in added:
            key = after if Url.parse(file.file_path) in later else ""
            yield self._file(file, at + timedelta(microseconds=1), key, **{DELETED.name: None})

    def _parts(self, file: Any) -> Sequence[Any]:
        fields: Sequence[Any] = self._table.specs()[file.spec_id].fields
        return fields

    def _file(self, file: Any, at: datetime, deletes: str = "", **more: str | None) -> TableFile:
        from pyiceberg.types import UUIDType

        if str(file.file_format.value).lower() != "parquet":
            reason = f"{file.file_path} is {file.file_format.value}, and files of tables are read as Parquet only"
            raise DataError(reason, url=self.url)
        values: dict[str, str | None] = {}
        for number, part in enumerate(self._parts(file)):
            name = self._table.schema().find_column_name(part.source_id)
            column = self.schema.get_field_index(name) if name else -1
            if str(part.transform) == "identity" and column >= 0:
                value, kind = file.partition[number], self._table.schema().find_type(part.source_id)
                if isinstance(kind, UUIDType) and isinstance(value, bytes):
                    value = UUID(bytes=value)
                if value is not None and not isinstance(value, (bytes, UUID)):
                    value = part.transform.to_human_string(kind, value)
                values[str(name)] = value_text(value)
        info = file_info(self._places.check(file.file_path), file.file_size_in_bytes, at, self.url)
        return TableFile(info, values | more, deletes)


class _RowsLeft(Mapping[Url, pa.BooleanArray]):
    """True for each row of a file that is not deleted, made when it is looked up."""

    def __init__(self, deleted: Mapping[Url, tuple[int, list[pa.Array]]]) -> None:
        self._deleted = deleted  # number of rows of a file, and those that are deleted

    def __getitem__(self, file: Url) -> pa.BooleanArray:
        import pyarrow.compute as pc

        count, deleted = self._deleted[file]
        bits = bytearray(-(-count // 8))
        for rows in deleted:
            for some in (rows.slice(at, _AT_ONCE) for at in range(0, len(rows), _AT_ONCE)):
                for row in some.to_pylist():
                    bits[row >> 3] |= 1 << (row & 7)
        return pc.invert(pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bits)]))

    def __contains__(self, file: object) -> bool:
        return file in self._deleted

    def __iter__(self) -> Iterator[Url]:
        return iter(self._deleted)

    def __len__(self) -> int:
        return len(self._deleted)


def _access_to(storage: Storage, url: Url | None) -> dict[str, Any]:
    """Return the access to a table's store as the library wants it; that of other stores is in its configuration."""
    if url is not None and url.scheme != "s3":
        return {}
    try:
        access = storage.access(url) if url is not None else storage.usual_access
        given = access.credentials() if access.credentials is not None else {}
    except CredentialsError:
        if url is None:  # the catalog may need none
            return {}
        raise
    found = {
        "s3.endpoint": access.endpoint,
        "s3.region": access.region,
        "s3.access-key-id": given.get("access_key_id"),
        "s3.secret-access-key": given.get("secret_access_key"),
        "s3.session-token": given.get("token"),
        "s3.anonymous": None if given else "true",
    }
    return {name: value for name, value in found.items() if value}
