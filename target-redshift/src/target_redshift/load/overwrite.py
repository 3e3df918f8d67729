"""overwrite: the whole run goes into a staging table, whose rows replace the table's at once at the end of the run."""

from __future__ import annotations

from target_redshift.connection.connection import Session
from target_redshift.load.base import RedshiftLoadMethod
from target_redshift.load.copy_batch import StagingTables
from target_redshift.load.load_group import Group
from target_redshift.load.varchar_widths import needed_bytes
from target_redshift.tables.types import MAX_VARCHAR


class Overwrite(RedshiftLoadMethod):
    deferred = True

    @property
    def table(self) -> str:
        return self.context.client.quoted(self.context.overwrite_staging.staging(self.context.destination))

    def make_fit(self, group: Group) -> StagingTables:
        """Return the staging tables, after a check that no text exceeds `varchar_max`."""
        self.context.overwrite_staging.staging(self.context.destination)
        tables = self.staged(group)
        if self.context.client.settings.varchar_max < MAX_VARCHAR:
            needed_bytes(self.context, tables.session, tables.staged, group.copy_batches)
        return tables

    def write_dead_letters(self, session: Session, group: Group) -> None:
        """Do nothing: rejected rows are written when the table is replaced."""

    def dead_letters_written(self, group: Group) -> None:
        self.context.overwrite_staging.rejected.add(group.rejected, self.context.most_rejected)

    def replace_table(self) -> None:
        self.context.overwrite_staging.staging(self.context.destination)

    def finish(self) -> None:
        """Replace the table's rows. Entries of batches that were appended to its former rows are void."""
        self.log_rejected(self.context.overwrite_staging.replace(self.context.ledger, self.context.dead_letter_table))
