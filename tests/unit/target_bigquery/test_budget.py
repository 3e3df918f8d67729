"""The budget of load jobs: counted from the list of jobs, announced, never in the way."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from singer_arrow.errors import CredentialsError
from target_bigquery.budget import Budget, advice


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


def test_it_is_announced_once_before_it_is_reached(told: pytest.LogCaptureFixture) -> None:
    asked = list[datetime]()

    def jobs(since: datetime) -> Iterable[str]:
        asked.append(since)
        return ["p.d.t"] * 1198 + ["p.d.other"] * 7

    budget = Budget(jobs)
    assert budget.used("p.d.t") == 0
    budget.spend("p.d.t")
    assert told.messages == []
    for _ in range(3):
        budget.spend("p.d.t")
    budget.spend("p.d.other")
    assert told.messages == [f"Table p.d.t: {advice(1200)}"]
    assert told.messages[0].startswith("Table p.d.t: 1,200 load jobs within 24 hours, of 1,500 that BigQuery allows")
    assert (budget.used("p.d.t"), budget.used("p.d.other"), budget.used("p.d.none")) == (1202, 8, 0)
    assert len(asked) == 1
    assert timedelta(hours=23, minutes=59) < datetime.now(UTC) - asked[0] < timedelta(hours=24, minutes=1)


def test_a_list_that_cannot_be_had_stops_nothing(told: pytest.LogCaptureFixture) -> None:
    def jobs(_: datetime) -> Iterable[str]:
        msg = "denied"
        raise CredentialsError(msg)

    budget = Budget(jobs)
    budget.spend("p.d.t")
    assert budget.used("p.d.t") == 1
    assert told.messages == ["The jobs of the last day could not be listed: denied"]
