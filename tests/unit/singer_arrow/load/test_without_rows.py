"""The rows of a load without those that a warehouse refuses."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.load.convert import ORDER, Refusal, refused_of_each, taken_rows
from singer_arrow.load.dead_letters import Rejects


@given(st.lists(st.lists(st.booleans(), max_size=8), max_size=5))
def test_rows_are_taken_or_rejected(parts: list[list[bool]]) -> None:
    """Each part is an item of batches of three rows; the rows that are True are refused."""
    everything = [bad for part in parts for bad in part]
    found = [(row, Refusal(f"no {row}", "n")) for row, bad in enumerate(everything) if bad]
    before = 0
    for part, refused in zip(parts, refused_of_each(found, [len(part) for part in parts]), strict=True):
        rejects = Rejects(1000)
        rejects.count_kept("f", len(part))
        numbers = range(before, before + len(part))
        table = pa.table({"n": pa.array(numbers, pa.int64()), ORDER: pa.array(numbers, pa.int64())})
        taken = list(taken_rows(table.to_batches(max_chunksize=3), refused, rejects))
        assert [row for batch in taken for row in batch["n"].to_pylist()] == [n for n in numbers if not everything[n]]
        assert all(batch.num_rows and ORDER in batch.schema.names for batch in taken)
        rejected = [(r.position, r.column, r.reason, r.record) for r in rejects.rows]
        assert rejected == [(n - before + 1, "n", f"no {n}", f'{{"n":{n}}}') for n in numbers if everything[n]]
        before += len(part)
