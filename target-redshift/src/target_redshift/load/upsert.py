"""upsert: each group is merged into the table, in the order of the messages; of several rows with a key the last wins.

Rows that were converted bear their place among those of the stream. Files that COPY took as they are do not, so it is
looked whether a key stands twice in them; only then they are read and converted too.
"""

from __future__ import annotations

from datetime import datetime

from singer_arrow.errors import DataError
from target_redshift import migrate, sql
from target_redshift.load import diagnose
from target_redshift.load.lane import Group, Lane, Way
from target_redshift.load.lots import StagingTables
from target_redshift.load.widths import fit_texts


class Upsert(Lane):
    """See the module.

    Args:
        way: The stream's; it has keys.

    Raises:
        SchemaError: A key column is of a type that has no equality.
    """

    ordered = True
    merges = True
    keeps_ledger = True

    def __init__(self, way: Way) -> None:
        super().__init__(way)
        migrate.check_keys(way.client, way.destination, way.keys)

    def loaded(self, batch_id: str) -> datetime | None:
        """See the base."""
        return self.way.ledger.loaded(batch_id)

    def make_fit(self, group: Group) -> StagingTables:
        """See the base: one row a key, in a temporary table of the table's own types."""
        tables = self.staged(group)
        if tables.merged:
            return tables
        is_ordered = all(lot.layout.is_ordered for lot in group.lots)
        if not is_ordered and self._has_duplicates(tables):
            self.convert(group, "a key stands twice in its files")
            tables, is_ordered = self.staged(group), True
        name, columns = tables.name(), self.way.destination.columns
        text = sql.create_merged(name, tables.columns, columns, self.way.keys, ordered=is_ordered)
        tables.session.execute(text, what=self.what)
        self._refuse_null_keys(name, group, tables)
        fit_texts(self.way, tables.session, {name: [c.name for c in columns]}, group.lots)
        tables.merged = name
        return tables

    def bring(self, tables: StagingTables) -> None:
        """See the base."""
        way, source = self.way, tables.merged
        assert source
        table, columns, keys = way.destination.name, way.destination.columns, way.keys
        schema = way.client.settings.schema
        if any(c.name not in keys for c in columns):
            text = sql.merge(schema, table, source, columns, keys, emptied=way.destination.siblings)
            tables.session.execute(text, what=self.what)
            return
        tables.session.execute(sql.delete_matching(schema, table, source, keys), what=self.what)
        tables.session.execute(sql.insert_all(self.table, source, columns), what=self.what)

    def _has_duplicates(self, tables: StagingTables) -> bool:
        text = sql.duplicate_key(tables.columns, self.way.destination.columns, self.way.keys)
        return bool(tables.session.execute(text, what=self.what).rows)

    def _refuse_null_keys(self, name: str, group: Group, tables: StagingTables) -> None:
        keys = [c for c in self.way.destination.columns if c.name in self.way.keys]
        (counts,) = tables.session.execute(sql.null_keys(name, [k.name for k in keys]), what=self.what).rows
        nulls = [key for key, count in zip(keys, counts, strict=True) if count]
        if nulls:
            found = diagnose.null_key(group.lots, nulls, self.way.files.storage)
            raise found or DataError(f"{self.what}: a key property is null", column=nulls[0].source)
