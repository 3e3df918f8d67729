"""Run some cases of `singer-arrow run` for each warehouse; `make faults` runs all."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_suite import runs
from fault_suite.runs import RunSite

from local_cloud import Cloud


@pytest.mark.parametrize("service", runs.SERVICES)
def test_broken_runs_lose_nothing_and_double_nothing(service: str, cloud: Cloud, tmp_path: Path) -> None:
    with cloud.redshift_connection() as redshift:
        site = RunSite(cloud, tmp_path, {"bigquery": cloud.bigquery_client(), "redshift": redshift})
        outcomes = [site.try_out(case) for case in runs.few(service)]
    wrong = [f"{o.case.name}: {'; '.join(o.wrong)}\n{o.log[-2000:]}" for o in outcomes if o.wrong]
    assert not wrong, "\n".join(wrong)
    assert all(o.injected for o in outcomes)
