"""A plan contains each object once, does not depend on the listing's order, and keeps its bounds."""

import re
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.batch import message
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files import plan_model as plan
from tap_s3_files.convert import rank
from tap_s3_files.plan_model import (
    Segment,
    in_order,
    in_window,
    make_segments,
    make_tasks,
    place_in_order,
    watermark_after,
)
from tap_s3_files.settings import Watermark

START = datetime(2024, 1, 1, tzinfo=UTC)


def info(name: str, *, size: int = 10, seconds: int = 0) -> ObjectInfo:
    return ObjectInfo(Url("s3", "b", name), size, f"etag-{name}", START + timedelta(seconds=seconds))


objects = st.lists(
    st.builds(
        lambda name, size, seconds: info(name, size=size, seconds=seconds),
        st.text("abc/", min_size=1, max_size=6),
        st.sampled_from([1, 1000, 5 << 20, 9 << 20, 40 << 20, 3 << 30]),
        st.integers(0, 5),
    ),
    unique_by=lambda o: o.url,
    max_size=60,
)


def segments(found: list[ObjectInfo], *, before: Watermark | None = None, number: int = 0) -> list[Segment]:
    made = []
    for count, tasks in enumerate(make_segments(make_tasks(in_order(found), target_bytes=1 << 20)), number):
        after = watermark_after(before, tasks, None)
        made.append(Segment(count, "s", 1 << 20, before, after, tasks))
        before = after
    return made


@given(objects, st.randoms())
def test_the_order_of_the_listing_does_not_matter(found: list[ObjectInfo], random: st.randoms) -> None:  # type: ignore[valid-type]
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert segments(shuffled) == segments(found)


@given(objects)
def test_each_object_is_in_one_task(found: list[ObjectInfo]) -> None:
    planned = [o for s in segments(found) for o in s.objects]
    assert planned == in_order(found)
    assert sorted(o.url for o in planned) == sorted(o.url for o in found)


@given(objects)
def test_bundles_and_segments_keep_their_bounds(found: list[ObjectInfo]) -> None:
    for segment in segments(found):
        assert segment.tasks
        for task in segment.tasks:
            assert task.objects
            if len(task.objects) > 1:
                assert task.bytes <= plan.BUNDLE_BYTES
                assert len(task.objects) <= plan.BUNDLE_OBJECTS
        if len(segment.tasks) > 1:
            assert sum(t.bytes for t in segment.tasks) <= plan.SEGMENT_BYTES
            assert sum(1 for _ in segment.objects) <= plan.SEGMENT_OBJECTS


@given(objects, st.integers(0, 100))
def test_segments_follow_each_other(found: list[ObjectInfo], number: int) -> None:
    before = None
    for count, segment in enumerate(segments(found, number=number)):
        assert segment.number == number + count
        assert segment.before == before
        assert segment.after is not None
        assert before is None or segment.after > before
        before = segment.after


def test_objects_of_one_second_are_ordered_by_their_url() -> None:
    a, b = info("a"), info("b")
    assert in_order([b, a]) == [a, b]
    assert place_in_order(a) < place_in_order(b)


def test_thousands_of_small_objects_become_few_tasks() -> None:
    tasks = list(make_tasks([info(f"{n:05}", size=10_000) for n in range(2000)]))
    assert [len(t.objects) for t in tasks] == [200] * 10


def test_a_bundle_is_no_larger_than_a_batch_file_should_be() -> None:
    objects = [info(f"{n}", size=3 << 20) for n in range(4)]
    assert [len(t.objects) for t in make_tasks(objects, target_bytes=6 << 20)] == [2, 2]
    assert [len(t.objects) for t in make_tasks(objects, target_bytes=1)] == [1, 1, 1, 1]


def test_a_watermark_passes_neither_back_nor_the_beginning_of_the_listing() -> None:
    tasks = list(make_tasks([info("a", seconds=5), info("b", seconds=9)]))
    before = Watermark(START + timedelta(days=1), "s3://b/z")
    assert watermark_after(before, tasks, None) == before
    assert watermark_after(None, tasks, None) == place_in_order(info("b", seconds=9))
    assert watermark_after(None, tasks, START + timedelta(seconds=9)) == place_in_order(info("b", seconds=9))
    listed = START + timedelta(seconds=8)
    assert watermark_after(None, tasks, listed) == Watermark(listed, "")
    assert watermark_after(before, tasks, listed) == before
    assert watermark_after(before, [], listed) == before


def test_the_window_has_its_start_and_not_its_end() -> None:
    at = info("a", seconds=10)
    assert in_window(at, None, None)
    assert in_window(at, at.modified, at.modified + timedelta(seconds=1))
    assert not in_window(at, None, at.modified)
    assert not in_window(at, at.modified + timedelta(seconds=1), None)


READING = "0a1b2c3d"


def test_ranks_order_rows_by_version_change_name_and_place() -> None:
    zone = timezone(timedelta(hours=-5))
    elsewhere = info("a")._replace(modified=info("a", seconds=9).modified.astimezone(zone))
    objects = [rank(info(n, seconds=s), None, READING) for n, s in (("b", 0), ("a", 1), ("c", 1), ("a", 2))]
    places = ((0, 0), (0, 9), (0, 1 << 39), (10, 0), (11, 5))
    parts = [rank(elsewhere, None, READING, part, row) for part, row in places]
    given = ((9, "a", 5), (10, "a", 1), (1_714_557_600_000, "a", 0))
    versions = [rank(info(n, seconds=s), v, READING) for v, n, s in given]
    for ordered in ([*objects, *parts], versions):
        assert ordered == sorted(ordered)
    assert parts[0] == rank(info("a", seconds=9), None, READING)
    assert {text.split()[0] for text in objects} == {"object"}
    assert {text.split()[0] for text in versions} == {"version"}
    assert "\\udcff" in rank(info("\udcff"), None, READING)
    names = [rank(info(name), None, reading) for name, reading in (("a", "ffffffff"), ("a b", "00000000"))]
    assert names == sorted(names)  # whatever the reading is
    for text in (*objects, *parts, *versions):
        begin, length = message.READING
        assert text[-begin:][:length] == READING
        assert re.sub(message.PLACE, "", text) == text[: -begin - 2]
