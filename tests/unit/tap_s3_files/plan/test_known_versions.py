"""Objects in a log are recognized, whatever their time; only the necessary files are read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_runs import START, info, log_in, segment

from singer_arrow.storage import log_head
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Fetched, ObjectInfo, Url
from tap_s3_files import plan_log
from tap_s3_files.plan import KnownVersions
from tap_s3_files.plan_log import PlanLog
from tap_s3_files.plan_model import place_in_order


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Compact three files into one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_head, "FANOUT", 3)
        patch.setattr(plan_log, "ROWS_AT_ONCE", 4)
        patch.setattr("tap_s3_files.plan._MAX_GROUPS", 2)
        yield


class Asked(Storage):
    """Counts the files that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def get(self, url: Url, **options: Any) -> Fetched:
        self.names.append(url.name)
        return super().get(url, **options)


def filled(folder: Path, times: list[list[int]]) -> list[ObjectInfo]:
    log, every = log_in(folder), list[ObjectInfo]()
    for number, some in enumerate(times):
        objects = [info(f"{number}-{n}", at) for n, at in enumerate(some)]
        log.append(segment(number, *sorted(objects, key=place_in_order)))
        every += objects
    return every


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), max_size=12),
    st.none() | st.integers(0, 30),
    st.randoms(use_true_random=False),
)
def test_exactly_what_was_appended_is_known(
    tmp_path_factory: pytest.TempPathFactory, times: list[list[int]], since: int | None, random: Any
) -> None:
    folder = tmp_path_factory.mktemp("plans")
    every = filled(folder, times)
    known = KnownVersions(log_in(folder), None if since is None else START + timedelta(seconds=since))
    asked = [o for o in every if since is None or o.modified >= START + timedelta(seconds=since)]
    other = [info(f"x{n}", n) for n in range(31)]
    replaced = [ObjectInfo(o.url, o.size, "other", o.modified) for o in asked]
    found = [(o, True) for o in asked] + [(o, False) for o in (*other, *replaced)]
    random.shuffle(found)
    assert [(o, o in known) for o, _ in found] == found


def test_a_fraction_of_a_second_makes_no_other_version(tmp_path: Path) -> None:
    """HEAD answers have no fractions of a second; listings may have them."""
    filled(tmp_path, [[10], [20], [30]])
    for since in (None, START + timedelta(seconds=20.9)):
        known = KnownVersions(log_in(tmp_path), since)
        assert info("1-0", 20.9) in known
        assert info("2-0", 29.1) in known


def test_of_a_version_without_an_etag_size_and_time_count(tmp_path: Path) -> None:
    log_in(tmp_path).append(segment(0, info("a", 5, etag=None)))
    known = KnownVersions(log_in(tmp_path))
    assert info("a", 5, etag=None) in known
    assert info("a", 5, etag=None, size=11) not in known
    assert info("a", 6, etag=None) not in known


def test_files_of_older_objects_are_not_read(tmp_path: Path) -> None:
    every = filled(tmp_path, [[60 * n] for n in range(29)])  # 0-26 in one checkpoint, 27, 28
    storage = Asked()
    known = KnownVersions(PlanLog(storage, Url.parse(str(tmp_path)), "orders"), START + timedelta(minutes=27))
    assert every[27] in known
    assert every[28] in known
    assert sorted(storage.names) == ["000027.json", "000028.json", "log-000000.json"]
    assert not any("checkpoint" in name for name in storage.names)


def test_a_key_to_begin_at_is_the_last_one_before_a_time_of_its_group(tmp_path: Path) -> None:
    filled(tmp_path, [[10, 12], [11, 15], [20], [14]])
    known = KnownVersions(log_in(tmp_path))
    for before, name in ((10, None), (11, "0-0"), (13, "0-1"), (15, "3-0"), (20, "3-0"), (99, "2-0")):
        key = known.last_key(START + timedelta(seconds=before))
        assert (key.name if key else None) == name, before


def test_the_latest_versions_since_a_time_are_found_by_url(tmp_path: Path) -> None:
    filled(tmp_path, [[10], [20], [30], [40], [50]])
    latest = KnownVersions(log_in(tmp_path)).latest(START + timedelta(seconds=30))
    assert {"2-0", "3-0", "4-0"} <= {url.rpartition("/")[2] for url in latest}
    assert all(version[0] == url for url, (_, version) in latest.items())
