"""Run some cases in which the tap is interrupted, alone and in a pipe; `make faults` runs all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from fault_suite import pipe, tap_catalogue, walks
from fault_suite.catalogue import OVERWRITE, TARGETS, UPSERT
from fault_suite.pipe import PipeSite
from fault_suite.site import Outcome, Site
from fault_suite.tap_site import TapSite

from local_cloud import Cloud

WALKS = (0, 2)


def check(outcomes: Sequence[Outcome]) -> None:
    """Fail with a line for each failed case, by kind."""
    wrong = [f"{o.case.way}: {o.case.name}: {'; '.join(o.wrong)}\n{o.log[-1500:]}" for o in outcomes if o.wrong]
    assert not wrong, "\n".join(wrong)


def test_a_broken_tap_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    site = TapSite(tmp_path)
    try:
        cases = [*tap_catalogue.few(site.points), *map(walks.walk, WALKS)]
        outcomes = [site.try_out(case) for case in cases]
    finally:
        site.close()
    check(outcomes)
    assert sum(sum(o.injected.values()) for o in outcomes) >= len(cases)


@pytest.mark.parametrize("target", TARGETS)
def test_a_tap_that_fails_loses_nothing_in_a_table(target: str, cloud: Cloud, tmp_path: Path) -> None:
    bigquery = cloud.bigquery_client()
    with cloud.redshift_connection() as redshift:
        site = Site(cloud, tmp_path, {"bigquery": bigquery, "redshift": redshift})
        both = PipeSite(site, tmp_path / "tap")
        try:
            own = [case for case in pipe.cases() if case.load.target == target and not case.load.via]
            replaced = [case for case in own if case.load.method == OVERWRITE]
            merged = [case for case in own if case.load.method == UPSERT]
            outcomes = [both.try_out(case) for case in (*replaced[3::25], *merged[::14])]
        finally:
            both.close()
            site.close()
            bigquery.close()
    check(outcomes)
