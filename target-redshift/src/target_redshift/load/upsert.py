"""upsert: each group is merged into the table, in the order of the messages.

Of several rows with a key the one of the greatest rank wins, of these the last; rows of the table count too.

Converted rows have a column of their order in the stream. Files that COPY took as they are do not; if a query finds
a key twice in them, they are converted too.
"""

from __future__ import annotations

from singer_arrow.errors import DataError
from target_redshift import sql
from target_redshift.load import diagnose
from target_redshift.load.base import RedshiftLoadMethod
from target_redshift.load.context import RedshiftContext
from target_redshift.load.copy_batch import StagingTables
from target_redshift.load.load_group import Group
from target_redshift.load.varchar_widths import fit_texts
from target_redshift.merge_pruning import bound, can_bound
from target_redshift.tables import migrate


class Upsert(RedshiftLoadMethod):
    """The load method `upsert`; a key column of a type that has no equality is an error."""

    ordered = True
    merges = True
    keeps_ledger = True

    def __init__(self, context: RedshiftContext) -> None:
        super().__init__(context)
        migrate.check_keys(context.client, context.destination, context.keys)

    def make_fit(self, group: Group) -> StagingTables:
        """Create a temporary table of the table's own types with one row for each key."""
        tables = self.staged(group)
        if tables.merged:
            return tables
        is_ordered = all(copy_batch.layout.is_ordered for copy_batch in group.copy_batches)
        if not is_ordered:
            text = sql.duplicate_key(tables.columns, self.context.destination.columns, self.context.keys)
            if tables.session.execute(text, what=self.what).rows:
                self.convert(group, "a key is twice in its files")
                tables, is_ordered = self.staged(group), True
        name, columns = tables.name(), self.context.destination.columns
        rank = self.context.rank_column
        text = sql.create_merged(name, tables.columns, columns, self.context.keys, rank=rank, ordered=is_ordered)
        tables.session.execute(text, what=self.what)
        self._look_at_keys(name, group, tables)
        fit_texts(self.context, tables.session, {name: [c.name for c in columns]}, group.copy_batches)
        tables.merged = name
        return tables

    def bring(self, tables: StagingTables) -> None:
        context, source = self.context, tables.merged
        assert source
        table, columns, keys = context.destination.name, context.destination.columns, context.keys
        schema, bounds = context.client.settings.schema, tables.bounds
        older = sql.delete_superseded(schema, table, source, keys, rank=context.rank_column, bounds=bounds)
        tables.session.execute(older, what=self.what)
        if context.deleted_column and tables.deletions:
            gone = sql.delete_matching(schema, table, source, keys, bounds=bounds, deleted=context.deleted_column)
            tables.session.execute(gone, what=self.what)
            tables.session.execute(sql.delete_marked_rows(source, context.deleted_column), what=self.what)
        text = sql.merge(schema, table, source, columns, keys, emptied=context.destination.siblings, bounds=bounds)
        tables.session.execute(text, what=self.what)

    def _look_at_keys(self, name: str, group: Group, tables: StagingTables) -> None:
        """Refuse null keys; find out between which values the others lie, and whether rows are to be deleted."""
        keys = [c for c in self.context.destination.columns if c.name in self.context.keys]
        bounded = [k for k in keys if can_bound(k)]
        text = sql.key_facts(
            name, [k.name for k in keys], bounded=[k.name for k in bounded], deleted=self.context.deleted_column
        )
        ((*facts,),) = tables.session.execute(text, what=self.what).rows
        nulls = [key for key, count in zip(keys, facts, strict=False) if count]
        if nulls:
            found = diagnose.null_key(group.copy_batches, nulls, self.context.files.storage)
            raise found or DataError(f"{self.what}: a key property is null", column=nulls[0].source)
        ends = facts[len(keys) : len(keys) + 2 * len(bounded)]
        made = [bound(key, *pair) for key, pair in zip(bounded, zip(ends[::2], ends[1::2], strict=True), strict=True)]
        tables.bounds = [b for b in made if b]
        tables.deletions = facts[-1] if self.context.deleted_column else 0
