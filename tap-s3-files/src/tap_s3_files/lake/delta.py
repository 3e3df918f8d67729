"""Tables of Delta Lake: https://github.com/delta-io/delta/blob/master/PROTOCOL.md

The log of such a table has a file of JSON lines for each version, and checkpoints, which the library reads.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import DataError, NotFoundError, ServiceError, is_panic, one_line
from singer_arrow.formats.base import OF_LIBRARIES
from singer_arrow.schema.arrow_schema import canonical
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.lake.deletion_vector import SHIFT, decode, file_of, highest_group
from tap_s3_files.lake.table import (
    ANEW,
    ANEW_HINT,
    CHANGES,
    DELETED,
    ID,
    NAME,
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

_READS_AT_ONCE = 16
_DELETES = "deletionVectors"
_READABLE = {
    _DELETES,
    "columnMapping",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "variantType",
    "variantType-preview",
    "variantShredding-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
"""Features of tables that are read."""
_STATISTICS = {"num_records", "null_count", "min", "max"}
"""Columns of a list of files that are not read."""
_NO_REASON = re.compile(r"\x1b\[[0-9;]*m|\s+0: (?s:.*)")  # colors, and where in the library it was


_MAPPINGS = ("none", "id", "name")

# What is read of the actions of a commit. Values of other types are refused before anything reads them.

_Moment = Annotated[int, msgspec.Meta(ge=-62_135_596_800_000, le=253_402_300_799_999)]
"""Milliseconds since 1970, in the years 1 to 9999."""


class _File(msgspec.Struct):
    path: str
    partitionValues: dict[str, str | None] | None = None  # noqa: N815 - as in the protocol
    size: int | None = None
    dataChange: bool = True  # noqa: N815
    deletionVector: _Vector | None = None  # noqa: N815


class _Added(_File, kw_only=True):
    size: int
    dataChange: bool  # noqa: N815


class _Vector(msgspec.Struct):
    storageType: str  # noqa: N815
    pathOrInlineDv: str  # noqa: N815


class _Info(msgspec.Struct):
    timestamp: _Moment | None = None
    inCommitTimestamp: _Moment | None = None  # noqa: N815


class _Action(msgspec.Struct):
    add: _Added | None = None
    remove: _File | None = None
    cdc: _File | None = None
    commitInfo: _Info | None = None  # noqa: N815


_ACTION = msgspec.json.Decoder(_Action)
_MOST_LEVELS = 100
"""Levels of an action: the library calls itself for each, and its stack is of limited size."""
_TOKEN = re.compile(rb'"(?>(?:[^"\\]|\\.)*)"|[\[\]{}]', re.DOTALL)


class MissingCommitError(DataError):
    """A commit is not in the log."""


def actions_of(data: bytes, url: Url) -> list[dict[str, Any]]:
    """Return the actions of a commit; DataError if it is none, or nested too deeply."""
    try:
        lines = [line for line in data.splitlines() if line.strip()]
        for line in lines:
            _refuse_depth(line, url)
            _ACTION.decode(line)
        return [{name: value for name, value in json.loads(line).items() if value is not None} for line in lines]
    except (ValueError, RecursionError) as error:  # also those of msgspec
        reason = f"it is no commit of Delta Lake ({one_line(str(error))})"
        raise DataError(reason, url=url, hint="Restore it") from None


def _refuse_depth(line: bytes, url: Url) -> None:
    if line.count(b"[") + line.count(b"{") <= _MOST_LEVELS:
        return
    depth = 0
    for token in _TOKEN.finditer(line):
        depth += 1 if token[0] in (b"[", b"{") else -1 if token[0] in (b"]", b"}") else 0
        if depth > _MOST_LEVELS:
            raise DataError(f"it has values within more than {_MOST_LEVELS} others", url=url, hint="Restore it")


def _info_of(actions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((a["commitInfo"] for a in actions if "commitInfo" in a), {})


class DeltaTable:
    """A table of Delta Lake."""

    def __init__(self, storage: Storage, url: Url, settings: TableSettings) -> None:
        self._library = library("deltalake", "delta")
        self.url, self._storage, self._settings = url, storage, settings
        self._places = TablePlaces(url, url, settings.allowed_roots)
        self.opened = datetime.now(UTC)
        self.rows_left: RowsLeft | None = partial(rows_left, (DeltaTable, url, settings))
        self._options = _storage_options(storage, url)
        self._check_log(settings.as_of)
        self._known = self._open(settings.as_of)
        with self._errors():
            self._check_features()
            self.version = self._version_of(self._known)
            fields = json.loads(self._known.schema().to_json())["fields"]
            mapping = self._known.metadata().configuration.get("delta.columnMapping.mode") or "none"
            columns = pa.schema(self._known.schema().to_arrow())
            variants = frozenset(f["name"] for f in fields if f["type"] == "variant")
            self.schema = canonical(pa.schema(_with_variants(list(columns), fields)))
        if within := next((f["name"] for f in fields if _has_variant_within(f["type"])), None):
            reason = "it has VARIANT within it, which is read as a column only"
            raise DataError(reason, url=url, column=within, hint="Make it a column of its own")
        if mapping not in _MAPPINGS:
            reason = f"the table's delta.columnMapping.mode is {one_line(str(mapping))!r}, which is not known"
            raise DataError(reason, url=url, hint=f"Set it to one of {', '.join(_MAPPINGS)}")
        self.columns: TableColumns | None = None
        self._names = {f["name"]: f["name"] for f in fields}  # of partition columns in the log
        if mapping != "none":
            marked = _with_marks(list(columns), fields)
            if lost := next((f.name for f in marked if NAME not in (f.metadata or {})), None):
                reason = f"the table has column mapping ({mapping}), and no physical name for a column"
                raise DataError(reason, url=url, column=lost, hint="Restore the log")
            self.columns = TableColumns(pa.schema(marked), ID if mapping == "id" else NAME, variants)
            self._names = {f.metadata[NAME].decode(): f.name for f in marked}
        elif variants:
            self.columns = TableColumns(columns, NAME, variants)

    def _check_log(self, at: int | str | None) -> None:
        """Refuse commits that the library would not survive, of those that it reads."""
        files = list(self._log_files())
        last = at if isinstance(at, int) else max((f.number for f in files if not f.part), default=0)
        since = 0 if isinstance(at, str) else _newest_checkpoint(files, last)
        read = [f.url for f in files if not f.part and since <= f.number <= last]
        with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
            for _ in pool.map(lambda url: actions_of(bytes(self._storage.get(url).data), url), read):
                pass

    def _log_files(self) -> Iterator[_LogFile]:
        """Yield the files of the log that may name files of the table."""
        folder = self.url.join("_delta_log")
        for info in self._storage.list(folder._replace(key=f"{folder.key}/")):
            if (name := _LOG_FILE.fullmatch(info.url.key.removeprefix(f"{folder.key}/"))) is not None:
                parts = int(name["of"] or 1)
                part = _SIDECAR if name["number"] is None else parts if name["checkpoint"] else 0
                yield _LogFile(info.url, int(name["number"] or 0), part)

    def _open(self, at: int | str | None) -> Any:
        place = str(self.url.local_path()) if self.url.scheme == "file" else str(self.url)
        number = at if isinstance(at, int) else None
        with self._errors(at):
            table = self._library.DeltaTable(place, version=number, storage_options=self._options)
            if isinstance(at, str):
                table.load_as_version(at)
        return table

    @contextmanager
    def _errors(self, at: int | str | None = None) -> Iterator[None]:
        """Translate errors of the library."""
        try:
            yield
        except self._library.exceptions.TableNotFoundError:
            raise NotFoundError(f"{self.url} is no table of Delta Lake: it has no _delta_log; check the path") from None
        except (self._library.exceptions.DeltaError, *OF_LIBRARIES) as error:
            reason = one_line(" ".join(_NO_REASON.sub("", str(error)).split())[:300])
            if isinstance(error, OSError):
                raise ServiceError(f"{self.url}: its log cannot be read ({reason}); try again") from None
            what, hint = "its log", "Write a checkpoint, or read a copy of it that another writer made"
            if at is not None:
                what, hint = f"version {at}", "Its log may have newer ones only, or none of that number"
            raise DataError(f"{what} cannot be read ({reason})", url=self.url, hint=hint) from None
        except BaseException as error:
            if not is_panic(error):
                raise
            hint = "Write a checkpoint, or read a copy of it that another writer made"
            raise DataError(
                f"its log makes the library fail ({one_line(str(error))})", url=self.url, hint=hint
            ) from None

    def _check_features(self) -> None:
        """Refuse a table whose files have more in them, or less, than its rows."""
        features = set(self._known.protocol().reader_features or ())
        if unknown := sorted(features - _READABLE):
            raise DataError(f"the table has the features {', '.join(unknown)}, which are not read", url=self.url)
        self._has_deletes = _DELETES in features

    def _version_of(self, table: Any) -> TableVersion:
        time = None
        with suppress(MissingCommitError):  # a checkpoint has it
            time = _info_of(self._commit(int(table.version()))).get("timestamp")
        at = self.opened if time is None else min(moment(time, self.url), self.opened)
        return TableVersion("delta", str(table.metadata().id), int(table.version()), at, time)

    def files(self, since: TableVersion | None, upto: TableVersion, keys: Sequence[str]) -> Iterable[TableFile]:
        if since is None:
            return self._snapshot(upto)
        if since.snapshot is not None:
            with suppress(MissingCommitError):  # cleaned up: it is not known
                about = _info_of(self._commit(since.number))
                if about.get("timestamp") not in (None, since.snapshot):
                    reason = f"{since} was read, and its log has another commit of that number: it was written anew"
                    raise DataError(reason, url=self.url, hint=ANEW_HINT)
        numbers = range(since.number + 1, upto.number + 1)
        with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
            commits = pool.map(self._commit, numbers)
            return list(self._added(zip(numbers, commits, strict=True), since, bool(keys)))

    def _snapshot(self, version: TableVersion) -> Iterator[TableFile]:
        table = self._known if version.number == self.version.number else self._open(version.number)
        with self._errors():
            adds = pa.table(table.get_add_actions())
            vectors = self.masks(table).keys() if self._has_deletes else {}
        adds = adds.drop([name for name in adds.column_names if name in _STATISTICS])  # may be most of it
        adds = adds.sort_by([("modification_time", "ascending"), ("path", "ascending")])
        for batch in adds.to_batches(max_chunksize=10_000):
            values = (
                batch["partition"] if "partition" in batch.schema.names else pa.array([{}] * len(batch), pa.struct([]))
            )
            names = [self._names.get(f.name, f.name) for f in values.type]
            columns = [c.cast(pa.string()).to_pylist() for c in values.flatten()]
            places = (batch[name].to_pylist() for name in ("path", "size_bytes", "modification_time"))
            for path, size, modified, *texts in zip(*places, *columns, strict=True):
                info = file_info(self._file_url(path), size, min(moment(modified, self.url), version.at), self.url)
                own = {DELETED.name: None} if self._settings.change_feed else {}
                key = version.key if info.url in vectors else ""
                yield TableFile(info, dict(zip(names, map(value_text, texts), strict=True)) | own, key)

    def _commit(self, number: int) -> list[dict[str, Any]]:
        url = self.url.join("_delta_log", f"{number:020d}.json")
        try:
            return actions_of(bytes(self._storage.get(url).data), url)
        except NotFoundError:
            reason = f"version {number} is not in its log any more, and has not been read"
            raise MissingCommitError(
                reason, url=self.url, hint=f"Run more often than it is cleaned up; {ANEW}"
            ) from None

    def _added(
        self, commits: Iterable[tuple[int, list[dict[str, Any]]]], since: TableVersion, has_keys: bool
    ) -> Iterator[TableFile]:
        """Yield the files that commits add with new rows."""
        before = since.at
        for number, actions in commits:
            about = _info_of(actions)
            operation = str(about.get("operation") or "unknown operation")
            added = [a["add"] for a in actions if "add" in a and a["add"]["dataChange"]]
            removed = {a["remove"]["path"] for a in actions if "remove" in a and a["remove"].get("dataChange", True)}
            what = f"version {number}"
            at = about.get("inCommitTimestamp") or about.get("timestamp") or 0
            deleted_at = max(before + timedelta(microseconds=1), moment(int(at), self.url))
            before = deleted_at + timedelta(microseconds=1)  # rows that are added come behind those that are deleted
            if self._settings.change_feed:
                yield from self._changes(number, actions, deleted_at, before)
                continue
            if operation == "RESTORE":
                raise DataError(f"{what} (RESTORE) brought an earlier version back", url=self.url, hint=ANEW_HINT)
            if removed and not sends_added(
                self.url, what, operation, self._settings, adds=bool(added), has_keys=has_keys
            ):
                continue
            for add in sorted((a for a in added if a["path"] not in removed), key=lambda a: str(a["path"])):
                yield self._file(add, before, number)

    def _file(self, action: Mapping[str, Any], at: datetime, number: int, **more: str | None) -> TableFile:
        """Return the file of an action, whose deleted rows are those of a version."""
        info = file_info(self._file_url(action["path"]), action.get("size"), at, self.url)
        texts = action.get("partitionValues") or {}
        key = replace(self.version, number=number).key if action.get("deletionVector") else ""
        return TableFile(
            info, {self._names.get(n, n): value_text(text or None) for n, text in texts.items()} | more, key
        )

    def _changes(
        self, number: int, actions: list[dict[str, Any]], at: datetime, after: datetime
    ) -> Iterator[TableFile]:
        """Yield the files with the changes of a commit: those that it records, or files that it removes and adds."""
        time = at.isoformat()
        kinds = {kind: [a[kind] for a in actions if kind in a] for kind in ("cdc", "add", "remove")}
        if kinds["cdc"]:
            for cdc in sorted(kinds["cdc"], key=lambda a: str(a["path"])):
                yield self._file(cdc, after, number, **{CHANGES: time})
            return
        removed, added = ([a for a in kinds[kind] if a.get("dataChange", True)] for kind in ("remove", "add"))
        twice = {a["path"] for a in removed} & {a["path"] for a in added}
        unknown = [a["path"] for a in removed if a.get("size") is None]
        if twice or unknown:
            reason = f"version {number} changes rows of a file, and has no change data"
            raise DataError(reason, url=self.url, hint=f"Set delta.enableChangeDataFeed on the table; {ANEW}")
        for action in sorted(removed, key=lambda a: str(a["path"])):
            yield self._file(action, at, number - 1, **{DELETED.name: time})
        for action in sorted(added, key=lambda a: str(a["path"])):
            yield self._file(action, after, number, **{DELETED.name: None})

    def _file_url(self, path: str) -> Url:
        """Return the URL of a file, whose path in the log is percent-encoded; DataError if it may not be there."""
        if "://" in path:
            return self._places.check(path if path.startswith("file:") else unquote(path))
        if path.startswith("/"):  # of the bucket
            return self._places.check(self.url._replace(key=unquote(path[1:])))
        return self._places.check(self.url.join(unquote(path)))

    def _check_vectors(self, table: Any) -> None:
        """Refuse deletion vectors that may not be where the log says, or with rows that their files do not have.

        The library would read them anywhere, and makes a value for each row up to the last one.
        """
        upto, found = int(table.version()), dict[str, list[Mapping[str, Any]]]()
        files = list(self._log_files())
        since = _newest_checkpoint(files, upto)
        for url, number, parts in sorted(files, key=lambda file: (file.part != _SIDECAR, file.number, not file.part)):
            if parts != _SIDECAR and not (number == since if parts else since <= number <= upto):
                continue
            for path, vector in _vectors(bytes(self._storage.get(url).data), url):
                of_path = found.setdefault(unquote(path), [])
                if parts != _SIDECAR:  # which may be one of an older checkpoint
                    of_path.clear()
                if vector is not None:
                    if vector["storageType"] == "p":
                        self._places.check(vector["pathOrInlineDv"])
                    of_path.append(vector)
        with self._errors():
            adds = pa.table(table.get_add_actions()).select(["path", "num_records"]).to_pydict()
        paths = map(unquote, adds["path"])
        rows = {p: n for p, n in zip(paths, adds["num_records"], strict=True) if p in found and n is not None}
        if (total := sum(rows.values())) > _MOST_ROWS or min(rows.values(), default=0) < 0:
            reason = (
                f"its log says that files with deletion vectors have {total:,} rows; {_MOST_ROWS:,} are read at most"
            )
            raise DataError(reason, url=self.url, hint="Rewrite these files first (REORG TABLE ... APPLY (PURGE))")
        due = [(path, described, count) for path, count in rows.items() for described in found[path]]
        with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
            list(pool.map(lambda each: self._check_reach(*each), due))

    def _check_reach(self, path: str, vector: Mapping[str, Any], count: int) -> None:
        try:
            if (kind := vector["storageType"]) == "i":
                data = decode(vector["pathOrInlineDv"])
            else:
                place = vector["pathOrInlineDv"] if kind == "p" else file_of(vector)
                begin, size = int(vector.get("offset") or 0) + _SIZE_AND_SUM, int(vector["sizeInBytes"])
                if begin < 0 or not 0 <= size <= _LARGEST_VECTOR:
                    raise ValueError(f"it has {size} bytes from byte {begin} on")
                data = bytes(self._storage.get(self._file_url(place), start=begin, end=begin + size).data)
            reached = highest_group(data)
        except NotFoundError:
            return  # of a vector that was replaced and vacuumed; the library reports the one that it needs
        except (ValueError, KeyError, TypeError) as error:
            reason = f"the deletion vector of {path} is damaged ({one_line(str(error))})"
            raise DataError(reason, url=self.url, hint="Restore the log") from None
        if reached > (count - 1) >> SHIFT:
            reason = (
                f"the deletion vector of {path} has row {(reached << SHIFT):,} or later, and the file {count:,} rows"
            )
            raise DataError(reason, url=self.url, hint="Restore the log")

    def masks(self, table: Any = None) -> Mapping[Url, pa.BooleanArray]:
        """Return true for each row of a file that is not deleted, for the files of which some are."""
        self._check_vectors(table or self._known)
        with self._errors():
            batches = list(pa.RecordBatchReader.from_stream((table or self._known).deletion_vectors()))
        rows = (zip(batch["filepath"].to_pylist(), batch["selection_vector"], strict=True) for batch in batches)
        return {self._file_url(path): row.values for pairs in rows for path, row in pairs}


_LOG_FILE = re.compile(
    r"(?:_sidecars/[^/]+\.parquet"
    r"|(?P<number>\d{20})(?P<checkpoint>\.checkpoint(?:\.\d{10}\.(?P<of>\d{10})|\.[^/]+)?)?\.(?:json|parquet))"
)
_SIDECAR = -1
_MOST_ROWS, _LARGEST_VECTOR, _SIZE_AND_SUM = 1 << 28, 1 << 28, 4
"""Rows of all files with deletion vectors, as each takes a byte in memory, and bytes of a vector behind its size."""


class _LogFile(NamedTuple):
    """A file of a log; `part`: 0 for a commit, else the number of files of its checkpoint, or `_SIDECAR`."""

    url: Url
    number: int
    part: int


def _newest_checkpoint(files: Iterable[_LogFile], last: int) -> int:
    """Return the version of the newest checkpoint up to one of which all files are there; 0 if there is none."""
    counts = Counter((f.number, f.part) for f in files if f.part > 0 and f.number <= last)
    return max((number for (number, parts), count in counts.items() if count >= parts), default=0)


def _vectors(data: bytes, url: Url) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield the paths of files in a file of a log, and the descriptions of their deletion vectors, if they have one."""
    if url.name.endswith(".json"):
        adds = (action["add"] for action in actions_of(data, url) if "add" in action)
        yield from ((add["path"], add.get("deletionVector") or None) for add in adds)
        return
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        parts = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes")
        names = ["add.path", *(f"add.deletionVector.{name}" for name in parts)]
        known = {file.schema.column(n).path for n in range(len(file.schema))}
        for batch in file.iter_batches(columns=names) if known.issuperset(names) else ():
            found = (add for add in batch["add"].to_pylist() if add and add["deletionVector"])
            yield from ((add["path"], add["deletionVector"]) for add in found)
    except pa.ArrowException as error:
        raise DataError(f"it is no checkpoint ({one_line(str(error))})", url=url, hint="Restore it") from None


def _has_variant_within(kind: Any) -> bool:
    """Return whether a type of the table has VARIANT below it."""
    if not isinstance(kind, dict):
        return False
    inner = [kind.get("elementType"), kind.get("valueType"), *(f["type"] for f in kind.get("fields", ()))]
    return "variant" in inner or any(map(_has_variant_within, inner))


def _with_variants(columns: list[pa.Field], fields: list[dict[str, Any]]) -> list[pa.Field]:
    """Return the columns of a table, in the type VARIANT where the table has that."""
    from singer_arrow.casting.extension_types import VariantType  # imported late: runs of files start without it

    return [
        column.with_type(VariantType(column.type)) if field["type"] == "variant" else column
        for column, field in zip(columns, fields, strict=True)
    ]


def _with_marks(columns: list[pa.Field], fields: list[dict[str, Any]]) -> list[pa.Field]:
    """Return fields of a table with the names and ids that they have in files, at any depth."""
    return [
        _with_mark(column, field["type"], field.get("metadata") or {})
        for column, field in zip(columns, fields, strict=True)
    ]


def _with_mark(column: pa.Field, kind: Any, about: dict[str, Any]) -> pa.Field:
    marks = {NAME: about.get("delta.columnMapping.physicalName"), ID: about.get("delta.columnMapping.id")}
    known = {key: str(mark).encode() for key, mark in marks.items() if mark is not None}
    return column.with_type(_marked_type(column.type, kind)).with_metadata(known)


def _marked_type(t: pa.DataType, kind: Any) -> pa.DataType:
    if isinstance(kind, dict) and kind["type"] == "struct" and pt.is_struct(t):
        return pa.struct(_with_marks(list(t), kind["fields"]))
    if isinstance(kind, dict) and kind["type"] == "array":
        return pa.list_(_marked_type(t.value_type, kind["elementType"]))
    if isinstance(kind, dict) and kind["type"] == "map":
        return pa.map_(t.key_type, _marked_type(t.item_type, kind["valueType"]))
    return t


def _storage_options(storage: Storage, url: Url) -> dict[str, str]:
    """Return the access to a table's store as the library wants it; that of other stores is in the environment."""
    if url.scheme != "s3":
        return {}
    access = storage.access(url)
    given = access.credentials() if access.credentials is not None else {}
    found = {
        "aws_region": access.region,
        "aws_endpoint_url": access.endpoint,
        "aws_allow_http": "true" if (access.endpoint or "").startswith("http://") else None,
        "aws_access_key_id": given.get("access_key_id"),
        "aws_secret_access_key": given.get("secret_access_key"),
        "aws_session_token": given.get("token"),
        "aws_skip_signature": None if given else "true",
    }
    return {name: value for name, value in found.items() if value}
