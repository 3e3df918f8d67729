"""COPYs the files of a copy batch into a staging table and counts the rows."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from singer_arrow.errors import LoadError, RetriableError, ServiceError
from singer_arrow.naming import STAGING
from singer_arrow.storage.urls import Url
from target_redshift import sql
from target_redshift.connection.client import Redshift
from target_redshift.connection.connection import Session
from target_redshift.connection.resources import ExpiredError
from target_redshift.load.s3_staging import CopyFile
from target_redshift.load.uploads import Layout
from target_redshift.merge_pruning import Bound
from target_redshift.tables import staging_columns as staging
from target_redshift.tables.staging_columns import StagingColumn


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
        """The number of rows that COPY must find."""
        return sum(f.rows for f in self.files)

    @property
    def bytes(self) -> int:
        """The size of the files in bytes."""
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

    def copy(self, copy_batch: CopyBatch, what: str) -> None:
        """Make a staging table, and COPY files into it; it is an error if Redshift takes another number of rows.

        `ServiceError` also if credentials expired meanwhile and there are new ones.
        """
        name = self.name()
        self.session.execute(sql.create_staging(name, copy_batch.layout.columns), what=what)
        access = self._client.access()
        try:
            self.session.execute(copy_text(name, copy_batch, access), what=what)
        except ExpiredError as error:
            if access.role is None and self._client.access() == access:
                raise  # there are no newer ones
            raise ServiceError(str(error)) from None
        rows = int(self.session.execute(sql.COPIED_ROWS, what=what).value)
        if rows != copy_batch.rows:
            msg = (
                f"{what}: COPY took {rows} of {copy_batch.rows} rows from {copy_batch.files[0].url}; run the tap again"
            )
            raise CountError(msg)
        self.columns[name] = copy_batch.layout.columns

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


def copy_text(table: str, copy_batch: CopyBatch, access: sql.Access) -> str:
    """Return the text of the COPY of a copy batch. Pure."""
    layout, manifest = copy_batch.layout, str(copy_batch.manifest)
    if layout.file_format == "parquet":
        return sql.copy_parquet(table, manifest, access, nested=staging.has_nested(layout.columns))
    if layout.file_format == "csv":
        return sql.copy_csv(table, manifest, access, compression=layout.compression)
    ignore_case = staging.ignores_case(layout.columns)
    return sql.copy_json(table, manifest, access, compression=layout.compression, ignore_case=ignore_case)
