"""Reads of the ledger by a run: only entries of its batches, in pages."""

from __future__ import annotations

import pytest
from ledger_server import Server, opened

from singer_arrow.load.method import PAGE


@pytest.fixture
def large() -> Server:
    """Return a server whose ledger has 20,000 loaded batches, by jobs of ten batches."""
    server = Server()
    prefix = opened(server).prefix
    for job in range(2_000):
        batches = [f"old-{10 * job + n}" for n in range(10)]
        at = server.now()
        server.entries += [
            {"batch_id": batch, "job_id": f"{prefix}{job}", "rows": 1, "started_at": at} for batch in batches
        ]
        server.insert(f"{prefix}{job}", "load", batches)
    return server


def test_a_run_of_new_batches_reads_its_own_entries_alone(large: Server) -> None:
    ledger = opened(large)
    ledger.void_if_emptied()
    for group in range(10):
        batches = [f"new-{group}-{n}" for n in range(30)]
        for batch in batches:
            ledger.expect(batch)
            assert ledger.loaded(batch) is None
        assert ledger.loaded_of(batches) == {}
        job_id, _ = ledger.begin(dict.fromkeys(batches, 1))
        large.insert(job_id, "load", batches)
    assert (
        len(large.asked) == 24
    )  # at the start; of which table; its first batch; and twice per group, around its entries
    assert sum(large.asked) == 2 + 10 * 30


def test_batches_that_come_again_are_read_in_pages(large: Server) -> None:
    ledger = opened(large)
    for n in range(20_000):
        assert ledger.loaded(f"old-{n}") is not None
    assert len(large.asked) <= 1 + 2 * 20_000 / PAGE * 1.1
    assert max(large.asked) == PAGE


def test_batches_that_follow_loaded_ones_are_known_to_be_new(large: Server) -> None:
    ledger = opened(large)
    assert ledger.loaded("old-19999") is not None
    assert ledger.loaded("new") is None
    assert ledger.loaded_of(["new", "old-3"]).keys() == {"old-3"}
    assert ledger.loaded("old-4") is not None  # an old one was found, so the next ones are looked up at once again


def test_batches_that_were_announced_are_looked_up_together(large: Server) -> None:
    ledger = opened(large)
    for n in range(0, 20_000, 4_000):
        ledger.expect(f"old-{n}")
    ledger.void_if_emptied()
    asked = len(large.asked)
    assert all(ledger.loaded(f"old-{n}") for n in range(0, 20_000, 4_000))
    assert (asked, len(large.asked)) == (2, 4)  # the last two: which table the entries are about
