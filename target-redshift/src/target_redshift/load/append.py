"""append-only: each group is added to the table; the ledger keeps batches from being loaded twice."""

from __future__ import annotations

from target_redshift.load.base import RedshiftLoadMethod
from target_redshift.load.copy_batch import StagingTables
from target_redshift.load.load_group import Group
from target_redshift.load.varchar_widths import fit_texts


class AppendOnly(RedshiftLoadMethod):
    keeps_ledger = True

    def make_fit(self, group: Group) -> StagingTables:
        tables = self.staged(group)
        fit_texts(self.context, tables.session, tables.staged, group.copy_batches)
        return tables
