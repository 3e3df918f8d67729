"""The budget of load jobs: counted from the list of jobs, logged, and never blocking."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from singer_arrow.errors import CredentialsError
from target_bigquery.client import NAME, LoadJobQuota, advice


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


def test_it_is_announced_once_before_it_is_reached(log: pytest.LogCaptureFixture) -> None:
    asked = list[tuple[datetime, datetime]]()

    def jobs(since: datetime, until: datetime) -> Iterable[str]:
        asked.append((since, until))
        return ["p.d.t"] * 1198 + ["p.d.other"] * 7 + ["p.d.full"] * 1500

    load_quota = LoadJobQuota(jobs)
    assert load_quota.used("p.d.t") == 0
    load_quota.add("p.d.t")
    load_quota.close()
    assert log.messages == []
    for _ in range(3):
        load_quota.add("p.d.t")
    load_quota.add("p.d.other")
    assert log.messages == [f"Table p.d.t: {advice(1200)}"]
    assert log.messages[0].startswith("Table p.d.t: 1,200 load jobs within 24 hours, of 1,500 that BigQuery allows")
    assert (load_quota.used("p.d.t"), load_quota.used("p.d.other"), load_quota.used("p.d.none")) == (1202, 8, 0)
    ((since, until),) = asked
    assert until - since == timedelta(hours=24)
    assert timedelta() < datetime.now(UTC) - until < timedelta(minutes=1)


def test_no_load_waits_for_the_list_and_the_warning_comes_with_it(log: pytest.LogCaptureFixture) -> None:
    resume = threading.Event()

    def jobs(*_: datetime) -> Iterable[str]:
        assert resume.wait(60)
        return ["p.d.t"] * 1197

    load_quota = LoadJobQuota(jobs)
    for _ in range(3):
        load_quota.add("p.d.t")
    assert log.messages == []
    resume.set()
    assert load_quota.used("p.d.t") == 1200
    assert log.messages == [f"Table p.d.t: {advice(1200)}"]
    assert NAME not in {t.name for t in threading.enumerate()}


def test_a_list_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("target_bigquery.client.LIST_SECONDS", 0.01)
    resume = threading.Event()

    def jobs(*_: datetime) -> Iterable[str]:
        assert resume.wait(60)
        return ["p.d.t"]

    load_quota = LoadJobQuota(jobs)
    load_quota.add("p.d.t")
    assert load_quota.used("p.d.t") == 1
    load_quota.close()
    resume.set()
    for thread in threading.enumerate():
        if thread.name == NAME:
            thread.join()


def test_a_list_that_cannot_be_had_stops_nothing(log: pytest.LogCaptureFixture) -> None:
    def jobs(*_: datetime) -> Iterable[str]:
        msg = "denied"
        raise CredentialsError(msg)

    load_quota = LoadJobQuota(jobs)
    load_quota.add("p.d.t")
    assert load_quota.used("p.d.t") == 1
    assert log.messages == ["The jobs of the last day could not be listed: denied"]
