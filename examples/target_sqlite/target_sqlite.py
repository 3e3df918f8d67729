"""A target for SQLite: BATCH files and RECORD messages into tables, each batch exactly once.

docs/add-a-target.md explains it. Run it with `python target_sqlite.py --config config.json`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow import Storage, WarehouseTable, WarehouseTarget, run_connector
from singer_arrow.batch.files import read_file
from singer_arrow.casting.to_json import iso_texts, json_texts
from singer_arrow.errors import LoadError, SchemaError
from singer_arrow.load import convert
from singer_arrow.load import method as base
from singer_arrow.load.convert import RANK, UploadColumn
from singer_arrow.load.method import Item, LoadContext, LoadMethod
from singer_arrow.settings import json_schema, setting
from singer_arrow.warehouse.run import WarehouseRun
from singer_arrow.warehouse.settings import LoadSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(LoadSettings):
    """The settings of one run."""

    path: str = setting("The database file.", required=True, minLength=1)
    load_method: Literal["append-only", "upsert"] = setting("How rows get into tables.", default="append-only")
    max_parallel_loads: int = 1  # SQLite has one writer


DECLARED = ("path", "load_method", "max_batch_age_seconds", "max_batch_bytes", "replay", "manifest_roots")
"""The fields of `Settings` that this target supports."""
LEDGER = (
    "CREATE TABLE IF NOT EXISTS _sdc_batches "
    "(stream TEXT, batch_id TEXT, loaded_at TEXT, PRIMARY KEY (stream, batch_id))"
)


# The connection, where errors of SQLite become errors of singer_arrow


@contextmanager
def transaction(path: str) -> Iterator[sqlite3.Connection]:
    """Run a block in one transaction, which is committed at its end unless it fails.

    Raises:
        LoadError: SQLite refuses a statement.
    """
    try:
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")
    except (sqlite3.Error, OverflowError) as error:
        raise LoadError(f"SQLite refuses to change {path}: {error}") from None


def quoted(name: str) -> str:
    """Return an identifier as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


# Types: Arrow -> SQLite


def column_of(field: pa.Field) -> UploadColumn:
    """Return the column of a property; what SQLite has no type for is text."""
    t = field.type
    if pt.is_boolean(t) or pt.is_signed_integer(t):
        return UploadColumn(field.name, field.name, "INTEGER", t)
    if pt.is_floating(t):
        return UploadColumn(field.name, field.name, "REAL", t)
    if pt.is_binary(t) or pt.is_large_binary(t):
        return UploadColumn(field.name, field.name, "BLOB", t)
    return UploadColumn(field.name, field.name, "TEXT", pa.string())


class Conversion(convert.Conversion[UploadColumn]):
    """Batches as they are read -> batches of the columns' types."""

    __slots__ = ()

    def read_field(self, column: UploadColumn) -> pa.Field:
        return self.given.field(column.source)

    def array(self, array: pa.Array, column: UploadColumn) -> pa.Array:
        if array.type == column.arrow:
            return array
        if pt.is_temporal(array.type):
            return iso_texts(array)
        return pc.if_else(array.is_valid(), json_texts(array, self.given.field(column.source)), None)


# Load methods


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(LoadContext):
    """A stream, its table and where both are."""

    storage: Storage
    path: str
    columns: tuple[UploadColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(base.Prepared[Conversion]):
    """An item whose rows are read and converted."""

    batches: tuple[pa.RecordBatch, ...] = ()


class Ledger(base.Ledger):
    """Which batches a stream's table has, by entries that are committed with their rows."""

    def __init__(self, path: str, stream: str) -> None:
        super().__init__()
        self._path, self._stream = path, stream

    def loaded_of(self, batch_ids: Collection[str]) -> dict[str, datetime]:
        marks = ", ".join("?" * len(batch_ids))
        query = f"SELECT batch_id, loaded_at FROM _sdc_batches WHERE stream = ? AND batch_id IN ({marks})"  # noqa: S608
        with closing(sqlite3.connect(self._path, timeout=60)) as database:
            found = database.execute(query, (self._stream, *batch_ids)).fetchall()
        return {batch_id: datetime.fromisoformat(loaded_at) for batch_id, loaded_at in found}


class Append(LoadMethod[Context, Prepared]):
    """append-only: rows are added; batches that the ledger has are left out."""

    keeps_ledger = True
    prepared_class = Prepared

    def make_ready(self, item: Item[Conversion]) -> Prepared:
        schema = item.conversion.read_schema
        files = (
            (url, read_file(self.context.storage, url, format=item.file_format, schema=schema)) for url in item.urls
        )
        batches = tuple(item.conversion.all_batches(files))
        if item.is_temporary:
            item.remove_files()
        return Prepared(item, sum(b.num_rows for b in batches), sum(b.nbytes for b in batches), batches=batches)

    def stage(self, parts: Sequence[Prepared]) -> Sequence[Prepared]:
        return parts  # nothing is prepared in the database: `publish` does all in one transaction

    def publish(self, staged: Sequence[Prepared]) -> None:
        names = ", ".join(quoted(c.name) for c in self.context.columns)
        marks = ", ".join("?" * len(self.context.columns))
        statement = f"INSERT INTO {quoted(self.context.stream)} ({names}) VALUES ({marks}){self.on_conflict()}"  # noqa: S608
        with transaction(self.context.path) as database:
            for part in self.fresh(staged):
                for batch in part.batches:
                    database.executemany(statement, zip(*(c.to_pylist() for c in batch.columns), strict=True))
                if part.item.batch_id:
                    entry = (self.context.stream, part.item.batch_id, datetime.now(UTC).isoformat())
                    database.execute("INSERT OR REPLACE INTO _sdc_batches VALUES (?, ?, ?)", entry)

    def on_conflict(self) -> str:
        """Return the clause for rows whose key the table has."""
        return ""


class Upsert(Append):
    """upsert: a row replaces the one with the same key, unless that is newer; groups come in the order of messages."""

    ordered = True
    merges = True

    def on_conflict(self) -> str:
        changes = ", ".join(f"{quoted(c.name)} = excluded.{quoted(c.name)}" for c in self.context.columns)
        old, new = (f"{of}.{quoted(RANK)}" for of in (quoted(self.context.stream), "excluded"))
        word, place = "SUBSTR({0}, 1, INSTR({0}, ' '))", f"*  {'?' * 8} {'?' * 5}.{'?' * 12}"
        newer = f"{old} > {new} AND {word.format(old)} = {word.format(new)}"
        of_object, of_reading = (f"SUBSTR({{0}}, 1, LENGTH({{0}}) - {n})" for n in (27, 18))
        same_object = f"{old} GLOB '{place}' AND {of_object.format(old)} = {of_object.format(new)}"
        newer += f" AND NOT ({same_object} AND {of_reading.format(old)} <> {of_reading.format(new)})"
        keys = ", ".join(map(quoted, self.context.keys))
        return f" ON CONFLICT ({keys}) DO UPDATE SET {changes} WHERE ({newer}) IS NOT TRUE"


METHODS: dict[str, type[Append]] = {"append-only": Append, "upsert": Upsert}


# The table of a stream, and the target


class SqliteTable(WarehouseTable):
    """A stream, while its SCHEMA stays the same: its table, and the load method that fills it."""

    run: WarehouseRun[Settings]

    def prepare_table(self) -> Sequence[UploadColumn]:
        columns = tuple(column_of(field) for field in self.given)
        if len({c.name.lower() for c in columns}) < len(columns):
            msg = f"Stream {self.stream_name!r} has properties that differ in case only; leave one of them out"
            raise SchemaError(msg)
        table = quoted(self.stream_name)
        with transaction(self.run.settings.path) as database:
            known = {row[1].lower() for row in database.execute(f"PRAGMA table_info({table})")}
            if not known:
                defined = ", ".join(f"{quoted(c.name)} {c.kind}" for c in columns)
                database.execute(f"CREATE TABLE {table} ({defined})")
            for column in columns if known else ():
                if column.name.lower() not in known:
                    database.execute(f"ALTER TABLE {table} ADD COLUMN {quoted(column.name)} {column.kind}")
            database.execute(LEDGER)
            if not database.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0]:  # noqa: S608 - quoted
                database.execute("DELETE FROM _sdc_batches WHERE stream = ?", (self.stream_name,))
        return columns

    def make_load_method(self, load_method: str, keys: tuple[str, ...]) -> Append:
        if load_method == "upsert":
            names = ", ".join(map(quoted, keys))
            index = quoted(f"{self.stream_name} by key")
            with transaction(self.run.settings.path) as database:
                database.execute(f"CREATE UNIQUE INDEX IF NOT EXISTS {index} ON {quoted(self.stream_name)} ({names})")
        context = self.load_context(
            Context,
            keys,
            ledger=Ledger(self.run.settings.path, self.stream_name),
            storage=self.run.storage,
            path=self.run.settings.path,
            columns=tuple(self.columns),
        )
        return METHODS[load_method](context)

    def conversion(self, constants: Mapping[str, Any], *, keys: tuple[str, ...], place: int | None) -> Conversion:  # noqa: ARG002
        return Conversion(tuple(self.columns), self.given, constants, keys)  # place: rows are inserted in order

    def remove_versions(self, version: int, *, version_column: str, deleted_column: str | None) -> int:
        table, older = quoted(self.stream_name), f"WHERE {quoted(version_column)} < ?"
        if deleted_column:
            now, column = datetime.now(UTC).isoformat(), quoted(deleted_column)
            statement, values = f"UPDATE {table} SET {column} = ? {older} AND {column} IS NULL", [now, version]  # noqa: S608
        else:
            statement, values = f"DELETE FROM {table} {older}", [version]  # noqa: S608 - quoted
        with transaction(self.run.settings.path) as database:
            return database.execute(statement, values).rowcount


class TargetSqlite(WarehouseTarget):
    """A Singer target that loads BATCH files and records into SQLite."""

    name = "target-sqlite"
    config_jsonschema: ClassVar[dict[str, Any]] = json_schema(Settings, *DECLARED)
    settings_class = Settings
    table_class = SqliteTable


if __name__ == "__main__":
    run_connector(TargetSqlite.name, lambda: TargetSqlite.cli)
