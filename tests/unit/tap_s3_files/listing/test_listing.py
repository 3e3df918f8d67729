"""A listing returns the stored objects in order, and a million objects fit into little memory."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files import listing
from tap_s3_files.listing import Listing
from tap_s3_files.plan_model import in_order

START = datetime(2024, 1, 1, tzinfo=UTC)
objects = st.builds(
    ObjectInfo,
    st.builds(
        Url, st.just("s3"), st.sampled_from(["a", "a-b", "b"]), st.text("ab/é\U0001f600", min_size=1, max_size=4)
    ),
    st.integers(0, 5 << 40),
    st.none() | st.text('x-"é', min_size=1, max_size=18) | st.just(f'"{"0a" * 16}"'),
    st.builds(lambda us: START + timedelta(microseconds=us), st.integers(0, 5)),
)


@given(st.lists(objects, unique_by=lambda o: o.url, max_size=30), st.integers(0, 6))
def test_what_is_put_in_comes_out_in_order(some: list[ObjectInfo], since: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "CHUNK", 4)
        patch.setattr(listing, "PART", 6)
        patch.setattr(listing, "BLOCK", 3)
        made = Listing(some)
        assert len(made) == len(some)
        assert bool(made) == bool(some)
        assert set(made) == set(some)
        assert list(made.in_order()) == in_order(some)
        begin = START + timedelta(microseconds=since)
        assert list(made.in_order(since=begin)) == in_order(o for o in some if o.modified >= begin)
        assert list(made.in_order(before=begin)) == in_order(o for o in some if o.modified < begin)
        assert list(made.in_order(lambda o: o.size % 2 == 0)) == in_order(o for o in some if o.size % 2 == 0)


MANY = """
import bisect, itertools, re, resource
from datetime import UTC, datetime, timedelta
from pathlib import Path
from singer_arrow.storage.urls import ObjectInfo
from singer_arrow.storage.listing import ObjectPage
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.listing import list_objects
from tap_s3_files.paths import ObjectFilter
from tap_s3_files.plan import StreamPlan
from tap_s3_files.discover import sample_objects

START = datetime(2024, 1, 1, tzinfo=UTC)

class Keys:
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, n):
        return f"events/day={n // 1000:04d}/region=eu-west-1/part-{n:07d}-0a1b2c3d4e5f.snappy.parquet"

class Lister(Storage):
    def __init__(self, count):
        self.count = count

    def list_pages(self, prefix, *, after=""):
        found = self._list(prefix, after)
        while page := list(itertools.islice(found, 1000)):
            yield ObjectPage.of(page)

    def list(self, prefix, *, after=""):
        return self._list(prefix, after)

    def _list(self, prefix, after):
        keys = Keys(self.count)
        for n in range(max(bisect.bisect_left(keys, prefix.key), bisect.bisect_right(keys, after)), len(keys)):
            if not keys[n].startswith(prefix.key):
                return
            etag = f'"{n * 7919 % 2**128:032x}"'
            at = START + timedelta(seconds=n * 7919 % 250_000)
            yield ObjectInfo(Url("s3", "bucket-of-events", keys[n]), n, etag, at)

def megabytes(of):  # where there is no such file: as the system counts it, in bytes
    if not Path("/proc/self/status").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
    return int(re.search(of + r":\\s+([0-9]+) kB", Path("/proc/self/status").read_text())[1]) >> 10

def plan(count):
    listed = list_objects(Lister(count), [Url("s3", "bucket-of-events", "events/**/*.parquet")])
    assert len(listed) == count
    assert len(sample_objects(listed, 5)) == 5
    plan = StreamPlan(None, None, ObjectFilter("s", ()), 1 << 27)
    planned = plan.plan(listed.in_order(lambda info: not plan.is_known(info)), listed=listed.began)
    assert sum(len(t.objects) for s in planned for t in s.tasks) == count

plan(250_000)
plan(250_000)  # what threads hold at once differs from run to run
before = megabytes("VmHWM")
plan(750_000)
print(megabytes("VmHWM") - before)
"""


@pytest.mark.full
def test_keys_are_listed_ordered_and_planned_in_less_than_300_mb_a_million(tmp_path: Path) -> None:
    program = tmp_path / "many.py"
    program.write_text(MANY)
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, timeout=280)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 150, ran.stdout  # for 500,000 more
