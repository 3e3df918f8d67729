"""Statements and files that write dead letters."""

from __future__ import annotations

from singer_arrow.load.dead_letters import BatchRejects, Rejected
from target_redshift.load import row_chunks


def test_no_statement_is_larger_than_redshift_takes_whatever_the_letters() -> None:
    rejected = Rejected("f", 1, None, "r", '"' + "\U0001f600" * 16_000 + '"')
    chunks = list(row_chunks("s", [BatchRejects("a", [rejected] * 300)]))
    assert sum(map(len, chunks)) == 300
    assert all(sum(len(row[6].encode()) for row in rows) < 5 << 20 for rows in chunks)
