"""What is remembered of the last minutes: nothing that was planned is new, all that came late is."""

from datetime import UTC, datetime, timedelta

import pytest

from singer_arrow.storage import ObjectInfo
from singer_arrow.urls import Url
from tap_s3_files.bookmarks import Watermark
from tap_s3_files.plan import Segment, Task, position
from tap_s3_files.recent import Recent, from_json, look_back, remembered, to_json, version_of

START = datetime(2024, 1, 1, tzinfo=UTC)


def info(minute: float, name: str = "", etag: str | None = "e") -> ObjectInfo:
    return ObjectInfo(Url("s3", "b", name or f"{minute}"), 10, etag, START + timedelta(minutes=minute))


def segment(before: Watermark | None, *objects: ObjectInfo) -> Segment:
    return Segment(0, "s", "f", 1, before, (Task(objects),))


def at(minute: float) -> Watermark:
    return position(info(minute))


def test_at_the_beginning_everything_is_new() -> None:
    assert Recent().is_new(info(0))


def test_without_a_memory_only_what_is_after_the_watermark_is_new() -> None:
    nothing = Recent(at(5), at(5))
    assert [m for m in range(10) if nothing.is_new(info(m))] == [6, 7, 8, 9]


def test_what_came_late_is_new_and_what_was_planned_is_not() -> None:
    known = remembered(
        at(20), [segment(at(3), info(8), info(12), info(20))], None, look_back(at(20), timedelta(minutes=10))
    )
    assert [m for m in range(6, 23) if known.is_new(info(m))] == [10, 11, *range(13, 20), 21, 22]
    assert known.is_new(info(12, "12", etag="other"))
    assert set(known.planned) == {version_of(info(12)), version_of(info(20))}  # no more than is needed


def test_a_memory_does_not_reach_before_its_first_segment() -> None:
    known = remembered(at(20), [segment(at(15), info(20))], None, look_back(at(20), timedelta(minutes=10)))
    assert [m for m in range(10, 21) if known.is_new(info(m))] == [16, 17, 18, 19]


@pytest.mark.parametrize(("until", "new"), [(15, [11, 13, 14, 16, 17, 18, 19]), (14, [16, 17, 18, 19])])
def test_what_was_kept_counts_where_it_has_no_gap(until: float, new: list[int]) -> None:
    kept = Recent(at(2), at(until), {version_of(info(12)): info(12).modified, version_of(info(15)): info(15).modified})
    known = remembered(at(20), [segment(at(15), info(20))], kept, look_back(at(20), timedelta(minutes=10)))
    assert [m for m in range(11, 21) if known.is_new(info(m))] == new


def test_segments_that_are_followed_are_known_too() -> None:
    known = Recent(at(5), at(5)).extended([segment(at(5), info(7), info(9))])
    assert [m for m in (6, 7, 8, 9, 10) if known.is_new(info(m))] == [6, 8, 10]


def test_without_overlap_nothing_is_late() -> None:
    assert look_back(at(5), timedelta(0)) == at(5)


def test_it_survives_its_file() -> None:
    for recent in (
        Recent(),
        Recent(None, at(3)),
        Recent(at(1), at(3), {version_of(info(2, etag=None)): info(2).modified}),
    ):
        assert from_json(to_json(recent)) == recent


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"version": 2}', b'{"version": 1, "since": 5}', b"\xff"])
def test_a_damaged_file_is_as_if_nothing_were_known(text: bytes) -> None:
    assert from_json(text) is None
