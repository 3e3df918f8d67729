"""Run some cases of the fault suite for each load variant; `make faults` runs all."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_suite import catalogue
from fault_suite.site import Site

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy


@pytest.mark.parametrize("target", catalogue.TARGETS)
def test_faults_lose_nothing_and_double_nothing(
    target: str, cloud: Cloud, s3_proxy: FaultProxy, bq_proxy: FaultProxy, tmp_path: Path
) -> None:
    bigquery = cloud.bigquery_client()
    with cloud.redshift_connection() as redshift:
        clients = {"bigquery": bigquery, "redshift": redshift}
        site = Site(cloud, tmp_path, clients, {"s3": s3_proxy, "bigquery": bq_proxy})
        try:
            cases = [case for case in catalogue.few() if case.load.target == target]
            outcomes = [site.try_out(case) for case in cases]
        finally:
            site.close()
            bigquery.close()
    wrong = [f"{o.case.name}: {'; '.join(o.wrong)}\n{o.log[-2000:]}" for o in outcomes if o.wrong]
    assert not wrong, "\n".join(wrong)
    assert sum(sum(o.injected.values()) for o in outcomes) >= 2 * len(cases)
