"""Violations that the fault suite detects, and its totals."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from fault_suite import catalogue, totals
from fault_suite.catalogue import APPEND, BATCH, LOADS, METHODS, OVERWRITE, RECORD, TARGETS, UPSERT, Load
from fault_suite.site import Outcome, Ran
from fault_suite.source import LAST, ROWS_EACH, Comparison, Source, ahead, compare, is_torn

from local_cloud.faults import rules
from local_cloud.redshift import faults


def load(method: str, form: str = BATCH) -> Load:
    return Load("redshift", method, form)


def all_rows(source: Source, until: int = LAST) -> list[tuple[int, int, str]]:
    return list(source.rows(until).elements())


@pytest.mark.parametrize("method", METHODS)
def test_rows_that_are_lost_or_doubled_are_counted(method: str) -> None:
    source = Source(method, "first")
    rows = all_rows(source)
    assert compare(load(method), source, rows, last_state=LAST) == Comparison(0, 0)
    assert compare(load(method), source, rows[1:], last_state=LAST) == Comparison(1, 0)
    assert compare(load(method), source, [*rows, rows[0]], last_state=LAST) == Comparison(0, 1)
    assert compare(load(method), source, [*rows, (999, 0, "a stranger")], last_state=LAST) == Comparison(0, 1)


def test_an_older_version_of_a_key_is_a_loss() -> None:
    source = Source(UPSERT, "first")
    older = [source.batch(0)[1], *(row for row in all_rows(source) if row[0] != 1)]
    assert compare(load(UPSERT), source, older, last_state=LAST) == Comparison(1, 1)


def test_records_may_come_again_only_after_the_last_state() -> None:
    source = Source(APPEND, "first")
    rows = all_rows(source)
    for number, expected in ((1, Comparison(0, 1, 0)), (2, Comparison(0, 0, 1))):
        again = [*rows, source.batch(number)[0]]
        assert compare(load(APPEND, RECORD), source, again, last_state=1) == expected
        assert compare(load(APPEND, BATCH), source, again, last_state=1) == Comparison(0, 1)


def test_a_state_ahead_of_the_table_is_seen() -> None:
    source = Source(APPEND, "first")
    assert ahead(load(APPEND), source, [], last_state=-1) == 0
    assert ahead(load(APPEND), source, all_rows(source, 1), last_state=1) == 0
    assert ahead(load(APPEND), source, all_rows(source, 0), last_state=1) == ROWS_EACH
    source = Source(UPSERT, "first")
    assert ahead(load(UPSERT), source, all_rows(source, 3), last_state=1) == 0
    assert ahead(load(UPSERT), source, all_rows(source, 0), last_state=1) == ROWS_EACH
    source = Source(OVERWRITE, "first")
    assert ahead(load(OVERWRITE), source, all_rows(source), last_state=LAST) == 0
    assert ahead(load(OVERWRITE), source, all_rows(source, 1), last_state=1)
    assert ahead(load(OVERWRITE), source, all_rows(source), last_state=1)


def test_half_a_table_is_torn() -> None:
    source, old = Source(OVERWRITE, "second"), Source(OVERWRITE, "first").rows()
    assert not is_torn(load(OVERWRITE), source, list(old.elements()), old=old)
    assert not is_torn(load(OVERWRITE), source, all_rows(source), old=old)
    assert is_torn(load(OVERWRITE), source, all_rows(source, LAST - 1), old=old)
    assert is_torn(load(OVERWRITE), source, [], old=old)
    assert not is_torn(load(UPSERT), source, [], old=old)


def test_how_a_run_must_not_end() -> None:
    line = "2026-11-22 05:00:00,000 | ERROR    | target-redshift      | it is gone; run again\n"
    assert Ran(1, (0, 1), line).faults(load(APPEND)) == []
    assert Ran(1, (), "").faults(load(APPEND)) == ["failed with 0 lines of error instead of one"]
    assert Ran(1, (), 2 * line).faults(load(APPEND)) == ["failed with 2 lines of error instead of one"]
    assert Ran(1, (), line + "Traceback (most recent call last):\n").faults(load(APPEND)) == ["showed a traceback"]
    assert Ran(None, (), "").faults(load(APPEND)) == ["hung for 90 s"]
    assert Ran(0, (1, 0), "").faults(load(APPEND)) == ["its STATEs went back: (1, 0)"]


def test_the_catalogue_has_each_way_of_loading_and_every_fault_that_services_know() -> None:
    cases = catalogue.everything()
    assert {case.load for case in cases} == set(LOADS)
    assert {(load.target, load.method, load.form) for load in LOADS} >= {
        (target, method, form) for target in TARGETS for method in METHODS for form in (BATCH, RECORD)
    }
    assert {case.kill.step for case in cases if case.kill} == set(catalogue.STEPS)
    assert max(Counter(case.name for case in cases).values()) == 1
    for case in [*cases, *(catalogue.chosen(random.Random(n)) for n in range(100))]:
        for service, listed in case.rules.items():
            if service == "redshift":
                assert [faults.Rule(**rule) for _, rule in listed]
            else:
                assert rules.parse([rule for _, rule in listed])[0]


def test_totals() -> None:
    cases = [case for case in catalogue.everything() if case.load == LOADS[0]]
    killed = next(case for case in cases if case.kill)
    broken = next(case for case in cases if case.rules)
    outcomes = [
        Outcome(killed, -9, {"target killed, SIGKILL": 1}, True, Comparison(0, 0), 0, ()),
        Outcome(killed, -9, {"target killed, SIGKILL": 1}, True, Comparison(2, 1, 5), 3, ("bad",), torn=1),
        Outcome(broken, 1, {"S3: reset": 2, "BigQuery: 503": 1}, True, Comparison(0, 0), 0, ()),
        Outcome(broken, 0, {"S3: reset": 5}, False, Comparison(0, 0), 0, ()),
    ]
    assert totals.counts(outcomes) == (4, 10, 1, 1, 2, 3, 3, 2, 1, 1, 5, 1)
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in totals.by_kind(outcomes).splitlines()[2:]] == [
        ["BigQuery: 503", "target-bigquery", "1", "1"],
        ["S3: reset", "target-bigquery", "7", "2"],
        ["target killed, SIGKILL", "target-bigquery", "2", "2"],
    ]
    lines = totals.by_way(outcomes).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [LOADS[0].name, "all"]
    assert len({len(line) for line in lines}) == 1
