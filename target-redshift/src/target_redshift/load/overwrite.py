"""overwrite: the whole run goes into a staging table, whose rows replace the table's at once at the end of the run."""

from __future__ import annotations

from target_redshift.connection.connection import Session
from target_redshift.load.base import Lane
from target_redshift.load.copy_batch import StagingTables
from target_redshift.load.load_group import Group
from target_redshift.load.varchar_widths import needed_bytes
from target_redshift.tables.types import MAX_VARCHAR


class Overwrite(Lane):
    """See the module."""

    deferred = True

    @property
    def table(self) -> str:
        """See the base."""
        return self.way.client.quoted(self.way.replacement.staging(self.way.destination))

    def make_fit(self, group: Group) -> StagingTables:
        """See the base; all texts fit into the staging table, but perhaps not into the table."""
        self.way.replacement.staging(self.way.destination)
        tables = self.staged(group)
        if self.way.client.settings.varchar_max < MAX_VARCHAR:
            needed_bytes(self.way, tables.session, tables.staged, group.lots)
        return tables

    def put_aside(self, session: Session, group: Group) -> None:
        """See the base; they are written when the table is replaced."""

    def was_put_aside(self, group: Group) -> None:
        """See the base."""
        self.way.replacement.rejected.add(group.rejected, self.way.most_rejected)

    def will_replace(self) -> None:
        """See the base."""
        self.way.replacement.staging(self.way.destination)

    def finish(self) -> None:
        """Replace the table's rows; batches that were appended to its former ones count no more."""
        self.tell_rejected(self.way.replacement.replace(self.way.ledger, self.way.rejections))
