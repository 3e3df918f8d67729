"""What is kept of earlier runs: nothing that was planned is new, all that came late is; ends and numbers stay."""

from datetime import UTC, datetime, timedelta

import pytest
from tap_s3_files.history import MOST_ENDS, History, from_json, mark, to_json, up_to, version_of

from singer_arrow.object_info import ObjectInfo
from singer_arrow.urls import Url
from tap_s3_files.bookmarks import Watermark
from tap_s3_files.plan import Segment, Task, position

START = datetime(2024, 1, 1, tzinfo=UTC)


def info(minute: float, name: str = "", etag: str | None = "e") -> ObjectInfo:
    return ObjectInfo(Url("s3", "b", name or f"{minute}"), 10, etag, START + timedelta(minutes=minute))


def segment(before: Watermark | None, *objects: ObjectInfo) -> Segment:
    return Segment(0, "s", "f", 1, before, (Task(objects),))


def at(minute: float) -> Watermark:
    return position(info(minute))


def test_at_the_beginning_everything_is_new() -> None:
    assert History().is_new(info(0))


def test_without_a_memory_only_what_is_after_the_watermark_is_new() -> None:
    nothing = History(at(5), at(5))
    assert [m for m in range(10) if nothing.is_new(info(m))] == [6, 7, 8, 9]


TEN = timedelta(minutes=10)


def test_what_came_late_is_new_and_what_was_planned_is_not() -> None:
    known = up_to(History(), at(20), [segment(at(3), info(8), info(12), info(20))], TEN)
    assert [m for m in range(6, 23) if known.is_new(info(m))] == [10, 11, *range(13, 20), 21, 22]
    assert known.is_new(info(12, "12", etag="other"))
    needed = {version_of(info(m)) for m in (8, 12, 20)}  # 8: the edge, where listings of ascending keys begin
    assert set(known.planned) == needed


def test_a_memory_does_not_reach_before_its_first_segment() -> None:
    known = up_to(History(), at(20), [segment(at(15), info(20))], TEN)
    assert [m for m in range(10, 21) if known.is_new(info(m))] == [16, 17, 18, 19]


@pytest.mark.parametrize(("until", "new"), [(15, [11, 13, 14, 16, 17, 18, 19]), (14, [16, 17, 18, 19])])
def test_what_was_kept_counts_where_it_has_no_gap(until: float, new: list[int]) -> None:
    kept = History(at(2), at(until), {version_of(info(12)): info(12).modified, version_of(info(15)): info(15).modified})
    known = up_to(kept, at(20), [segment(at(15), info(20))], TEN)
    assert [m for m in range(11, 21) if known.is_new(info(m))] == new


def test_segments_that_are_followed_are_known_too() -> None:
    known = History(at(5), at(5)).followed_by([segment(at(5), info(7), info(9))])
    assert [m for m in (6, 7, 8, 9, 10) if known.is_new(info(m))] == [6, 8, 10]


def test_without_overlap_nothing_is_late() -> None:
    known = up_to(History(), at(20), [segment(at(3), info(12), info(20))], timedelta(0))
    assert [m for m in range(10, 23) if known.is_new(info(m))] == [21, 22]


def test_at_the_beginning_there_is_nothing_to_know_but_ends_and_numbers() -> None:
    kept = History(at(1), at(2), {version_of(info(2)): info(2).modified}, (at(2),), 7)
    assert up_to(kept, None, [], TEN) == History(ends=(at(2),), number=7)


def test_ends_of_removed_segments_are_kept_in_order_and_bounded() -> None:
    history = History(ends=(at(5),), number=3).without([segment(None, info(9)), segment(None, info(2))], 4)
    assert (history.ends, history.number) == ((at(2), at(5), at(9)), 5)
    assert History(number=9).without([], 4).number == 9
    many = History(ends=tuple(at(n) for n in range(MOST_ENDS))).without([segment(None, info(MOST_ENDS))], 0)
    assert len(many.ends) == MOST_ENDS
    assert many.ends[-1] == at(MOST_ENDS)


def test_what_a_queue_told_of_is_known_by_its_mark_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    known = History(planned={version_of(info(1)): info(1).modified}).having_told([info(2), info(3)])
    assert [known.is_new(info(m)) for m in (1, 2, 3, 4)] == [False, False, False, True]
    assert known.is_new(info(2, etag="other"))
    assert from_json(to_json(known)).told == known.told
    monkeypatch.setattr("tap_s3_files.history.MOST_MARKS", 2)
    assert list(known.having_told([info(4)]).told) == [mark(version_of(info(m))) for m in (3, 4)]  # the last ones


def test_it_survives_its_file() -> None:
    planned = {version_of(info(2, etag=None)): info(2).modified}
    for history in (History(), History(None, at(3)), History(at(1), at(3), planned, (at(1), at(3)), 5)):
        assert from_json(to_json(history)) == history


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"version": 2}', b'{"version": 1, "since": 5}', b"\xff"])
def test_something_else_is_no_history(text: bytes) -> None:
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        from_json(text)
