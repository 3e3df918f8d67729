"""Objects that are divided into ranges: which, how they are planned, and what the log keeps of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_runs import info, log_in, segment

from singer_arrow.errors import DataError
from singer_arrow.read_options import ReadOptions, ResumePoint
from singer_arrow.storage import log_head
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files import plan_log, plan_model
from tap_s3_files.plan_log import task_name
from tap_s3_files.plan_model import Division, ObjectRange, RangeStarts, Task, make_segments, make_tasks

MIB = 1 << 20
X = {"quote": "x"}
sizes = st.lists(st.sampled_from([1000, 9 * MIB, 700 * MIB, (100 << 30) + 1]), max_size=12)


def sized(number: int, size: int, name: str = "csv") -> ObjectInfo:
    return info(f"{number:03}.{name}", number)._replace(size=size)


@given(sizes)
def test_ranges_cover_each_object_once_and_are_in_one_segment(given_sizes: list[int]) -> None:
    objects = [sized(number, size) for number, size in enumerate(given_sizes)]
    division = Division(512 * MIB)
    segments = list(make_segments(make_tasks(objects, ranges_of=division.ranges_of)))
    tasks = [task for group in segments for task in group]
    assert [o for task in tasks for o in task.ended_objects] == objects
    assert sum(task.bytes for task in tasks) == sum(o.size for o in objects)
    for number, info_ in enumerate(objects):
        own = [task for task in tasks if info_ in task.objects]
        ranges = [task.range for task in own if task.range]
        assert len(own) == max(1, len(ranges))
        assert ranges == [ObjectRange(n, len(ranges)) for n in range(len(ranges))]
        assert all(abs(task.bytes - 512 * MIB) < 256 * MIB for task in own if task.range)
        assert sum(any(info_ in task.objects for task in group) for group in segments) == 1, number


@pytest.mark.parametrize(
    ("name", "division", "count"),
    [
        ("csv", Division(100 * MIB), 10),
        ("jsonl", Division(100 * MIB), 10),
        ("parquet", Division(100 * MIB), 10),
        ("csv", Division(700 * MIB), 1),
        ("csv", Division(600 * MIB), 2),
        ("csv.gz", Division(100 * MIB), 1),
        ("csv.zip", Division(100 * MIB), 1),
        ("csv", Division(100 * MIB, read=ReadOptions(compression="gzip")), 1),
        ("csv", Division(100 * MIB, read=ReadOptions(escape="\\")), 1),
        ("csv", Division(100 * MIB, read=ReadOptions(encoding="latin-1")), 1),
        ("csv", Division(100 * MIB, read=ReadOptions(encoding="UTF8")), 10),
        ("jsonl", Division(100 * MIB, read=ReadOptions(encoding="latin-1", escape="#")), 10),
        ("csv", Division(100 * MIB, passed="parquet"), 10),
        ("parquet", Division(100 * MIB, passed="parquet"), 1),
        ("avro", Division(100 * MIB), 1),
        ("xlsx", Division(100 * MIB), 1),
        ("data", Division(100 * MIB), 1),
        ("data", Division(100 * MIB, format="csv"), 10),
    ],
)
def test_what_can_be_read_from_its_middle_is_divided(name: str, division: Division, count: int) -> None:
    assert division.ranges_of(sized(1, 1000 * MIB, name)) == count


def test_objects_of_schemes_without_range_requests_are_not_divided() -> None:
    far = sized(1, 1000 * MIB)._replace(url=Url.parse("https://example.com/a.csv"))
    assert Division(100 * MIB).ranges_of(far) == 1


def test_the_log_keeps_ranges_also_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_head, "FANOUT", 2)
    monkeypatch.setattr(plan_model, "SMALL_OBJECT", 10)
    log = log_in(tmp_path)
    made = []
    for number in range(5):
        tasks = tuple(make_tasks([sized(number, 100)], ranges_of=lambda _: 3))
        made.append(replace(segment(number, sized(number, 100)), tasks=tasks))
        log.append(made[-1])
    assert [t.range for t in made[0].tasks] == [ObjectRange(n, 3) for n in range(3)]
    assert list(log_in(tmp_path).segments(0, 5)) == made
    assert list(log.segments(0, 5)) == made


def test_a_range_has_an_id_of_its_own() -> None:
    whole = Task((sized(1, 100),))
    tasks = [whole, *(replace(whole, range=ObjectRange(n, count)) for count in (2, 3) for n in range(count))]
    assert len({task_name("s", task) for task in tasks}) == 6


def test_what_one_run_has_found_is_what_all_runs_use(tmp_path: Path) -> None:
    url = Url.parse(str(tmp_path / "x-ranges.json"))
    first, second = RangeStarts(Storage(), url), RangeStarts(Storage(), url)
    assert first.known(X) is None
    found = [ResumePoint(), ResumePoint(5, 50, 6)]
    assert first.get(X, lambda: found) == found
    assert second.get(X, lambda: pytest.fail("it is known")) == found
    late = RangeStarts(Storage(), url)
    assert late.save(X, [ResumePoint(), ResumePoint(7, 70, 8)]) == found


def test_other_settings_of_the_format_are_refused(tmp_path: Path) -> None:
    """A row would be lost or read twice where a range that was sent meets one that was not."""
    url = Url.parse(str(tmp_path / "x-ranges.json"))
    RangeStarts(Storage(), url).save(X, [ResumePoint(), ResumePoint(5, 50, 6)])
    with pytest.raises(DataError, match="divided with quote 'x', which is 'y' now"):
        RangeStarts(Storage(), url).known({"quote": "y"})


def test_a_checkpoint_of_very_many_ranges_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_model, "SMALL_OBJECT", 10)
    objects = [sized(number, 3_000) for number in range(3)]
    tasks = tuple(make_tasks(objects, ranges_of=lambda info: info.size))
    data, _ = plan_log.checkpoint_to_bytes([[plan_log.to_table([replace(segment(0, *objects), tasks=tasks)])]])
    assert len(data) < 30_000
    assert [t.range for s in plan_log.CheckpointReader(data).segments(0) for t in s.tasks] == [t.range for t in tasks]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"syntax": "x", "starts": [[1]]}', '{"starts": [[1, 2, 3, 4]]}', '{"starts": 5}', "\x00"]
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x-ranges.json").write_text(text)
    with pytest.raises(DataError, match=r"x-ranges\.json: it does not describe where the ranges of an object begin"):
        RangeStarts(Storage(), Url.parse(str(tmp_path / "x-ranges.json"))).known(X)
