"""append-only: each group is added to the table; the ledger keeps batches from being loaded twice."""

from __future__ import annotations

from target_redshift.load.group import Group
from target_redshift.load.lane import Lane
from target_redshift.load.lots import StagingTables
from target_redshift.load.widths import fit_texts


class AppendOnly(Lane):
    """See the module."""

    keeps_ledger = True

    def make_fit(self, group: Group) -> StagingTables:
        """See the base."""
        tables = self.staged(group)
        fit_texts(self.way, tables.session, tables.staged, group.lots)
        return tables
