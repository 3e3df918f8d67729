"""Write docs/redshift-sql.md: every SQL text that target-redshift sends, with an example of each.

`python docs/redshift_sql.py` writes; with `--check` it fails if the page is not as it would be written. The tests take
the examples from here, and fail if a text of `target_redshift.sql` has none.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from written_files import write_or_check

from singer_arrow.load import method as batch_lookup
from singer_arrow.load.convert import RANK
from singer_arrow.load.method import LAST, LOG, OF_LOG
from singer_arrow.schema.arrow_schema import json_field
from singer_arrow.warehouse.settings import mark
from target_redshift import sql
from target_redshift.columns import (
    ORDER_COLUMN,
    StagingColumn,
    columns_of,
    constant_columns,
    staging_columns,
    upload_columns,
)
from target_redshift.ledger import MARK, TABLE_MARK, VOID
from target_redshift.merge_pruning import Bound
from target_redshift.sql import Access
from target_redshift.types import Column

PAGE = Path(__file__).parent / "redshift-sql.md"
INTRODUCTION = """# Every SQL text that target-redshift sends

Written by `docs/redshift_sql.py` from the examples that the tests check, by Redshift's rules and by running them. All
texts are made in `target_redshift/sql.py`, from names in double quotes and from literals in single quotes; `%s` is
a bound value. COPY and statements that define tables cannot have bound values. Secrets in COPY are never
logged.
"""
SCHEMA = pa.schema(
    [
        pa.field("Order ID", pa.int64()),
        pa.field("note", pa.string()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("opens", pa.time64("us")),
        pa.field("picture", pa.binary()),
        json_field("tags"),
        pa.field(RANK, pa.string()),
        pa.field("lines", pa.list_(pa.struct([("sku", pa.string()), ("quantity", pa.int64())]))),
    ]
)
"""The stream of the examples."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the texts of a set of examples are made from."""

    schema: str = "sales"
    table: str = "orders"
    user: str = "analyst"
    stage: str = "s3://bucket/stage/0f3a.manifest"
    comment: str = "singer_stream: orders_5f0e9a1b"
    role: str = "arn:aws:iam::123456789012:role/copy"
    access: Access = field(
        default_factory=lambda: Access(access_key_id="AKIA...", secret_access_key="...", session_token="...")  # noqa: S106 - no secrets
    )
    arrow: pa.Schema = field(default_factory=lambda: SCHEMA)
    staging: str = "_sdc_staging_1"
    other_staging: str = "_sdc_staging_2"
    merged: str = "_sdc_staging_3"
    rename: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class Example:
    """A text of `sql`: the name it has there, and a call of it."""

    name: str
    text: str
    has_parameters: bool = False


@dataclass(frozen=True, slots=True)
class Chapter:
    """Texts that are sent on one occasion."""

    title: str
    words: str
    examples: tuple[Example, ...]


class Examples:
    """The examples for some names."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.table = sql.quoted(names.schema, names.table)
        self.ledger = sql.quoted(names.schema, "_sdc_batches")
        self.rejected = sql.quoted(names.schema, "_sdc_rejected")
        self.staging, self.merged = sql.quoted(names.staging), sql.quoted(names.merged)
        self.columns = tuple(replace(c, name=names.rename(c.name)) for c in columns_of(names.arrow))
        self.keys = [self.columns[0].name]
        self.file = _fitting(names.arrow, self.columns)
        self.staged = {self.staging: [*self.file, ORDER_COLUMN]}
        self.converted = {sql.quoted(names.other_staging): upload_columns(self.columns, "parquet", ordered=True)}

    def chapters(self) -> Iterator[Chapter]:
        """All of them, in the order in which they are sent."""
        yield Chapter(
            "Session",
            "When a session begins, and around transactions.",
            (
                _constant("SET_UTC"),
                _call("set_query_group", "loads"),
                _constant("SESSION_ID"),
                _constant("BEGIN"),
                _constant("COMMIT"),
                _constant("ROLLBACK"),
            ),
        )
        yield Chapter("Catalog", "What there is; asked once a run and table.", tuple(self._catalog()))
        yield Chapter(
            "Schema and tables", "When a stream begins, and when texts need wider columns.", tuple(self._tables())
        )
        yield Chapter("COPY", "Into a temporary table whose columns are the files' own.", tuple(self._copies()))
        yield Chapter("Staged rows", "Queries of staged rows before they are inserted.", tuple(self._questions()))
        yield Chapter(
            "Publishing",
            "In one transaction: the ledger is locked first, so that the snapshot is taken after; then the rows go "
            "into the table, and their batches into the ledger.",
            tuple(self._publishing()),
        )
        yield Chapter(
            "Versions", "ACTIVATE_VERSION removes rows of older versions, or marks them.", tuple(self._versions())
        )

    def _catalog(self) -> Iterator[Example]:
        for name in ("SCHEMA_EXISTS", "TABLE", "COLUMNS", "LAYOUT", "TABLES", "SLICES", "NOW"):
            yield _constant(name)
        yield _call("has_rows", self.table)
        yield _call("count_rows", self.table)

    def _tables(self) -> Iterator[Example]:
        sort_keys = [c.name for c in self.columns[1:3]]
        yield _call("create_schema", self.names.schema)
        for grantee in (self.names.user, "public"):
            yield _call("grant_usage", self.names.schema, grantee)
        yield _call("create_ledger", self.ledger)
        yield _call("create_table", self.table, self.columns)
        yield _call("create_table", self.table, self.columns, dist_key=self.keys[0], sort_keys=sort_keys)
        yield _call("comment", self.table, self.names.comment)
        for grantee in (self.names.user, f"group:{self.names.user}", f"role:{self.names.user}", "public"):
            yield _call("grant", "select", self.table, grantee)
        yield _call("add_column", self.table, self.columns[2])
        yield _call("comment_column", self.table, self.columns[2].name, mark(self.columns[1].name))
        yield _call("widen_column", self.table, self.columns[1].name, 1024)
        yield _call("drop_table", self.table)

    def _copies(self) -> Iterator[Example]:
        names, role = self.names, Access(role=self.names.role)
        yield _call("create_staging", self.staging, self.file)
        for nested in (False, True):
            for access in (role, names.access):
                yield _call("copy_parquet", self.staging, names.stage, access, nested=nested)
        for access in (role, names.access):
            yield _call("copy_json", self.staging, names.stage, access)
        elsewhere: dict[str, Any] = {"compression": None, "ignore_case": True}
        yield _call("copy_json", self.staging, names.stage, names.access, **elsewhere)
        for access in (role, names.access):
            yield _call("copy_csv", self.staging, names.stage, access)
        yield _constant("COPIED_ROWS")
        yield _constant("TABLE_ID")
        yield _constant("LOAD_ERRORS")
        yield _constant("OLD_LOAD_ERRORS")

    def _questions(self) -> Iterator[Example]:
        yield _call("longest_texts", self.staging, [self.columns[1].name])
        yield _call("key_facts", self.staging, self.keys)
        yield _call("key_facts", self.staging, self.keys, bounded=self.keys)
        yield _call("key_facts", self.staging, self.keys, bounded=self.keys, deleted=self.columns[3].name)
        yield _call("duplicate_key", self.staged, self.columns, self.keys)

    def _publishing(self) -> Iterator[Example]:
        names = self.names
        both = self.staged | self.converted
        (rank,) = (c.name for c in self.columns if c.source == RANK)
        for staged, ordered in ((both, True), ({self.staging: self.file}, False), (self.converted, True)):
            options = {"rank": rank, "ordered": ordered}
            yield _call("create_merged", self.merged, staged, self.columns, self.keys, **options)
        yield _call("lock", self.ledger)
        yield _call("ledger_extent", self.ledger, (MARK, VOID), TABLE_MARK, has_parameters=True)
        yield _call("count_entered", self.ledger, MARK, has_parameters=True)
        yield _call("ledger_entries_of", self.ledger, 3, has_parameters=True)
        of_others = (MARK, LAST, VOID)
        yield _call("ledger_entries_from", self.ledger, of_others, batch_lookup.PAGE, has_parameters=True)
        yield _call("void_entry", self.ledger, VOID, has_parameters=True)
        yield _call("last_entry_from", self.ledger, LAST, has_parameters=True)
        yield _call("log_entries", self.ledger, OF_LOG, has_parameters=True)
        yield _call("insert", self.table, self.staging, self.file, self.columns)
        yield _call("insert", self.table, next(iter(self.converted)), self._as_jsonl(), self.columns)
        yield _call("insert", self.table, self.staging, self._with_constants(), self.columns)
        yield _call("merge", names.schema, names.table, self.merged, self.columns, self.keys)
        emptied = [self.columns[-1].name]
        yield _call("merge", names.schema, names.table, self.merged, self.columns[:-1], self.keys, emptied=emptied)
        at = self.columns[3].name
        bounds = [Bound(self.keys[0], "-1", "3", is_number=True)]
        yield _call("merge", names.schema, names.table, self.merged, self.columns, self.keys, bounds=bounds)
        bounds.append(Bound(at, "2020-01-01 00:00:00+00", "2030-12-31 23:59:59.5+00", is_number=False))
        yield _call("delete_superseded", names.schema, names.table, self.merged, self.keys, rank=rank)
        yield _call("delete_superseded", names.schema, names.table, self.merged, self.keys, rank=rank, bounds=bounds)
        gone = {"bounds": bounds, "deleted": at}
        yield _call("delete_matching", names.schema, names.table, self.merged, [*self.keys, at], **gone)
        yield _call("delete_marked_rows", self.merged, at)
        yield _call("insert_all", self.table, self.merged, self.columns)
        yield _call("delete_all", self.table)
        yield _call("create_rejected", self.rejected)
        yield _call("delete_rejected", self.rejected, 2, has_parameters=True)
        yield _call("add_rejected", self.rejected, 2, has_parameters=True)
        yield _call("add_ledger_entries", self.ledger, 2, has_parameters=True)
        yield _call("delete_ledger_entries", self.ledger, TABLE_MARK, has_parameters=True)
        yield _call("delete_last_entries", self.ledger, LAST, 2, 1, has_parameters=True)
        kept = (TABLE_MARK, LOG, LAST)
        yield _call("delete_old_entries", self.ledger, kept, LAST, 2, has_parameters=True)
        yield _call("delete_ledger_marks", self.ledger, MARK, TABLE_MARK, has_parameters=True)
        yield _call("delete_table_mark", self.ledger, TABLE_MARK, has_parameters=True)
        yield _call("clear_ledger", self.ledger, LAST, VOID, has_parameters=True)
        yield _call("void_last_entries", self.ledger, LAST, VOID, has_parameters=True)

    def _as_jsonl(self) -> list[StagingColumn]:
        return upload_columns(self.columns, "jsonl")

    def _with_constants(self) -> list[StagingColumn]:
        """Where files do not have what is the same in all their rows."""
        at = self.columns[3]
        staged = [c for c in self.file if c.column != at]
        return [*staged, *constant_columns([at], {at.source: datetime(2024, 2, 29, 12, 30, tzinfo=UTC)})]

    def _versions(self) -> Iterator[Example]:
        version, deleted = self.columns[0].name, self.columns[3].name
        yield _call("delete_versions", self.table, version, has_parameters=True)
        yield _call("mark_versions_deleted", self.table, version, deleted, has_parameters=True)


def _fitting(schema: pa.Schema, columns: Sequence[Column]) -> list[StagingColumn]:
    """The staging columns of a Parquet file that has what COPY takes of a stream's columns."""
    file = pa.schema([f for f in schema if not pa.types.is_time(f.type)])
    found = staging_columns(file, columns)
    if not isinstance(found, list):
        raise TypeError(found.reason)
    return found


def _constant(name: str) -> Example:
    text: str = getattr(sql, name)
    return Example(name, text, "%s" in text)


def _call(name: str, /, *args: Any, has_parameters: bool = False, **more: Any) -> Example:
    return Example(name, getattr(sql, name)(*args, **more), has_parameters)


def page() -> str:
    """The page's text."""
    parts = [INTRODUCTION]
    for chapter in Examples(Names()).chapters():
        parts.append(f"## {chapter.title}\n\n{chapter.words}\n")
        last = ""
        for example in chapter.examples:
            words = _words(example.name)
            if words and words != last:
                parts.append(f"{words}\n")
            last = words
            parts.append(f"    {sql.masked(example.text)}\n")
    return "\n".join(parts)


def _words(name: str) -> str:
    """Return the name and the first paragraph of the docstring of a function of `sql`; of a constant only its name."""
    value = getattr(sql, name)
    if isinstance(value, str):
        return f"`{name}`:"
    first = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return f"`{name}`: {' '.join(first.split())}"


def main() -> int:
    """Write, or check."""
    return write_or_check({PAGE: page()})


if __name__ == "__main__":
    sys.exit(main())
